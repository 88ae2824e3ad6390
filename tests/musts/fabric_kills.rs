//! A process of a job is killed: every survivor is told which one, in bounded time, and nothing is left.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use svmio_tests::fabric_job::now;
use svmio_tests::{FabricJob, Hosts, Random, RunningFabricJob, is_full_run};
use svmio_transport::Rank;

const PROCESS: &str = env!("CARGO_BIN_EXE_fabric_process");

/// After how long without a heartbeat the watchdog takes a process for hung, where one is.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The same where none is: far longer than a loaded machine keeps a process waiting, so that nobody is taken for hung.
/// One that dies is noticed at once: each survivor has to know before silence could have told it anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// By silence nobody is noticed earlier.
const AT_ONCE: Duration = Duration::from_secs(PATIENCE.as_secs() / 2);

/// How long the processes of a job wait for one that does not come, which is killed. The others are all to come.
const START_LIMIT: &str = "10s";

/// What a process is killed amid, by the fabric's statistics.
const COUNTED: [&str; 7] =
    ["short_messages", "eager_messages", "rendezvous_messages", "writes", "reads", "atomics", "posts"];

/// How long a job may take to be under way, and its survivors to end, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(90);

fn traffic(seed: u64, ranks: u32, timeout: Duration) -> FabricJob {
    traffic_of(seed, None, ranks, timeout)
}

/// Traffic that ends after so many rounds, and is under way after so many.
fn traffic_of(seed: u64, rounds: Option<(u64, u64)>, ranks: u32, timeout: Duration) -> FabricJob {
    let timeout = format!("{}ms", timeout.as_millis());
    let mut words = vec!["traffic".to_owned(), seed.to_string()];
    if let Some((limit, ready)) = rounds {
        words.extend([limit.to_string(), ready.to_string()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    FabricJob::new(PROCESS, &words, ranks).variable("SVMIO_WATCHDOG_TIMEOUT", &timeout)
}

/// How long after `since` each survivor knew that `lost` is lost, and nothing else.
fn noticed(job: &RunningFabricJob, ranks: u32, lost: Rank, since: u64) -> Vec<Duration> {
    let survivors = (0..ranks).map(Rank).filter(|rank| *rank != lost);
    let told = |rank| (rank, job.report(rank).unwrap_or_else(|| panic!("rank {rank} told nothing")));
    let told: Vec<_> = survivors.map(told).collect();
    for (rank, report) in &told {
        assert_eq!(report["unexpected"], Value::from(Vec::<String>::new()), "rank {rank}: {report}");
    }
    let noticed = told.into_iter().map(|(rank, report)| {
        assert_eq!(report["ending"], Value::Null, "rank {rank}: {report}");
        assert_eq!(report["finish"], Value::Null, "rank {rank}: {report}");
        let losses = report["losses"].as_array().expect("it is a list");
        assert_eq!(losses.len(), 1, "rank {rank}: {report}");
        assert_eq!(losses[0]["rank"], lost.0, "rank {rank}: {report}");
        let error = losses[0]["error"].as_str().expect("it is a text");
        assert!(error.starts_with(&format!("rank {lost} on node ")), "rank {rank} was told '{error}'");
        let at = losses[0]["at"].as_u64().expect("it is a time");
        Duration::from_nanos(at.saturating_sub(since))
    });
    noticed.collect()
}

/// Nothing of any job is left in a host.
fn check_remains(hosts: &Hosts, host: usize, what: &str) {
    assert!(hosts.processes(host).is_empty(), "processes are left after {what}: {:?}", hosts.processes(host));
    assert!(
        hosts.unix_sockets(host).is_empty(),
        "sockets are left after {what}: {:?}",
        hosts.unix_sockets(host)
    );
    let files = hosts.shared_memory_files(host);
    assert!(files.is_empty(), "files are left in /dev/shm after {what}: {files:?}");
}

/// Kills one process of each of many jobs at a random point of their traffic; in every fourth one as soon as all have
/// joined, when they connect and make their buffers.
fn killed(hosts: &Hosts, fabric: &str, provider: &str, kills: u64) {
    let mut all = Vec::new();
    let mut counts = COUNTED.map(|name| (name, 0));
    for seed in 0..kills {
        let mut random = Random::new(seed);
        let ranks = 3 + random.below(3) as u32;
        let lost = Rank(random.below(u64::from(ranks)) as u32);
        let what = format!("{fabric} {provider}, seed {seed}: rank {lost} of {ranks} killed");
        let is_early = seed % 4 == 3;
        let job = traffic_of(seed, is_early.then_some((u64::MAX, 0)), ranks, PATIENCE)
            .variable("SVMIO_FABRIC", fabric)
            .variable("SVMIO_OFI_PROVIDER", provider);
        let mut job = job.in_hosts(hosts, 7800).start();
        job.until_ready(LIMIT);
        // When is what is random here; it waits for nothing.
        std::thread::sleep(Duration::from_micros(random.below(if is_early { 3000 } else { 30_000 })));
        let since = job.signal(lost, Signal::KILL);
        let ends = job.wait(None, LIMIT);
        for (rank, end) in ends.iter().enumerate().filter(|(rank, _)| *rank != lost.index()) {
            let report = job.report(Rank(rank as u32));
            assert!(
                end.is_some_and(|end| end.success()),
                "{what}: rank {rank} ended with {end:?}: {report:?}"
            );
        }
        let times = noticed(&job, ranks, lost, since);
        let is_in_time = times.iter().all(|time| *time < AT_ONCE);
        assert!(is_in_time, "{what}: the survivors were told after {times:?}");
        all.extend(times);
        for report in (0..ranks).filter_map(|rank| job.report(Rank(rank))) {
            for (name, count) in &mut counts {
                *count += report["statistics"][*name].as_u64().expect("a number");
            }
        }
        drop(job);
        (0..hosts.count()).for_each(|host| check_remains(hosts, host, &what));
    }
    assert!(counts.iter().all(|(_, count)| *count > 0), "not all that there is was in use: {counts:?}");
    all.sort();
    let (median, longest) = (all[all.len() / 2], all[all.len() - 1]);
    assert!(median < TIMEOUT, "{fabric} {provider}: the survivors were told after {all:?}");
    println!("{fabric} {provider}: {kills} kills, noticed after {median:?} (median), {longest:?} (longest)");
    println!("  what the survivors did: {counts:?}");
}

#[test]
fn a_kill_is_noticed_on_shm() {
    // One host, for a /dev/shm and a list of sockets with nothing else in them.
    killed(&Hosts::new(1), "shm", "", if is_full_run() { 1000 } else { 40 });
}

#[test]
fn a_kill_is_noticed_on_ofi() {
    let kills = if is_full_run() { 100 } else { 4 };
    let hosts = Hosts::new(2);
    for provider in ["net", "tcp;ofi_rxm"] {
        killed(&hosts, "ofi", provider, kills);
    }
}

/// A process dies within its finish, where one that has not finished keeps it: those who have not finished are told,
/// those who have do not fail, and all end soon.
#[test]
fn a_kill_within_the_finish_is_survived() {
    let hosts = Hosts::new(2);
    for (fabric, provider) in [("shm", ""), ("ofi", "net"), ("ofi", "tcp;ofi_rxm")] {
        // Ranks on shared memory are of one host.
        let hosts = if fabric == "shm" { &Hosts::new(1) } else { &hosts };
        let mut all = Vec::new();
        let kills = if is_full_run() { 100 } else { 4 };
        for seed in 0..kills {
            all.extend(killed_within_the_finish(hosts, fabric, provider, seed));
        }
        all.sort();
        let (median, longest) = (all[all.len() / 2], all[all.len() - 1]);
        println!(
            "{fabric} {provider}: {kills} kills within the finish; all have ended after {median:?} (median), {longest:?} (longest)"
        );
    }
}

/// How long after the kill each survivor had finished.
fn killed_within_the_finish(hosts: &Hosts, fabric: &str, provider: &str, seed: u64) -> Vec<Duration> {
    let mut random = Random::new(seed);
    let ranks = 3 + random.below(3) as u32;
    let lost = Rank(random.below(u64::from(ranks)) as u32);
    // One at least holds back, each of the others as it happens.
    let keeper = (lost.0 + 1 + random.below(u64::from(ranks) - 1) as u32) % ranks;
    let others = (0..ranks).filter(|rank| *rank != lost.0);
    let holding: Vec<u32> = others.filter(|rank| *rank == keeper || random.below(2) == 0).collect();
    let what =
        format!("{fabric} {provider}, seed {seed}: rank {lost} of {ranks} killed, {holding:?} hold back");

    let list: Vec<String> = holding.iter().map(u32::to_string).collect();
    let job = FabricJob::new(PROCESS, &["finishing", &list.join(",")], ranks);
    let job = job.variable("SVMIO_WATCHDOG_TIMEOUT", &format!("{}ms", PATIENCE.as_millis()));
    let job = job.variable("SVMIO_FABRIC", fabric).variable("SVMIO_OFI_PROVIDER", provider);
    let mut job = job.in_hosts(hosts, 7806).start();
    job.until_ready(LIMIT);
    job.until_finishing(lost, LIMIT);
    let since = job.signal(lost, Signal::KILL);
    let ends = job.wait(None, LIMIT);

    let end = ends[lost.index()].expect("it was waited for");
    assert_eq!(end.signal(), Some(Signal::KILL.as_raw()), "{what}: it ended with {end:?}");
    let survivors = (0..ranks).map(Rank).filter(|rank| *rank != lost);
    let times = survivors.map(|rank| {
        let report = job.report(rank).unwrap_or_else(|| panic!("{what}: rank {rank} told nothing"));
        assert_eq!(report["finish"], Value::Null, "{what}: rank {rank}: {report}");
        let losses = report["losses"].as_array().expect("it is a list");
        assert_eq!(losses.len(), usize::from(holding.contains(&rank.0)), "{what}: rank {rank}: {report}");
        for loss in losses {
            assert_eq!(loss["rank"], lost.0, "{what}: rank {rank}: {report}");
            let error = loss["error"].as_str().expect("it is a text");
            assert!(error.starts_with(&format!("rank {lost} on node ")), "{what}: {rank} was told '{error}'");
        }
        let finished = report["finished"].as_u64().expect("it is a time");
        Duration::from_nanos(finished.saturating_sub(since))
    });
    let times: Vec<_> = times.collect();
    assert!(times.iter().all(|time| *time < AT_ONCE), "{what}: they have finished after {times:?}");
    drop(job);
    (0..hosts.count()).for_each(|host| check_remains(hosts, host, &what));
    times
}

/// A process dies when others have finished or are about to, at any moment of that: none of them waits for it, or
/// fails.
#[test]
fn a_kill_around_the_finish_is_survived() {
    let hosts = Hosts::new(2);
    for (fabric, provider) in [("shm", ""), ("ofi", "net"), ("ofi", "tcp;ofi_rxm")] {
        // Ranks on shared memory are of one host.
        let hosts = if fabric == "shm" { &Hosts::new(1) } else { &hosts };
        for seed in 0..if is_full_run() { 100 } else { 3 } {
            let mut random = Random::new(seed);
            let ranks = 3 + random.below(3) as u32;
            let lost = Rank(random.below(u64::from(ranks)) as u32);
            let what = format!("{fabric} {provider}, seed {seed}: rank {lost} of {ranks} killed");
            let job = traffic_of(seed, Some((3, 3)), ranks, PATIENCE);
            let job = job.variable("SVMIO_FABRIC", fabric).variable("SVMIO_OFI_PROVIDER", provider);
            let mut job = job.in_hosts(hosts, 7805).start();
            job.until_ready(LIMIT);
            std::thread::sleep(Duration::from_micros(random.below(3000)));
            job.signal(lost, Signal::KILL);
            job.wait(None, LIMIT);
            for rank in (0..ranks).map(Rank).filter(|rank| *rank != lost) {
                let report = job.report(rank).unwrap_or_else(|| panic!("{what}: rank {rank} told nothing"));
                assert_eq!(report["unexpected"], Value::from(Vec::<String>::new()), "{what}: {report}");
                assert_eq!(report["ending"], Value::Null, "{what}: {report}");
                assert_eq!(report["finish"], Value::Null, "{what}: {report}");
            }
            drop(job);
            (0..hosts.count()).for_each(|host| check_remains(hosts, host, &what));
        }
    }
}

/// Has a loss by silence noticed, in an attempt of which all survivors' times are told: not before the silence was long
/// enough, and not long after. A busy machine may keep a process from its turn for as long, but not in each attempt.
fn noticed_in_time(what: &str, mut attempt: impl FnMut() -> Vec<Duration>) {
    const TRIES: usize = 3;
    let latest = TIMEOUT + Duration::from_secs(10);
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let times = attempt();
        // Heartbeats come four times in the timeout; the last one may have come just before, or have been seen a
        // moment late.
        assert!(times.iter().all(|time| *time > TIMEOUT / 2), "{what}: noticed after {times:?}");
        if times.iter().all(|time| *time < latest) {
            return;
        }
        all.push(times);
    }
    panic!("{what}: each time noticed late: {all:?}");
}

/// A process that is stopped is one that hangs: it is noticed by its silence.
#[test]
fn a_stopped_process_is_noticed() {
    let hosts = Hosts::new(1);
    for seed in 0..if is_full_run() { 10 } else { 1 } {
        for fabric in ["shm", "ofi"] {
            let lost = Rank(Random::new(seed).below(3) as u32);
            noticed_in_time(&format!("{fabric}, seed {seed}: rank {lost} stopped"), || {
                stopped(&hosts, fabric, seed, lost)
            });
        }
    }
}

/// After how long the survivors noticed that a rank was stopped.
fn stopped(hosts: &Hosts, fabric: &str, seed: u64, lost: Rank) -> Vec<Duration> {
    let ranks = 3;
    let job = traffic(seed, ranks, TIMEOUT).variable("SVMIO_FABRIC", fabric);
    let mut job = job.in_hosts(hosts, 7801).start();
    job.until_ready(LIMIT);
    let since = job.signal(lost, Signal::STOP);
    job.wait(Some(lost), LIMIT);
    let times = noticed(&job, ranks, lost, since);
    // It goes on, and learns that it is lost.
    job.signal(lost, Signal::CONT);
    job.wait(None, LIMIT);
    check_told(&job, lost);
    drop(job);
    check_remains(hosts, 0, &format!("stopping rank {lost} on {fabric}"));
    times
}

/// A host whose cable is pulled is silent: the others notice it, and it notices that it is alone.
#[test]
fn a_cut_link_is_noticed() {
    for lost in [Rank(0), Rank(2)] {
        noticed_in_time(&format!("rank {lost} cut off"), || cut_off(lost));
    }
}

/// After how long the survivors noticed that a rank's host was cut off.
fn cut_off(lost: Rank) -> Vec<Duration> {
    let ranks = 3;
    let hosts = Hosts::new(3);
    // Long before the limit there are both: the loss, and the end of what was under way from the lost one.
    let silence = format!("{}ms", TIMEOUT.as_millis() / 4);
    let job = traffic(u64::from(lost.0), ranks, TIMEOUT).variable("SVMIO_FABRIC", "ofi");
    let mut job = job.variable("SVMIO_OFI_SILENCE", &silence).in_hosts(&hosts, 7804).start();
    job.until_ready(LIMIT);
    let since = now();
    hosts.cut(lost.index());
    job.wait(None, LIMIT);
    let times = noticed(&job, ranks, lost, since);
    check_told(&job, lost);
    drop(job);
    (0..hosts.count()).for_each(|host| check_remains(&hosts, host, &format!("cutting off rank {lost}")));
    times
}

/// A process that lives but is lost to the others has learnt that.
fn check_told(job: &RunningFabricJob, lost: Rank) {
    let report = job.report(lost).expect("it tells its end");
    let told = report["ending"]["error"].is_string()
        || report["losses"].as_array().is_some_and(|all| !all.is_empty());
    assert!(told, "the one that was lost was told nothing: {report}");
}

/// SIGTERM or SIGINT to one process ends all.
#[test]
fn a_signal_to_one_ends_all() {
    let hosts = Hosts::new(1);
    for (seed, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let ranks = 4;
        let told = Rank(seed as u32 + 1);
        let job = traffic(seed as u64, ranks, PATIENCE).variable("SVMIO_WATCHDOG_SIGNALS", "true");
        let mut job = job.in_hosts(&hosts, 7802).start();
        job.until_ready(LIMIT);
        let since = job.signal(told, signal);
        job.wait(None, LIMIT);
        for rank in (0..ranks).map(Rank) {
            let report = job.report(rank).unwrap_or_else(|| panic!("rank {rank} told nothing"));
            let error = report["ending"]["error"].as_str().unwrap_or_else(|| panic!("rank {rank}: {report}"));
            assert!(error.contains(&format!("rank {told}")), "rank {rank} was told '{error}'");
            assert_eq!(report["losses"], Value::from(Vec::<Value>::new()), "rank {rank}: {report}");
            let at = report["ending"]["at"].as_u64().expect("it is a time");
            let after = Duration::from_nanos(at.saturating_sub(since));
            assert!(after < AT_ONCE, "rank {rank} was told after {after:?}");
        }
        drop(job);
        check_remains(&hosts, 0, &format!("{signal:?} to rank {told}"));
    }
}

/// Whether `error` names the rank, alone ("rank 2") or with others ("the ranks 0, 2", "the ranks 1 to 3").
fn names(error: &str, rank: Rank) -> bool {
    let mut words = error.split_whitespace().map(|word| word.trim_end_matches([',', ':', ';']));
    while words.by_ref().any(|word| word == "rank" || word == "ranks") {
        let mut range_from = None;
        let mut latest = None;
        for word in words.by_ref() {
            if word == "to" {
                range_from = latest;
                continue;
            }
            let Ok(number) = word.parse::<u32>() else { break };
            if (range_from.take().unwrap_or(number)..=number).contains(&rank.0) {
                return true;
            }
            latest = Some(number);
        }
    }
    false
}

#[test]
fn a_rank_is_found_among_others() {
    let error = "1 of 6 came; missing are the ranks 0, 2 to 4 within 3s: the ranks 0, 2 to 4 have not called";
    let found: Vec<u32> = (0..8).filter(|rank| names(error, Rank(*rank))).collect();
    assert_eq!(found, [0, 2, 3, 4]);
    assert!(names("rank 7 is lost", Rank(7)) && !names("7 ranks", Rank(7)));
}

/// A process dies before the job has started: those who wait for it are told which one, and end.
#[test]
fn a_kill_at_the_start_is_noticed() {
    for (fabric, hosts) in [("shm", Hosts::new(1)), ("ofi", Hosts::new(2))] {
        for seed in 0..if is_full_run() { 100 } else { 3 } {
            killed_at_the_start(&hosts, fabric, seed);
        }
    }
}

fn killed_at_the_start(hosts: &Hosts, fabric: &str, seed: u64) {
    let mut random = Random::new(seed);
    let ranks = 4;
    let lost = Rank(random.below(u64::from(ranks)) as u32);
    let what = format!("{fabric}, seed {seed}: rank {lost} killed at the start");
    let job = traffic(seed, ranks, PATIENCE).variable("SVMIO_START_LIMIT", START_LIMIT);
    let mut job = job.variable("SVMIO_FABRIC", fabric).in_hosts(hosts, 7803).start();
    std::thread::sleep(Duration::from_micros(random.below(40_000)));
    job.signal(lost, Signal::KILL);
    job.wait(None, LIMIT);
    for rank in (0..ranks).map(Rank).filter(|rank| *rank != lost) {
        let report = job.report(rank).unwrap_or_else(|| panic!("{what}: rank {rank} told nothing"));
        let of_start = report["error"].as_str();
        let of_loss = report["losses"][0]["error"].as_str();
        let error = of_start.or(of_loss).unwrap_or_else(|| panic!("{what}: rank {rank}: {report}"));
        // On a busy machine others may not have come either.
        assert!(names(error, lost), "{what}: rank {rank} was told '{error}'");
    }
    drop(job);
    (0..hosts.count()).for_each(|host| check_remains(hosts, host, &what));
}
