//! Processes of a job that wait use no processor; many start quickly, and connect only to whom they talk.

use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use svmio_tests::{FabricJob, RunningFabricJob, is_full_run};
use svmio_transport::Rank;
use svmio_transport::job::WatchdogSettings;

const PROCESS: &str = env!("CARGO_BIN_EXE_fabric_process");
const LIMIT: Duration = Duration::from_secs(60);

/// All threads of a process wait without looking now and then, except for the watchdog's heartbeats: in ten seconds
/// of the default timeout those are eight to the leader, and at the leader eight to each of fifteen and as many back.
/// At some 30 µs each that is 10 ms for the leader; a process that polled every millisecond would take ten times that.
const MOST_IN_TEN_SECONDS: Duration = Duration::from_millis(20);

/// How often something is measured where it is more: what else runs on the machine disturbs some of the attempts.
const TRIES: usize = 3;

/// The processor time of all threads of a process so far.
fn processor_time(id: i32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("the process is there");
    let nanoseconds = tasks.map(|task| {
        let path = task.expect("the directory can be read").path().join("schedstat");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.split(' ').next().and_then(|number| number.parse::<u64>().ok()).expect("it begins with a time")
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// The same where the provider wakes nobody, and a thread looks each millisecond whether something has come: 10,000 looks
/// at the connections with fifteen others, of some 20 µs each.
const MOST_OF_LOOKS_IN_TEN_SECONDS: Duration = Duration::from_millis(500);

/// Sixteen processes that have all talked with each other wait.
fn idle(fabric: &str, provider: &str) {
    idle_with(fabric, provider, true, MOST_IN_TEN_SECONDS);
}

/// The same with or without wait objects of the provider; each may use so much in ten seconds.
fn idle_with(fabric: &str, provider: &str, wait_objects: bool, most_in_ten_seconds: Duration) {
    const RANKS: u32 = 16;
    let length = Duration::from_secs(if is_full_run() { 10 } else { 2 });
    let job = FabricJob::new(PROCESS, &["idle"], RANKS).variable("SVMIO_WATCHDOG_SIGNALS", "true");
    let timeout = format!("{:?}", WatchdogSettings::default().timeout);
    let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", &timeout);
    let job = job.variable("SVMIO_FABRIC", fabric).variable("SVMIO_OFI_PROVIDER", provider);
    let job = job.variable("SVMIO_OFI_WAIT_OBJECTS", &wait_objects.to_string());
    let mut job = job.start();
    job.until_ready(LIMIT);
    let pids = job.pids();
    settle(&pids, if wait_objects { Duration::from_millis(1) } else { most_in_ten_seconds * RANKS / 100 });
    // What happens to fall into a short time is more in proportion.
    let most = (most_in_ten_seconds * length.as_secs() as u32 / 10).max(MOST_IN_TEN_SECONDS / 2);
    // A host that takes the processor away charges it to whom it was taken from. Who is not idle is so each time.
    let mut least = vec![Duration::MAX; pids.len()];
    for _ in 0..TRIES {
        let before: Vec<_> = pids.iter().map(|id| processor_time(*id)).collect();
        std::thread::sleep(length);
        for ((id, before), least) in pids.iter().zip(before).zip(&mut least) {
            *least = processor_time(*id).saturating_sub(before).min(*least);
        }
        if least.iter().all(|used| *used < most) {
            break;
        }
    }
    show(&format!("{fabric} {provider}: {RANKS} idle processes used in {length:?}: {least:?}\n"));
    for (rank, used) in least.iter().enumerate() {
        assert!(*used < most, "rank {rank} used {used:?} in {length:?}");
    }
    end(&mut job, RANKS);
}

/// Waits until the processes have together used the processor for no more than so long in a tenth of a second: all that
/// was begun has ended.
fn settle(pids: &[i32], rest: Duration) {
    let sum = || pids.iter().map(|id| processor_time(*id)).sum::<Duration>();
    for _ in 0..100 {
        let before = sum();
        std::thread::sleep(Duration::from_millis(100));
        if sum() - before < rest {
            return;
        }
    }
    panic!("the processes do not come to rest within ten seconds");
}

/// Ends the job by a signal to one; each has seen its end.
fn end(job: &mut RunningFabricJob, ranks: u32) {
    job.signal(Rank(ranks / 2), Signal::TERM);
    job.wait(None, LIMIT);
    for rank in (0..ranks).map(Rank) {
        let report = job.report(rank).unwrap_or_else(|| panic!("rank {rank} told nothing"));
        assert_eq!(report["outcome"], "ended", "rank {rank}: {report}");
        let mut peers: Vec<_> =
            report["peers"].as_array().expect("a list").iter().map(|peer| peer.as_u64()).collect();
        peers.sort();
        peers.retain(|peer| *peer != Some(rank.0.into()));
        let others = (0..ranks).filter(|other| *other != rank.0).map(|other| Some(other.into()));
        assert_eq!(peers, others.collect::<Vec<_>>(), "rank {rank} has talked to all");
    }
}

/// Many processes start soon.
fn start(fabric: &str) {
    const SOON: Duration = Duration::from_secs(2);
    let mut times = (0..TRIES).map(|_| joined(fabric));
    assert!(times.any(|joined| joined < SOON), "each time they have started later than after {SOON:?}");
}

/// What the processors have done so far, in ticks.
struct Ticks {
    all: u64,
    idle: u64,
    /// For processes that this one has waited for.
    own: u64,
}

impl Ticks {
    fn now() -> Ticks {
        let read = |path: &str| std::fs::read_to_string(path).expect("/proc is there");
        let number = |word: &str| word.parse::<u64>().expect("a number of ticks");
        let machine = read("/proc/stat");
        let machine = machine.lines().next().expect("it begins with the sum of all processors");
        // User, nice, system, idle, waiting for a device, interrupts, soft ones, stolen by the host.
        let machine: Vec<u64> = machine.split_whitespace().skip(1).take(8).map(number).collect();
        // Behind the name, which may be anything, from the state on.
        let process = read("/proc/self/stat");
        let (_, process) = process.rsplit_once(')').expect("the name is in brackets");
        let process: Vec<&str> = process.split_whitespace().collect();
        Ticks {
            all: machine.iter().sum(),
            idle: machine[3] + machine[4],
            // By programs, and by the kernel for them.
            own: number(process[13]) + number(process[14]),
        }
    }

    /// The share of the processors' time since then that other processes did not take.
    fn left_since(&self) -> f64 {
        let now = Ticks::now();
        let (all, idle, own) = (now.all - self.all, now.idle - self.idle, now.own - self.own);
        ((idle + own) as f64 / all.max(1) as f64).min(1.0)
    }
}

/// Many processes start, and each talks to one neighbour; after how long all have joined, less what others had of the
/// processors meanwhile.
fn joined(fabric: &str) -> Duration {
    const RANKS: u32 = 64;
    let ticks = Ticks::now();
    let job = FabricJob::new(PROCESS, &["pairs"], RANKS).variable("SVMIO_FABRIC", fabric).start();
    let begun = job.begun();
    let reports = job.succeed(LIMIT);
    let left = ticks.left_since();
    let since =
        |time: &serde_json::Value| Duration::from_nanos(time.as_u64().expect("a time").saturating_sub(begun));
    let joined = reports.iter().map(|report| since(&report["joined"])).max().expect("there are ranks");
    let talked = reports.iter().map(|report| since(&report["at"])).max().expect("there are ranks");
    show(&format!(
        "{fabric}: {RANKS} processes: all joined after {joined:?}, had talked after {talked:?}, with {left:.2} of the \
         processors\n"
    ));
    for (rank, report) in reports.iter().enumerate() {
        let neighbour = rank ^ 1;
        let peers = report["peers"].as_array().expect("a list");
        let others: Vec<_> = peers.iter().filter(|peer| **peer != json!(rank)).collect();
        assert_eq!(others, [&json!(neighbour)], "rank {rank} has talked to {neighbour} only");
        assert_eq!(report["finish"], serde_json::Value::Null, "rank {rank}: {report}");
    }
    joined.mul_f64(left)
}

/// Prints what was measured also where the test succeeds, when `print!` is captured.
fn show(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).expect("standard output can be written to");
}

// One after the other: what is measured is time on cores that these processes have for themselves.
#[test]
fn idle_processes() {
    start("shm");
    start("ofi");
    idle("shm", "");
    idle("ofi", "net");
    idle("ofi", "tcp;ofi_rxm");
    idle_with("ofi", "net", false, MOST_OF_LOOKS_IN_TEN_SECONDS);
}
