//! Mapping in two steps, for processes that map a file in one call: what one of them wants to load, another one may be
//! about to make.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::file::File;
use crate::units::FileOffset;

use super::{Mapping, MappingOptions, reserving};

/// A mapping that has all that it takes, except that the file may not be as long yet. Where it is dropped instead of
/// [mapped](Prepared::map), the file stays as it is.
pub struct Prepared(Mapping);

impl Prepared {
    pub(super) fn new(
        file: &Arc<File>,
        range: Range<FileOffset>,
        options: &MappingOptions,
    ) -> Result<Prepared> {
        Mapping::unlengthened(file, range, options).map(Prepared)
    }

    /// How long it is going to make the file, bytes; 0 where it is for loads.
    pub fn makes_size(&self) -> u64 {
        if self.0.is_writable() { self.0.range.end.0 } else { 0 }
    }

    /// That the file is as long as the mapping needs it, or will be: others are going to make it `size` bytes long.
    ///
    /// # Errors
    /// [`Error::BadRange`](crate::Error::BadRange) for a mapping for loads that ends behind that.
    pub fn check_size(&self, size: u64) -> Result<()> {
        if self.0.is_writable() {
            return Ok(());
        }
        reserving::check_length(&self.0.service.file, &self.0.range, size)
    }

    /// Maps the range, and makes the file that long if it is for stores.
    ///
    /// # Errors
    /// [`Error::Access`](crate::Error::Access), [`Error::ReadOnly`](crate::Error::ReadOnly).
    pub fn map(self) -> Result<Mapping> {
        let Prepared(mapping) = self;
        if mapping.is_writable() {
            reserving::lengthen(&mapping.service.file, &mapping.range)?;
        }
        Ok(mapping)
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Prepared").field(&self.0).finish()
    }
}
