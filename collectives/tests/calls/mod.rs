//! Collectives with their arguments, done in every way, and what one process computes by itself.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod data;

use std::ops::Range;
use std::rc::Rc;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use svmio_collectives::executor::{Error, Group, Request};

pub(crate) use data::affine;
use data::{blocks, combined, given};

/// The most members.
pub(crate) const MOST: usize = 6;

/// A collective with its arguments, and how it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// Where the operation has such a form: by the root, or by all.
    pub(crate) in_place: bool,
    pub(crate) in_background: bool,
}

/// Lengths are in elements of 8 bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Kind {
    Barrier,
    Bcast {
        root: usize,
        length: usize,
    },
    Gather {
        root: usize,
        length: usize,
    },
    Scatter {
        root: usize,
        length: usize,
    },
    Allgather {
        length: usize,
    },
    Allgatherv {
        lengths: Vec<usize>,
    },
    Alltoall {
        length: usize,
    },
    Gatherv {
        root: usize,
        lengths: Vec<usize>,
    },
    Scatterv {
        root: usize,
        lengths: Vec<usize>,
    },
    /// What member `i` sends to member `j` has `lengths[(i + 2 * j) % MOST]` elements, and in place `lengths[(i + j) %
    /// MOST]`, as many as it gets.
    Alltoallv {
        lengths: Vec<usize>,
    },
    Reduce {
        root: usize,
        length: usize,
    },
    Allreduce {
        length: usize,
    },
    ReduceScatter {
        lengths: Vec<usize>,
    },
    Scan {
        length: usize,
    },
    Exscan {
        length: usize,
    },
}

/// What is left to do of a call that was begun: it gives what the member has then.
pub(crate) type Rest = Box<dyn FnOnce() -> Result<Vec<u8>, Error>>;

/// A call that was begun.
pub(crate) struct Begun {
    test: Box<dyn Fn() -> bool>,
    rest: Rest,
}

impl Begun {
    pub(crate) fn test(&self) -> bool {
        (self.test)()
    }

    pub(crate) fn wait(self) -> Result<Vec<u8>, Error> {
        drop(self.test);
        (self.rest)()
    }
}

fn done(result: Result<Vec<u8>, Error>) -> Result<Begun, Error> {
    result.map(|bytes| Begun { test: Box::new(|| true), rest: Box::new(|| Ok(bytes)) })
}

fn begun<B: 'static>(
    request: Result<Request<B>, Error>,
    bytes: impl FnOnce(B) -> Vec<u8> + 'static,
) -> Result<Begun, Error> {
    let request = Rc::new(request?);
    let tested = Rc::clone(&request);
    let rest = Box::new(|| {
        let request = Rc::into_inner(request).expect("nobody tests any more");
        request.wait().map(bytes)
    });
    Ok(Begun { test: Box::new(move || tested.test()), rest })
}

/// Begins a call, or does all of it if it is not in the background.
pub(crate) fn begin(group: &mut Group, call: &Call, number: usize) -> Result<Begun, Error> {
    if call.in_background {
        begin_in_background(group, call, number)
    } else {
        done(do_at_once(group, call, number))
    }
}

/// How much a member sends to each, in a call of alltoallv.
fn sent_by(member: usize, size: usize, lengths: &[usize], in_place: bool) -> Vec<usize> {
    let factor = if in_place { 1 } else { 2 };
    (0..size).map(|to| lengths[(member + factor * to) % MOST]).collect()
}

/// How much a member gets from each.
fn sent_to(member: usize, size: usize, lengths: &[usize], in_place: bool) -> Vec<usize> {
    let factor = if in_place { 1 } else { 2 };
    (0..size).map(|from| lengths[(from + factor * member) % MOST]).collect()
}

/// Buffers of a call at one member: what it sends, and where it gets something, in place at the right place of it.
struct Buffers {
    send: Vec<u8>,
    into: Vec<u8>,
    blocks: Vec<Range<usize>>,
    /// The other blocks of alltoallv, as they are received.
    received: Vec<Range<usize>>,
    counts: Vec<usize>,
    /// Whether this member does it in place.
    in_place: bool,
}

fn buffers(own: usize, size: usize, call: &Call, number: usize) -> Buffers {
    let give = |length| given(own, number, length);
    let (mut send, mut into) = (Vec::new(), Vec::new());
    let (mut places, mut received, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    let equal = |length: usize| blocks(&vec![length; size]);
    let mut in_place = call.in_place;
    match &call.kind {
        Kind::Barrier => {}
        Kind::Bcast { root, length } => into = if own == *root { give(*length) } else { vec![0; 8 * length] },
        Kind::Gather { root, length } => {
            (send, places) = (give(*length), equal(*length));
            into = vec![0; if own == *root { 8 * length * size } else { 0 }];
            in_place &= own == *root;
        }
        Kind::Gatherv { root, lengths } => {
            (send, places) = (give(lengths[own]), blocks(&lengths[..size]));
            into = vec![0; if own == *root { places[size - 1].end } else { 0 }];
            in_place &= own == *root;
        }
        Kind::Scatter { root, length } => {
            places = equal(*length);
            send = if own == *root { give(length * size) } else { Vec::new() };
            into = vec![0; 8 * length];
            in_place &= own == *root;
        }
        Kind::Scatterv { root, lengths } => {
            places = blocks(&lengths[..size]);
            send = if own == *root { give(lengths[..size].iter().sum()) } else { Vec::new() };
            into = vec![0; 8 * lengths[own]];
            in_place &= own == *root;
        }
        Kind::Allgather { length } => {
            (send, places) = (give(*length), equal(*length));
            into = vec![0; 8 * length * size];
        }
        Kind::Allgatherv { lengths } => {
            (send, places) = (give(lengths[own]), blocks(&lengths[..size]));
            into = vec![0; places[size - 1].end];
            in_place = true;
        }
        Kind::Alltoall { length } => {
            send = give(length * size);
            into = if in_place { send.clone() } else { vec![0; send.len()] };
            return Buffers { send, into, blocks: places, received, counts, in_place };
        }
        Kind::Alltoallv { lengths } => {
            places = blocks(&sent_by(own, size, lengths, in_place));
            received = blocks(&sent_to(own, size, lengths, in_place));
            send = give(places[size - 1].end / 8);
            into = if in_place { send.clone() } else { vec![0; received[size - 1].end] };
            return Buffers { send, into, blocks: places, received, counts, in_place };
        }
        Kind::ReduceScatter { lengths } => {
            counts = lengths[..size].iter().map(|length| 8 * length).collect();
            send = give(lengths[..size].iter().sum());
            into = if in_place { send.clone() } else { vec![0; counts[own]] };
            return Buffers { send, into, blocks: places, received, counts, in_place };
        }
        Kind::Reduce { length, .. }
        | Kind::Allreduce { length }
        | Kind::Scan { length }
        | Kind::Exscan { length } => {
            into = give(*length);
        }
    }
    if in_place && into.len() >= places.last().map_or(0, |last: &Range<usize>| last.end) && !places.is_empty()
    {
        let is_scattered = matches!(call.kind, Kind::Scatter { .. } | Kind::Scatterv { .. });
        if !is_scattered {
            into[places[own].clone()].copy_from_slice(&send);
        }
    }
    Buffers { send, into, blocks: places, received, counts, in_place }
}

/// What a member has after a call that it waits in.
fn do_at_once(group: &mut Group, call: &Call, number: usize) -> Result<Vec<u8>, Error> {
    let (own, operation) = (group.member(), affine());
    let Buffers { send, mut into, blocks, received, counts, in_place } =
        buffers(own, group.size(), call, number);
    match &call.kind {
        Kind::Barrier => group.barrier(),
        Kind::Bcast { root, .. } => group.bcast(*root, &mut into),
        Kind::Gather { .. } if in_place => group.gather_in_place(&mut into),
        Kind::Gather { root, .. } => group.gather(*root, &send, &mut into),
        Kind::Gatherv { .. } if in_place => group.gatherv_in_place(&mut into, &blocks),
        Kind::Gatherv { root, .. } => group.gatherv(*root, &send, &mut into, &blocks),
        Kind::Scatter { .. } if in_place => {
            group.scatter_in_place(&send)?;
            return Ok(send[blocks[own].clone()].to_vec());
        }
        Kind::Scatter { root, .. } => group.scatter(*root, &send, &mut into),
        Kind::Scatterv { .. } if in_place => {
            group.scatterv_in_place(&send, &blocks)?;
            return Ok(send[blocks[own].clone()].to_vec());
        }
        Kind::Scatterv { root, .. } => group.scatterv(*root, &send, &blocks, &mut into),
        Kind::Allgather { .. } if in_place => group.allgather_in_place(&mut into),
        Kind::Allgather { .. } => group.allgather(&send, &mut into),
        Kind::Allgatherv { .. } => group.allgatherv(&mut into, &blocks),
        Kind::Alltoall { .. } if in_place => group.alltoall_in_place(&mut into),
        Kind::Alltoall { .. } => group.alltoall(&send, &mut into),
        Kind::Alltoallv { .. } if in_place => group.alltoallv_in_place(&mut into, &blocks),
        Kind::Alltoallv { .. } => group.alltoallv(&send, &blocks, &mut into, &received),
        Kind::Reduce { root, .. } => group.reduce(*root, &mut into, &operation),
        Kind::Allreduce { .. } => group.allreduce(&mut into, &operation),
        Kind::ReduceScatter { .. } if in_place => {
            group.reduce_scatter_in_place(&mut into, &counts, &operation)?;
            into.truncate(counts[own]);
            Ok(())
        }
        Kind::ReduceScatter { .. } => group.reduce_scatter(&send, &counts, &mut into, &operation),
        Kind::Scan { .. } => group.scan(&mut into, &operation),
        Kind::Exscan { .. } => group.exscan(&mut into, &operation),
    }?;
    Ok(into)
}

/// The same, begun.
fn begin_in_background(group: &mut Group, call: &Call, number: usize) -> Result<Begun, Error> {
    let (own, operation) = (group.member(), affine());
    let Buffers { send, into, blocks, received, counts, in_place } = buffers(own, group.size(), call, number);
    let second = |(_, into): (Vec<u8>, Vec<u8>)| into;
    match &call.kind {
        Kind::Barrier => begun(group.ibarrier(), |()| Vec::new()),
        Kind::Bcast { root, .. } => begun(group.ibcast(*root, into), |into| into),
        Kind::Gather { .. } if in_place => begun(group.igather_in_place(into), |into| into),
        Kind::Gather { root, .. } => begun(group.igather(*root, send, into), second),
        Kind::Gatherv { .. } if in_place => begun(group.igatherv_in_place(into, blocks), |into| into),
        Kind::Gatherv { root, .. } => begun(group.igatherv(*root, send, into, blocks), second),
        Kind::Scatter { .. } if in_place => {
            let block = blocks[own].clone();
            begun(group.iscatter_in_place(send), move |send| send[block].to_vec())
        }
        Kind::Scatter { root, .. } => begun(group.iscatter(*root, send, into), second),
        Kind::Scatterv { .. } if in_place => {
            let block = blocks[own].clone();
            begun(group.iscatterv_in_place(send, blocks), move |send| send[block].to_vec())
        }
        Kind::Scatterv { root, .. } => begun(group.iscatterv(*root, send, blocks, into), second),
        Kind::Allgather { .. } if in_place => begun(group.iallgather_in_place(into), |into| into),
        Kind::Allgather { .. } => begun(group.iallgather(send, into), second),
        Kind::Allgatherv { .. } => begun(group.iallgatherv(into, blocks), |into| into),
        Kind::Alltoall { .. } if in_place => begun(group.ialltoall_in_place(into), |into| into),
        Kind::Alltoall { .. } => begun(group.ialltoall(send, into), second),
        Kind::Alltoallv { .. } if in_place => begun(group.ialltoallv_in_place(into, blocks), |into| into),
        Kind::Alltoallv { .. } => begun(group.ialltoallv(send, blocks, into, received), second),
        Kind::Reduce { root, .. } => begun(group.ireduce(*root, into, operation), |into| into),
        Kind::Allreduce { .. } => begun(group.iallreduce(into, operation), |into| into),
        Kind::ReduceScatter { .. } if in_place => {
            let length = counts[own];
            begun(group.ireduce_scatter_in_place(into, counts, operation), move |into| {
                into[..length].to_vec()
            })
        }
        Kind::ReduceScatter { .. } => begun(group.ireduce_scatter(send, counts, into, operation), second),
        Kind::Scan { .. } => begun(group.iscan(into, operation), |into| into),
        Kind::Exscan { .. } => begun(group.iexscan(into, operation), |into| into),
    }
}

/// What a member has after a call, by one process that has all data.
pub(crate) fn expected(own: usize, size: usize, call: &Call, number: usize) -> Vec<u8> {
    let all = |length| (0..size).map(|member| given(member, number, length)).collect::<Vec<_>>();
    let operation = affine();
    match &call.kind {
        Kind::Barrier => Vec::new(),
        Kind::Bcast { root, length } => given(*root, number, *length),
        Kind::Gather { root, .. } if own != *root => Vec::new(),
        Kind::Gather { length, .. } | Kind::Allgather { length } => all(*length).concat(),
        Kind::Scatter { root, length } => {
            given(*root, number, length * size)[own * 8 * length..][..8 * length].to_vec()
        }
        Kind::Allgatherv { lengths } => {
            let all = (0..size).map(|member| given(member, number, lengths[member]));
            all.collect::<Vec<_>>().concat()
        }
        Kind::Alltoall { length } => {
            let parts =
                all(length * size).into_iter().map(|data| data[own * 8 * length..][..8 * length].to_vec());
            parts.collect::<Vec<_>>().concat()
        }
        Kind::Gatherv { root, .. } if own != *root => Vec::new(),
        Kind::Gatherv { lengths, .. } => {
            let all = (0..size).map(|member| given(member, number, lengths[member]));
            all.collect::<Vec<_>>().concat()
        }
        Kind::Scatterv { root, lengths } => {
            given(*root, number, lengths[..size].iter().sum())[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Kind::Alltoallv { lengths } => {
            let from = |member: usize| {
                let lengths = sent_by(member, size, lengths, call.in_place);
                given(member, number, lengths.iter().sum())[blocks(&lengths)[own].clone()].to_vec()
            };
            (0..size).map(from).collect::<Vec<_>>().concat()
        }
        Kind::Reduce { root, length } if own != *root => given(own, number, *length),
        Kind::Reduce { length, .. } | Kind::Allreduce { length } => combined(&operation, &all(*length)),
        Kind::ReduceScatter { lengths } => {
            let sum = combined(&operation, &all(lengths[..size].iter().sum()));
            sum[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Kind::Scan { length } => combined(&operation, &all(*length)[..=own]),
        Kind::Exscan { length } if own == 0 => given(own, number, *length),
        Kind::Exscan { length } => combined(&operation, &all(*length)[..own]),
    }
}

/// A call of a group of `size`, with lengths of at most about `longest` elements.
pub(crate) fn call(size: usize, longest: usize) -> impl Strategy<Value = Call> {
    // Nothing, a word, what fits a card and just does not, a slot, several slots.
    let length =
        move || prop_oneof![Just(0_usize), Just(1), 6_usize..10, 10_usize..70, 70_usize..400, 1..=longest];
    let root = move || 0..size;
    let lengths = move || prop::collection::vec(length(), MOST);
    let kind = prop_oneof![
        Just(Kind::Barrier),
        (root(), length()).prop_map(|(root, length)| Kind::Bcast { root, length }),
        (root(), length()).prop_map(|(root, length)| Kind::Gather { root, length }),
        (root(), length()).prop_map(|(root, length)| Kind::Scatter { root, length }),
        length().prop_map(|length| Kind::Allgather { length }),
        lengths().prop_map(|lengths| Kind::Allgatherv { lengths }),
        length().prop_map(|length| Kind::Alltoall { length }),
        (root(), lengths()).prop_map(|(root, lengths)| Kind::Gatherv { root, lengths }),
        (root(), lengths()).prop_map(|(root, lengths)| Kind::Scatterv { root, lengths }),
        lengths().prop_map(|lengths| Kind::Alltoallv { lengths }),
        (root(), length()).prop_map(|(root, length)| Kind::Reduce { root, length }),
        length().prop_map(|length| Kind::Allreduce { length }),
        lengths().prop_map(|lengths| Kind::ReduceScatter { lengths }),
        length().prop_map(|length| Kind::Scan { length }),
        length().prop_map(|length| Kind::Exscan { length }),
    ];
    let ways = (any::<bool>(), prop_oneof![Just(false), Just(true)]);
    (kind, ways).prop_map(|(kind, (in_place, in_background))| Call { kind, in_place, in_background })
}

/// Does all calls in one member, several at the same time, and compares what it has after each.
pub(crate) fn compare(group: &mut Group, calls: &[Call]) -> Result<(), Error> {
    let (own, size) = (group.member(), group.size());
    let check = |number: usize, found: Vec<u8>| {
        let call: &Call = &calls[number];
        assert!(
            found == expected(own, size, call, number),
            "call {number}, member {own} of {size}: {call:?}"
        );
    };
    // Each member waits, tests and does nothing at other times.
    let mut random = fastrand::Rng::with_seed(own as u64);
    let mut outstanding: Vec<(usize, Begun)> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        outstanding.push((number, begin(group, call, number)?));
        while !outstanding.is_empty() && random.u8(..) < 100 {
            let chosen = random.usize(..outstanding.len());
            if random.bool() || outstanding[chosen].1.test() {
                let (number, begun) = outstanding.swap_remove(chosen);
                check(number, begun.wait()?);
            }
        }
    }
    while !outstanding.is_empty() {
        let (number, begun) = outstanding.swap_remove(random.usize(..outstanding.len()));
        check(number, begun.wait()?);
    }
    Ok(())
}
