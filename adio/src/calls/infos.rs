//! Info objects.

use std::ffi::{CStr, CString, c_int};

use super::{Mpi, check};
use crate::abi::{Abi, Info, SUCCESS};
use crate::failure::Failure;

impl<A: Abi> Mpi<A> {
    /// Sets a key of `info`. A value that is too long for this MPI is left out.
    ///
    /// # Errors
    /// MPI's own, where its handler returns.
    pub fn set_info(&self, info: Info<A>, key: &CStr, value: &str) -> Result<(), Failure> {
        if value.len() > A::LONGEST_INFO_VALUE {
            tracing::debug!("{} is too long for an info object: {value}", key.to_string_lossy());
            return Ok(());
        }
        let value = CString::new(value).unwrap_or_default();
        // SAFETY: both are strings.
        check(unsafe { (self.info_set)(info, key.as_ptr(), value.as_ptr()) }, "MPI_Info_set")
    }

    /// The value of a key of `info`, if it has one.
    pub fn info(&self, info: Info<A>, key: &CStr) -> Option<String> {
        if info.0 == self.constants.info_null.0 {
            return None;
        }
        // MPICH takes a longer value than there is room for for an error, and that ends the job.
        let mut value = vec![0u8; A::LONGEST_INFO_VALUE + 1];
        let (mut found, length) = (0, A::LONGEST_INFO_VALUE as c_int);
        // SAFETY: the buffer has room for the length that is given and a closing zero.
        let code =
            unsafe { (self.info_get)(info, key.as_ptr(), length, value.as_mut_ptr().cast(), &raw mut found) };
        (code == SUCCESS && found != 0)
            .then(|| CStr::from_bytes_until_nul(&value).ok().map(|v| v.to_string_lossy().into_owned()))
            .flatten()
    }

    /// Runs `body` with a new info object that has all of `first`, and what of `second` is not in it, but for keys that
    /// are `left_out`.
    ///
    /// # Errors
    /// Those of `body`, and MPI's own, where its handler returns.
    pub fn with_merged_info(
        &self,
        first: Info<A>,
        second: Info<A>,
        left_out: impl Fn(&CStr) -> bool,
        body: impl FnOnce(Info<A>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut merged = self.constants.info_null;
        // SAFETY: stores a new info object.
        check(unsafe { (self.info_create)(&raw mut merged) }, "MPI_Info_create")?;
        let filled = [second, first].into_iter().try_for_each(|info| {
            let keys = self.keys(info).into_iter().filter(|key| !left_out(key));
            keys.filter_map(|key| Some((self.info(info, &key)?, key)))
                .try_for_each(|(value, key)| self.set_info(merged, &key, &value))
        });
        let outcome = filled.and_then(|()| body(merged));
        // SAFETY: the object was made above.
        unsafe { (self.info_free)(&raw mut merged) };
        outcome
    }

    /// The keys of `info`.
    pub(crate) fn keys(&self, info: Info<A>) -> Vec<CString> {
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

    /// The stock `MPI_Info_dup`.
    ///
    /// # Safety
    /// `info` is an info object, and `copy` valid for a write.
    pub unsafe fn duplicate_info(&self, info: Info<A>, copy: *mut Info<A>) -> c_int {
        // SAFETY: the caller vouches for the arguments.
        unsafe { (self.info_dup)(info, copy) }
    }
}
