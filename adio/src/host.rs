//! The ROMIO that we are in: its release, and the generic functions that we take from it.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::abi::{Abi, Datatype, Info, SUCCESS};
use crate::calls::Mpi;
use crate::failure::{self, ErrorClass, Failure};
use crate::layout::{FunctionTable, RomioFile, slot};
use crate::strided::{Access, Direction};

/// What changed in ROMIO's interface to its drivers over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// How counts are passed.
    pub count: CountType,
    /// Whether there is a `SetLock`.
    pub has_set_lock: bool,
}

/// The type of the count argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountType {
    /// `int`, up to ROMIO 4.0.
    Int,
    /// `MPI_Aint`, from 4.1 on.
    Aint,
}

/// A count argument as ROMIO passes it.
pub trait Count: Copy + 'static {
    /// The number.
    fn get(self) -> i64;
    /// The argument for a number that came as one.
    fn new(count: i64) -> Self;
}

impl Count for c_int {
    fn get(self) -> i64 {
        self.into()
    }
    fn new(count: i64) -> c_int {
        count as c_int
    }
}

impl Count for isize {
    fn get(self) -> i64 {
        self as i64
    }
    fn new(count: i64) -> isize {
        count as isize
    }
}

type AccessFunction<A, C> = unsafe extern "C" fn(
    *mut RomioFile<A>,
    *mut c_void,
    C,
    Datatype<A>,
    c_int,
    i64,
    *mut <A as Abi>::Status,
    *mut c_int,
);
/// ROMIO's `ADIOI_Datatype_iscontig`.
pub type IsContiguous<A> = unsafe extern "C" fn(Datatype<A>, *mut c_int);

/// The process's ROMIO.
#[derive(Debug)]
pub struct Host<A: Abi> {
    generation: Generation,
    generic: FunctionTable,
    is_contiguous: Option<IsContiguous<A>>,
    family: PhantomData<A>,
}

impl<A: Abi> Host<A> {
    /// The ROMIO whose generic functions are those of `generic`, its driver for Unix file systems.
    pub fn new(
        generation: Generation,
        generic: FunctionTable,
        is_contiguous: Option<IsContiguous<A>>,
    ) -> Host<A> {
        Host { generation, generic, is_contiguous, family: PhantomData }
    }

    /// Its generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The generic function in position `slot`.
    pub(crate) fn generic(&self, slot: usize) -> *const c_void {
        self.generic.0[slot]
    }

    /// The generic SetInfo.
    ///
    /// # Safety
    /// `fd` is ROMIO's, `info` an info object or the null one.
    pub(crate) unsafe fn set_info(&self, fd: *mut RomioFile<A>, info: Info<A>) -> c_int {
        type SetInfo<A> = unsafe extern "C" fn(*mut RomioFile<A>, Info<A>, *mut c_int);
        let mut code = SUCCESS;
        // SAFETY: the type of this position's functions in adioi.h; the caller vouches for the arguments.
        unsafe {
            let function: SetInfo<A> = std::mem::transmute(self.generic(slot::SET_INFO));
            function(fd, info, &raw mut code);
        }
        code
    }

    /// The generic strided access.
    ///
    /// # Safety
    /// `fd` and the parts of `access` are as ROMIO gave them.
    pub(crate) unsafe fn strided(&self, fd: *mut RomioFile<A>, access: &Access<A>) -> Result<(), Failure> {
        let slot = match access.direction {
            Direction::Read => slot::READ_STRIDED,
            Direction::Write => slot::WRITE_STRIDED,
        };
        // SAFETY: the caller vouches for the arguments.
        unsafe { self.access(slot, fd, access) }
    }

    /// Whether ROMIO takes `datatype`, of memory, for contiguous, so that its strided functions do not deal with it.
    /// Where ROMIO's own answer cannot be had, those deal with contiguous types, too.
    pub(crate) fn is_contiguous(&self, mpi: &Mpi<A>, datatype: Datatype<A>) -> bool {
        self.romios_answer(datatype).unwrap_or_else(|| mpi.is_contiguous(datatype))
    }

    /// The same of a file type.
    pub(crate) fn is_contiguous_in_file(&self, mpi: &Mpi<A>, datatype: Datatype<A>) -> bool {
        self.romios_answer(datatype).unwrap_or_else(|| mpi.is_contiguous_in_file(datatype))
    }

    fn romios_answer(&self, datatype: Datatype<A>) -> Option<bool> {
        let mut contiguous = 0;
        // SAFETY: stores one integer; ROMIO has checked the datatype.
        self.is_contiguous.map(|function| unsafe { function(datatype, &raw mut contiguous) })?;
        Some(contiguous != 0)
    }

    unsafe fn access(&self, slot: usize, fd: *mut RomioFile<A>, access: &Access<A>) -> Result<(), Failure> {
        let code = match self.generation.count {
            // SAFETY: the generation tells the type of the function; the caller vouches for the arguments.
            CountType::Int => unsafe { self.call::<c_int>(slot, fd, access) },
            // SAFETY: as above.
            CountType::Aint => unsafe { self.call::<isize>(slot, fd, access) },
        };
        if code == SUCCESS {
            return Ok(());
        }
        Err(failure::behind(code).unwrap_or_else(|| {
            // SAFETY: ROMIO's file is valid.
            let name = unsafe { (*fd).name() }.to_string_lossy();
            Failure::new(ErrorClass::Io, format!("ROMIO could not access svm:{name}")).with_code(code)
        }))
    }

    unsafe fn call<C: Count>(&self, slot: usize, fd: *mut RomioFile<A>, access: &Access<A>) -> c_int {
        let mut code = SUCCESS;
        // SAFETY: the type of this position's functions in adioi.h of the generation that `C` belongs to.
        let function: AccessFunction<A, C> = unsafe { std::mem::transmute(self.generic(slot)) };
        let (pointer, offset) = (access.position.pointer, access.position.offset);
        // SAFETY: the caller vouches for the arguments.
        unsafe {
            function(
                fd,
                access.buffer,
                C::new(access.count),
                access.datatype,
                pointer,
                offset,
                access.status,
                &raw mut code,
            );
        }
        code
    }
}

/// The host, once it is known. Each family has one in a process.
pub trait HasHost: Abi {
    /// Where it is kept.
    fn host() -> &'static OnceLock<Host<Self>>;

    /// The user's info object, of which ROMIO has got `info`.
    fn users_info(info: Info<Self>) -> Info<Self> {
        info
    }
}

impl HasHost for crate::abi::mpich::Mpich {
    fn host() -> &'static OnceLock<Host<Self>> {
        static HOST: OnceLock<Host<crate::abi::mpich::Mpich>> = OnceLock::new();
        &HOST
    }
}

impl HasHost for crate::abi::openmpi::OpenMpi {
    fn host() -> &'static OnceLock<Host<Self>> {
        static HOST: OnceLock<Host<crate::abi::openmpi::OpenMpi>> = OnceLock::new();
        &HOST
    }

    fn users_info(info: Info<Self>) -> Info<Self> {
        crate::plug::openmpi::users_info().unwrap_or(info)
    }
}
