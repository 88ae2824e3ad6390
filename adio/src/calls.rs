//! The MPI functions that the device calls, resolved once per process: also those that not every MPI has.
//!
//! Always the `PMPI_` names: tools that count a program's MPI calls should not count ours.

mod collectives;
pub(crate) mod datatypes;
mod errors;
mod files;
mod infos;
mod requests;

pub(crate) use collectives::Begun;
pub use requests::{Background, complete_requests};

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::sync::OnceLock;

use crate::abi::{Abi, Comm, Constants, Datatype, Errhandler, Info, MpiFile, Op, Request, SUCCESS};
use crate::failure::{ErrorClass, Failure};
use crate::library::{Library, SymbolError};
use crate::progress::Testing;

/// A function that was told to do nothing more than to say so.
type Query<A> = unsafe extern "C" fn(*mut c_void, *mut <A as Abi>::Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// `MPI_Comm_copy_attr_function`.
pub(crate) type CopyAttribute<A> =
    unsafe extern "C" fn(Comm<A>, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// `MPI_Comm_delete_attr_function`.
pub(crate) type DeleteAttribute<A> = unsafe extern "C" fn(Comm<A>, c_int, *mut c_void, *mut c_void) -> c_int;

macro_rules! functions {
    (
        in all { $($field:ident = $symbol:literal: fn($($argument:ty),*);)* }
        in some { $($rare:ident = $($name:literal)|+: $kind:ty;)* }
    ) => {
        /// An MPI library's functions and predefined handles.
        pub struct Mpi<A: Abi> {
            /// Predefined handles.
            pub constants: Constants<A>,
            version: String,
            library: Library,
            pub(crate) testing: Testing<A>,
            combiner_named: OnceLock<c_int>,
            judging: OnceLock<Option<Comm<A>>>,
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            $($rare: Option<$kind>,)*
        }

        impl<A: Abi> Mpi<A> {
            fn resolve(library: Library, version: String) -> Result<Mpi<A>, SymbolError> {
                Ok(Mpi {
                    constants: A::constants(&library)?,
                    version,
                    library,
                    testing: Testing::new(),
                    combiner_named: OnceLock::new(),
                    judging: OnceLock::new(),
                    // SAFETY: each type is that of the function in mpi.h (MPI-3.1).
                    $($field: unsafe { library.function($symbol) }?,)*
                    // SAFETY: each type is that of the function in the headers that the type's own comment names.
                    $($rare: [$($name),+].into_iter().find_map(|name| unsafe { library.function(name) }.ok()),)*
                })
            }
        }
    };
}

functions! {
    in all {
        allreduce = c"PMPI_Allreduce": fn(*const c_void, *mut c_void, c_int, Datatype<A>, Op<A>, Comm<A>);
        allgather = c"PMPI_Allgather":
            fn(*const c_void, c_int, Datatype<A>, *mut c_void, c_int, Datatype<A>, Comm<A>);
        allgatherv = c"PMPI_Allgatherv":
            fn(*const c_void, c_int, Datatype<A>, *mut c_void, *const c_int, *const c_int, Datatype<A>, Comm<A>);
        send = c"PMPI_Send": fn(*const c_void, c_int, Datatype<A>, c_int, c_int, Comm<A>);
        bcast = c"PMPI_Bcast": fn(*mut c_void, c_int, Datatype<A>, c_int, Comm<A>);
        iallreduce = c"PMPI_Iallreduce":
            fn(*const c_void, *mut c_void, c_int, Datatype<A>, Op<A>, Comm<A>, *mut Request<A>);
        iallgather = c"PMPI_Iallgather":
            fn(*const c_void, c_int, Datatype<A>, *mut c_void, c_int, Datatype<A>, Comm<A>, *mut Request<A>);
        ibcast = c"PMPI_Ibcast": fn(*mut c_void, c_int, Datatype<A>, c_int, Comm<A>, *mut Request<A>);
        comm_rank = c"PMPI_Comm_rank": fn(Comm<A>, *mut c_int);
        comm_split = c"PMPI_Comm_split": fn(Comm<A>, c_int, c_int, *mut Comm<A>);
        comm_size = c"PMPI_Comm_size": fn(Comm<A>, *mut c_int);
        comm_test_inter = c"PMPI_Comm_test_inter": fn(Comm<A>, *mut c_int);
        comm_set_errhandler = c"PMPI_Comm_set_errhandler": fn(Comm<A>, Errhandler<A>);
        comm_create_keyval = c"PMPI_Comm_create_keyval":
            fn(CopyAttribute<A>, DeleteAttribute<A>, *mut c_int, *mut c_void);
        comm_get_attr = c"PMPI_Comm_get_attr": fn(Comm<A>, c_int, *mut c_void, *mut c_int);
        comm_set_attr = c"PMPI_Comm_set_attr": fn(Comm<A>, c_int, *mut c_void);
        type_size_x = c"PMPI_Type_size_x": fn(Datatype<A>, *mut c_longlong);
        type_get_extent_x = c"PMPI_Type_get_extent_x": fn(Datatype<A>, *mut c_longlong, *mut c_longlong);
        type_get_true_extent_x = c"PMPI_Type_get_true_extent_x": fn(Datatype<A>, *mut c_longlong, *mut c_longlong);
        type_get_name = c"PMPI_Type_get_name": fn(Datatype<A>, *mut c_char, *mut c_int);
        type_get_contents = c"PMPI_Type_get_contents":
            fn(Datatype<A>, c_int, c_int, c_int, *mut c_int, *mut isize, *mut Datatype<A>);
        type_free = c"PMPI_Type_free": fn(*mut Datatype<A>);
        type_contiguous = c"PMPI_Type_contiguous": fn(c_int, Datatype<A>, *mut Datatype<A>);
        type_create_resized = c"PMPI_Type_create_resized": fn(Datatype<A>, isize, isize, *mut Datatype<A>);
        type_dup = c"PMPI_Type_dup": fn(Datatype<A>, *mut Datatype<A>);
        type_commit = c"PMPI_Type_commit": fn(*mut Datatype<A>);
        type_create_keyval = c"PMPI_Type_create_keyval":
            fn(datatypes::CopyAttribute<A>, datatypes::DeleteAttribute<A>, *mut c_int, *mut c_void);
        type_get_attr = c"PMPI_Type_get_attr": fn(Datatype<A>, c_int, *mut c_void, *mut c_int);
        type_set_attr = c"PMPI_Type_set_attr": fn(Datatype<A>, c_int, *mut c_void);
        type_get_envelope = c"PMPI_Type_get_envelope": fn(Datatype<A>, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
        status_set_elements_x = c"PMPI_Status_set_elements_x": fn(*mut A::Status, Datatype<A>, c_longlong);
        status_set_cancelled = c"PMPI_Status_set_cancelled": fn(*mut A::Status, c_int);
        grequest_start = c"PMPI_Grequest_start": fn(Query<A>, Free, Cancel, *mut c_void, *mut Request<A>);
        grequest_complete = c"PMPI_Grequest_complete": fn(Request<A>);
        test = c"PMPI_Test": fn(*mut Request<A>, *mut c_int, *mut A::Status);
        add_error_code = c"PMPI_Add_error_code": fn(c_int, *mut c_int);
        add_error_string = c"PMPI_Add_error_string": fn(c_int, *const c_char);
        info_set = c"PMPI_Info_set": fn(Info<A>, *const c_char, *const c_char);
        info_dup = c"PMPI_Info_dup": fn(Info<A>, *mut Info<A>);
        info_create = c"PMPI_Info_create": fn(*mut Info<A>);
        info_free = c"PMPI_Info_free": fn(*mut Info<A>);
        info_get_nkeys = c"PMPI_Info_get_nkeys": fn(Info<A>, *mut c_int);
        info_get_nthkey = c"PMPI_Info_get_nthkey": fn(Info<A>, c_int, *mut c_char);
        info_get = c"PMPI_Info_get": fn(Info<A>, *const c_char, c_int, *mut c_char, *mut c_int);
        file_open = c"PMPI_File_open": fn(Comm<A>, *const c_char, c_int, Info<A>, *mut MpiFile);
        file_delete = c"PMPI_File_delete": fn(*const c_char, Info<A>);
        file_close = c"PMPI_File_close": fn(*mut MpiFile);
        file_get_position_shared = c"PMPI_File_get_position_shared": fn(MpiFile, *mut i64);
        file_preallocate = c"PMPI_File_preallocate": fn(MpiFile, i64);
        file_get_info = c"PMPI_File_get_info": fn(MpiFile, *mut Info<A>);
        file_seek_shared = c"PMPI_File_seek_shared": fn(MpiFile, i64, c_int);
        file_call_errhandler = c"PMPI_File_call_errhandler": fn(MpiFile, c_int);
        file_get_errhandler = c"PMPI_File_get_errhandler": fn(MpiFile, *mut Errhandler<A>);
        file_set_errhandler = c"PMPI_File_set_errhandler": fn(MpiFile, Errhandler<A>);
        errhandler_free = c"PMPI_Errhandler_free": fn(*mut Errhandler<A>);
        query_thread = c"PMPI_Query_thread": fn(*mut c_int);
        initialized = c"PMPI_Initialized": fn(*mut c_int);
        finalized = c"PMPI_Finalized": fn(*mut c_int);
    }
    in some {
        type_get_envelope_c = c"PMPI_Type_get_envelope_c": datatypes::LargeEnvelope<A>;
        type_get_contents_c = c"PMPI_Type_get_contents_c": datatypes::LargeContents<A>;
        grequest_start_extended = c"PMPIX_Grequest_start" | c"MPIX_Grequest_start": requests::ExtendedStart<A>;
        create_error_code = c"MPIR_Err_create_code": errors::CreateErrorCode;
        progress_register = c"opal_progress_register": requests::RegisterProgress;
    }
}

impl<A: Abi> Mpi<A> {
    /// The process's MPI library, if it is of the family `A`.
    ///
    /// # Errors
    /// Where it is of another family, or lacks a function.
    pub fn get() -> Result<&'static Mpi<A>, Failure> {
        if let Some(mpi) = A::calls().get() {
            return Ok(mpi);
        }
        let unusable =
            |e: SymbolError| Failure::new(ErrorClass::Other, format!("svmio cannot use this MPI: {e}"));
        let library = Library::mpi().map_err(unusable)?;
        let version = library_version(&library).map_err(unusable)?;
        if !version.contains(A::VERSION_MARK) {
            let message = format!(
                "the preloaded svmio library is the one for {}, but this program runs on '{}'; start it with svmio run, \
                 which chooses the right one",
                A::NAME,
                version.lines().next().unwrap_or_default()
            );
            return Err(Failure::new(ErrorClass::Other, message));
        }
        let mpi = Mpi::resolve(library, version).map_err(unusable)?;
        Ok(A::calls().get_or_init(|| mpi))
    }

    /// What `MPI_Get_library_version` says.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether MPI's functions may be called: between `MPI_Init` and `MPI_Finalize`.
    pub fn is_active(&self) -> bool {
        let (mut initialized, mut finalized) = (0, 0);
        // SAFETY: both may be called at any time and store one integer.
        unsafe {
            (self.initialized)(&raw mut initialized);
            (self.finalized)(&raw mut finalized);
        }
        initialized != 0 && finalized == 0
    }

    /// Whether several threads may call MPI at the same time.
    #[must_use]
    pub fn has_many_threads(&self) -> bool {
        /// `MPI_THREAD_MULTIPLE`, equal in all families.
        const MULTIPLE: c_int = 3;
        let mut level = MULTIPLE;
        // SAFETY: stores one integer.
        unsafe { (self.query_thread)(&raw mut level) };
        level >= MULTIPLE
    }

    /// This process's rank in `comm`.
    pub fn rank(&self, comm: Comm<A>) -> c_int {
        let mut rank = 0;
        // SAFETY: stores one integer; an invalid communicator is MPI's to complain about.
        unsafe { (self.comm_rank)(comm, &raw mut rank) };
        rank
    }

    /// The number of ranks of `comm`.
    pub fn size(&self, comm: Comm<A>) -> c_int {
        let mut size = 0;
        // SAFETY: stores one integer; an invalid communicator is MPI's to complain about.
        unsafe { (self.comm_size)(comm, &raw mut size) };
        size
    }

    /// A further communicator of this process alone, without the attributes that the program has of `MPI_COMM_SELF`:
    /// when it is freed, nothing is done that is for the end of MPI.
    pub(crate) fn another_self(&self) -> Option<Comm<A>> {
        let mut own = self.constants.comm_self;
        // SAFETY: stores one handle.
        let code = unsafe { (self.comm_split)(self.constants.comm_self, 0, 0, &raw mut own) };
        (code == SUCCESS).then_some(own)
    }

    /// A key for attributes of communicators, which never goes. A communicator's copies do not have them.
    pub(crate) fn create_attribute(&self, delete: DeleteAttribute<A>) -> Option<c_int> {
        let (mut key, none) = (0, std::ptr::null_mut());
        // SAFETY: stores one integer; the functions live as long as this library, which is never closed.
        let code = unsafe { (self.comm_create_keyval)(do_not_copy::<A>, delete, &raw mut key, none) };
        (code == SUCCESS).then_some(key)
    }

    /// Gives `comm` an attribute, and returns the error code.
    ///
    /// # Safety
    /// `comm` is a communicator.
    pub(crate) unsafe fn set_attribute(&self, comm: Comm<A>, key: c_int, value: *mut c_void) -> c_int {
        // SAFETY: the caller vouches for the communicator; the key is one of `create_attribute`'s.
        unsafe { (self.comm_set_attr)(comm, key, value) }
    }

    /// The attribute of `comm` under `key`.
    ///
    /// # Safety
    /// `comm` is a communicator.
    pub(crate) unsafe fn attribute(&self, comm: Comm<A>, key: c_int) -> Option<*mut c_void> {
        let (mut value, mut is_there) = (std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: stores a pointer and an integer; the caller vouches for the communicator.
        let code = unsafe { (self.comm_get_attr)(comm, key, (&raw mut value).cast(), &raw mut is_there) };
        (code == SUCCESS && is_there != 0).then_some(value)
    }

    /// The largest `value` of all ranks of `comm`; returns on no rank before every rank has called it.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn maximum(&self, comm: Comm<A>, value: c_int) -> Result<c_int, Failure> {
        let mut maximum = value;
        let (int, max) = (self.constants.int, self.constants.max);
        // SAFETY: both buffers are one integer.
        let code = unsafe {
            (self.allreduce)((&raw const value).cast(), (&raw mut maximum).cast(), 1, int, max, comm)
        };
        check(code, "MPI_Allreduce").map(|()| maximum)
    }

    /// The same of several numbers, each for itself.
    ///
    /// # Errors
    /// As [`Mpi::maximum`].
    pub(crate) fn maxima(&self, comm: Comm<A>, values: &mut [i64]) -> Result<(), Failure> {
        let mine = values.to_vec();
        let (long_long, max) = (self.constants.long_long, self.constants.max);
        let (mine, all, count) = (mine.as_ptr().cast(), values.as_mut_ptr().cast(), values.len() as c_int);
        // SAFETY: both buffers are so many numbers of C's type long long.
        let code = unsafe { (self.allreduce)(mine, all, count, long_long, max, comm) };
        check(code, "MPI_Allreduce")
    }

    /// Gives rank `root`'s `bytes` to all ranks of `comm`.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn broadcast(&self, comm: Comm<A>, root: c_int, bytes: &mut [u8]) -> Result<(), Failure> {
        // SAFETY: the buffer is the slice; messages of this crate are far shorter than an integer's range.
        let code = unsafe {
            (self.bcast)(bytes.as_mut_ptr().cast(), bytes.len() as c_int, self.constants.byte, root, comm)
        };
        check(code, "MPI_Bcast")
    }

    /// Gives `mine` to all ranks of `comm`, and everybody's, in the order of ranks, to this one. All are of one length.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub(crate) fn all_gather_into(&self, comm: Comm<A>, mine: &[u8], all: &mut [u8]) -> Result<(), Failure> {
        assert!(all.len() >= mine.len() * self.size(comm).unsigned_abs() as usize, "there is room for all");
        let (length, byte) = (mine.len() as c_int, self.constants.byte);
        // SAFETY: the buffers are the slices, of which the second has room for as much of each rank.
        let code = unsafe {
            (self.allgather)(mine.as_ptr().cast(), length, byte, all.as_mut_ptr().cast(), length, byte, comm)
        };
        check(code, "MPI_Allgather")
    }

    /// Gives `mine` to all ranks of `comm`; returns everybody's, in the order of ranks. All are of one length.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn all_gather_equal(&self, comm: Comm<A>, mine: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        if mine.is_empty() {
            return Ok(vec![Vec::new(); self.size(comm).unsigned_abs() as usize]);
        }
        let mut all = vec![0u8; mine.len() * self.size(comm).unsigned_abs() as usize];
        self.all_gather_into(comm, mine, &mut all)?;
        Ok(all.chunks_exact(mine.len()).map(<[u8]>::to_vec).collect())
    }

    /// The same where the lengths differ.
    ///
    /// # Errors
    /// As [`Mpi::all_gather_equal`]; [`ErrorClass::Other`] where it is more than MPI can count.
    pub fn all_gather(&self, comm: Comm<A>, mine: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let too_long = || Failure::new(ErrorClass::Other, "the ranks have more to tell than 2 GiB");
        let length = c_int::try_from(mine.len()).map_err(|_| too_long())?;
        let lengths: Vec<c_int> = self
            .all_gather_equal(comm, &length.to_ne_bytes())?
            .iter()
            .map(|bytes| c_int::from_ne_bytes(bytes[..].try_into().expect("four bytes")))
            .collect();
        let mut end: c_int = 0;
        let mut starts = Vec::with_capacity(lengths.len());
        for length in &lengths {
            starts.push(end);
            end = end.checked_add(*length).ok_or_else(too_long)?;
        }
        let mut all = vec![0u8; end.unsigned_abs() as usize];
        let byte = self.constants.byte;
        // SAFETY: each rank's part lies behind those before it, and the vector has room for all.
        let code = unsafe {
            let to = all.as_mut_ptr().cast();
            let (lengths, starts) = (lengths.as_ptr(), starts.as_ptr());
            (self.allgatherv)(mine.as_ptr().cast(), length, byte, to, lengths, starts, byte, comm)
        };
        check(code, "MPI_Allgatherv")?;
        let part =
            |(start, length): (&c_int, &c_int)| all[*start as usize..(start + length) as usize].to_vec();
        Ok(starts.iter().zip(&lengths).map(part).collect())
    }

    /// The stock function `symbol`, a name with its closing zero.
    ///
    /// # Safety
    /// `F` is a function pointer of the type that the function has.
    pub unsafe fn stock<F: Copy>(&self, symbol: &str) -> Option<F> {
        let symbol = CStr::from_bytes_with_nul(symbol.as_bytes()).ok()?;
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.function(symbol) }.ok()
    }
}

fn library_version(library: &Library) -> Result<String, SymbolError> {
    /// MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longer one.
    const LONGEST: usize = 8192;
    // SAFETY: the type of MPI_Get_library_version in every MPI since 3.0; it may be called at any time.
    let get: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int =
        unsafe { library.function(c"PMPI_Get_library_version") }?;
    let mut text = vec![0u8; LONGEST];
    let mut length = 0;
    // SAFETY: the buffer is as long as any MPI's limit.
    unsafe { get(text.as_mut_ptr().cast(), &raw mut length) };
    Ok(CStr::from_bytes_until_nul(&text).map(|t| t.to_string_lossy().into_owned()).unwrap_or_default())
}

fn check(code: c_int, function: &str) -> Result<(), Failure> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(Failure::new(ErrorClass::Other, format!("{function} failed with code {code}")))
}

unsafe extern "C" fn do_not_copy<A: Abi>(
    _comm: Comm<A>,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    copies: *mut c_int,
) -> c_int {
    // SAFETY: MPI's own flag.
    unsafe { copies.write(0) };
    SUCCESS
}
