//! All algorithms for collectives.

use proptest::prelude::*;
use svmio_collectives::Rank;
use svmio_collectives::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    CollectiveAlgorithm, Operands, ReduceAlgorithm,
};

/// All with a root, which is this one.
pub(crate) fn rooted(root: u32) -> Vec<CollectiveAlgorithm> {
    let root = Rank(root);
    let mut all = Vec::new();
    for &algorithm in BcastAlgorithm::ALL {
        all.extend([0, 1, 5].map(|segments| CollectiveAlgorithm::Bcast { root, algorithm, segments }));
    }
    for &algorithm in CollectAlgorithm::ALL {
        all.push(CollectiveAlgorithm::Gather { root, algorithm });
        all.push(CollectiveAlgorithm::Scatter { root, algorithm });
    }
    for &algorithm in ReduceAlgorithm::ALL {
        for operands in [Operands::Ordered, Operands::Commuting] {
            all.push(CollectiveAlgorithm::Reduce { root, algorithm, operands });
        }
    }
    all
}

/// All without one.
pub(crate) fn rootless() -> Vec<CollectiveAlgorithm> {
    let mut all = Vec::new();
    all.extend(AllgatherAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Allgather));
    all.extend(AlltoallAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Alltoall));
    all.extend(AllreduceAlgorithm::ALL.iter().copied().map(CollectiveAlgorithm::Allreduce));
    all.extend([CollectiveAlgorithm::ReduceScatter, CollectiveAlgorithm::Scan, CollectiveAlgorithm::Exscan]);
    all
}

/// Any algorithm, for a number of ranks within `range`.
pub(crate) fn any(range: std::ops::Range<u32>) -> impl Strategy<Value = (CollectiveAlgorithm, u32)> {
    let of = |ranks: u32| {
        let all = (0..ranks).prop_map(|root| [rooted(root), rootless()].concat());
        (all.prop_flat_map(prop::sample::select), Just(ranks))
    };
    range.prop_flat_map(of)
}
