//! Addresses for a range of a file, and whether there can be any.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::File;
use crate::mapping_cache;
use crate::node::NodeName;
use crate::segment::large_page;
use crate::units::FileOffset;

use super::memory::Memory;
use super::userfault;

/// Reserves addresses for `range` of a file, which has to be as long unless `may_write`: then it is [made](lengthen) so
/// once it is mapped.
///
/// # Errors
/// As [`MappingOptions::map`](super::MappingOptions::map).
pub(super) fn reserve(file: &Arc<File>, range: &Range<FileOffset>, may_write: bool) -> Result<Memory> {
    let bad = |reason: String| Error::BadRange { name: file.name().into(), range: range.clone(), reason };
    if range.start >= range.end {
        return Err(bad("it is empty, and a mapping has to have at least one byte".into()));
    }
    if may_write && file.attachment().writable().is_ok() {
        file.fix_segment_size()?;
    }
    let page = rustix::param::page_size() as u64;
    if !file.segment_size().bytes().is_multiple_of(page) {
        let size = file.segment_size();
        return Err(bad(format!("segments of {size} bytes are no whole pages of {page}")));
    }
    let limit = file.attachment().limit();
    if range.end.0 > limit {
        let (name, segment_size) = (file.name().into(), file.segment_size());
        return Err(Error::TooLarge { name, offset: range.end, segment_size, limit });
    }
    if may_write {
        file.attachment().writable()?;
    } else if range.end.0 > file.size() {
        let size = file.size();
        return Err(bad(format!("the file has {size} bytes, and was opened for reading")));
    }
    let refused = |source| {
        let attachment = file.attachment();
        let node = attachment.own().and_then(|own| attachment.nodes().get(own as usize));
        let node = node.map_or_else(NodeName::current, NodeName::clone);
        Error::FaultsRefused { name: file.name().into(), node, source }
    };
    let failed = |e| Error::of_mapping(format!("mapping {}", file.name()), &file.directory(), e);
    let uffd =
        mapping_cache::with_descriptor(userfault::open).map_err(|error| match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => failed(error),
            _ => refused(error),
        })?;
    let pages = range.start.0 / page..range.end.0.div_ceil(page);
    let alignment = large_page().unwrap_or(page).min(file.segment_size().bytes());
    Memory::reserve(uffd, pages, alignment, may_write).map_err(failed)
}

/// Makes a file as long as `range`, which is mapped: one that cannot be mapped stays as it is.
///
/// # Errors
/// [`Error::Access`], [`Error::ReadOnly`].
pub(super) fn lengthen(file: &File, range: &Range<FileOffset>) -> Result<()> {
    file.attachment().writable()?.0.grow(range.end.0);
    Ok(())
}
