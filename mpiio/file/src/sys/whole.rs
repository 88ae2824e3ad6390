//! What concerns a file as a whole.

use std::mem::ManuallyDrop;

use mpi::topology::traits::Communicator;

use super::*;

/// Gives one number about a file.
pub(crate) type Question<N> = Function<unsafe extern "C" fn(MPI_File, *mut N) -> c_int>;

/// Is told one number about a file.
pub(crate) type Order<N> = Function<unsafe extern "C" fn(MPI_File, N) -> c_int>;

/// Moves a pointer of the file's.
pub(crate) type Seek = Function<unsafe extern "C" fn(MPI_File, ffi::MPI_Offset, c_int) -> c_int>;

macro_rules! functions {
    ($($constant:ident: $kind:ty = $function:ident;)*) => {$(
        pub(crate) const $constant: $kind = Function { name: stringify!($function), function: ffi::$function };
    )*};
}

functions! {
    SIZE: Question<ffi::MPI_Offset> = MPI_File_get_size;
    ACCESS_MODE: Question<c_int> = MPI_File_get_amode;
    ATOMICITY: Question<c_int> = MPI_File_get_atomicity;
    POSITION: Question<ffi::MPI_Offset> = MPI_File_get_position;
    POSITION_SHARED: Question<ffi::MPI_Offset> = MPI_File_get_position_shared;
    SET_SIZE: Order<ffi::MPI_Offset> = MPI_File_set_size;
    PREALLOCATE: Order<ffi::MPI_Offset> = MPI_File_preallocate;
    SET_ATOMICITY: Order<c_int> = MPI_File_set_atomicity;
    SEEK: Seek = MPI_File_seek;
    SEEK_SHARED: Seek = MPI_File_seek_shared;
}

impl Handle {
    /// Opens a file, together with all ranks of the communicator.
    pub(crate) fn open<C: Communicator + ?Sized>(
        communicator: &C,
        name: &CStr,
        mode: c_int,
        info: &Info,
    ) -> Result<Self, Failure> {
        demand_active("MPI_File_open")?;
        let mut file = MaybeUninit::<MPI_File>::zeroed();
        // SAFETY: the communicator and the info are valid, the name ends with a zero; the place of the answer is ours.
        let code = unsafe {
            ffi::MPI_File_open(communicator.as_raw(), name.as_ptr(), mode, info.raw(), file.as_mut_ptr())
        };
        Failure::unless_success("MPI_File_open", code)?;
        // SAFETY: MPI has written the handle, since it succeeded.
        Ok(Self(unsafe { file.assume_init() }))
    }

    /// Closes it, together with all ranks that opened it.
    pub(crate) fn close(self) -> Result<(), Failure> {
        ManuallyDrop::new(self).close_here()
    }

    fn close_here(&mut self) -> Result<(), Failure> {
        demand_active("MPI_File_close")?;
        // SAFETY: the file is open, and nobody uses it any more: both callers have it for themselves, and end it.
        let code = unsafe { ffi::MPI_File_close(&mut self.0) };
        Failure::unless_success("MPI_File_close", code)
    }

    /// Brings what this rank has written to the devices, and what others have to this rank.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        demand_active("MPI_File_sync")?;
        // SAFETY: the file is open.
        Failure::unless_success("MPI_File_sync", unsafe { ffi::MPI_File_sync(self.0) })
    }

    pub(crate) fn ask<N: Default>(&self, question: &Question<N>) -> Result<N, Failure> {
        demand_active(question.name)?;
        let mut answer = N::default();
        // SAFETY: the file is open; the place of the answer is ours.
        let code = unsafe { (question.function)(self.0, &mut answer) };
        Failure::unless_success(question.name, code)?;
        Ok(answer)
    }

    pub(crate) fn order<N>(&self, order: &Order<N>, number: N) -> Result<(), Failure> {
        demand_active(order.name)?;
        // SAFETY: the file is open; MPI refuses numbers that make no sense.
        Failure::unless_success(order.name, unsafe { (order.function)(self.0, number) })
    }

    pub(crate) fn seek(&self, seek: &Seek, offset: ffi::MPI_Offset, whence: c_int) -> Result<(), Failure> {
        demand_active(seek.name)?;
        // SAFETY: as in `order`.
        Failure::unless_success(seek.name, unsafe { (seek.function)(self.0, offset, whence) })
    }

    /// At which byte of the file an offset in the view lies.
    pub(crate) fn byte_offset(&self, offset: ffi::MPI_Offset) -> Result<ffi::MPI_Offset, Failure> {
        demand_active("MPI_File_get_byte_offset")?;
        let mut byte = 0;
        // SAFETY: the file is open; the place of the answer is ours.
        let code = unsafe { ffi::MPI_File_get_byte_offset(self.0, offset, &mut byte) };
        Failure::unless_success("MPI_File_get_byte_offset", code)?;
        Ok(byte)
    }

    /// The hints in force.
    pub(crate) fn info(&self) -> Result<Info, Failure> {
        demand_active("MPI_File_get_info")?;
        // SAFETY: MPI's constant.
        let mut info = unsafe { ffi::RSMPI_INFO_NULL };
        // SAFETY: the file is open, and the place of the answer is ours.
        let code = unsafe { ffi::MPI_File_get_info(self.0, &mut info) };
        Failure::unless_success("MPI_File_get_info", code)?;
        Ok(Info::made(info))
    }

    pub(crate) fn set_info(&self, info: &Info) -> Result<(), Failure> {
        demand_active("MPI_File_set_info")?;
        // SAFETY: the file is open, and the info valid.
        Failure::unless_success("MPI_File_set_info", unsafe { ffi::MPI_File_set_info(self.0, info.raw()) })
    }

    /// How many bytes of the file an element takes, with its gaps.
    pub(crate) fn type_extent(&self, datatype: MPI_Datatype) -> Result<ffi::MPI_Aint, Failure> {
        demand_active("MPI_File_get_type_extent")?;
        let mut extent = 0;
        // SAFETY: the file is open; whoever has the datatype's handle has borrowed it; the place of the answer is ours.
        let code = unsafe { ffi::MPI_File_get_type_extent(self.0, datatype, &mut extent) };
        Failure::unless_success("MPI_File_get_type_extent", code)?;
        Ok(extent)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A rank that panics would wait here for others that do not come.
        if !std::thread::panicking() {
            // Who wants to know has closed it.
            let _ = self.close_here();
        }
    }
}

/// Removes a file.
pub(crate) fn delete(name: &CStr, info: &Info) -> Result<(), Failure> {
    demand_active("MPI_File_delete")?;
    // SAFETY: the name ends with a zero, and the info is valid.
    Failure::unless_success("MPI_File_delete", unsafe { ffi::MPI_File_delete(name.as_ptr(), info.raw()) })
}
