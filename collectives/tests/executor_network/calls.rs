//! Calls of a test: what members give, and what each has afterwards, by messages or by definition.

use proptest::prelude::*;
use svmio_collectives::executor::network::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, Choices, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};
use svmio_collectives::executor::{Elementwise, Error, NetworkGroup, Operation, TwoLevelGroup};

use crate::data::{affine, blocks, combined, given};

/// The largest group.
pub(crate) const MOST: usize = 6;

/// A collective with its arguments; lengths in elements of 8 bytes.
#[derive(Debug, Clone)]
pub(crate) enum Call {
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
    Gatherv {
        root: usize,
        lengths: Vec<usize>,
    },
    Scatterv {
        root: usize,
        lengths: Vec<usize>,
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
    /// What member `i` sends to member `j` has `lengths[(i + 2 * j) % MOST]` elements.
    Alltoallv {
        lengths: Vec<usize>,
    },
    Reduce {
        root: usize,
        length: usize,
        commutes: bool,
    },
    Allreduce {
        length: usize,
        commutes: bool,
    },
    ReduceScatter {
        lengths: Vec<usize>,
        commutes: bool,
    },
    Scan {
        length: usize,
    },
    Exscan {
        length: usize,
    },
}

/// Where the order of operands matters, or sums.
pub(crate) fn operation(commutes: bool) -> Box<dyn Operation> {
    if commutes {
        Box::new(Elementwise::<u64, _>::commutative(u64::wrapping_add))
    } else {
        Box::new(affine())
    }
}

fn sent_by(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|to| lengths[(member + 2 * to) % MOST]).collect()
}

fn sent_to(member: usize, size: usize, lengths: &[usize]) -> Vec<usize> {
    (0..size).map(|from| lengths[(from + 2 * member) % MOST]).collect()
}

/// What a member has after a call, by messages.
pub(crate) fn done(group: &mut NetworkGroup, call: &Call, number: usize) -> Result<Vec<u8>, Error> {
    let (own, size) = (group.member(), group.size());
    let give = |length| given(own, number, length);
    match call {
        Call::Barrier => group.barrier().map(|()| Vec::new()),
        Call::Bcast { root, length } => {
            let mut data = if own == *root { give(*length) } else { vec![0; 8 * length] };
            group.bcast(*root, &mut data).map(|()| data)
        }
        Call::Gather { root, length } => {
            let mut into = vec![0; if own == *root { 8 * length * size } else { 0 }];
            group.gather(*root, &give(*length), &mut into).map(|()| into)
        }
        Call::Scatter { root, length } => {
            let mut into = vec![0; 8 * length];
            let data = if own == *root { give(length * size) } else { Vec::new() };
            group.scatter(*root, &data, &mut into).map(|()| into)
        }
        Call::Gatherv { root, lengths } => {
            let blocks = if own == *root { blocks(&lengths[..size]) } else { Vec::new() };
            let mut into = vec![0; blocks.last().map_or(0, |block| block.end)];
            group.gatherv(*root, &give(lengths[own]), &mut into, &blocks).map(|()| into)
        }
        Call::Scatterv { root, lengths } => {
            let mut into = vec![0; 8 * lengths[own]];
            let data = if own == *root { give(lengths[..size].iter().sum()) } else { Vec::new() };
            let blocks = if own == *root { blocks(&lengths[..size]) } else { Vec::new() };
            group.scatterv(*root, &data, &blocks, &mut into).map(|()| into)
        }
        Call::Allgather { length } => {
            let mut into = vec![0; 8 * length * size];
            group.allgather(&give(*length), &mut into).map(|()| into)
        }
        Call::Allgatherv { lengths } => {
            let blocks = blocks(&lengths[..size]);
            let mut data = vec![0; blocks[size - 1].end];
            data[blocks[own].clone()].copy_from_slice(&give(lengths[own]));
            group.allgatherv(&mut data, &blocks).map(|()| data)
        }
        Call::Alltoall { length } => {
            let mut into = vec![0; 8 * length * size];
            group.alltoall(&give(length * size), &mut into).map(|()| into)
        }
        Call::Alltoallv { lengths } => {
            let (sent, received) =
                (blocks(&sent_by(own, size, lengths)), blocks(&sent_to(own, size, lengths)));
            let mut into = vec![0; received[size - 1].end];
            group.alltoallv(&give(sent[size - 1].end / 8), &sent, &mut into, &received).map(|()| into)
        }
        Call::Reduce { root, length, commutes } => {
            let mut data = give(*length);
            group.reduce(*root, &mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::Allreduce { length, commutes } => {
            let mut data = give(*length);
            group.allreduce(&mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::ReduceScatter { lengths, commutes } => {
            let counts: Vec<usize> = lengths[..size].iter().map(|length| 8 * length).collect();
            let mut into = vec![0; counts[own]];
            let data = give(lengths[..size].iter().sum());
            group.reduce_scatter(&data, &counts, &mut into, &*operation(*commutes)).map(|()| into)
        }
        Call::Scan { length } => {
            let mut data = give(*length);
            group.scan(&mut data, &*operation(false)).map(|()| data)
        }
        Call::Exscan { length } => {
            let mut data = give(*length);
            group.exscan(&mut data, &*operation(false)).map(|()| data)
        }
    }
}

/// The same on two levels, where it has them.
pub(crate) fn done_on_two_levels(
    group: &mut TwoLevelGroup,
    call: &Call,
    number: usize,
) -> Result<Vec<u8>, Error> {
    let (own, size) = (group.member(), group.size());
    let give = |length| given(own, number, length);
    match call {
        Call::Barrier => group.barrier().map(|()| Vec::new()),
        Call::Bcast { root, length } => {
            let mut data = if own == *root { give(*length) } else { vec![0; 8 * length] };
            group.bcast(*root, &mut data).map(|()| data)
        }
        Call::Allgather { length } => {
            let mut into = vec![0; 8 * length * size];
            group.allgather(&give(*length), &mut into).map(|()| into)
        }
        Call::Allgatherv { lengths } => {
            let mut parts: Vec<Vec<u8>> = lengths[..size].iter().map(|length| vec![0; 8 * length]).collect();
            parts[own] = give(lengths[own]);
            group
                .allgather_blocks(&mut parts.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())
                .map(|()| parts.concat())
        }
        Call::Gather { root, length } => {
            let mut into = vec![0; if own == *root { 8 * length * size } else { 0 }];
            group.gather(*root, &give(*length), &mut into).map(|()| into)
        }
        Call::Scatter { root, length } => {
            let mut into = vec![0; 8 * length];
            let data = if own == *root { give(length * size) } else { Vec::new() };
            group.scatter(*root, &data, &mut into).map(|()| into)
        }
        Call::Alltoall { length } => {
            let mut into = vec![0; 8 * length * size];
            group.alltoall(&give(length * size), &mut into).map(|()| into)
        }
        Call::Reduce { root, length, commutes } => {
            let mut data = give(*length);
            group.reduce(*root, &mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::Allreduce { length, commutes } => {
            let mut data = give(*length);
            group.allreduce(&mut data, &*operation(*commutes)).map(|()| data)
        }
        Call::ReduceScatter { lengths, commutes } => {
            let counts: Vec<usize> = lengths[..size].iter().map(|length| 8 * length).collect();
            let mut into = vec![0; counts[own]];
            let data = give(lengths[..size].iter().sum());
            group.reduce_scatter(&data, &counts, &mut into, &*operation(*commutes)).map(|()| into)
        }
        other => group.flat(|all| done(all, other, number)),
    }
}

/// The same by one process that has all data.
pub(crate) fn expected(own: usize, size: usize, call: &Call, number: usize) -> Vec<u8> {
    let all = |length| (0..size).map(|member| given(member, number, length)).collect::<Vec<_>>();
    let each = |lengths: &[usize]| {
        (0..size).map(|member| given(member, number, lengths[member])).collect::<Vec<_>>().concat()
    };
    match call {
        Call::Barrier => Vec::new(),
        Call::Bcast { root, length } => given(*root, number, *length),
        Call::Gather { root, .. } | Call::Gatherv { root, .. } if own != *root => Vec::new(),
        Call::Gather { length, .. } | Call::Allgather { length } => all(*length).concat(),
        Call::Gatherv { lengths, .. } | Call::Allgatherv { lengths } => each(lengths),
        Call::Scatter { root, length } => {
            given(*root, number, length * size)[own * 8 * length..][..8 * length].to_vec()
        }
        Call::Scatterv { root, lengths } => {
            given(*root, number, lengths[..size].iter().sum())[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Alltoall { length } => {
            let parts =
                all(length * size).into_iter().map(|data| data[own * 8 * length..][..8 * length].to_vec());
            parts.collect::<Vec<_>>().concat()
        }
        Call::Alltoallv { lengths } => {
            let from = |member: usize| {
                let lengths = sent_by(member, size, lengths);
                given(member, number, lengths.iter().sum())[blocks(&lengths)[own].clone()].to_vec()
            };
            (0..size).map(from).collect::<Vec<_>>().concat()
        }
        Call::Reduce { root, length, .. } if own != *root => given(own, number, *length),
        Call::Reduce { length, commutes, .. } | Call::Allreduce { length, commutes } => {
            combined(&*operation(*commutes), &all(*length))
        }
        Call::ReduceScatter { lengths, commutes } => {
            let sum = combined(&*operation(*commutes), &all(lengths[..size].iter().sum()));
            sum[blocks(&lengths[..size])[own].clone()].to_vec()
        }
        Call::Scan { length } => combined(&*operation(false), &all(*length)[..=own]),
        Call::Exscan { length } if own == 0 => given(own, number, *length),
        Call::Exscan { length } => combined(&*operation(false), &all(*length)[..own]),
    }
}

fn call(size: usize) -> impl Strategy<Value = Call> {
    // Nothing, a word, less than a segment, several segments.
    let length = || prop_oneof![Just(0_usize), Just(1), 2_usize..10, 10_usize..70, 70_usize..2000];
    let root = move || 0..size;
    let lengths = move || prop::collection::vec(length(), MOST);
    let commutes = any::<bool>;
    prop_oneof![
        Just(Call::Barrier),
        (root(), length()).prop_map(|(root, length)| Call::Bcast { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Gather { root, length }),
        (root(), length()).prop_map(|(root, length)| Call::Scatter { root, length }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Gatherv { root, lengths }),
        (root(), lengths()).prop_map(|(root, lengths)| Call::Scatterv { root, lengths }),
        length().prop_map(|length| Call::Allgather { length }),
        lengths().prop_map(|lengths| Call::Allgatherv { lengths }),
        length().prop_map(|length| Call::Alltoall { length }),
        lengths().prop_map(|lengths| Call::Alltoallv { lengths }),
        (root(), length(), commutes()).prop_map(|(root, length, commutes)| Call::Reduce {
            root,
            length,
            commutes
        }),
        (length(), commutes()).prop_map(|(length, commutes)| Call::Allreduce { length, commutes }),
        (lengths(), commutes()).prop_map(|(lengths, commutes)| Call::ReduceScatter { lengths, commutes }),
        length().prop_map(|length| Call::Scan { length }),
        length().prop_map(|length| Call::Exscan { length }),
    ]
}

/// All algorithms, and the tuner's choice.
pub(crate) fn choices() -> impl Strategy<Value = Choices> {
    fn one_of<A: Copy + std::fmt::Debug + 'static>(all: &[A]) -> impl Strategy<Value = Option<A>> + use<A> {
        prop::sample::select(all.iter().copied().map(Some).chain([None]).collect::<Vec<_>>())
    }
    use AllreduceAlgorithm as Allreduce;
    let collect = || one_of(&[CollectAlgorithm::Binomial, CollectAlgorithm::Linear]);
    (
        one_of(&[BcastAlgorithm::Binomial, BcastAlgorithm::Pipelined, BcastAlgorithm::ScatterAllgather]),
        collect(),
        collect(),
        one_of(&[AllgatherAlgorithm::Bruck, AllgatherAlgorithm::Ring]),
        one_of(&[AlltoallAlgorithm::Bruck, AlltoallAlgorithm::Pairwise]),
        one_of(&[ReduceAlgorithm::Binomial, ReduceAlgorithm::Rabenseifner]),
        one_of(&[Allreduce::RecursiveDoubling, Allreduce::Rabenseifner, Allreduce::Ring]),
        one_of(&[ReduceScatterAlgorithm::Allreduce, ReduceScatterAlgorithm::Pairwise]),
    )
        .prop_map(|(bcast, gather, scatter, allgather, alltoall, reduce, allreduce, reduce_scatter)| {
            Choices { bcast, gather, scatter, allgather, alltoall, reduce, allreduce, reduce_scatter }
        })
}

/// Calls of a group of so many members, who they are not in the order of ranks.
pub(crate) fn plan(most: usize) -> impl Strategy<Value = (usize, Vec<Call>)> {
    (1..=most).prop_flat_map(|size| (Just(size), prop::collection::vec(call(size), 1..25)))
}
