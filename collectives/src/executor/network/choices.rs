//! Which algorithms are taken whatever they cost.

use crate::collective::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, CollectAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm,
};

macro_rules! choices {
    ($($(#[$doc:meta])* $function:ident: $kind:ident,)*) => {
        /// Which algorithms are taken, whatever they cost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Choices {
            $($(#[$doc])* pub $function: Option<$kind>,)*
        }

        impl Choices {
            /// Takes the algorithm of that name for the function of that name: as the fields are called, and the
            /// algorithms with hyphens between their words; `auto` is the one that costs least.
            ///
            /// # Errors
            /// What is not known, and what is.
            pub fn choose(&mut self, function: &str, algorithm: &str) -> Result<(), String> {
                match function {
                    $(stringify!($function) => self.$function = $kind::named(algorithm)?,)*
                    _ => {
                        let known = [$(stringify!($function)),*].join(", ");
                        return Err(format!("{function:?} has no choice of algorithms; there are {known}"));
                    }
                }
                Ok(())
            }
        }
    };
}

choices! {
    /// For bcast.
    bcast: BcastAlgorithm,
    /// For gather.
    gather: CollectAlgorithm,
    /// For scatter.
    scatter: CollectAlgorithm,
    /// For allgather and allgatherv.
    allgather: AllgatherAlgorithm,
    /// For alltoall.
    alltoall: AlltoallAlgorithm,
    /// For reduce.
    reduce: ReduceAlgorithm,
    /// For allreduce. A ring is not taken for operations that do not commute.
    allreduce: AllreduceAlgorithm,
    /// For reduce_scatter.
    reduce_scatter: ReduceScatterAlgorithm,
}

#[cfg(test)]
mod tests {
    use super::{BcastAlgorithm, Choices, ReduceScatterAlgorithm};

    #[test]
    fn algorithms_are_chosen_by_their_names() {
        let mut choices = Choices::default();
        choices.choose("bcast", "scatter-allgather").unwrap();
        choices.choose("reduce_scatter", "pairwise").unwrap();
        let (bcast, reduce_scatter) =
            (Some(BcastAlgorithm::ScatterAllgather), Some(ReduceScatterAlgorithm::Pairwise));
        assert_eq!(choices, Choices { bcast, reduce_scatter, ..Choices::default() });
        choices.choose("bcast", "auto").unwrap();
        assert_eq!(choices, Choices { reduce_scatter, ..Choices::default() });
    }

    #[test]
    fn what_is_unknown_is_told_with_what_is_known() {
        let problem = Choices::default().choose("allreduce", "rings").unwrap_err();
        assert_eq!(problem, "\"rings\" is none of auto, recursive-doubling, rabenseifner, ring");
        let problem = Choices::default().choose("scan", "ring").unwrap_err();
        assert!(problem.contains("\"scan\"") && problem.contains("bcast, gather, scatter"), "{problem}");
    }
}
