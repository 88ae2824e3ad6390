//! The byte-range locks and the presence of processes, between real processes that are really
//! killed. Each child is this test program again, told by its environment which role to play.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

#[path = "../limit/mod.rs"]
mod limit;
mod site;

use std::env;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use svmio_svm::locks::{LockError, Mode};
use svmio_svm::presence::ProcessSlot;

use site::*;

/// Where the children begin; run as a test among the others it has no role, and nothing to do.
#[test]
fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    limit::end_in_time();
    let site = Site::attach(Path::new(&env::var_os(FILE).unwrap()));
    let number: u32 = env::var(NUMBER).unwrap().parse().unwrap();
    match role.as_str() {
        "account" => account(&site, number, 1500),
        "meet_as_readers" => meet_as_readers(&site),
        "lock_upper_half" => lock_upper_half(&site),
        "queue_up" => queue_up(&site, number),
        "stream_of_reads" => stream_of_reads(&site),
        "hold" => hold(&site),
        "measure_wait" => measure_wait(&site),
        "churn" => churn(&site, number),
        "grasp_for_more" => grasp_for_more(&site),
        "stay_in_gate" => stay_in_gate(&site),
        other => panic!("no role {other}"),
    }
}

/// Numbers that look random, the same ones in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

/// Writers count up two cells, one after the other; readers must never see them differ.
fn account(site: &Site, number: u32, rounds: u32) {
    let mut random = Random(number.into());
    let mut written = 0;
    for _ in 0..rounds {
        // Ranges of all sizes, which have byte 500 in common.
        let range = random.below(500)..501 + random.below(500);
        let mode = match random.below(3) {
            0 => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let interrupted = random.below(8) == 0;
        let token = site.acquire(range, mode);
        let (one, other) = (site.cell(0), site.cell(8));
        let value = one.load(Ordering::Relaxed);
        if interrupted {
            thread::yield_now();
        }
        assert_eq!(other.load(Ordering::Relaxed), value);
        if mode == Mode::Exclusive {
            written += 1;
            one.store(value + 1, Ordering::Relaxed);
            if interrupted {
                thread::yield_now();
            }
            other.store(value + 1, Ordering::Relaxed);
        }
        site.release(token);
    }
    site.add(Word::Done(number), written);
}

#[test]
fn overlapping_locks_keep_processes_and_threads_apart() {
    let job = Job::new();
    let children = job.start_all("account", 4);
    thread::scope(|scope| {
        for number in [4, 5] {
            let site = &job.site;
            scope.spawn(move || account(site, number, 1500));
        }
    });
    children.into_iter().for_each(Process::finish);
    let written: u32 = (0..6).map(|number| job.site.word(Word::Done(number)).load(Ordering::Acquire)).sum();
    assert!(written > 4000, "{written}");
    assert_eq!(job.site.cell(0).load(Ordering::Relaxed), u64::from(written));
    job.assert_nothing_claimed();
}

/// Gets through only if all three hold the lock at the same time.
fn meet_as_readers(site: &Site) {
    let token = site.acquire(0..100, Mode::Shared);
    site.add(Word::Arrived, 1);
    site.await_word(Word::Arrived, 3);
    site.release(token);
}

#[test]
fn readers_hold_the_same_bytes_together() {
    let job = Job::new();
    let children = job.start_all("meet_as_readers", 3);
    children.into_iter().for_each(Process::finish);
    job.assert_nothing_claimed();
}

fn lock_upper_half(site: &Site) {
    let token = site.acquire(100..u64::MAX, Mode::Exclusive);
    site.release(token);
}

#[test]
fn disjoint_ranges_do_not_wait_for_each_other() {
    let job = Job::new();
    let lower_half = job.site.acquire(0..100, Mode::Exclusive);
    job.start("lock_upper_half", 0).finish();
    job.site.release(lower_half);
    job.assert_nothing_claimed();
}

/// Even numbers write, odd ones read.
fn queue_up(site: &Site, number: u32) {
    let mode = match number % 2 {
        0 => Mode::Exclusive,
        _ => Mode::Shared,
    };
    let token = site.acquire(5..10, mode);
    site.log(number);
    site.release(token);
}

#[test]
fn contenders_get_their_turns_in_the_order_of_their_coming() {
    let job = Job::new();
    // A reader holds, so a reader that overtakes the waiting writer would get through.
    let held = job.site.acquire(0..100, Mode::Shared);
    let order = [0, 1, 2, 4, 6, 7, 8];
    let mut children = Vec::new();
    for number in order {
        children.push(job.start("queue_up", number));
        job.await_waiting(children.len());
    }
    assert_eq!(job.site.logged(), Vec::<u32>::new());
    job.site.release(held);
    children.into_iter().for_each(Process::finish);
    assert_eq!(job.site.logged(), order);
    job.assert_nothing_claimed();
}

fn stream_of_reads(site: &Site) {
    while site.word(Word::Stop).load(Ordering::Relaxed) == 0 {
        let token = site.acquire(0..100, Mode::Shared);
        site.add(Word::Arrived, 1);
        thread::yield_now();
        site.release(token);
    }
}

#[test]
fn a_writer_gets_its_turns_in_a_stream_of_readers() {
    let job = Job::new();
    let readers = job.start_all("stream_of_reads", 3);
    for _ in 0..50 {
        let read = job.site.word(Word::Arrived).load(Ordering::Relaxed);
        let start = Instant::now();
        let token = job.site.acquire(50..60, Mode::Exclusive);
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
        job.site.release(token);
        job.site.await_word(Word::Arrived, read + 1);
    }
    job.site.add(Word::Stop, 1);
    readers.into_iter().for_each(Process::finish);
    job.assert_nothing_claimed();
}

fn hold(site: &Site) {
    let token = site.acquire(0..100, Mode::Exclusive);
    site.add(Word::Arrived, 1);
    site.await_word(Word::Go, 1);
    site.release(token);
}

#[test]
fn the_death_of_a_holder_lets_the_waiters_go_on() {
    let job = Job::new();
    let mut holder = job.start("hold", 0);
    job.site.await_word(Word::Arrived, 1);
    let mut children = Vec::new();
    for number in [2, 4, 6] {
        children.push(job.start("queue_up", number));
        job.await_waiting(children.len());
    }
    let start = Instant::now();
    holder.kill();
    job.site.await_word(Word::LogLength, 3);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(job.site.logged(), [2, 4, 6]);
    children.into_iter().for_each(Process::finish);
    job.assert_nothing_claimed();
}

#[test]
fn the_death_of_a_waiter_lets_those_behind_it_go_on() {
    let job = Job::new();
    let held = job.site.acquire(0..7, Mode::Shared);
    let mut writer = job.start("queue_up", 2);
    job.await_waiting(1);
    let reader = job.start("queue_up", 1);
    job.await_waiting(2);
    let start = Instant::now();
    writer.kill();
    // What the parent holds is not in the way of the reader; only the writer was.
    job.site.await_word(Word::LogLength, 1);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert_eq!(job.site.logged(), [1]);
    reader.finish();
    job.site.release(held);
    job.assert_nothing_claimed();
}

fn measure_wait(site: &Site) {
    let cpu_time = || {
        // SAFETY: integers, for which zero is a value, filled in by the call below.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: room for the structure.
        let outcome = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        assert_eq!(outcome, 0);
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        micros(usage.ru_utime) + micros(usage.ru_stime)
    };
    let before = cpu_time();
    let token = site.acquire(0..1, Mode::Exclusive);
    let used = cpu_time() - before;
    site.release(token);
    site.add(Word::Micros, 1 + used as u32);
}

#[test]
fn a_waiter_uses_no_core() {
    let job = Job::new();
    let held = job.site.acquire(0..1, Mode::Exclusive);
    let child = job.start("measure_wait", 0);
    job.await_waiting(1);
    // Not to wait for anything: this is the time that the child has to get through idly.
    thread::sleep(Duration::from_millis(300));
    job.site.release(held);
    child.finish();
    let used = job.site.word(Word::Micros).load(Ordering::Acquire) - 1;
    assert!(used < 20_000, "{used} µs");
}

/// Acquires and releases as fast as it can. Each exclusive holder leaves its name in the cells that
/// it has locked while it is inside; who finds a name there finds a dead process's.
fn churn(site: &Site, number: u32) {
    let me = u64::from(std::process::id());
    let mut random = Random(me);
    while site.word(Word::Stop).load(Ordering::Relaxed) == 0 {
        let start = random.below(8);
        let range = start..start + 1 + random.below(8 - start);
        let mode = match random.below(3) {
            0 => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let token = site.acquire(range.clone(), mode);
        for cell in range.clone().map(|cell| site.cell(cell as usize)) {
            let name = cell.load(Ordering::Relaxed);
            if name != 0 {
                assert_dead(name);
            }
            if mode == Mode::Exclusive {
                cell.store(me, Ordering::Relaxed);
            }
        }
        if mode == Mode::Exclusive {
            for cell in range.map(|cell| site.cell(cell as usize)) {
                assert_eq!(cell.swap(0, Ordering::Relaxed), me);
            }
        }
        site.release(token);
        site.add(Word::Done(number), 1);
    }
}

/// The process must be gone, or about to go: its locks fall a little before it counts as dead.
fn assert_dead(process: u64) {
    let start = Instant::now();
    loop {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
        let gone = match &status {
            Err(_) => true,
            Ok(status) => status.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X'])),
        };
        if gone {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{process} lives: {status:?}");
        thread::yield_now();
    }
}

#[test]
fn kills_at_random_moments_leave_a_usable_table() {
    const WORKERS: u32 = 4;
    const KILLS: u32 = 200;
    let job = Job::new();
    let mut workers = job.start_all("churn", WORKERS);
    let done = |number| job.site.word(Word::Done(number)).load(Ordering::Acquire);
    let mut random = Random(1);
    for _ in 0..KILLS {
        let number = random.below(WORKERS.into()) as u32;
        // It must be at work, then be struck at a random moment of that.
        job.site.await_word(Word::Done(number), done(number) + 1);
        (0..random.below(20)).for_each(|_| thread::yield_now());
        let status = workers[number as usize].kill();
        assert!(!status.success() && status.code().is_none(), "{status}");
        workers[number as usize] = job.start("churn", number);
    }
    for number in 0..WORKERS {
        let start = Instant::now();
        job.site.await_word(Word::Done(number), done(number) + 100);
        assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    }
    job.site.add(Word::Stop, 1);
    workers.into_iter().for_each(Process::finish);
    let everything = job.site.acquire(0..u64::MAX, Mode::Exclusive);
    job.site.release(everything);
    job.assert_nothing_claimed();
}

#[test]
fn the_slot_of_a_killed_process_is_free_and_cleared_by_the_next() {
    let job = Job::new();
    let presence = &job.site.presence;
    assert!(!presence.others_alive().unwrap());
    let mut holder = job.start("hold", 0);
    job.site.await_word(Word::Arrived, 1);
    let slot = ProcessSlot(1);
    assert!(presence.alive(slot).unwrap() && presence.others_alive().unwrap());
    holder.kill();
    assert!(!presence.alive(slot).unwrap() && !presence.others_alive().unwrap());
    assert_eq!(job.site.table().claims().unwrap().len(), 1);
    let successor = Site::attach(&job.site.path);
    assert_eq!(successor.presence.slot(), slot);
    job.assert_nothing_claimed();
}

fn stay_in_gate(site: &Site) {
    let _gate = site.presence.gate().unwrap();
    site.add(Word::Arrived, 1);
    site.await_word(Word::Go, 1);
}

#[test]
fn the_gate_opens_when_the_process_in_it_is_killed() {
    let job = Job::new();
    let mut inside = job.start("stay_in_gate", 0);
    job.site.await_word(Word::Arrived, 1);
    thread::scope(|scope| {
        let next = scope.spawn(|| drop(job.site.presence.gate().unwrap()));
        let own = File::options().read(true).write(true).open(&job.site.path).unwrap();
        assert!(gate_is_taken(&own));
        assert!(!next.is_finished());
        inside.kill();
        next.join().unwrap();
        assert!(!gate_is_taken(&own));
    });
}

/// Looks at byte 0 of the state file, where the gate is.
fn gate_is_taken(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: integers, for which zero is a value.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = libc::F_WRLCK as libc::c_short;
    request.l_len = 1;
    // SAFETY: an open descriptor and the structure for this command.
    let outcome = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut request) };
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
    i32::from(request.l_type) != libc::F_UNLCK
}

fn grasp_for_more(site: &Site) {
    let first = site.acquire(0..100, Mode::Exclusive);
    site.add(Word::Arrived, 1);
    let second = site.acquire(200..300, Mode::Exclusive);
    site.release(second);
    site.release(first);
}

#[test]
fn of_two_processes_that_would_wait_for_each_other_the_second_is_told() {
    let job = Job::new();
    let site = &job.site;
    let own = site.acquire(200..300, Mode::Exclusive);
    let child = job.start("grasp_for_more", 0);
    job.await_waiting(1);
    let alive = |slot| site.presence.alive(slot);
    let outcome = site.table().acquire(site.owner(), 50..60, Mode::Shared, &alive);
    assert!(matches!(outcome, Err(LockError::WouldDeadlock { .. })));
    site.release(own);
    child.finish();
    job.assert_nothing_claimed();
}
