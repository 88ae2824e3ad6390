//! Members that are given wrong arguments: all others end with that, and know who it was.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use svmio_collectives::executor::{Elementwise, Error, Group, GroupSettings};
use svmio_transport::{Rank, SegmentId, shm};

const SPACE: u32 = 83;
const SIZE: usize = 3;
const LENGTH: usize = 40 << 10;

/// Nobody waits so long for anything that comes.
const LIMIT: Duration = Duration::from_secs(30);

type Call = fn(&mut Group, bool) -> Result<(), Error>;

fn sum() -> Elementwise<u64, fn(u64, u64) -> u64> {
    Elementwise::commutative(u64::wrapping_add)
}

/// How many blocks there are.
fn count(is_wrong: bool) -> usize {
    if is_wrong { SIZE + 1 } else { SIZE }
}

fn blocks(is_wrong: bool) -> Vec<std::ops::Range<usize>> {
    (0..count(is_wrong)).map(|block| block * LENGTH..(block + 1) * LENGTH).collect()
}

/// Each collective, with arguments that are wrong where it is said.
const CALLS: [(&str, Call); 25] = [
    ("bcast", |group, wrong| group.bcast(if wrong { 99 } else { 0 }, &mut vec![0; LENGTH])),
    ("gather", |group, wrong| group.gather(if wrong { 99 } else { 0 }, &[0; LENGTH], memory(false))),
    ("gatherv", |group, wrong| {
        group.gatherv(if wrong { 99 } else { 0 }, &[0; LENGTH], memory(false), &blocks(false))
    }),
    ("scatter", |group, wrong| {
        group.scatter(1, &vec![0; if wrong { 7 } else { SIZE * LENGTH }], &mut vec![0; LENGTH])
    }),
    ("scatterv", |group, wrong| {
        group.scatterv(1, &vec![0; SIZE * LENGTH], &blocks(wrong), &mut vec![0; LENGTH])
    }),
    ("allgather", |group, wrong| {
        group.allgather(&[0; LENGTH], &mut vec![0; SIZE * LENGTH - usize::from(wrong)])
    }),
    ("allgatherv", |group, wrong| group.allgatherv(&mut vec![0; SIZE * LENGTH], &blocks(wrong))),
    ("alltoall", |group, wrong| {
        group.alltoall(&vec![0; SIZE * LENGTH], &mut vec![0; SIZE * LENGTH - usize::from(wrong)])
    }),
    ("alltoallv", |group, wrong| {
        let data = vec![0; SIZE * LENGTH];
        group.alltoallv(&data, &blocks(false), &mut vec![0; SIZE * LENGTH], &blocks(wrong))
    }),
    ("reduce", |group, wrong| group.reduce(0, &mut vec![0; LENGTH + usize::from(wrong)], &sum())),
    ("allreduce", |group, wrong| group.allreduce(&mut vec![0; LENGTH + usize::from(wrong)], &sum())),
    ("reduce_scatter", |group, wrong| {
        let counts = vec![LENGTH; count(wrong)];
        group.reduce_scatter(&vec![0; SIZE * LENGTH], &counts, &mut vec![0; LENGTH], &sum())
    }),
    ("scan", |group, wrong| group.scan(&mut vec![0; 8 + usize::from(wrong)], &sum())),
    ("exscan", |group, wrong| group.exscan(&mut vec![0; 8 + usize::from(wrong)], &sum())),
    ("allgather_in_place", |group, wrong| {
        group.allgather_in_place(&mut vec![0; SIZE * LENGTH - usize::from(wrong)])
    }),
    ("allgather_blocks_from", |group, wrong| {
        let mut data = vec![0; SIZE * LENGTH];
        let own = vec![0; LENGTH - usize::from(wrong)];
        group.allgather_blocks_from(&own, &mut data.chunks_mut(LENGTH).collect::<Vec<_>>())
    }),
    ("gather_blocks", |group, wrong| {
        let mut data = vec![0; (SIZE + 1) * LENGTH];
        let mut blocks: Vec<_> = data.chunks_mut(LENGTH).collect();
        group.gather_blocks(1, &[0; LENGTH], &mut blocks[..count(wrong)])
    }),
    ("scatter_blocks", |group, wrong| {
        group.scatter_blocks(1, &[&[0; LENGTH][..]; SIZE + 1][..count(wrong)], &mut [0; LENGTH])
    }),
    ("allgather_blocks", |group, wrong| {
        let mut data = vec![0; (SIZE + 1) * LENGTH];
        let mut blocks: Vec<_> = data.chunks_mut(LENGTH).collect();
        group.allgather_blocks(&mut blocks[..count(wrong)])
    }),
    ("alltoall_blocks", |group, wrong| {
        let mut data = vec![0; SIZE * LENGTH];
        let mut received: Vec<_> = data.chunks_mut(LENGTH).collect();
        group.alltoall_blocks(&[&[0; LENGTH][..]; SIZE + 1][..count(wrong)], &mut received)
    }),
    ("alltoallv into blocks that lie over each other", |group, wrong| {
        let mut received = blocks(false);
        if wrong {
            received[2] = received[0].clone();
        }
        group.alltoallv(&vec![0; SIZE * LENGTH], &blocks(false), &mut vec![0; SIZE * LENGTH], &received)
    }),
    ("gatherv_in_place", |group, wrong| match group.member() {
        1 => group.gatherv_in_place(&mut vec![0; SIZE * LENGTH], &blocks(wrong)),
        _ => group.gather_blocks(1, &[0; LENGTH], &mut []),
    }),
    ("scatterv_in_place", |group, wrong| match group.member() {
        1 => group.scatterv_in_place(&vec![0; SIZE * LENGTH], &blocks(wrong)),
        _ => group.scatter_blocks(1, &[], &mut [0; LENGTH]),
    }),
    ("reduce_to", |group, wrong| match group.member() {
        0 => group.reduce(0, &mut [0; LENGTH], &sum()),
        _ => group.reduce_to(usize::from(wrong), &[0; LENGTH], &sum()),
    }),
    ("exscan_from", |group, wrong| match group.member() {
        1 if !wrong => group.exscan(&mut [0; 8], &sum()),
        2 => group.exscan(&mut [0; 8], &sum()),
        _ => group.exscan_from(&[0; 8], &sum()),
    }),
];

/// Runs `body` in all members of a group, and returns what each comes to: a member that waits for ever fails the test.
fn each<T: Send + 'static>(body: fn(&mut Group, usize) -> T, call: usize) -> Vec<T> {
    let fabrics = shm::within_process(SIZE as u32);
    let members: Vec<Rank> = (0..SIZE as u32).map(Rank).collect();
    let (sender, outcomes) = mpsc::channel();
    for fabric in fabrics {
        let (members, sender) = (members.clone(), sender.clone());
        thread::spawn(move || {
            let settings = GroupSettings { slot: 4096, direct: LENGTH, ..GroupSettings::default() };
            let mut group = Group::join(&fabric, &members, SegmentId::new(SPACE, 0), settings).unwrap();
            let outcome = body(&mut group, call);
            // Nobody goes before all have come to something.
            sender.send((group.member(), outcome, group, fabric)).unwrap();
        });
    }
    drop(sender);
    let waits =
        |_| outcomes.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("a member waits for ever: {call}"));
    let mut all: Vec<_> = (0..SIZE).map(waits).collect();
    all.sort_by_key(|(member, ..)| *member);
    all.into_iter().map(|(_, outcome, ..)| outcome).collect()
}

/// Member 1 refuses the call after some that went well; what it and others get then, and twice afterwards.
fn refused(group: &mut Group, call: usize) -> Vec<Error> {
    for _ in 0..10 {
        CALLS[call].1(group, false).unwrap();
    }
    let first = CALLS[call].1(group, group.member() == 1);
    // Whom nobody has to wait for may be through, and find out later.
    let more = (0..40).filter_map(|_| group.barrier().err()).take(2);
    first.err().into_iter().chain(more).collect()
}

#[test]
fn whatever_a_member_refuses_all_hear_of_it() {
    for (call, (name, _)) in CALLS.iter().enumerate() {
        for (member, errors) in each(refused, call).into_iter().enumerate() {
            assert!(errors.len() >= 2, "{name}: {errors:?}");
            let (first, later) = errors.split_at(1);
            let own = matches!(
                first[0],
                Error::Length { .. }
                    | Error::NoSuchMember { .. }
                    | Error::IsRoot { .. }
                    | Error::NotFirst { .. }
            );
            assert_eq!(own, member == 1, "{name}: {first:?}");
            let reason = |error: &Error| match error {
                Error::Refused { member: 1, reason } => reason.clone(),
                other => panic!("{name}: member {member}: {other}"),
            };
            let expected = if own { first[0].to_string() } else { reason(&first[0]) };
            assert!(!expected.is_empty());
            assert!(later.iter().all(|error| reason(error) == expected), "{name}: {errors:?}");
        }
    }
}

/// The same in the background, where the member's function panics, too; what is waited for goes on.
fn refused_in_background(group: &mut Group, panics: usize) -> Vec<Error> {
    let own = group.member();
    group.iallreduce(vec![0; LENGTH], sum()).unwrap().wait().unwrap();
    let first = if own != 1 {
        group.iallreduce(vec![0; LENGTH], sum())
    } else if panics == 1 {
        let panicking: fn(u64, u64) -> u64 = |_, _| panic!("on purpose");
        group.iallreduce(vec![0; LENGTH], Elementwise::commutative(panicking))
    } else {
        group.iallreduce(vec![0; LENGTH + 1], sum())
    };
    let others: Vec<_> = (0..3).map(|_| group.iallreduce(vec![0; 64], sum()).unwrap()).collect();
    let mut errors = vec![first.unwrap().wait().unwrap_err()];
    errors.extend(others.into_iter().map(|other| other.wait().unwrap_err()));
    group.barrier().unwrap();
    errors
}

#[test]
fn what_is_refused_in_the_background_ends_the_background() {
    for panics in [0, 1] {
        for (member, errors) in each(refused_in_background, panics).into_iter().enumerate() {
            let is_told = |error: &Error| matches!(error, Error::Refused { member: 1, .. });
            assert!(member == 1 || errors.iter().all(is_told), "member {member}: {errors:?}");
        }
    }
}

/// The thread of the member that is ahead.
static AHEAD: AtomicI32 = AtomicI32::new(0);

/// Member 2 is as far ahead as it can be, and sleeps until the others have finished with what came before; then member 0
/// hears that member 1 has refused what it comes to. What each gets.
fn refused_behind_one(group: &mut Group, _: usize) -> Error {
    for _ in 0..2 {
        group.barrier().unwrap();
    }
    match group.member() {
        0 => {
            let is_asleep = |thread: i32| {
                let state = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
                state.rsplit(')').next().unwrap().starts_with(" S")
            };
            let began = Instant::now();
            // Relaxed, both times: it is a number and nothing else.
            while !matches!(AHEAD.load(Ordering::Relaxed), thread if thread > 0 && is_asleep(thread)) {
                assert!(began.elapsed() < LIMIT, "nobody sleeps");
                thread::yield_now();
            }
            group.gather(0, &[0; 8], &mut [0; 8 * SIZE]).unwrap_err()
        }
        1 => group.gather(99, &[0; 8], &mut []).unwrap_err(),
        _ => {
            AHEAD.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            (0..40).find_map(|_| group.gather(0, &[0; 8], &mut []).err()).unwrap()
        }
    }
}

#[test]
fn who_sleeps_ahead_of_a_refusal_hears_of_it() {
    let all = each(refused_behind_one, 0);
    assert!(matches!(all[1], Error::NoSuchMember { .. }), "{:?}", all[1]);
    for member in [0, 2] {
        assert!(matches!(all[member], Error::Refused { member: 1, .. }), "{member}: {:?}", all[member]);
    }
}

/// The first operation that somebody refuses counts, whoever says so first.
fn refused_by_two(group: &mut Group, _: usize) -> Error {
    match group.member() {
        // A root that has run ahead.
        0 => {
            group.bcast(0, &mut [1; 8]).unwrap();
            group.bcast(7, &mut [1; 8]).unwrap_err()
        }
        1 => group.bcast(8, &mut [1; 8]).unwrap_err(),
        _ => group.barrier().unwrap_err(),
    }
}

#[test]
fn of_two_who_refuse_nobody_waits_for_the_other() {
    let all = each(refused_by_two, 0);
    assert!(matches!(all[0], Error::NoSuchMember { member: 7, .. }));
    assert!(matches!(all[1], Error::NoSuchMember { member: 8, .. }));
    assert!(matches!(all[2], Error::Refused { .. }), "{:?}", all[2]);
}

/// How long member 2's block is there, and how long at the root: one of them short, or both long.
const UNEQUAL: [(usize, usize); 4] =
    [(LENGTH, 100), (100, LENGTH), (LENGTH - 8, LENGTH), (LENGTH, LENGTH - 8)];

/// What each gets at once of a gather of such blocks, and then.
fn gathered_unequal(group: &mut Group, which: usize) -> (Result<(), Error>, Option<Error>) {
    let (there, here) = UNEQUAL[which];
    let first = match group.member() {
        0 => {
            let blocks = [0..LENGTH, LENGTH..2 * LENGTH, 2 * LENGTH..2 * LENGTH + here];
            group.gatherv(0, &[0; LENGTH], memory(false), &blocks)
        }
        1 => group.gatherv(0, &[1; LENGTH], &mut [], &[]),
        _ => group.gatherv(0, &vec![2; there], &mut [], &[]),
    };
    (first, (0..40).find_map(|_| group.barrier().err()))
}

#[test]
fn long_blocks_that_differ_between_their_ends_end_the_group() {
    for which in 0..UNEQUAL.len() {
        let all = each(gathered_unequal, which);
        let (first, _) = &all[0];
        // Member 2 may see it first.
        let is_told =
            matches!(first, Err(Error::Unequal { member: 2, .. } | Error::Refused { member: 2, .. }));
        assert!(is_told, "{which}: {first:?}");
        for (_, later) in &all {
            assert!(matches!(later, Some(Error::Refused { .. })), "{later:?}");
        }
    }
}

/// Who fails to copy, and who must not take the operation for done.
type Copying = (&'static str, usize, &'static [usize], Call);

/// Long data that is copied straight between members' memory. The last block of what is `cut` off cannot be reached.
const COPYING: [Copying; 6] = [
    ("gather", 2, &[0, 2], |group, cut| match group.member() {
        0 => group.gather_in_place(memory(cut)),
        _ => group.gather(0, &[1; LENGTH], &mut []),
    }),
    ("scatter", 2, &[0, 2], |group, cut| match group.member() {
        0 => group.scatter(0, memory(cut), &mut [0; LENGTH]),
        _ => group.scatter(0, &[], &mut [0; LENGTH]),
    }),
    ("alltoall", 2, &[0, 1, 2], |group, cut| {
        let is_cut = cut && group.member() == 0;
        group.alltoall(memory(is_cut), &mut vec![0; SIZE * LENGTH])
    }),
    ("gatherv", 2, &[0, 2], |group, cut| match group.member() {
        0 => group.gatherv(0, &[0; LENGTH], memory(cut), &blocks(false)),
        _ => group.gatherv(0, &[1; LENGTH], &mut [], &[]),
    }),
    ("scatterv", 2, &[0, 2], |group, cut| match group.member() {
        0 => group.scatterv(0, memory(cut), &blocks(false), &mut [0; LENGTH]),
        _ => group.scatterv(0, &[], &[], &mut [0; LENGTH]),
    }),
    ("alltoallv", 2, &[0, 1, 2], |group, cut| {
        let is_cut = cut && group.member() == 0;
        let data = memory(is_cut);
        group.alltoallv(data, &blocks(false), &mut vec![0; SIZE * LENGTH], &blocks(false))
    }),
];

/// Memory for a block of each member. Where it `is_cut`, the file behind it ends before the last block: no other
/// process, nor the kernel for it, can copy from or to that, and who has it must not touch it. It stays, as memory has
/// to after an error.
fn memory(is_cut: bool) -> &'static mut [u8] {
    let file = tempfile::tempfile().unwrap();
    file.set_len((SIZE * LENGTH) as u64).unwrap();
    // SAFETY: a file of its own. What is cut off, no member touches itself: it only lends it.
    let memory = unsafe { MmapMut::map_mut(&file) }.unwrap();
    if is_cut {
        file.set_len(((SIZE - 1) * LENGTH) as u64).unwrap();
    }
    &mut Box::leak(Box::new(memory))[..]
}

/// A copy fails, and its member's host gives up, as the adapters do; what each gets then, and afterwards.
fn uncopied(group: &mut Group, call: usize) -> (Result<(), Error>, Error) {
    for _ in 0..3 {
        COPYING[call].3(group, false).unwrap();
    }
    let first = COPYING[call].3(group, true);
    if group.member() == COPYING[call].1 {
        group.withdraw("the host gives up");
    }
    (first, (0..40).find_map(|_| group.barrier().err()).unwrap())
}

#[test]
fn who_cannot_copy_ends_the_operation_for_all_who_wait_for_that() {
    for (call, (name, failing, hearing, _)) in COPYING.iter().enumerate() {
        let all = each(uncopied, call);
        let reason = match &all[*failing].0 {
            Err(error @ Error::Fabric(_)) => error.to_string(),
            other => panic!("{name}: {other:?}"),
        };
        for (member, (first, later)) in all.iter().enumerate() {
            // A reason is told as far as there is room for it.
            let is_told = |error: &Error| matches!(error, Error::Refused { member, reason: told } if member == failing && reason.starts_with(told));
            assert!(is_told(later), "{name}: member {member}: {later}");
            match first {
                Ok(()) => assert!(!hearing.contains(&member), "{name}: member {member} takes it for done"),
                Err(error) => {
                    assert!(member == *failing || is_told(error), "{name}: member {member}: {error}")
                }
            }
        }
    }
}

/// A host that cannot go on: what it has begun is carried out, and nobody waits for more, of either kind.
fn withdrawn(group: &mut Group, begins: usize) -> Vec<Error> {
    if begins == 1 {
        let begun = group.iallreduce(vec![1; 64], sum()).unwrap();
        if group.member() == 1 {
            group.withdraw("no room");
        }
        begun.wait().unwrap();
    } else if group.member() == 1 {
        group.withdraw("no room");
    }
    let begun = group.iallreduce(vec![1; 64], sum()).unwrap().wait().err();
    (0..40).filter_map(|_| group.barrier().err()).take(1).chain(begun).collect()
}

#[test]
fn who_withdraws_is_named_to_those_who_wait_in_either_way() {
    for begins in [0, 1] {
        for (member, errors) in each(withdrawn, begins).into_iter().enumerate() {
            assert_eq!(errors.len(), 2, "member {member}: {errors:?}");
            let is_told =
                |error: &Error| matches!(error, Error::Refused { member: 1, reason } if reason == "no room");
            assert!(member == 1 || errors.iter().all(is_told), "member {member}: {errors:?}");
        }
    }
}
