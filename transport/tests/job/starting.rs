//! Who comes, who does not, and who should not.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use svmio_transport::job::{Job, Master, Place};
use svmio_transport::settings::{FabricChoice, Settings};
use svmio_transport::{Error, JobSecret, Rank, Result, SegmentId, back_end::Backing};

use crate::exchange::Board;
use crate::threads::{Meeting, finish_all, quick, together, within_some_limit};

fn problem(result: Result<Job>) -> String {
    match result.map(|job| job.rank()) {
        Err(Error::StartUp { problem }) => problem,
        other => panic!("{other:?}"),
    }
}

/// Whether a write of rank 0 to the last one arrives, and nodes are known.
pub(crate) fn is_a_job(jobs: &[Job]) {
    let (first, last) = (&jobs[0], &jobs[jobs.len() - 1]);
    let id = SegmentId::new(7, 7);
    let segment = last.fabric().create(id, &Backing::Anonymous { length: 64 }).unwrap();
    let remote = first.fabric().connect(last.rank(), id).unwrap();
    remote.write(8, b"hello").unwrap();
    first.fabric().store_barrier(last.rank()).unwrap();
    let mut bytes = [0; 5];
    segment.memory().read(8, &mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    for (rank, job) in jobs.iter().enumerate() {
        assert_eq!((job.rank(), job.size()), (Rank(rank as u32), jobs.len() as u32));
        assert!(job.membership().lost().is_empty());
    }
}

#[test]
fn all_meet_and_finish() {
    for size in [1, 2, 5] {
        let jobs = Meeting::new(size).start(&quick());
        is_a_job(&jobs);
        assert_eq!(jobs[0].membership().node(Rank(size - 1)), format!("node{}", size - 1));
        for result in finish_all(jobs) {
            result.unwrap();
        }
    }
}

#[test]
fn all_meet_again_at_the_place_where_they_have_met_before() {
    // It keeps the listener, as does a shell that the launcher has started for the program.
    let meeting = Meeting::new(3);
    let meet = &|rank, time| {
        let mut place = meeting.place(rank);
        if time > 0 {
            place.master = Master::At(meeting.address.to_string());
        }
        Job::start(place, quick())?.finish()
    };
    let all = (0..meeting.size).map(|rank| move || (0..4).try_for_each(|time| meet(rank, time)));
    together(all).into_iter().for_each(Result::unwrap);
}

#[test]
fn all_meet_over_libfabric() {
    let mut settings = quick();
    settings.fabric = FabricChoice::Ofi;
    let jobs = Meeting::new(3).start(&settings);
    is_a_job(&jobs);
    finish_all(jobs).into_iter().for_each(Result::unwrap);
}

/// Three of five start: whether they say who has not come within the limit.
fn three_name_the_two_who_do_not_come(limit: Duration) -> bool {
    let meeting = Meeting::new(5);
    let mut settings = quick();
    settings.start.limit = limit;
    let since = Instant::now();
    let came = [0, 1, 4];
    let problems = together(came.map(|rank| {
        let (place, settings) = (meeting.place(rank), settings.clone());
        move || problem(Job::start(place, settings))
    }));
    assert!(since.elapsed() < limit + Duration::from_secs(10));
    println!("{problems:?}");
    let expected =
        format!("3 of 5 came; missing are the ranks 2, 3 within {limit:?}: the ranks 2, 3 have not called");
    problems.iter().all(|problem| *problem == expected)
}

#[test]
fn who_never_comes_is_named_by_all() {
    assert!(within_some_limit(three_name_the_two_who_do_not_come));
}

/// Rank 0 starts later than the others would wait for its word beyond their own limit.
#[test]
fn who_never_comes_is_named_by_all_though_rank_0_comes_late() {
    let meeting = Meeting::new(3);
    let mut settings = quick();
    settings.start.limit = Duration::from_secs(7);
    let problems = together([0, 1].map(|rank| {
        let (place, settings) = (meeting.place(rank), settings.clone());
        move || {
            if rank == 0 {
                std::thread::sleep(Duration::from_secs(6));
            }
            problem(Job::start(place, settings))
        }
    }));
    for problem in &problems {
        assert!(problem.starts_with("2 of 3 came; missing is rank 2 within 7s: "), "{problems:?}");
    }
}

#[test]
fn what_a_program_sets_wrongly_is_told_to_all() {
    let meeting = Meeting::new(2);
    let mut wrong = quick();
    wrong.messages.ring = 0;
    let results = together([(0, quick()), (1, wrong)].map(|(rank, settings)| {
        let place = meeting.place(rank);
        move || Job::start(place, settings).map(drop)
    }));
    let texts: Vec<_> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(texts[0].contains("rank 1 on node node1: messages.ring"), "{texts:?}");
    assert!(texts[1].contains("ring is 0, should be from 64"), "{texts:?}");
}

#[test]
fn without_a_master_the_others_say_so() {
    let meeting = Meeting::new(2);
    let place = meeting.place(1);
    drop(meeting);
    let mut settings = quick();
    settings.start.limit = Duration::from_millis(200);
    let text = problem(Job::start(place, settings));
    assert!(text.contains("rank 0, the master, was not reached within 200ms"), "{text}");
}

#[test]
fn a_wrong_secret_is_refused_and_the_start_goes_on() {
    let meeting = Meeting::new(2);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| Job::start(meeting.place(0), quick()).unwrap());
        let stranger = Place { secret: JobSecret::random().unwrap(), ..meeting.place(1) };
        let text = problem(Job::start(stranger, quick()));
        assert!(text.contains("does not know this job's secret"), "{text}");
        let second = Job::start(meeting.place(1), quick()).unwrap();
        let jobs = vec![first.join().unwrap(), second];
        is_a_job(&jobs);
        finish_all(jobs);
    });
}

/// Starts ranks 0, 1 and one more that does not fit; what all of them say.
fn with_misfit(change: impl FnOnce(&mut Place, &mut Settings)) -> Vec<String> {
    let meeting = Meeting::new(4);
    let (mut place, mut settings) = (meeting.place(1), quick());
    change(&mut place, &mut settings);
    let ranks = [(meeting.place(0), quick()), (meeting.place(1), quick()), (place, settings)];
    together(ranks.map(|(place, settings)| move || problem(Job::start(place, settings))))
}

#[test]
fn a_rank_that_comes_twice_is_an_error_of_all() {
    for text in with_misfit(|_, _| ()) {
        assert!(text.starts_with("rank 1 came twice: process "), "{text}");
    }
}

#[test]
fn another_size_is_an_error_of_all() {
    for text in with_misfit(|place, _| (place.rank, place.size) = (Rank(2), 3)) {
        assert!(
            text.starts_with("rank 2 on node node1 was started for a job of 3, rank 0 for one of 4"),
            "{text}"
        );
    }
}

#[test]
fn another_fabric_and_one_that_cannot_be_had_are_errors_of_all() {
    let meeting = Meeting::new(2);
    let start = |rank: u32, name: &'static str, works: bool| {
        let (place, settings) = (meeting.place(rank), quick());
        move || {
            let for_fabric = settings.clone();
            let mut prepare = |secret: &JobSecret, _| match works {
                true => for_fabric.prepare(secret),
                false => Err(Error::StartUp { problem: "the adapter is broken".into() }),
            };
            problem(Job::start_on(place, settings, name, &mut prepare))
        }
    };
    for text in together([start(0, "shm", true), start(1, "other", true)]) {
        assert!(text.contains("chose the fabric other, rank 0 shm"), "{text}");
    }
    let texts = together([start(0, "shm", true), start(1, "shm", false)]);
    assert_eq!(texts[0], "rank 1 on node node1: the job does not start: the adapter is broken");
    assert_eq!(texts[1], "the adapter is broken");
}

#[test]
fn a_fabric_of_too_long_a_name_is_an_error_that_says_so() {
    let start = |meeting: &Meeting, rank: u32, length: usize| {
        let (place, settings) = (meeting.place(rank), quick());
        move || {
            let (for_fabric, name) = (settings.clone(), "f".repeat(length));
            Job::start_on(place, settings, &name, &mut |secret, _| for_fabric.prepare(secret))
        }
    };
    let meeting = Meeting::new(2);
    for text in together([0, 1].map(|rank| start(&meeting, rank, 65))).into_iter().map(problem) {
        assert!(text.contains("the fabric's name has 65 bytes, 64 are the most: ffff"), "{text}");
    }
    let meeting = Meeting::new(2);
    let jobs = together([0, 1].map(|rank| start(&meeting, rank, 64))).into_iter().map(Result::unwrap);
    finish_all(jobs.collect()).into_iter().for_each(Result::unwrap);
}

#[test]
fn strangers_disturb_neither_the_start_nor_the_job() {
    let meeting = Meeting::new(2);
    let garbage =
        [&[0; 64][..], &[255; 64], b"GET / HTTP/1.1\r\n\r\n", &[40, 0, 0, 0, 0, 1, 2], &[1, 0, 0, 0, 1]];
    let disturb = || -> Vec<TcpStream> {
        let mut silent: Vec<_> = (0..100).map(|_| TcpStream::connect(meeting.address).unwrap()).collect();
        for bytes in garbage {
            let mut stream = TcpStream::connect(meeting.address).unwrap();
            stream.write_all(bytes).unwrap();
            silent.push(stream);
        }
        silent
    };
    let before = disturb();
    let jobs = meeting.start(&quick());
    let after = disturb();
    is_a_job(&jobs);
    // Nonsense is answered by a refusal, or at least by the end.
    let mut nonsense = after[after.len() - garbage.len()..].iter();
    let mut answer = Vec::new();
    nonsense.next().unwrap().read_to_end(&mut answer).unwrap();
    assert!(!answer.is_empty());
    finish_all(jobs).into_iter().for_each(Result::unwrap);
    drop((before, after));
}

#[test]
fn what_listens_there_may_be_something_else() {
    let meeting = Meeting::new(2);
    let place = meeting.place(1);
    let other = meeting.place(0);
    let Master::Listening(listener) = other.master else { panic!("rank 0 listens") };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"220 mail.example.org ready\r\n").unwrap();
            let _ = stream.read(&mut [0; 16]);
        });
        let text = problem(Job::start(place, quick()));
        assert!(text.contains("where rank 0 should listen"), "{text}");
    });
}

/// What an overloaded machine brings about, or a moment without descriptors: rank 0 does not keep the connection.
#[test]
fn who_is_hung_up_on_before_it_is_let_in_calls_again() {
    let meeting = Meeting::new(2);
    let place = meeting.place(0);
    let Master::Listening(listener) = &place.master else { panic!("rank 0 listens") };
    let accept = || listener.accept().unwrap().0;
    let jobs = std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let job = Job::start(meeting.place(1), quick());
            // One that has given up calls no more, and is not to be waited for.
            drop(TcpStream::connect(meeting.address));
            job.unwrap()
        });
        // Once without having read what it says, and once after that.
        drop(accept());
        let mut heard = accept();
        heard.read_exact(&mut [0; 4]).unwrap();
        drop(heard);
        let first = Job::start(meeting.place(0), quick()).unwrap();
        vec![first, second.join().unwrap()]
    });
    is_a_job(&jobs);
    finish_all(jobs).into_iter().for_each(Result::unwrap);
}

#[test]
fn who_is_sent_away_while_it_prepares_its_fabric_calls_again() {
    let meeting = Meeting::new(2);
    let prepared = Mutex::new(0);
    let start_second = || {
        let settings = quick();
        let mut crowd = Vec::new();
        let mut prepare = |secret: &JobSecret, _| {
            *prepared.lock().unwrap() += 1;
            // More than rank 0 has room for. As each of them has been asked who it is, the first caller had to go.
            crowd = (0..100).map(|_| TcpStream::connect(meeting.address).unwrap()).collect::<Vec<_>>();
            crowd.iter_mut().for_each(|stranger| stranger.read_exact(&mut [0; 4]).unwrap());
            settings.prepare(secret)
        };
        Job::start_on(meeting.place(1), quick(), "shm", &mut prepare).unwrap()
    };
    let jobs = std::thread::scope(|scope| {
        let second = scope.spawn(start_second);
        let first = Job::start(meeting.place(0), quick()).unwrap();
        vec![first, second.join().unwrap()]
    });
    assert_eq!(prepared.into_inner().unwrap(), 1);
    is_a_job(&jobs);
    finish_all(jobs).into_iter().for_each(Result::unwrap);
}

/// Whether rank 0 tells of rank 1, which does not come to an end with its fabric, how far it came.
fn who_gets_stuck_is_told_of(limit: Duration) -> bool {
    let meeting = Meeting::new(3);
    let (stuck, is_stuck) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (place, settings) = (meeting.place(1), quick());
    let start_second = move || {
        let for_fabric = settings.clone();
        let mut prepare = |secret: &JobSecret, _| {
            stuck.send(()).unwrap();
            // Until the other end is gone.
            let _ = may_go_on.recv();
            for_fabric.prepare(secret)
        };
        problem(Job::start_on(place, settings, "shm", &mut prepare))
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(start_second);
        is_stuck.recv().unwrap();
        let mut settings = quick();
        settings.start.limit = limit;
        let told = problem(Job::start(meeting.place(0), settings));
        drop(go_on);
        let second = second.join().unwrap();
        println!("{told}\n{second}");
        let process = std::process::id();
        told.starts_with(&format!(
            "1 of 3 came; missing are the ranks 1, 2 within {limit:?}: rank 1 (process {process}) called"
        )) && told.contains("from 127.0.0.1:")
            && told.ends_with("and has not introduced itself yet; rank 2 has not called")
            && second == "rank 0 refuses this process: the job does not start"
    })
}

#[test]
fn of_who_called_and_came_no_further_it_is_told_how_far() {
    assert!(within_some_limit(who_gets_stuck_is_told_of));
}

#[test]
fn processes_that_know_each_other_meet_by_their_own_exchange() {
    for address in ["", "127.0.0.1"] {
        let mut settings = quick();
        settings.start.address = address.into();
        let jobs: Vec<_> = Board::new(4).start(&settings).into_iter().map(Result::unwrap).collect();
        is_a_job(&jobs);
        finish_all(jobs).into_iter().for_each(Result::unwrap);
    }
}

#[test]
fn when_rank_0_cannot_listen_nobody_waits_in_the_exchange() {
    for address in ["203.0.113.1", "no.host.invalid"] {
        let mut settings = quick();
        settings.start.address = address.into();
        let texts: Vec<_> = Board::new(3).start(&settings).into_iter().map(problem).collect();
        assert!(texts[0].contains(&format!("cannot listen at {address}:0")), "{}", texts[0]);
        assert!(texts[0].contains("SVMIO_START_ADDRESS is to be"), "{}", texts[0]);
        assert!(!texts[0].contains("SVMIO_JOB_MASTER"), "{}", texts[0]);
        assert!(texts[1].contains("rank 0 could not begin to listen"), "{}", texts[1]);
    }
}
