//! Which algorithms there are for collectives, by their names.

/// In texts: the algorithm that costs least.
const CHEAPEST: &str = "auto";

macro_rules! names {
    ($($(#[$doc:meta])* $kind:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $kind {
                $($(#[$meaning])* $variant,)*
            }

            impl $kind {
                /// All there are.
                pub const ALL: &[Self] = &[$(Self::$variant),*];

                /// As it is called in settings.
                #[must_use]
                pub fn name(self) -> &'static str {
                    match self { $(Self::$variant => $name,)* }
                }

                /// That of a name; none for the one that costs least.
                pub(crate) fn named(name: &str) -> Result<Option<Self>, String> {
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

names! {
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
