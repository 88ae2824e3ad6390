//! Mappings, which C knows by addresses: any address in a mapping stands for it.

mod aliases;
mod options;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svmio_svm::mapping::{self, Advice, Mapping, Prepared};
use svmio_svm::{FileOffset, LockMode};

use crate::failure::{Failure, Result, reported};
use crate::files::{self, Asked, OpenFile};
use crate::held::HeldLock;
use crate::job::{self, Scope};
use crate::together::{Call, Disagreement};
use crate::types::*;

use options::mapping_options;

/// A mapping that C has.
struct Mapped {
    locks: Mutex<Vec<HeldLock>>,
    mapping: Arc<Mapping>,
    file: Arc<OpenFile>,
    /// The file was opened for this mapping, together, and goes with it.
    has_file: bool,
}

impl Mapped {
    fn new(file: &Arc<OpenFile>, mapping: Mapping, has_file: bool) -> Mapped {
        Mapped { locks: Mutex::default(), mapping: Arc::new(mapping), file: Arc::clone(file), has_file }
    }

    /// Who ends it.
    fn scope(&self) -> Scope {
        if self.has_file { self.file.scope } else { Scope::Own }
    }

    fn locks(&self) -> MutexGuard<'_, Vec<HeldLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which bytes of the file are at an address that lies in the mapping; without a length all up to the end.
    fn bytes(&self, address: usize, length: usize) -> Range<FileOffset> {
        let all = self.mapping.range();
        let start = all.start.0 + (address - self.mapping.as_ptr().addr()) as u64;
        let end = if length == 0 { all.end.0 } else { start.saturating_add(length as u64) };
        FileOffset(start)..FileOffset(end)
    }

    /// Ends the mapping, after what was stored is where others look for it; returns its file.
    fn end(self) -> (Result, Arc<OpenFile>, bool) {
        let Mapped { locks, mapping, file, has_file } = self;
        let locks = locks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut released = Ok(());
        for lock in locks {
            // All of them, also behind one that fails.
            released = released.and(lock.release());
        }
        let unmapped = match Arc::into_inner(mapping) {
            Some(mapping) => mapping.unmap(),
            // Only `Mapped` and its locks have it.
            None => Ok(()),
        };
        (released.and(unmapped).map_err(Failure::from), file, has_file)
    }
}

/// By their first addresses.
static MAPPED: Mutex<BTreeMap<usize, Arc<Mapped>>> = Mutex::new(BTreeMap::new());

/// Where mappings have begun that this process has ended by itself, the last of them: it may end them again, and the
/// others know nothing of that.
static ENDED_ALONE: Mutex<VecDeque<usize>> = Mutex::new(VecDeque::new());
/// How many of them are remembered. A mistake that comes later is told to the others, too.
const MOST_ENDED_ALONE: usize = 1024;

fn all_mapped() -> MutexGuard<'static, BTreeMap<usize, Arc<Mapped>>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mapping at an address.
fn at(address: *const c_void) -> Result<Arc<Mapped>> {
    let all = all_mapped();
    let found = all.range(..=address.addr()).next_back().map(|(_, mapped)| mapped);
    let found = found.filter(|mapped| address.addr() - mapped.mapping.as_ptr().addr() < mapped.mapping.len());
    found.cloned().ok_or_else(|| nothing_at(address))
}

fn nothing_at(address: *const c_void) -> Failure {
    Failure::argument(format!("at {address:p} nothing is mapped by svmio"))
}

fn ended_alone() -> MutexGuard<'static, VecDeque<usize>> {
    ENDED_ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of where a mapping has begun; the oldest of too many is forgotten.
fn note_ended_alone(ended: &mut VecDeque<usize>, address: usize) {
    ended.retain(|other| *other != address);
    if ended.len() >= MOST_ENDED_ALONE {
        ended.pop_front();
    }
    ended.push_back(address);
}

/// Who ends what is mapped at an address, also if it is not where that begins, or has been ended.
fn scope_at(address: *const c_void) -> Scope {
    match at(address) {
        Ok(mapped) => mapped.scope(),
        Err(_) if ended_alone().contains(&address.addr()) => Scope::Own,
        Err(_) => Scope::All,
    }
}

/// That nothing is mapped.
pub(crate) fn none_is_left() -> Result {
    match all_mapped().values().next() {
        None => Ok(()),
        Some(mapped) => {
            let (name, start) = (mapped.file.file.name().to_owned(), mapped.mapping.as_ptr());
            Err(Failure::state(format!("{name} is mapped at {start:p}: call svm_unmap first")))
        }
    }
}

fn range(offset: u64, length: usize) -> Result<Range<FileOffset>> {
    match offset.checked_add(length as u64) {
        Some(end) => Ok(FileOffset(offset)..FileOffset(end)),
        None => Err(Failure {
            status: SVM_ERR_RANGE,
            message: format!("{length} bytes from {offset} on are more than a file has"),
        }),
    }
}

/// Takes note of a mapping, and tells where it is.
fn keep(mapped: Mapped) -> *mut c_void {
    let start = mapped.mapping.as_mut_ptr();
    ended_alone().retain(|ended| *ended != start.addr());
    all_mapped().insert(start.addr(), Arc::new(mapped));
    start.cast()
}

/// `svm_map`.
///
/// # Safety
/// Pointers are null or lead to what their types say.
pub(crate) unsafe extern "C" fn map(
    name: *const c_char,
    flags: c_uint,
    offset: u64,
    length: usize,
    options: *const svm_options,
    address: *mut *mut c_void,
) -> c_int {
    reported(|| {
        let (members, scope) = (job::members()?, Scope::of(flags));
        let asked = || -> Result<_> {
            if address.is_null() {
                return Err(Failure::argument("svm_map: there is no place for the address: a null pointer"));
            }
            // SAFETY: the caller's promise.
            let options = unsafe { files::options(options) }?;
            let range = range(offset, length)?;
            // Mapping for storing takes loads, too.
            let flags = if flags & SVM_WRITE != 0 { flags | SVM_READ } else { flags };
            // SAFETY: the caller's promise.
            let asked = unsafe { Asked::from_c(name, flags, &options) }?;
            // Before a file is made for it.
            mapping::check(&asked.told(), &range)?;
            Ok((asked, options, range))
        };
        let ((asked, options, range), call) =
            members.begin(scope, "svm_map", asked(), |(asked, ..)| asked.told())?;
        let file = Arc::new(asked.open(members)?);
        let prepared = mapping_options(&options).prepare(&file.file, range).map_err(Failure::from);
        match map_together(&file, &call, prepared) {
            Ok(mapping) => {
                // SAFETY: the caller's promise.
                unsafe { address.write(keep(Mapped::new(&file, mapping, true))) };
                Ok(())
            }
            Err(failure) => {
                asked.take_back(&file);
                let closed = Arc::into_inner(file).map_or(Ok(()), OpenFile::close);
                let failed: Result = Err(failure);
                failed.and(closed)
            }
        }
    })
}

/// Maps what all who have opened the file have prepared. It becomes as long as those need it who may store once it is
/// known that all get what they want, and stays as it is where one does not.
fn map_together(file: &OpenFile, call: &Call, prepared: Result<Prepared>) -> Result<Mapping> {
    file.with(|session| {
        let team = session.team();
        let prepared = call.agree_with(team, prepared)?;
        let [coming] = team.maxima([i64::try_from(prepared.makes_size()).unwrap_or(i64::MAX)])?;
        call.agree(team, prepared.check_size(coming.unsigned_abs()).map_err(Failure::from))?;
        let mapping = call.agree_with(team, prepared.map().map_err(Failure::from))?;
        // All know how long the file is now.
        team.end_of_write::<Failure>(&file.file, Ok(()))?;
        Ok(mapping)
    })
}

/// `svm_map_file`.
///
/// # Safety
/// Pointers are null or lead to what their types say.
pub(crate) unsafe extern "C" fn map_file(
    file: *const svm_file,
    offset: u64,
    length: usize,
    options: *const svm_options,
    address: *mut *mut c_void,
) -> c_int {
    reported(|| {
        if address.is_null() {
            return Err(Failure::argument("svm_map_file: there is no place for the address: a null pointer"));
        }
        // SAFETY: the caller's promise.
        let options = unsafe { files::options(options) }?;
        let file = files::of_handle(file)?;
        let mapping = mapping_options(&options).map(&file.file, range(offset, length)?)?;
        // SAFETY: the caller's promise.
        unsafe { address.write(keep(Mapped::new(&file, mapping, false))) };
        Ok(())
    })
}

/// `svm_unmap`.
pub(crate) extern "C" fn unmap(address: *mut c_void) -> c_int {
    reported(|| {
        const FUNCTION: &str = "svm_unmap";
        let Some(mapped) = aliases::take(address.addr()) else {
            let nothing = Failure::argument(format!("at {address:p} no mapping of svmio's begins"));
            return job::members()?.agree(scope_at(address), &Call::new(FUNCTION), Err(nothing));
        };
        let (file, scope) = match &mapped {
            Ok(mapped) => (Arc::clone(&mapped.file), mapped.scope()),
            Err(shared) => (Arc::clone(&shared.file), shared.scope()),
        };
        let call = Call::of(FUNCTION, file.told());
        let is_free = match &mapped {
            Ok(_) => Ok(()),
            Err(_) => {
                let name = file.file.name();
                Err(Failure::state(format!("the mapping of {name} is used by another thread")))
            }
        };
        let (mapped, severed) = match (file.members.step(scope, &call, is_free), mapped) {
            (Ok(()), Ok(mapped)) => (mapped, None),
            (Err(Disagreement::Severed(failure)), Ok(mapped)) => (mapped, Some(failure)),
            (agreed, mapped) => {
                all_mapped().insert(address.addr(), mapped.map_or_else(|shared| shared, Arc::new));
                return Ok(agreed?);
            }
        };
        drop(file);
        if scope == Scope::Own {
            note_ended_alone(&mut ended_alone(), address.addr());
        }
        let (ended, file, has_file) = mapped.end();
        if let Some(failure) = severed {
            let closed = Arc::into_inner(file).map_or(Ok(()), OpenFile::close_severed);
            return Err(failure.beside(ended).beside(closed));
        }
        let agreed = file.members.agree(scope, &call, ended);
        if !has_file {
            return agreed;
        }
        let closed = Arc::into_inner(file).map_or(Ok(()), OpenFile::close);
        agreed.and(closed)
    })
}

/// `svm_sync`.
pub(crate) extern "C" fn sync(address: *mut c_void, length: usize) -> c_int {
    reported(|| {
        let mapped = at(address)?;
        Ok(mapped.mapping.sync(mapped.bytes(address.addr(), length))?)
    })
}

/// `svm_flush`.
pub(crate) extern "C" fn flush(address: *mut c_void) -> c_int {
    reported(|| Ok(at(address)?.mapping.flush()?))
}

/// `svm_refresh`.
pub(crate) extern "C" fn refresh(address: *mut c_void) -> c_int {
    reported(|| Ok(at(address)?.mapping.refresh()?))
}

/// `svm_barrier`.
pub(crate) extern "C" fn barrier(address: *mut c_void) -> c_int {
    reported(|| {
        const FUNCTION: &str = "svm_barrier";
        let members = job::members()?;
        if address.is_null() {
            return members.agree(Scope::All, &Call::of(FUNCTION, "the job"), Ok(()));
        }
        let mapped = match at(address) {
            Ok(mapped) => mapped,
            Err(nothing) => return members.agree(Scope::All, &Call::new(FUNCTION), Err(nothing)),
        };
        let call = Call::of(FUNCTION, mapped.file.told());
        mapped.file.with(|session| {
            let mut met = None;
            let mut meet = || met.insert(call.agree(session.team(), Ok(()))).clone();
            // By which of its mappings of the file a process stores and loads is its own matter.
            let outcome = aliases::flush(&mapped)
                .and_then(|()| Ok(mapped.mapping.barrier(&mut meet)?))
                .and_then(|()| aliases::refresh(&mapped));
            match met {
                // The others wait there, and are told.
                None => call.agree(session.team(), outcome),
                Some(met) => met.and(outcome),
            }
        })
    })
}

/// `svm_lock`.
pub(crate) extern "C" fn lock(address: *mut c_void, length: usize, mode: c_int) -> c_int {
    reported(|| {
        let mode = match mode {
            SVM_LOCK_SHARED => LockMode::Shared,
            SVM_LOCK_EXCLUSIVE => LockMode::Exclusive,
            other => {
                return Err(Failure::argument(format!(
                    "{other} is neither SVM_LOCK_SHARED nor SVM_LOCK_EXCLUSIVE"
                )));
            }
        };
        let mapped = at(address)?;
        let held = HeldLock::acquire(&mapped.mapping, mapped.bytes(address.addr(), length), mode)?;
        mapped.locks().push(held);
        Ok(())
    })
}

/// `svm_unlock`.
pub(crate) extern "C" fn unlock(address: *mut c_void, length: usize) -> c_int {
    reported(|| {
        let mapped = at(address)?;
        let range = mapped.bytes(address.addr(), length);
        let mut locks = mapped.locks();
        // The last one first.
        let Some(found) = locks.iter().rposition(|held| *held.range() == range) else {
            let name = mapped.file.file.name();
            let Range { start, end } = range;
            return Err(Failure::argument(format!(
                "bytes {start} to {end} of {name} are not locked as a range"
            )));
        };
        let held = locks.remove(found);
        drop(locks);
        Ok(held.release()?)
    })
}

/// `svm_advise`.
pub(crate) extern "C" fn advise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    reported(|| {
        let advice = match advice {
            SVM_NORMAL => Advice::Normal,
            SVM_SEQUENTIAL => Advice::Sequential,
            SVM_RANDOM => Advice::Random,
            SVM_WILL_NEED => Advice::WillNeed,
            SVM_DO_NOT_NEED => Advice::DoNotNeed,
            other => return Err(Failure::argument(format!("there is no advice {other}"))),
        };
        let mapped = at(address)?;
        Ok(mapped.mapping.advise(mapped.bytes(address.addr(), length), advice)?)
    })
}

/// `svm_fetch`.
pub(crate) extern "C" fn fetch(address: *mut c_void, length: usize) -> c_int {
    reported(|| {
        let mapped = at(address)?;
        Ok(mapped.mapping.fetch(mapped.bytes(address.addr(), length))?.wait()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_mappings_that_were_ended_alone_the_last_are_known() {
        let mut ended = VecDeque::new();
        for address in (0..10_000).chain([9_000]) {
            note_ended_alone(&mut ended, address);
        }
        assert_eq!((ended.len(), ended.back()), (MOST_ENDED_ALONE, Some(&9_000)));
        assert!((10_001 - MOST_ENDED_ALONE..10_000).all(|address| ended.contains(&address)));
    }
}
