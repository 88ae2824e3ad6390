//! Hints as MPI takes and gives them.

use std::ffi::{CStr, CString, c_char};

use super::*;

/// An info object of MPI's, or none.
pub(crate) struct Info(ffi::MPI_Info);

impl Info {
    /// One with these keys and values, none where there are none.
    pub(crate) fn of<'h>(hints: impl Iterator<Item = (&'h CStr, &'h CStr)>) -> Result<Self, Failure> {
        // SAFETY: MPI's constant.
        let mut info = Self(unsafe { ffi::RSMPI_INFO_NULL });
        let mut hints = hints.peekable();
        if hints.peek().is_none() {
            return Ok(info);
        }
        demand_active("MPI_Info_create")?;
        let _quiet = Quiet::begin();
        // SAFETY: the place of the answer is ours.
        let code = unsafe { ffi::MPI_Info_create(&mut info.0) };
        Failure::unless_success("MPI_Info_create", code)?;
        for (key, value) in hints {
            // SAFETY: both end with a zero; MPI refuses what is too long, and copies the rest.
            let code = unsafe { ffi::MPI_Info_set(info.0, key.as_ptr(), value.as_ptr()) };
            Failure::unless_success("MPI_Info_set", code)?;
        }
        Ok(info)
    }

    /// All keys and values in it.
    pub(crate) fn read(&self) -> Result<Vec<(CString, CString)>, Failure> {
        if self.is_none() {
            return Ok(Vec::new());
        }
        let mut keys = 0;
        // SAFETY: the info is valid; the place of the answer is ours.
        let code = unsafe { ffi::MPI_Info_get_nkeys(self.0, &mut keys) };
        Failure::unless_success("MPI_Info_get_nkeys", code)?;
        (0..keys).map(|index| self.entry(index)).collect()
    }

    fn entry(&self, index: c_int) -> Result<(CString, CString), Failure> {
        let mut key = [0 as c_char; ffi::MPI_MAX_INFO_KEY as usize + 1];
        let mut value = vec![0 as c_char; ffi::MPI_MAX_INFO_VAL as usize + 1];
        let mut is_there = 0;
        // SAFETY: the index is below the number of keys, and a key has this length at most, with its final zero.
        let code = unsafe { ffi::MPI_Info_get_nthkey(self.0, index, key.as_mut_ptr()) };
        Failure::unless_success("MPI_Info_get_nthkey", code)?;
        // SAFETY: MPI writes as much of the value as it is told, and a final zero, for which there is room.
        let code = unsafe {
            let room = ffi::MPI_MAX_INFO_VAL as c_int;
            ffi::MPI_Info_get(self.0, key.as_ptr(), room, value.as_mut_ptr(), &mut is_there)
        };
        Failure::unless_success("MPI_Info_get", code)?;
        // SAFETY: the last byte of each is zero, whatever MPI has written before it.
        Ok(unsafe { (CStr::from_ptr(key.as_ptr()).to_owned(), CStr::from_ptr(value.as_ptr()).to_owned()) })
    }

    fn is_none(&self) -> bool {
        // SAFETY: MPI's constant.
        self.0 == unsafe { ffi::RSMPI_INFO_NULL }
    }

    pub(super) fn raw(&self) -> ffi::MPI_Info {
        self.0
    }

    /// Takes over what MPI has made for its caller.
    pub(super) fn made(info: ffi::MPI_Info) -> Self {
        Self(info)
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        if !self.is_none() && !is_finalized() {
            // SAFETY: it is ours alone, and used no more.
            unsafe { ffi::MPI_Info_free(&mut self.0) };
        }
    }
}
