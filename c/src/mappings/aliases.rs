//! Other mappings that this process has of a file. Each has pages of its own: what is stored by one of them, another
//! one shows when the one has been flushed and the other refreshed.

use std::sync::{Arc, PoisonError, RwLock};

use svmio_svm::mapping::Mapping;

use crate::failure::Result;

use super::{Mapped, all_mapped};

/// Held for reading by who uses mappings that were not named to it, for writing by who takes one out: that one is in
/// nobody's use then who has not named it.
static IN_USE: RwLock<()> = RwLock::new(());

/// Brings home what was stored by the others.
pub(super) fn flush(mapped: &Mapped) -> Result {
    with_each(mapped, |alias| if alias.is_writable() { Ok(alias.flush()?) } else { Ok(()) })
}

/// Has the others see what has been brought home.
pub(super) fn refresh(mapped: &Mapped) -> Result {
    with_each(mapped, |alias| Ok(alias.refresh()?))
}

/// All of them, also behind one with which it fails.
fn with_each(mapped: &Mapped, work: impl Fn(&Mapping) -> Result) -> Result {
    let _in_use = IN_USE.read().unwrap_or_else(PoisonError::into_inner);
    let id = mapped.file.file.id();
    let is_alias = |other: &&Arc<Mapped>| other.file.file.id() == id && !std::ptr::eq(&***other, mapped);
    let aliases: Vec<Arc<Mapped>> = all_mapped().values().filter(is_alias).cloned().collect();
    let mut outcome = Ok(());
    for alias in aliases {
        outcome = outcome.and(work(&alias.mapping));
    }
    outcome
}

/// Takes the mapping that begins at an address out of those that this process has: as it is, unless another thread is
/// in a call to which it was named.
pub(super) fn take(address: usize) -> Option<std::result::Result<Mapped, Arc<Mapped>>> {
    let _in_use = IN_USE.write().unwrap_or_else(PoisonError::into_inner);
    all_mapped().remove(&address).map(Arc::try_unwrap)
}
