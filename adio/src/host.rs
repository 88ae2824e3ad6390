//! The ROMIO that we are in: its release, and the generic functions that we take from it.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::abi::{Abi, Info, SUCCESS};
use crate::layout::{FunctionTable, RomioFile, slot};

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
}

impl Count for c_int {
    fn get(self) -> i64 {
        self.into()
    }
}

impl Count for isize {
    fn get(self) -> i64 {
        self as i64
    }
}

/// The process's ROMIO.
#[derive(Debug)]
pub struct Host<A: Abi> {
    generation: Generation,
    generic: FunctionTable,
    family: PhantomData<A>,
}

impl<A: Abi> Host<A> {
    /// The ROMIO whose generic functions are those of `generic`, its driver for Unix file systems.
    pub fn new(generation: Generation, generic: FunctionTable) -> Host<A> {
        Host { generation, generic, family: PhantomData }
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
