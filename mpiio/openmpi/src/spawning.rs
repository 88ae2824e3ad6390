//! Processes that a program spawns. Those of Open MPI 5 get no variable that the launcher was told to give the ranks
//! (`mpiexec -x`), as those of 4.1 do: they would run without svmio's library. So the variables of the rank that spawns
//! them go with the request, but for those that the program's own info object gives.

use std::env;
use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use svmio_adio::Mpi;
use svmio_adio::abi::openmpi::OpenMpi;
use svmio_adio::abi::{Abi, Comm, Info, SUCCESS};
use svmio_mpiio::with_stock;

/// Variables of the spawned processes, each in a line.
const VARIABLES: &CStr = c"PMIX_ENVAR";
/// Its older name, which Open MPI 5 still takes.
const OLDER: &CStr = c"env";

macro_rules! exported {
    ($($spawn:ident, $spawn_multiple:ident;)*) => {$(
        /// `MPI_Comm_spawn` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $spawn(
            command: *const c_char,
            arguments: *mut *mut c_char,
            processes: c_int,
            info: Info<OpenMpi>,
            root: c_int,
            comm: Comm<OpenMpi>,
            between: *mut Comm<OpenMpi>,
            codes: *mut c_int,
        ) -> c_int {
            type Function = unsafe extern "C" fn(
                *const c_char,
                *mut *mut c_char,
                c_int,
                Info<OpenMpi>,
                c_int,
                Comm<OpenMpi>,
                *mut Comm<OpenMpi>,
                *mut c_int,
            ) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            with_stock::<OpenMpi>(|mpi| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_Comm_spawn\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_Comm_spawn") };
                let extended = Extended::of(mpi, &[info], root, comm);
                // SAFETY: the caller's arguments, but for the info object, which has what the caller's has.
                unsafe { stock(command, arguments, processes, extended.infos[0], root, comm, between, codes) }
            })
        }

        /// `MPI_Comm_spawn_multiple` of MPI-3.1.
        ///
        /// # Safety
        /// As MPI wants it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $spawn_multiple(
            count: c_int,
            commands: *mut *mut c_char,
            arguments: *mut *mut *mut c_char,
            processes: *const c_int,
            infos: *const Info<OpenMpi>,
            root: c_int,
            comm: Comm<OpenMpi>,
            between: *mut Comm<OpenMpi>,
            codes: *mut c_int,
        ) -> c_int {
            type Function = unsafe extern "C" fn(
                c_int,
                *mut *mut c_char,
                *mut *mut *mut c_char,
                *const c_int,
                *const Info<OpenMpi>,
                c_int,
                Comm<OpenMpi>,
                *mut Comm<OpenMpi>,
                *mut c_int,
            ) -> c_int;
            static STOCK: OnceLock<Option<Function>> = OnceLock::new();
            with_stock::<OpenMpi>(|mpi| {
                // SAFETY: the type is that of the function in mpi.h.
                let stock = STOCK.get_or_init(|| unsafe { mpi.stock("PMPI_Comm_spawn_multiple\0") });
                let Some(stock) = stock else { return mpi.missing("PMPI_Comm_spawn_multiple") };
                let call = |infos| {
                    // SAFETY: the caller's arguments, but for the info objects, which have what the caller's have.
                    unsafe { stock(count, commands, arguments, processes, infos, root, comm, between, codes) }
                };
                if mpi.rank(comm) != root || infos.is_null() || count < 1 {
                    return call(infos);
                }
                // SAFETY: on this rank the caller gives so many info objects.
                let given = unsafe { std::slice::from_raw_parts(infos, count.unsigned_abs() as usize) };
                let extended = Extended::of(mpi, given, root, comm);
                call(extended.infos.as_ptr())
            })
        }
    )*};
}

exported! {
    MPI_Comm_spawn, MPI_Comm_spawn_multiple;
    PMPI_Comm_spawn, PMPI_Comm_spawn_multiple;
}

/// The info objects of a request to spawn processes, and those among them that were made for it.
struct Extended {
    mpi: &'static Mpi<OpenMpi>,
    infos: Vec<Info<OpenMpi>>,
    own: Vec<Info<OpenMpi>>,
}

impl Extended {
    /// `infos`, with the variables on the rank `root` of `comm`, whose infos count.
    fn of(mpi: &'static Mpi<OpenMpi>, infos: &[Info<OpenMpi>], root: c_int, comm: Comm<OpenMpi>) -> Extended {
        let mut extended = Extended { mpi, infos: infos.to_vec(), own: Vec::new() };
        if is_needed(mpi.version()) && mpi.rank(comm) == root {
            for info in &mut extended.infos {
                if let Some(own) = with_variables(mpi, *info) {
                    *info = own;
                    extended.own.push(own);
                }
            }
        }
        extended
    }
}

impl Drop for Extended {
    fn drop(&mut self) {
        type Free = unsafe extern "C" fn(*mut Info<OpenMpi>) -> c_int;
        // SAFETY: the type is that of the function in mpi.h.
        let Some(free) = (unsafe { self.mpi.stock::<Free>("PMPI_Info_free\0") }) else { return };
        for own in &mut self.own {
            // SAFETY: made by `with_variables`, and used by nobody any more.
            unsafe { free(own) };
        }
    }
}

/// Whether the Open MPI that says so of its version is one whose spawned processes get no variables of the ranks.
fn is_needed(version: &str) -> bool {
    let rest = version.split_once(OpenMpi::VERSION_MARK).map_or("", |(_, rest)| rest);
    rest.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 5)
}

/// A copy of `info` that gives the variables; `None` where it cannot be made, or there are none.
fn with_variables(mpi: &Mpi<OpenMpi>, info: Info<OpenMpi>) -> Option<Info<OpenMpi>> {
    type Create = unsafe extern "C" fn(*mut Info<OpenMpi>) -> c_int;
    /// `ompi_info_set` of 5.0's ompi/info/info.h, by which values may be longer than by `MPI_Info_set`.
    type Set = unsafe extern "C" fn(Info<OpenMpi>, *const c_char, *const c_char) -> c_int;
    // SAFETY: the types are those of the functions in mpi.h and that header.
    let (create, set) =
        unsafe { (mpi.stock::<Create>("PMPI_Info_create\0")?, mpi.stock::<Set>("ompi_info_set\0")?) };
    let given = [OLDER, VARIABLES].map(|key| mpi.info(info, key).unwrap_or_default());
    let lines = lines(env::vars_os(), &given);
    if lines.is_empty() {
        return None;
    }
    let of_program = Some(given[1].as_bytes()).filter(|own| !own.is_empty());
    let value =
        of_program.into_iter().chain(lines.iter().map(Vec::as_slice)).collect::<Vec<_>>().join(&b'\n');
    let value = CString::new(value).ok()?;
    let mut own = mpi.constants.info_null;
    // SAFETY: stores a new info object, or a copy of the caller's; the key and the value are strings.
    unsafe {
        let made = if info.0 == mpi.constants.info_null.0 {
            create(&raw mut own)
        } else {
            mpi.duplicate_info(info, &raw mut own)
        };
        (made == SUCCESS).then(|| set(own, VARIABLES.as_ptr(), value.as_ptr()))?;
    }
    Some(own)
}

/// Those of `variables` that svmio's ranks need, as `NAME=VALUE`, but for those that `given` has such lines for. One with
/// a line's end in it cannot be given.
fn lines(variables: impl Iterator<Item = (OsString, OsString)>, given: &[String]) -> Vec<Vec<u8>> {
    let is_given = |name: &[u8]| {
        let mut lines = given.iter().flat_map(|given| given.split('\n'));
        lines.any(|line| line.split('=').next().is_some_and(|own| own.as_bytes() == name))
    };
    variables
        .filter(|(name, _)| name == "LD_PRELOAD" || name.as_bytes().starts_with(b"SVMIO_"))
        .filter(|(name, value)| !is_given(name.as_bytes()) && !value.as_bytes().contains(&b'\n'))
        .map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'='))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_gives_itself_stays() {
        let variables =
            [("HOME", "/h"), ("SVMIO_STORE", "/s t"), ("LD_PRELOAD", "/l.so"), ("SVMIO_A", "1\n2")];
        let lines = |given: &[&str]| {
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
            super::lines(variables, &given.iter().map(|given| (*given).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(lines(&["", ""]), [b"SVMIO_STORE=/s t".to_vec(), b"LD_PRELOAD=/l.so".to_vec()]);
        assert_eq!(lines(&["", "A=1\nLD_PRELOAD=/own.so"]), [b"SVMIO_STORE=/s t".to_vec()]);
    }

    #[test]
    fn releases_that_need_it_are_known() {
        assert!(is_needed("Open MPI v5.0.11, package: x"));
        assert!(!is_needed("Open MPI v4.1.4, package: Debian"));
    }
}
