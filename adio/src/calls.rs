//! The MPI functions that the device calls, resolved once per process.
//!
//! Always the `PMPI_` names: tools that count a program's MPI calls should not count ours.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};

use crate::abi::{Abi, Comm, Constants, Datatype, Errhandler, Info, MpiFile, Op, Request, SUCCESS};
use crate::failure::{ErrorClass, Failure};
use crate::library::{Library, SymbolError};

/// A function that was told to do nothing more than to say so.
type Query<A> = unsafe extern "C" fn(*mut c_void, *mut <A as Abi>::Status) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// An MPI library's functions and predefined handles.
        pub struct Mpi<A: Abi> {
            /// Predefined handles.
            pub constants: Constants<A>,
            version: String,
            library: Library,
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<A: Abi> Mpi<A> {
            fn resolve(library: Library, version: String) -> Result<Mpi<A>, SymbolError> {
                Ok(Mpi {
                    constants: A::constants(&library)?,
                    version,
                    library,
                    // SAFETY: each type is that of the function in mpi.h (MPI-3.1).
                    $($field: unsafe { library.function($symbol) }?,)*
                })
            }
        }
    };
}

functions! {
    allreduce = c"PMPI_Allreduce": fn(*const c_void, *mut c_void, c_int, Datatype<A>, Op<A>, Comm<A>);
    bcast = c"PMPI_Bcast": fn(*mut c_void, c_int, Datatype<A>, c_int, Comm<A>);
    comm_rank = c"PMPI_Comm_rank": fn(Comm<A>, *mut c_int);
    comm_size = c"PMPI_Comm_size": fn(Comm<A>, *mut c_int);
    type_size_x = c"PMPI_Type_size_x": fn(Datatype<A>, *mut c_longlong);
    type_get_extent_x = c"PMPI_Type_get_extent_x": fn(Datatype<A>, *mut c_longlong, *mut c_longlong);
    type_get_true_extent_x = c"PMPI_Type_get_true_extent_x": fn(Datatype<A>, *mut c_longlong, *mut c_longlong);
    type_get_contents = c"PMPI_Type_get_contents":
        fn(Datatype<A>, c_int, c_int, c_int, *mut c_int, *mut isize, *mut Datatype<A>);
    type_free = c"PMPI_Type_free": fn(*mut Datatype<A>);
    type_get_envelope = c"PMPI_Type_get_envelope": fn(Datatype<A>, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    status_set_elements_x = c"PMPI_Status_set_elements_x": fn(*mut A::Status, Datatype<A>, c_longlong);
    status_set_cancelled = c"PMPI_Status_set_cancelled": fn(*mut A::Status, c_int);
    grequest_start = c"PMPI_Grequest_start": fn(Query<A>, Free, Cancel, *mut c_void, *mut Request<A>);
    grequest_complete = c"PMPI_Grequest_complete": fn(Request<A>);
    add_error_code = c"PMPI_Add_error_code": fn(c_int, *mut c_int);
    add_error_string = c"PMPI_Add_error_string": fn(c_int, *const c_char);
    error_class = c"PMPI_Error_class": fn(c_int, *mut c_int);
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
    initialized = c"PMPI_Initialized": fn(*mut c_int);
    finalized = c"PMPI_Finalized": fn(*mut c_int);
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

    /// The bytes of data in one `datatype`.
    pub fn type_size(&self, datatype: Datatype<A>) -> u64 {
        let mut size: c_longlong = 0;
        // SAFETY: stores one MPI_Count; ROMIO has checked the datatype.
        unsafe { (self.type_size_x)(datatype, &raw mut size) };
        u64::try_from(size).unwrap_or(0)
    }

    /// Whether `datatype`, repeated, is bytes in a row and in order. Also false where that takes more to find out.
    pub fn is_contiguous(&self, datatype: Datatype<A>) -> bool {
        // What number a named type's combiner has differs between the families; MPI_BYTE has it in each. That of
        // MPI_Type_contiguous is two further on in each.
        let combiner = self.combiner(datatype) - self.combiner(self.constants.byte);
        const NAMED: c_int = 0;
        const CONTIGUOUS: c_int = 2;
        self.is_contiguous_in_file(datatype)
            && (combiner == NAMED || combiner == CONTIGUOUS && self.is_made_of_contiguous(datatype))
    }

    /// Whether `datatype`, seen in a file, is bytes in a row: file types are in order by MPI's rules.
    pub fn is_contiguous_in_file(&self, datatype: Datatype<A>) -> bool {
        let (mut lower, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
        // SAFETY: each stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe {
            (self.type_get_extent_x)(datatype, &raw mut lower, &raw mut extent);
            (self.type_get_true_extent_x)(datatype, &raw mut true_lower, &raw mut true_extent);
        }
        let size = self.type_size(datatype);
        lower == 0 && true_lower == 0 && extent == true_extent && u64::try_from(extent) == Ok(size)
    }

    /// The bytes from one `datatype` to the next in memory.
    pub fn extent(&self, datatype: Datatype<A>) -> i64 {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: stores two MPI_Counts; ROMIO has checked the datatype.
        unsafe { (self.type_get_extent_x)(datatype, &raw mut lower, &raw mut extent) };
        extent
    }

    /// Whether the type that a contiguous `datatype` repeats is itself contiguous.
    fn is_made_of_contiguous(&self, datatype: Datatype<A>) -> bool {
        let (mut count, mut address, mut inner) = (0, 0isize, datatype);
        // SAFETY: the contents of MPI_Type_contiguous are one integer, no address and one datatype.
        let code = unsafe {
            (self.type_get_contents)(datatype, 1, 0, 1, &raw mut count, &raw mut address, &raw mut inner)
        };
        if code != SUCCESS {
            return false;
        }
        let contiguous = self.is_contiguous(inner);
        if self.combiner(inner) != self.combiner(self.constants.byte) {
            // SAFETY: MPI_Type_get_contents gives new handles of types that are not predefined.
            unsafe { (self.type_free)(&raw mut inner) };
        }
        contiguous
    }

    fn combiner(&self, datatype: Datatype<A>) -> c_int {
        let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
        let (integers, addresses, datatypes) = (&raw mut integers, &raw mut addresses, &raw mut datatypes);
        // SAFETY: stores four integers; ROMIO has checked the datatype.
        unsafe { (self.type_get_envelope)(datatype, integers, addresses, datatypes, &raw mut combiner) };
        combiner
    }

    /// Makes `status` tell of `bytes` bytes.
    ///
    /// # Safety
    /// `status` is one, or MPI's constant for ignoring it.
    pub unsafe fn set_status(&self, status: *mut A::Status, bytes: u64) {
        if status as usize != A::STATUS_IGNORE {
            // SAFETY: the caller vouches for the status.
            unsafe { (self.status_set_elements_x)(status, self.constants.byte, bytes as c_longlong) };
        }
    }

    /// A request that is complete, with `bytes` bytes in its status.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn completed_request(&self, bytes: u64) -> Result<Request<A>, Failure> {
        let mut request = self.constants.request_null;
        let state = Box::into_raw(Box::new(bytes));
        // SAFETY: the three functions take the state that is given here, which `free` releases.
        let code = unsafe {
            (self.grequest_start)(
                query_request::<A>,
                free_request,
                cancel_request,
                state.cast(),
                &raw mut request,
            )
        };
        check(code, "MPI_Grequest_start").inspect_err(|_| {
            // SAFETY: MPI did not take the state; it came from a box just now.
            drop(unsafe { Box::from_raw(state) });
        })?;
        // SAFETY: the request was started just now.
        check(unsafe { (self.grequest_complete)(request) }, "MPI_Grequest_complete")?;
        Ok(request)
    }

    /// A new error code in `class`.
    pub(crate) fn add_error_code(&self, class: c_int) -> Result<c_int, Failure> {
        let mut code = class;
        // SAFETY: stores one integer.
        check(unsafe { (self.add_error_code)(class, &raw mut code) }, "MPI_Add_error_code")?;
        Ok(A::dynamic_code(code))
    }

    /// The text of an error code that [`Mpi::add_error_code`] made.
    pub(crate) fn set_error_string(&self, code: c_int, text: &CStr) {
        // SAFETY: the text is a string of permitted length.
        unsafe { (self.add_error_string)(code, text.as_ptr()) };
    }

    /// The stock `MPI_Error_class`.
    ///
    /// # Safety
    /// `class` is valid for a write.
    pub unsafe fn error_class(&self, code: c_int, class: *mut c_int) -> c_int {
        // SAFETY: the caller vouches for the pointer.
        unsafe { (self.error_class)(code, class) }
    }

    /// Sets a key of `info`. A value that is too long for this MPI is left out.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn set_info(&self, info: Info<A>, key: &CStr, value: &str) -> Result<(), Failure> {
        if value.len() >= A::MAX_INFO_VALUE {
            tracing::debug!("{} is too long for an info object: {value}", key.to_string_lossy());
            return Ok(());
        }
        let value = CString::new(value).unwrap_or_default();
        // SAFETY: both are strings.
        check(unsafe { (self.info_set)(info, key.as_ptr(), value.as_ptr()) }, "MPI_Info_set")
    }

    /// The value of a key of `info`, if it has one.
    pub fn info(&self, info: Info<A>, key: &CStr) -> Option<String> {
        /// MPI_MAX_INFO_VAL is 1,024 in MPICH and 256 in Open MPI.
        const LONGEST: usize = 1024;
        if info.0 == self.constants.info_null.0 {
            return None;
        }
        let mut value = [0u8; LONGEST + 1];
        let mut found = 0;
        // SAFETY: the buffer has room for the length that is given and a closing zero.
        let code =
            unsafe { (self.info_get)(info, key.as_ptr(), 255, value.as_mut_ptr().cast(), &raw mut found) };
        (code == SUCCESS && found != 0)
            .then(|| CStr::from_bytes_until_nul(&value).ok().map(|v| v.to_string_lossy().into_owned()))
            .flatten()
    }

    /// Runs `body` with a new info object that has all of `first`, and what of `second` is not in it.
    ///
    /// # Errors
    /// Those of `body`, and MPI's own, where its handler returns.
    pub fn with_merged_info(
        &self,
        first: Info<A>,
        second: Info<A>,
        body: impl FnOnce(Info<A>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut merged = self.constants.info_null;
        // SAFETY: stores a new info object.
        check(unsafe { (self.info_create)(&raw mut merged) }, "MPI_Info_create")?;
        let filled = [second, first].into_iter().try_for_each(|info| {
            let keys = self.keys(info).into_iter();
            keys.filter_map(|key| Some((self.info(info, &key)?, key)))
                .try_for_each(|(value, key)| self.set_info(merged, &key, &value))
        });
        let outcome = filled.and_then(|()| body(merged));
        // SAFETY: the object was made above.
        unsafe { (self.info_free)(&raw mut merged) };
        outcome
    }

    fn keys(&self, info: Info<A>) -> Vec<CString> {
        let mut count = 0;
        if info.0 == self.constants.info_null.0 {
            return Vec::new();
        }
        // SAFETY: stores one integer.
        unsafe { (self.info_get_nkeys)(info, &raw mut count) };
        let key = |n| {
            // MPI_MAX_INFO_KEY is 255 in MPICH and 36 in Open MPI.
            let mut key = [0u8; 256];
            // SAFETY: the buffer has room for the longest key.
            let code = unsafe { (self.info_get_nthkey)(info, n, key.as_mut_ptr().cast()) };
            (code == SUCCESS).then(|| CStr::from_bytes_until_nul(&key).ok().map(CStr::to_owned)).flatten()
        };
        (0..count).filter_map(key).collect()
    }

    /// The stock `MPI_File_open`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_open(
        &self,
        comm: Comm<A>,
        name: *const c_char,
        amode: c_int,
        info: Info<A>,
        file: *mut MpiFile,
    ) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_open)(comm, name, amode, info, file) }
    }

    /// The stock `MPI_File_delete`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_delete(&self, name: *const c_char, info: Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_delete)(name, info) }
    }

    /// The stock `MPI_Info_dup`.
    ///
    /// # Safety
    /// `info` is an info object, and `copy` valid for a write.
    pub unsafe fn duplicate_info(&self, info: Info<A>, copy: *mut Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.info_dup)(info, copy) }
    }

    /// The stock `MPI_File_close`.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn file_close(&self, file: &mut MpiFile) -> c_int {
        // SAFETY: the caller vouches for the file.
        unsafe { (self.file_close)(file) }
    }

    /// Asks for the shared file pointer by the stock `MPI_File_get_position_shared`, which makes its file where
    /// there is none yet, and returns the error code.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn touch_shared_pointer(&self, file: MpiFile) -> c_int {
        let mut position = 0;
        // SAFETY: the caller vouches for the file.
        unsafe { (self.file_get_position_shared)(file, &raw mut position) }
    }

    /// The stock `MPI_File_preallocate`.
    ///
    /// # Safety
    /// `file` is an open file.
    pub unsafe fn file_preallocate(&self, file: MpiFile, size: i64) -> c_int {
        // SAFETY: the caller vouches for the file.
        unsafe { (self.file_preallocate)(file, size) }
    }

    /// The stock `MPI_File_get_info`.
    ///
    /// # Safety
    /// The arguments are as MPI wants them.
    pub unsafe fn file_get_info(&self, file: MpiFile, info: *mut Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.file_get_info)(file, info) }
    }

    /// The stock `MPI_File_seek_shared`, from the beginning of the view.
    ///
    /// # Safety
    /// `file` is an open file, and every rank that opened it makes the same call.
    pub unsafe fn file_seek_shared(&self, file: MpiFile, offset: i64) -> c_int {
        // SAFETY: the caller vouches for the file.
        unsafe { (self.file_seek_shared)(file, offset, crate::abi::SEEK_SET) }
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

    /// Reports that this MPI lacks a function.
    pub fn missing(&self, function: &str) -> c_int {
        let message = format!("this MPI has no {function}");
        self.report(Failure::new(ErrorClass::Unsupported, message).to_code(self))
    }

    /// Has the error handler that files without a handle have deal with `code`, and returns it.
    pub fn report(&self, code: c_int) -> c_int {
        if code != SUCCESS {
            A::call_handler_without_file(self, code);
        }
        code
    }

    /// Has the error handler of the open file `file` deal with `code`, and returns it.
    pub fn report_on(&self, file: MpiFile, code: c_int) -> c_int {
        if code != SUCCESS {
            self.call_handler(file, code);
        }
        code
    }

    /// Calls the error handler of `file`.
    pub(crate) fn call_handler(&self, file: MpiFile, code: c_int) {
        // SAFETY: the file is open, or MPI_FILE_NULL.
        unsafe { (self.file_call_errhandler)(file, code) };
    }

    /// The error handler of `file`.
    pub(crate) fn error_handler(&self, file: MpiFile) -> Option<Errhandler<A>> {
        let mut handler = std::mem::MaybeUninit::uninit();
        // SAFETY: stores the handler where it succeeds.
        unsafe {
            ((self.file_get_errhandler)(file, handler.as_mut_ptr()) == SUCCESS).then(|| handler.assume_init())
        }
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

unsafe extern "C" fn query_request<A: Abi>(state: *mut c_void, status: *mut A::Status) -> c_int {
    // SAFETY: the state is the box of `completed_request`, alive until `free_request`.
    let bytes = unsafe { *state.cast::<u64>() };
    let Ok(mpi) = Mpi::<A>::get() else { return A::error_class(ErrorClass::Other) };
    // SAFETY: MPI passes a status of its own.
    unsafe {
        mpi.set_status(status, bytes);
        (mpi.status_set_cancelled)(status, 0)
    }
}

unsafe extern "C" fn free_request(state: *mut c_void) -> c_int {
    // SAFETY: the state is the box of `completed_request`, and MPI frees a request once.
    drop(unsafe { Box::from_raw(state.cast::<u64>()) });
    SUCCESS
}

unsafe extern "C" fn cancel_request(_: *mut c_void, _: c_int) -> c_int {
    // It is complete: too late for cancelling, which MPI permits.
    SUCCESS
}
