//! The collective functions.

use std::fmt;

/// Hands the list of all functions, with their arguments, to a macro: so each is written down once.
macro_rules! for_each_function {
    ($then:ident) => {
        $then! {
            /// Returns when all members have come.
            Barrier fn barrier();
            /// All get `root`'s `data`, which has the same length everywhere.
            Bcast fn bcast(root: usize, data: &mut [u8]);
            /// `root` gets all members' `own`, which have the same length, one behind the other; elsewhere `into` is
            /// not used.
            Gather fn gather(root: usize, own: &[u8], into: &mut [u8]);
            /// `root` gets all members' `own`, each into its block of `into`; elsewhere `into` and `blocks` are not
            /// used.
            Gatherv fn gatherv(root: usize, own: &[u8], into: &mut [u8], blocks: &[Range<usize>]);
            /// All get their part of `root`'s `data`, which lie one behind the other and are as long as `into`;
            /// elsewhere
            /// `data` is not used.
            Scatter fn scatter(root: usize, data: &[u8], into: &mut [u8]);
            /// All get their block of `root`'s `data`, as long as `into`; elsewhere `data` and `blocks` are not used.
            Scatterv fn scatterv(root: usize, data: &[u8], blocks: &[Range<usize>], into: &mut [u8]);
            /// All get all members' `own`, which have the same length, one behind the other.
            Allgather fn allgather(own: &[u8], into: &mut [u8]);
            /// All get all members' blocks: `blocks` says where in `data` each lies, the same everywhere; each member's
            /// own is there already.
            Allgatherv fn allgatherv(data: &mut [u8], blocks: &[Range<usize>]);
            /// Each gets from each: part `i` of `data` goes to member `i`, and into part `j` comes what member `j` has
            /// for this one. All parts are equally long.
            Alltoall fn alltoall(data: &[u8], into: &mut [u8]);
            /// Each gets from each: block `i` of `data`, by `sent`, goes to member `i`; into block `j` of `into`, by
            /// `received`, comes what member `j` has for this one.
            Alltoallv fn alltoallv(
                data: &[u8],
                sent: &[Range<usize>],
                into: &mut [u8],
                received: &[Range<usize>],
            );
            /// `data` becomes, at `root`, all members' `data` combined in the order of members; elsewhere it stays.
            Reduce fn reduce(root: usize, data: &mut [u8], operation: &dyn Operation);
            /// `data` becomes, for all, all members' `data` combined in the order of members.
            Allreduce fn allreduce(data: &mut [u8], operation: &dyn Operation);
            /// All members' `data` combined in the order of members and divided among them: member `i` gets `counts[i]`
            /// bytes, behind those of the members before. `counts` are the same everywhere.
            ReduceScatter fn reduce_scatter(
                data: &[u8],
                counts: &[usize],
                into: &mut [u8],
                operation: &dyn Operation,
            );
            /// `data` becomes the `data` of the members up to this one, combined in their order.
            Scan fn scan(data: &mut [u8], operation: &dyn Operation);
            /// `data` becomes the `data` of the members before this one, combined in their order; the first member's
            /// stays.
            Exscan fn exscan(data: &mut [u8], operation: &dyn Operation);
        }
    };
}
pub(super) use for_each_function;

macro_rules! declare {
    ($($(#[$doc:meta])* $variant:ident fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// A collective function.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Function {
            $($(#[$doc])* $variant,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As users write it, which is MPI's name for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)*
                }
            }
        }
    };
}

for_each_function!(declare);

impl Function {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|function| function.name() == name)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Functions(u32);

const _: () = assert!(Function::ALL.len() <= u32::BITS as usize, "each function has a bit");

impl Functions {
    /// All.
    pub const ALL: Self = Self((1 << Function::ALL.len()) - 1);

    /// One.
    #[must_use]
    pub const fn only(function: Function) -> Self {
        Self(1 << function as u32)
    }

    /// These, and one more.
    #[must_use]
    pub const fn and(self, function: Function) -> Self {
        Self(self.0 | 1 << function as u32)
    }

    /// Whether it is one of them.
    #[must_use]
    pub const fn contains(self, function: Function) -> bool {
        self.0 >> function as u32 & 1 == 1
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Function> {
        Function::ALL.iter().copied().filter(move |&function| self.contains(function))
    }
}

impl fmt::Display for Functions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return formatter.write_str("all");
        }
        let names: Vec<&str> = self.iter().map(Function::name).collect();
        formatter.write_str(&names.join(", "))
    }
}
