//! Addresses for a range of a file, and whether there can be any.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use userfaultfd::Uffd;

use crate::error::{Error, Result};
use crate::file::File;
use crate::mapping_cache;
use crate::node::NodeName;
use crate::segment::large_page;
use crate::units::FileOffset;

use super::memory::Memory;
use super::userfault;

/// That this process may map files, and that `range` has bytes, which are to be those of the file `name`: what is known
/// before that is opened, or made.
///
/// # Errors
/// [`Error::BadRange`], [`Error::FaultsRefused`], the operating system's error where there is no room for a descriptor.
pub fn check(name: &str, range: &Range<FileOffset>) -> Result<()> {
    check_bytes(name, range)?;
    let failed = |e| Error::of_mapping(format!("mapping {name}"), Path::new("/dev/userfaultfd"), e);
    serve_faults(name, NodeName::current, failed).map(drop)
}

/// A descriptor for the faults of a mapping of the file `name`.
fn serve_faults(
    name: &str,
    node: impl FnOnce() -> NodeName,
    failed: impl FnOnce(io::Error) -> Error,
) -> Result<Uffd> {
    mapping_cache::with_descriptor(userfault::open).map_err(|error| match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => failed(error),
        _ => Error::FaultsRefused { name: name.into(), node: node(), source: error },
    })
}

fn check_bytes(name: &str, range: &Range<FileOffset>) -> Result<()> {
    if range.start < range.end {
        return Ok(());
    }
    let reason = "it is empty, and a mapping has to have at least one byte".into();
    Err(Error::BadRange { name: name.into(), range: range.clone(), reason })
}

/// Reserves addresses for `range` of a file, whatever its length: that is [looked at](check_length), or
/// [changed](lengthen), once it is mapped.
///
/// # Errors
/// As [`MappingOptions::prepare`](super::MappingOptions::prepare).
pub(super) fn reserve(file: &Arc<File>, range: &Range<FileOffset>, may_write: bool) -> Result<Memory> {
    let bad = |reason: String| Error::BadRange { name: file.name().into(), range: range.clone(), reason };
    check_bytes(file.name(), range)?;
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
    }
    let node = || {
        let attachment = file.attachment();
        let node = attachment.own().and_then(|own| attachment.nodes().get(own as usize));
        node.map_or_else(NodeName::current, NodeName::clone)
    };
    let failed = |e| Error::of_mapping(format!("mapping {}", file.name()), &file.directory(), e);
    let uffd = serve_faults(file.name(), node, failed)?;
    let pages = range.start.0 / page..range.end.0.div_ceil(page);
    let alignment = large_page().unwrap_or(page).min(file.segment_size().bytes());
    Memory::reserve(uffd, pages, alignment, may_write).map_err(failed)
}

/// That a file has all bytes of `range`, or will have: others make it `coming` bytes long.
///
/// # Errors
/// [`Error::BadRange`].
pub(super) fn check_length(file: &File, range: &Range<FileOffset>, coming: u64) -> Result<()> {
    let size = file.size();
    if range.end.0 <= size.max(coming) {
        return Ok(());
    }
    let has = if coming > size { format!("is to have {coming}") } else { format!("has {size}") };
    let reason = format!("the file {has} bytes, and was opened for reading");
    Err(Error::BadRange { name: file.name().into(), range: range.clone(), reason })
}

/// Makes a file as long as `range`, which is mapped: one that cannot be mapped stays as it is.
///
/// # Errors
/// [`Error::Access`], [`Error::ReadOnly`].
pub(super) fn lengthen(file: &File, range: &Range<FileOffset>) -> Result<()> {
    file.attachment().writable()?.0.grow(range.end.0);
    Ok(())
}
