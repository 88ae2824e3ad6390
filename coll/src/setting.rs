//! Which collectives are svmio's.

use std::env::VarError;
use std::sync::OnceLock;

use crate::trial;

/// Switches all of them off with `0`.
const ALL: &str = "SVMIO_COLLECTIVES";
/// Lists those that are left to MPI.
const OFF: &str = "SVMIO_COLLECTIVES_OFF";
/// Says on how many nodes a communicator may be.
const NODES: &str = "SVMIO_COLLECTIVES_NODES";
/// Says by what those of several nodes go.
const OVER: &str = "SVMIO_COLLECTIVES_OVER";
/// Says how many collectives of a communicator MPI does before there is a group.
const AFTER: &str = "SVMIO_COLLECTIVES_AFTER";
/// Says with `0` that there are no buffers in the memory of devices.
const DEVICES: &str = "SVMIO_COLLECTIVES_DEVICES";

macro_rules! collectives {
    ($($collective:ident = $name:literal),*) => {
        /// A collective operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Collective { $($collective),* }

        impl Collective {
            pub(crate) const ALL: [Collective; [$($name),*].len()] = [$(Collective::$collective),*];

            /// As in MPI's function, in lower case.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$collective => $name),* }
            }
        }
    };
}

collectives! {
    Barrier = "barrier",
    Bcast = "bcast",
    Gather = "gather",
    Gatherv = "gatherv",
    Scatter = "scatter",
    Scatterv = "scatterv",
    Allgather = "allgather",
    Allgatherv = "allgatherv",
    Alltoall = "alltoall",
    Alltoallv = "alltoallv",
    Alltoallw = "alltoallw",
    Reduce = "reduce",
    Allreduce = "allreduce",
    ReduceScatter = "reduce_scatter",
    ReduceScatterBlock = "reduce_scatter_block",
    Scan = "scan",
    Exscan = "exscan",
    Ibarrier = "ibarrier",
    Ibcast = "ibcast",
    Igather = "igather",
    Igatherv = "igatherv",
    Iscatter = "iscatter",
    Iscatterv = "iscatterv",
    Iallgather = "iallgather",
    Iallgatherv = "iallgatherv",
    Ialltoall = "ialltoall",
    Ialltoallv = "ialltoallv",
    Ialltoallw = "ialltoallw",
    Ireduce = "ireduce",
    Iallreduce = "iallreduce",
    IreduceScatter = "ireduce_scatter",
    IreduceScatterBlock = "ireduce_scatter_block",
    Iscan = "iscan",
    Iexscan = "iexscan"
}

/// Says which of those that do not block.
const NONBLOCKING: &str = "SVMIO_COLLECTIVES_NONBLOCKING";

/// Some of the collectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Collectives(pub(crate) u64);

impl Collectives {
    /// All that there are.
    pub(crate) const EVERY: Collectives = Collectives((1 << Collective::ALL.len()) - 1);

    /// Those that do not block.
    pub(crate) const NONBLOCKING: Collectives =
        Collectives(Self::EVERY.0 & !((1 << Collective::Ibarrier as u32) - 1));

    #[inline]
    pub(crate) fn contains(self, collective: Collective) -> bool {
        self.0 >> collective as u32 & 1 == 1
    }

    /// These and others.
    pub(crate) fn or(self, others: Collectives) -> Collectives {
        Collectives(self.0 | others.0)
    }

    pub(crate) fn are_all(self) -> bool {
        self == Self::EVERY
    }

    /// Those that a list, separated by commas, names.
    fn listed(list: &str) -> Result<Collectives, String> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let bit = |name: &str| {
            let known = Collective::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name));
            known.map(|collective| 1_u64 << collective as u32).ok_or_else(|| {
                let known = Collective::ALL.map(Collective::name).join(", ");
                format!("{OFF} names '{name}', which is no collective that svmio does: it does {known}")
            })
        };
        names.map(bit).try_fold(0, |all, bit| Ok(all | bit?)).map(Collectives)
    }
}

/// Those that the environment leaves to MPI.
///
/// # Errors
/// What is wrong with the list.
pub(crate) fn left_to_mpi() -> Result<Collectives, &'static str> {
    static LEFT: OnceLock<Result<Collectives, String>> = OnceLock::new();
    let read = || {
        match said(ALL)?.as_deref() {
            Some("0") => return Ok(Collectives::EVERY),
            Some("1") | None => {}
            Some(other) => return Err(format!("{ALL} is '{other}', and has to be '0' or '1'")),
        }
        said(OFF)?.map_or(Ok(Collectives::default()), |list| Collectives::listed(&list))
    };
    LEFT.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

/// On how many nodes the processes of a communicator may be whose collectives svmio does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Nodes {
    /// On one, or on several that share a memory: MPI does those of others, which over most networks is quicker.
    #[default]
    One,
    /// On as many as it has.
    All,
}

impl Nodes {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "all" => Ok(Self::All),
            "one" => Ok(Self::One),
            other => Err(format!("{NODES} is '{other}', and has to be 'all' or 'one'")),
        }
    }
}

/// What the environment says of that.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn nodes() -> Result<Nodes, &'static str> {
    static READ: OnceLock<Result<Nodes, String>> = OnceLock::new();
    let read = || said(NODES)?.map_or(Ok(Nodes::default()), |name| Nodes::named(&name));
    READ.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

/// By what collectives go whose processes share no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Over {
    /// A fabric of svmio's, and shared memory within each node.
    #[default]
    Fabric,
    /// Messages of the program's MPI.
    Mpi,
}

impl Over {
    fn named(name: &str) -> Result<Self, String> {
        match name {
            "fabric" => Ok(Self::Fabric),
            "mpi" => Ok(Self::Mpi),
            other => Err(format!("{OVER} is '{other}', and has to be 'fabric' or 'mpi'")),
        }
    }
}

/// What the environment says of that.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn over() -> Result<Over, &'static str> {
    static READ: OnceLock<Result<Over, String>> = OnceLock::new();
    let read = || said(OVER)?.map_or(Ok(Over::default()), |name| Over::named(&name));
    READ.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

/// Which collectives that do not block svmio does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Begun {
    /// Those of long data, where all members can tell that they are: MPI does the others as fast.
    #[default]
    Long,
    /// All that can be.
    All,
}

impl Begun {
    /// Bytes that a member has for another one, or gets: for fewer, what a request costs is most of the time.
    const LONG: usize = 64 << 10;

    /// The least amount of data, in bytes.
    pub(crate) fn least(self) -> usize {
        match self {
            Self::Long => Self::LONG,
            Self::All => 0,
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        match name {
            "long" => Ok(Self::Long),
            "all" => Ok(Self::All),
            other => Err(format!("{NONBLOCKING} is '{other}', and has to be 'long' or 'all'")),
        }
    }
}

/// What the environment says of that.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn begun() -> Result<Begun, &'static str> {
    static READ: OnceLock<Result<Begun, String>> = OnceLock::new();
    let read = || said(NONBLOCKING)?.map_or(Ok(Begun::default()), |name| Begun::named(&name));
    READ.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

/// How many collectives of a communicator MPI does before there is a group, as the environment says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn after() -> Result<u32, &'static str> {
    static READ: OnceLock<Result<u32, String>> = OnceLock::new();
    let read = || said(AFTER)?.map_or(Ok(trial::USUAL), |number| after_of(&number));
    READ.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

fn after_of(number: &str) -> Result<u32, String> {
    number.parse().map_err(|_| format!("{AFTER} is '{number}', and has to be a number of collectives"))
}

/// Whether the program may have buffers in the memory of devices, for all that the environment says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn may_have_devices() -> Result<bool, &'static str> {
    static READ: OnceLock<Result<bool, String>> = OnceLock::new();
    let read = || match said(DEVICES)?.as_deref() {
        Some("0") => Ok(false),
        Some("1") | None => Ok(true),
        Some(other) => Err(format!("{DEVICES} is '{other}', and has to be '0' or '1'")),
    };
    READ.get_or_init(read).as_ref().copied().map_err(String::as_str)
}

/// What a variable says.
fn said(variable: &str) -> Result<Option<String>, String> {
    meant(std::env::var(variable)).map_err(|problem| format!("{variable}: {problem}"))
}

/// What was meant by that: an empty value counts as none.
fn meant(value: Result<String, VarError>) -> Result<Option<String>, VarError> {
    match value {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::{Begun, Collective, Collectives, Nodes, Over, after_of, meant};

    #[test]
    fn an_empty_variable_counts_as_none() {
        assert_eq!(meant(Ok(String::new())), Ok(None));
        assert_eq!(meant(Err(VarError::NotPresent)), Ok(None));
        assert_eq!(meant(Ok("all".into())), Ok(Some("all".into())));
        let unreadable = VarError::NotUnicode("x".into());
        assert_eq!(meant(Err(unreadable.clone())), Err(unreadable));
    }

    #[test]
    fn what_is_begun_is_long_or_all() {
        assert_eq!((Begun::named("long"), Begun::named("all")), (Ok(Begun::Long), Ok(Begun::All)));
        assert!(Begun::named("short").unwrap_err().contains("'long' or 'all'"));
    }

    #[test]
    fn nodes_are_one_or_all() {
        assert_eq!((Nodes::named("one"), Nodes::named("all")), (Ok(Nodes::One), Ok(Nodes::All)));
        assert!(Nodes::named("2").unwrap_err().contains("'all' or 'one'"));
    }

    #[test]
    fn they_go_over_a_fabric_or_mpi() {
        assert_eq!((Over::named("fabric"), Over::named("mpi")), (Ok(Over::Fabric), Ok(Over::Mpi)));
        assert!(Over::named("ofi").unwrap_err().contains("'fabric' or 'mpi'"));
    }

    #[test]
    fn groups_come_after_a_number_of_collectives() {
        assert_eq!((after_of("0"), after_of("300")), (Ok(0), Ok(300)));
        for wrong in ["-1", "few", "1e3"] {
            assert!(after_of(wrong).unwrap_err().contains(&format!("is '{wrong}'")));
        }
    }

    #[test]
    fn a_list_names_collectives() {
        let some = Collectives::listed(" bcast, Reduce_Scatter,").unwrap();
        let listed = |&collective: &Collective| some.contains(collective);
        let names: Vec<_> = Collective::ALL.into_iter().filter(listed).map(Collective::name).collect();
        assert_eq!(names, ["bcast", "reduce_scatter"]);
        assert_eq!(Collectives::listed(""), Ok(Collectives::default()));
    }

    #[test]
    fn an_unknown_name_is_told_with_the_known_ones() {
        let error = Collectives::listed("bcast,broadcast").unwrap_err();
        assert!(error.contains("'broadcast'") && error.contains("barrier, bcast, gather"), "{error}");
    }

    #[test]
    fn half_of_them_do_not_block() {
        let nonblocking = Collective::ALL.into_iter().filter(|&one| Collectives::NONBLOCKING.contains(one));
        let names: Vec<_> = nonblocking.map(Collective::name).collect();
        let blocking: Vec<_> = Collective::ALL.into_iter().map(Collective::name).take(names.len()).collect();
        assert_eq!(names, blocking.iter().map(|name| format!("i{name}")).collect::<Vec<_>>());
        assert_eq!(2 * names.len(), Collective::ALL.len());
    }

    #[test]
    fn every_collective_has_a_bit() {
        assert!(Collective::ALL.into_iter().all(|collective| Collectives::EVERY.contains(collective)));
        let list = Collective::ALL.map(Collective::name).join(",");
        assert!(Collectives::listed(&list).unwrap().are_all());
    }
}
