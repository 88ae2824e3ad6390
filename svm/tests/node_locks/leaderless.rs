//! What a lost rank wrote under a lock, on a node whose leader cannot bring it home any more: it must not come home
//! over what the next holder writes.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test like the test itself")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use svmio_svm::team::Team;
use svmio_svm::{
    Cluster, Error, File, FileName, FileOffset, LockMode, NodeName, OpenOptions, Placement, SegmentSize,
};
use svmio_transport::Rank;

use super::job::Process;
use super::{SEGMENT, add, exclusive, job, open, set_word, word};

/// Who leads the second of three nodes, and who else is there.
const LEADER: Rank = Rank(1);
const HOLDER: Rank = Rank(4);
const SURVIVORS: [u32; 2] = [7, 10];

/// Writes under a lock, and does not come to release it.
fn write_and_stop(file: &File, range: std::ops::Range<u64>, at: u64) {
    // Asked for once, so not kept.
    std::mem::forget(exclusive(file, range.start, range.end - range.start));
    set_word(file, at, 1);
}

/// All hear that these are lost, in this order.
fn lose(process: &Process<'_>, lost: &[Rank]) {
    process.meet();
    if process.rank() == 0 {
        lost.iter().for_each(|lost| process.job.declare_lost(*lost, "the test says so"));
    }
    process.meet();
}

/// Rank 2, of another node, locks a range next.
fn write_next(process: &Process<'_>, file: &File, range: std::ops::Range<u64>, at: u64) {
    if process.rank() == 2 {
        let held = exclusive(file, range.start, range.end - range.start);
        set_word(file, at, 10);
        held.release().unwrap();
    }
    process.meet();
}

fn find(process: &Process<'_>, file: &File, at: u64, expected: u64) {
    process.meet();
    if process.rank() == 2 {
        let held = file.lock(FileOffset(at)..FileOffset(at + 8), LockMode::Shared).unwrap();
        assert_eq!(word(file, at), expected);
        held.release().unwrap();
    }
    process.meet();
}

fn is_told_once(file: &File) {
    let error = file.flush().unwrap_err();
    assert!(matches!(error, Error::WritesLost { .. }), "{error}");
    file.flush().unwrap();
}

/// `holder` writes under a lock and is lost with all of `lost`; somebody of its node brings home what he finds later.
fn flush_later(holder: Rank, lost: &[Rank]) {
    job(3, 9, |process| {
        let file = open(process);
        if process.rank() == holder.0 {
            write_and_stop(&file, 0..8, 0);
        }
        lose(process, lost);
        write_next(process, &file, 0..8, 0);
        if process.rank() == SURVIVORS[0] {
            // What is beside it stays.
            set_word(&file, 8, 5);
            is_told_once(&file);
        }
        find(process, &file, 0, 10);
        find(process, &file, 8, 5);
    });
}

#[test]
fn what_a_lost_rank_wrote_does_not_come_home_over_the_next_holder_s_where_the_leader_is_lost_too() {
    flush_later(HOLDER, &[LEADER, HOLDER]);
}

#[test]
fn what_a_lost_leader_itself_wrote_under_a_lock_does_not_either() {
    flush_later(LEADER, &[LEADER]);
}

#[test]
fn who_gets_the_lock_of_a_lost_rank_whose_leader_is_lost_too_finds_what_the_last_holder_wrote() {
    job(3, 9, |process| {
        let file = open(process);
        if process.rank() == HOLDER.0 {
            write_and_stop(&file, 0..8, 0);
        }
        lose(process, &[LEADER, HOLDER]);
        write_next(process, &file, 0..8, 0);
        if process.rank() == SURVIVORS[0] {
            // It locks more than the lost one did.
            let held = exclusive(&file, 0, 2 * SEGMENT + 8);
            assert_eq!(add(&file, 0), 11);
            held.release().unwrap();
            is_told_once(&file);
            // From now on it writes there without one, and that comes home.
            assert_eq!(add(&file, 0), 12);
            file.flush().unwrap();
        }
        find(process, &file, 0, 12);
    });
}

#[test]
fn what_is_written_under_later_locks_is_not_taken_for_what_the_lost_rank_wrote() {
    const TURNS: u64 = 20;
    let added = AtomicU64::new(0);
    job(3, 12, |process| {
        let file = open(process);
        if process.rank() == HOLDER.0 {
            write_and_stop(&file, 0..100, 0);
        }
        lose(process, &[LEADER, HOLDER]);
        let is_there = ![LEADER.0, HOLDER.0].contains(&process.rank());
        for turn in 0..if is_there { TURNS } else { 0 } {
            // Some of the range, or more of it, on the node of the lost ones and elsewhere.
            let held = exclusive(&file, 0, if turn % 2 == 0 { 8 } else { 300 });
            add(&file, 0);
            added.fetch_add(1, SeqCst);
            held.release().unwrap();
            if SURVIVORS.contains(&process.rank()) {
                // That it is told of the loss is of no interest here.
                let _ = file.flush();
            }
        }
        process.meet();
        find(process, &file, 0, added.load(SeqCst));
    });
}

#[test]
fn what_was_locked_at_the_master_alone_does_not_come_to_the_home_that_it_got_meanwhile_either() {
    const SEGMENTS: u64 = 2000;
    job(3, 9, |process| {
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let options = options.placement(Some(Placement::Node(NodeName::new("n2"))));
        let file = process.open(&FileName::new("f").unwrap(), &options).unwrap();
        if process.rank() == 0 {
            file.set_size(SEGMENTS * SEGMENT).unwrap();
        }
        process.sync(&file).unwrap();
        let (all, at) = (0..SEGMENTS * SEGMENT, 7 * SEGMENT);
        if process.rank() == HOLDER.0 {
            // So many have no homes by its being locked, but by being written.
            write_and_stop(&file, all.clone(), at);
        }
        lose(process, &[LEADER, HOLDER]);
        write_next(process, &file, all, at);
        if process.rank() == SURVIVORS[0] {
            is_told_once(&file);
        }
        find(process, &file, at, 10);
    });
}

#[test]
fn what_nobody_who_is_left_has_open_does_not_come_home_when_it_is_opened_again() {
    let introduction = OnceLock::new();
    job(3, 9, |process| {
        let (cluster, name) = (&process.cluster, FileName::new("f").unwrap());
        let options = OpenOptions::read_write().create(true).segment_size(Some(SegmentSize::MIN));
        let attach = || Cluster::attach(cluster, introduction.get().unwrap(), &options).unwrap();
        let nodes: Vec<_> = [0, 1, 2].map(|rank| cluster.node_of(Rank(rank))).to_vec();
        let mut file = None;
        if process.rank() == 0 {
            introduction.set(cluster.open(&name, &options, &nodes).unwrap()).unwrap();
            file.insert(attach()).write_at(FileOffset(0), &[0; SEGMENT as usize]).unwrap();
        }
        process.meet();
        if [LEADER.0, 2, HOLDER.0].contains(&process.rank()) {
            file = Some(attach());
        }
        process.meet();
        if process.rank() == HOLDER.0 {
            write_and_stop(file.as_ref().unwrap(), 0..8, 0);
        }
        lose(process, &[LEADER, HOLDER]);
        if [LEADER.0, HOLDER.0].contains(&process.rank()) {
            std::mem::forget(file.take());
        }
        if let Some(file) = file.as_ref().filter(|_| process.rank() == 2) {
            let held = exclusive(file, 0, 8);
            set_word(file, 0, 10);
            held.release().unwrap();
        }
        process.meet();
        if process.rank() == 2 {
            file = None;
        }
        process.meet();
        if let Some(file) = file.take() {
            Team::alone().close(&file, false).unwrap();
        }
        process.meet();
        if process.rank() == SURVIVORS[0] {
            let introduction = cluster.open(&name, &options, &nodes[..1]).unwrap();
            let file = Cluster::attach(cluster, &introduction, &options).unwrap();
            assert_eq!(word(&file, 0), 10);
            let _ = file.flush();
            let held = exclusive(&file, 0, 8);
            assert_eq!(word(&file, 0), 10);
            held.release().unwrap();
        }
        process.meet();
    });
}
