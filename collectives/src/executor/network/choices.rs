//! Which algorithms there are, and those that are taken whatever they cost.

/// In texts: the algorithm that costs least.
const CHEAPEST: &str = "auto";

macro_rules! algorithms {
    ($($(#[$doc:meta])* $kind:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $kind {
                $($(#[$meaning])* $variant,)*
            }

            impl $kind {
                fn named(name: &str) -> Result<Option<Self>, String> {
                    match name {
                        CHEAPEST => Ok(None),
                        $($name => Ok(Some(Self::$variant)),)*
                        _ => {
                            let known = [CHEAPEST, $($name),*].join(", ");
                            Err(format!("{name:?} is none of {known}"))
                        }
                    }
                }
            }
        )*
    };
}

algorithms! {
    /// How data goes from one to all.
    BcastAlgorithm {
        /// Who has it passes it on, whole, in ⌈log *p*⌉ rounds.
        Binomial = "binomial",
        /// From member to member in segments.
        Pipelined = "pipelined",
        /// Divided among all by a binomial tree, then gathered by a ring.
        ScatterAllgather = "scatter-allgather",
    }

    /// How data is gathered at one, or scattered from one.
    CollectAlgorithm {
        /// By a binomial tree, several members' data in one message.
        Binomial = "binomial",
        /// Each with the root.
        Linear = "linear",
    }

    /// How all get what all have.
    AllgatherAlgorithm {
        /// J. Bruck and others, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
        /// Systems": twice as much in each of ⌈log *p*⌉ rounds.
        Bruck = "bruck",
        /// From neighbour to neighbour, in *p* − 1 rounds.
        Ring = "ring",
    }

    /// How each gets something else from each.
    AlltoallAlgorithm {
        /// Bruck's: in ⌈log *p*⌉ rounds, each with half of all data.
        Bruck = "bruck",
        /// With one after the other.
        Pairwise = "pairwise",
    }

    /// How all data is combined at one.
    ReduceAlgorithm {
        /// Up a binomial tree, whole.
        Binomial = "binomial",
        /// R. Rabenseifner's: halves of halves are combined, and then gathered.
        Rabenseifner = "rabenseifner",
    }

    /// How all data is combined for all.
    AllreduceAlgorithm {
        /// Whole, with a partner twice as far each time.
        RecursiveDoubling = "recursive-doubling",
        /// R. Rabenseifner's: halves of halves are combined, and then gathered by all.
        Rabenseifner = "rabenseifner",
        /// Parts go around, and around once more; for operations that commute.
        Ring = "ring",
    }

    /// How all data is combined and divided among all.
    ReduceScatterAlgorithm {
        /// All is combined for all.
        Allreduce = "allreduce",
        /// Each gets what is for it from each.
        Pairwise = "pairwise",
    }
}

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
