//! The memory that segments are made of.

use std::sync::Arc;

use crate::back_end::Backing;
use crate::error::{Error, Result};
use crate::mapping::{self, Pages};
use crate::memory::SharedMemory;
use crate::shm::available;
use crate::units::SegmentId;

/// Maps what a segment is made of. Fresh memory is touched, so that what is missing is missing now.
///
/// # Errors
/// `Memory`; `OutOfBounds` where a file is too short; `System`.
pub(super) fn map(id: SegmentId, backing: &Backing) -> Result<SharedMemory> {
    let what = format!("segment {id}");
    match backing {
        Backing::Anonymous { length } => {
            available::check(*length).map_err(|problem| Error::Memory {
                what: what.clone(),
                length: *length,
                source: Arc::new(problem),
            })?;
            mapping::anonymous(&what, *length, Pages::Touched)
        }
        Backing::File { file, offset, length } => mapping::of_file(&what, file, *offset, *length),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::map;
    use crate::back_end::Backing;
    use crate::error::Error;
    use crate::units::SegmentId;

    #[test]
    fn what_is_not_there_is_refused() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5000).unwrap();
        let backing = Backing::File { file: Arc::new(file), offset: 4096, length: 905 };
        let short = map(SegmentId::new(1, 2), &backing);
        assert!(matches!(short, Err(Error::OutOfBounds { size: 5000, .. })), "{short:?}");
        let much = map(SegmentId::new(1, 2), &Backing::Anonymous { length: 1 << 50 });
        assert!(matches!(much, Err(Error::Memory { .. })), "{much:?}");
    }
}
