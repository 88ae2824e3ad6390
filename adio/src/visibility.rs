//! When other nodes see what a rank has written.
//!
//! | hint `svm_visibility` | another node's rank sees what was written |
//! |---|---|
//! | `sync` | as MPI says: after the writer's sync or close, and its own sync or open after that |
//! | `immediate` | as soon as the call that wrote it has returned, as with the files of one machine |
//!
//! Where nobody asks, it is `immediate` for programs with HDF5 or PnetCDF, and `sync` for others. HDF5 lets ranks read
//! what others have written before without any sync: its own metadata, too, so that files could not even be opened.
//! PnetCDF has ranks fill what others write next.
//!
//! For [`Visibility::Immediate`] an access to a file of several nodes looks first whether pages that are cached here
//! have changed at their homes, or brings home what it wrote before it returns; that of a single node is memory that
//! its ranks share. Atomic mode does as much, and locks.

use std::ffi::CStr;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::LazyLock;

use svmio_svm::FileOffset;

use crate::failure::Failure;
use crate::handle::Handle;
use crate::library::Library;
use crate::linked;

/// When other nodes see what a rank has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Visibility {
    /// After a sync.
    #[default]
    Sync,
    /// When the call that wrote it returns.
    Immediate,
}

/// Libraries that leave out syncs where ranks access what others have written, and a function that each has where it was
/// built for MPI.
const WITHOUT_SYNCS: [(&str, &CStr); 2] = [("libhdf5", c"H5Pset_fapl_mpio"), ("libpnetcdf", c"ncmpi_enddef")];

impl Visibility {
    /// What is in force where nobody asks for anything.
    pub(crate) fn of_program() -> Visibility {
        // Python's packages load libraries that no other symbols are bound to; a program may be linked with one
        // statically, and tell so or not.
        static IS_LINKED_IN: LazyLock<bool> =
            LazyLock::new(|| linked::defines_one_of(&WITHOUT_SYNCS.map(|(_, symbol)| symbol)));
        let is_loaded = |(library, symbol)| {
            Library::with_symbol(library, symbol).is_some() || Library::global().address(symbol).is_ok()
        };
        let is_without_syncs = WITHOUT_SYNCS.into_iter().any(is_loaded) || *IS_LINKED_IN;
        if is_without_syncs { Visibility::Immediate } else { Visibility::Sync }
    }

    /// By which ranks agree: the largest is in force, so that one that needs it has it.
    pub(crate) fn number(self) -> i64 {
        self as i64
    }

    pub(crate) fn from_number(number: i64) -> Visibility {
        if number == Visibility::Sync.number() { Visibility::Sync } else { Visibility::Immediate }
    }
}

impl fmt::Display for Visibility {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Visibility::Sync => "sync",
            Visibility::Immediate => "immediate",
        })
    }
}

impl FromStr for Visibility {
    type Err = String;

    fn from_str(text: &str) -> Result<Visibility, String> {
        match text {
            "sync" => Ok(Visibility::Sync),
            "immediate" => Ok(Visibility::Immediate),
            _ => Err(format!("`{text}` is none of sync and immediate")),
        }
    }
}

impl Handle {
    /// Runs an access that reads `range`, after what is to be seen of it.
    pub(crate) fn reading<T>(
        &self,
        range: Range<u64>,
        access: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.visibility == Visibility::Immediate {
            self.file.refresh_range(FileOffset(range.start)..FileOffset(range.end))?;
        }
        access()
    }

    /// Runs an access that writes to `range`, and has it seen.
    pub(crate) fn writing<T>(
        &self,
        range: Range<u64>,
        access: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let written = access();
        if self.visibility == Visibility::Sync {
            return written;
        }
        // Also what a write that failed has written.
        let shown = self.file.flush_range(FileOffset(range.start)..FileOffset(range.end));
        let value = written?;
        Ok(shown.map(|()| value)?)
    }

    /// The file's size, bytes, as it is to be seen.
    ///
    /// # Errors
    /// That it cannot be asked for.
    pub(crate) fn size_to_see(&self) -> Result<u64, Failure> {
        let known = self.file.size();
        if self.visibility == Visibility::Immediate || self.is_atomic() {
            let end = FileOffset(known)..FileOffset(known.saturating_add(1));
            self.file.refresh_range(end).map_err(|error| self.located(error.into()))?;
        }
        Ok(self.file.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_their_text_and_number() {
        for visibility in [Visibility::Sync, Visibility::Immediate] {
            assert_eq!(visibility.to_string().parse(), Ok(visibility));
            assert_eq!(Visibility::from_number(visibility.number()), visibility);
        }
        assert!(Visibility::Immediate.number() > Visibility::Sync.number());
        let reason = "now".parse::<Visibility>().expect_err("there is no such value");
        assert_eq!(reason, "`now` is none of sync and immediate");
    }
}
