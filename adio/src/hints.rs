//! svmio's own hints: what a program may set in an info object, and what it gets back.
//!
//! | key | meaning |
//! |---|---|
//! | `svm_segment_size` | bytes per segment of a file that is being made, also `4M`; a power of two, 64K to 1G |
//! | `svm_placement` | which nodes new segments go to: `first_touch` (who writes most), `round_robin`, `block`, `node=NAME` |
//! | `svm_servers` | hosts beside the job whose stores may be asked for a file that is only read: `n1,n2` |
//! | `svm_outcome` | what a collective access returns: that of all ranks' parts (`shared`), or of the rank's own (`own`) |
//! | `svm_visibility` | when other nodes see what a rank has written: after a `sync`, or `immediate` |
//! | `svm_store` | (told only) the directory of the store |
//! | `svm_node` | (told only) the node that the store belongs to |
//! | `svm_file_id` | (told only) the file's identity |
//!
//! For programs that set none, the environment does: `SVMIO_SEGMENT_SIZE`, `SVMIO_PLACEMENT`, `SVMIO_OUTCOME`,
//! `SVMIO_VISIBILITY` and `SVMIO_SERVERS`. A value that makes no sense and a key that is called like these and is none are
//! ignored, as MPI wants it, and logged. Where no segment size is given, the first collective write to a file of several
//! nodes settles it, see [`choosing`](crate::choosing).

use std::collections::BTreeSet;
use std::ffi::{CStr, OsString};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use svmio_svm::staging::Servers;
use svmio_svm::{File, Placement, SegmentSize, Store, spelling};

use crate::abi::{Abi, Comm, Info, SUCCESS};
use crate::calls::Mpi;
use crate::failure::{ErrorClass, Failure};
use crate::host::Host;
use crate::layout::RomioFile;
use crate::outcome::Outcome;
use crate::visibility::Visibility;

const SEGMENT_SIZE: &CStr = c"svm_segment_size";
const PLACEMENT: &CStr = c"svm_placement";
const OUTCOME: &CStr = c"svm_outcome";
const VISIBILITY: &CStr = c"svm_visibility";
const SERVERS: &CStr = c"svm_servers";
const STORE: &CStr = c"svm_store";
const NODE: &CStr = c"svm_node";
const FILE_ID: &CStr = c"svm_file_id";

/// What svmio's hints begin with.
const PREFIX: &str = "svm_";

/// The segment size that `info` asks for, or the environment, for a file of that name.
pub(crate) fn segment_size<A: Abi>(mpi: &Mpi<A>, name: &CStr, info: Info<A>) -> Option<SegmentSize> {
    Wish::of(mpi, info, SEGMENT_SIZE, "SVMIO_SEGMENT_SIZE")?.understood(name)
}

/// The placement that `info` asks for, or the environment, for a file of that name.
pub(crate) fn placement<A: Abi>(mpi: &Mpi<A>, name: &CStr, info: Info<A>) -> Option<Placement> {
    Wish::of(mpi, info, PLACEMENT, "SVMIO_PLACEMENT")?.understood(name)
}

/// What collective accesses to a file of that name are to return, by `info` or the environment.
pub(crate) fn outcome<A: Abi>(mpi: &Mpi<A>, name: &CStr, info: Info<A>) -> Option<Outcome> {
    Wish::of(mpi, info, OUTCOME, "SVMIO_OUTCOME")?.understood(name)
}

/// When other nodes are to see what is written to a file of that name, by `info` or the environment.
pub(crate) fn visibility<A: Abi>(mpi: &Mpi<A>, name: &CStr, info: Info<A>) -> Option<Visibility> {
    Wish::of(mpi, info, VISIBILITY, "SVMIO_VISIBILITY")?.understood(name)
}

/// The hosts that may be asked for a file of that name, by `info` or the environment.
pub(crate) fn servers<A: Abi>(mpi: &Mpi<A>, name: &CStr, info: Info<A>) -> Servers {
    let wish = Wish::of(mpi, info, SERVERS, "SVMIO_SERVERS");
    wish.and_then(|wish| wish.understood(name)).unwrap_or_default()
}

/// What is asked for, and where.
struct Wish {
    source: String,
    value: String,
}

impl Wish {
    fn of<A: Abi>(mpi: &Mpi<A>, info: Info<A>, hint: &CStr, variable: &str) -> Option<Wish> {
        Wish::of_program(mpi, info, hint)
            .or_else(|| Wish::of_environment(variable, std::env::var_os(variable)))
    }

    /// What the program asks for in `info`.
    fn of_program<A: Abi>(mpi: &Mpi<A>, info: Info<A>, hint: &CStr) -> Option<Wish> {
        let value = mpi.info(info, hint)?;
        Some(Wish { source: format!("the hint {}", hint.to_string_lossy()), value })
    }

    /// What a variable of that name asks for. An empty one counts as none, unlike an empty hint, which a program sets on
    /// purpose.
    fn of_environment(variable: &str, value: Option<OsString>) -> Option<Wish> {
        let value = value.filter(|value| !value.is_empty())?;
        Some(Wish { source: variable.to_owned(), value: value.to_string_lossy().into_owned() })
    }

    /// What it means for a file of that name; `None` where that makes no sense, which is told.
    fn understood<T: FromStr<Err: fmt::Display>>(&self, name: &CStr) -> Option<T> {
        let name = name.to_string_lossy();
        self.value.parse().map_err(|reason| tracing::warn!("{name}: {self} is ignored: {reason}")).ok()
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.source, self.value)
    }
}

/// Notes in `info`, which the file of that name keeps, what `users` asks for.
pub(crate) fn take<A: Abi>(mpi: &Mpi<A>, users: Info<A>, info: Info<A>, name: &CStr) -> Result<(), Failure> {
    take_as::<SegmentSize, A>(mpi, users, info, name, SEGMENT_SIZE)?;
    take_as::<Placement, A>(mpi, users, info, name, PLACEMENT)?;
    take_as::<Outcome, A>(mpi, users, info, name, OUTCOME)?;
    take_as::<Visibility, A>(mpi, users, info, name, VISIBILITY)?;
    take_as::<Servers, A>(mpi, users, info, name, SERVERS)
}

/// The same of one hint, whose values are those of `T`. What makes no sense is not noted: nobody is to take it for what
/// is in force.
fn take_as<T: FromStr<Err: fmt::Display>, A: Abi>(
    mpi: &Mpi<A>,
    users: Info<A>,
    info: Info<A>,
    name: &CStr,
    hint: &CStr,
) -> Result<(), Failure> {
    match Wish::of_program(mpi, users, hint) {
        Some(wish) if wish.understood::<T>(name).is_some() => mpi.set_info(info, hint, &wish.value),
        _ => Ok(()),
    }
}

/// Warns of hints in `users` that are called like svmio's and are none, of each once in a process, on the first rank of
/// `comm`, by which a file of that name is opened.
pub(crate) fn tell_unknown<A: Abi>(mpi: &Mpi<A>, users: Info<A>, comm: Comm<A>, name: &CStr) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let keys = mpi.keys(users).into_iter().map(|key| key.to_string_lossy().into_owned());
    let unknown: Vec<String> = keys.filter(|key| is_unknown(key)).collect();
    if unknown.is_empty() || mpi.rank(comm) != 0 {
        return;
    }
    let name = name.to_string_lossy();
    // A panic elsewhere leaves the set whole.
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    for key in unknown {
        if !told.contains(&key) {
            tracing::warn!("{name}: {}", about_unknown(&key));
            told.insert(key);
        }
    }
}

/// Whether a key is called like svmio's hints.
pub(crate) fn is_own(key: &CStr) -> bool {
    key.to_bytes().starts_with(PREFIX.as_bytes())
}

/// Whether a key is called like svmio's hints and is none.
fn is_unknown(key: &str) -> bool {
    key.starts_with(PREFIX) && !names().any(|known| known == key)
}

/// What is told of a key that is none.
fn about_unknown(key: &str) -> String {
    fn rest(key: &str) -> &str {
        key.strip_prefix(PREFIX).unwrap_or(key)
    }
    let nearest = spelling::nearest(rest(key), names().map(rest)).map(|nearest| format!("{PREFIX}{nearest}"));
    let suggestion = spelling::suggestion(nearest.as_deref());
    format!("the hint {key} is ignored: svmio has no hint of that name{suggestion}")
}

/// All hints of svmio's; also those that are only told, which programs hand on from file to file.
fn names() -> impl Iterator<Item = &'static str> {
    [SEGMENT_SIZE, PLACEMENT, OUTCOME, VISIBILITY, SERVERS, STORE, NODE, FILE_ID]
        .into_iter()
        .filter_map(|name| name.to_str().ok())
}

const SIEVING_READS: &CStr = c"romio_ds_read";
const PERSISTENT_REALMS: &CStr = c"romio_cb_pfr";

/// Overrules in `info`, which is on its way to ROMIO, what would do harm.
///
/// * Data sieving: for reads it would hide where the file ends; for writes ROMIO switches it off by itself, because the
///   device does not say that it can.
/// * Persistent file realms: closing a file, ROMIO frees what only its own collective accesses make.
pub(crate) fn overrule<A: Abi>(mpi: &Mpi<A>, info: Info<A>) -> Result<(), Failure> {
    [SIEVING_READS, PERSISTENT_REALMS].iter().try_for_each(|key| mpi.set_info(info, key, "disable"))
}

/// Tells in `info`, which ROMIO has filled, what became of data sieving: to a user who left it to us
/// (`automatic`) that it is left to us.
pub(crate) fn tell_sieving<A: Abi>(mpi: &Mpi<A>, users: Info<A>, info: Info<A>) -> Result<(), Failure> {
    match mpi.info(users, SIEVING_READS).as_deref() {
        None | Some("automatic") => mpi.set_info(info, SIEVING_READS, "automatic"),
        Some(_) => Ok(()),
    }
}

/// Notes in `info` what is in force for an open file.
pub(crate) fn tell<A: Abi>(mpi: &Mpi<A>, info: Info<A>, store: &Store, file: &File) -> Result<(), Failure> {
    tell_segment_size(mpi, info, file.segment_size())?;
    mpi.set_info(info, PLACEMENT, &file.placement().to_string())?;
    mpi.set_info(info, STORE, &store.path().to_string_lossy())?;
    mpi.set_info(info, NODE, store.node().as_str())?;
    mpi.set_info(info, FILE_ID, &file.id().to_string())
}

/// Notes in `info` what collective accesses return.
pub(crate) fn tell_outcome<A: Abi>(mpi: &Mpi<A>, info: Info<A>, outcome: Outcome) -> Result<(), Failure> {
    mpi.set_info(info, OUTCOME, &outcome.to_string())
}

/// Notes in `info`, of a file that several nodes may share, when others see what is written.
pub(crate) fn tell_visibility<A: Abi>(
    mpi: &Mpi<A>,
    info: Info<A>,
    visibility: Visibility,
    file: &File,
) -> Result<(), Failure> {
    mpi.set_info(info, VISIBILITY, &visibility.to_string())?;
    if file.is_shared_by_nodes() {
        let is_immediate = visibility == Visibility::Immediate;
        mpi.set_info(info, c"romio_visibility_immediate", &is_immediate.to_string())?;
    }
    Ok(())
}

/// Notes in `info` how large segments are.
pub(crate) fn tell_segment_size<A: Abi>(
    mpi: &Mpi<A>,
    info: Info<A>,
    size: SegmentSize,
) -> Result<(), Failure> {
    mpi.set_info(info, SEGMENT_SIZE, &size.to_string())
}

/// Has the generic SetInfo take what is in `info`.
pub(crate) fn hand_to_romio<A: Abi>(
    host: &Host<A>,
    fd: &mut RomioFile<A>,
    info: Info<A>,
) -> Result<(), Failure> {
    // SAFETY: the file is one of ROMIO's, of which nobody else makes references.
    match unsafe { host.set_info(fd, info) } {
        SUCCESS => Ok(()),
        code => Err(Failure::new(ErrorClass::Other, "ROMIO refuses a hint").with_code(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Wish, about_unknown, is_unknown, names};

    #[test]
    fn an_empty_variable_counts_as_none() {
        let wish = |value: Option<&str>| Wish::of_environment("SVMIO_PLACEMENT", value.map(Into::into));
        assert!(wish(None).is_none() && wish(Some("")).is_none());
        assert_eq!(wish(Some("block")).unwrap().to_string(), "SVMIO_PLACEMENT=block");
    }

    #[test]
    fn what_is_mistyped_is_told_with_what_was_meant() {
        let ours = names().collect::<Vec<_>>();
        assert_eq!(ours.len(), 8);
        assert!(!ours.into_iter().any(is_unknown));
        assert!(!["cb_nodes", "romio_ds_read", "striping_unit"].into_iter().any(is_unknown));
        for (key, meant) in [
            ("svm_placment", "; did you mean svm_placement?"),
            ("svm_outcomes", "; did you mean svm_outcome?"),
            ("svm_segmentsize", "; did you mean svm_segment_size?"),
            ("svm_colour", ""),
            ("svm_", ""),
        ] {
            assert!(is_unknown(key), "{key}");
            let told = format!("the hint {key} is ignored: svmio has no hint of that name{meant}");
            assert_eq!(about_unknown(key), told);
        }
    }
}
