//! Accesses to views, collective or not: straight between the user's buffer and the places of its bytes.
//!
//! * Memory and file are looked at as nested loops ([`flatten`]), side by side ([`pairing`]), and regular runs of
//!   pieces are handed on together. Nothing is read to be written again, no bytes are gathered on the way, and nothing
//!   is locked but in atomic mode, where it is what lies between the access's first byte and its last.
//! * A collective access is carried out by every rank for itself. Before writes to a file of several nodes, as long as
//!   new segments come, [`placing`] gives them their homes. Each rank hears of its [own part](crate::outcome) only, or,
//!   if the program wants it, the ranks agree at the end on whether all have worked.
//! * A nonblocking access, collective or not, depends on no other rank either. Long ones go on in the [`background`];
//!   the request of a short one is complete when it starts.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Arc, Once};

use svmio_svm::{FileOffset, LockMode, SegmentIndex, SegmentSize};

use crate::abi::{Abi, Request};
use crate::access::{Access, Callers, Direction, Unit};
use crate::amounts::Amounts;
use crate::background::{self, Operation};
use crate::calls::{Background, Mpi};
use crate::contiguous;
use crate::converting::converted;
use crate::failure::{ErrorClass, Failure};
use crate::flatten::{self, Cursor, Shape};
use crate::handle::{self, Handle, Role};
use crate::layout::{INDIVIDUAL, RomioFile};
use crate::pairing;
use crate::placing;
use crate::pointer;
use crate::shared_pointer;
use crate::split::{self, Begun};
use crate::standing_in;
use crate::view::{Extent, View};

/// All ranks' access to a view.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them, and every rank of the file makes the same call.
pub(crate) unsafe fn collectively<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<(), Failure> {
    // SAFETY: ROMIO's file is valid, and the caller vouches for the arguments.
    unsafe {
        standing_in::note_begun();
        handle::of(&*fd)?.begin_access(access.direction)?;
        let placed = match access.direction {
            Direction::Read => Ok(()),
            Direction::Write => placing::place_new(mpi, fd, Some(access)),
        };
        if split::is_beginning() {
            let started = || converted(mpi, fd, access, |access| started(mpi, fd, access));
            let operation = match placed.and_then(|()| started()) {
                Ok(operation) => operation,
                Err(failure) => Operation::over(Err(failure)),
            };
            let (direction, status) = (access.direction, access.status as usize);
            handle::of(&*fd)?.split.begin(Begun { operation, direction, status });
            return Ok(());
        }
        let moved = || converted(mpi, fd, access, |access| independently(mpi, fd, access));
        let mine = placed.and_then(|()| moved()).map(|_| ());
        let handle = handle::of(&*fd)?;
        handle.end_access(access.direction, mine)
    }
}

/// One rank's access to a view; returns the bytes that were moved, and tells them in the status.
///
/// # Safety
/// The parts of `access` are as ROMIO gave them.
pub(crate) unsafe fn independently<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<u64, Failure> {
    shared_pointer::demand()?;
    // SAFETY: ROMIO's file is valid, and nothing else refers to it meanwhile.
    let fd = unsafe { &mut *fd };
    // Neither the view nor the access has to be taken apart then.
    let in_memory = if fd.shows_all_bytes(mpi.constants.byte) { row_in_memory(mpi, access)? } else { None };
    let moved = match in_memory {
        Some((_, 0)) => 0,
        Some((buffer, bytes)) => {
            // SAFETY: the caller vouches for the buffer, in which the data lies in a row.
            unsafe { in_a_row(fd, &access.in_bytes(fd), buffer, bytes) }?
        }
        None => match Ready::of(mpi, fd, access)? {
            None => 0,
            Some(ready) if ready.memory.is_run() && ready.view.is_contiguous() => {
                let bytes = ready.extent.bytes.unsigned_abs();
                // SAFETY: the caller vouches for the buffer, in which the datatype's bytes lie in a row.
                unsafe { in_a_row(fd, &access.in_bytes(fd), ready.buffer.cast(), bytes) }?
            }
            Some(ready) => {
                let handle = handle::of(fd)?;
                // SAFETY: the caller vouches for the buffer.
                let moved = unsafe { ready.run(handle) }?;
                let end = ready.extent.position + moved;
                advance(fd, access, ready.view.pointer_at(end), end);
                moved.unsigned_abs()
            }
        },
    };
    // SAFETY: the caller vouches for the status.
    unsafe { mpi.set_status(access.status, moved) };
    Ok(moved)
}

/// An access to what ROMIO takes for bytes in a row, in file and memory; returns the bytes that were moved, and tells
/// them in the status.
///
/// # Safety
/// As [`independently`].
pub(crate) unsafe fn contiguously<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<u64, Failure> {
    shared_pointer::demand()?;
    // SAFETY: ROMIO's file is valid.
    let file = unsafe { &*fd };
    // MPICH takes a file type without data for one without gaps.
    let row = row_in_memory(mpi, access)?.filter(|_| !file.shows_nothing(mpi));
    let Some((buffer, bytes)) = row else {
        // SAFETY: the caller's promise.
        return unsafe { independently(mpi, fd, access) };
    };
    // SAFETY: the caller vouches for the buffer, in which the data lies in a row.
    let moved = unsafe { in_a_row(&mut *fd, access, buffer, bytes) }?;
    // SAFETY: the caller vouches for the status.
    unsafe { mpi.set_status(access.status, moved) };
    Ok(moved)
}

/// # Safety
/// `buffer` is valid for so many bytes: for reads where this writes, for writes where it reads.
unsafe fn in_a_row<A: Abi>(
    fd: &mut RomioFile<A>,
    access: &Access<A>,
    buffer: *mut c_void,
    bytes: u64,
) -> Result<u64, Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        match access.direction {
            Direction::Read => contiguous::read(fd, buffer, bytes, access.position),
            Direction::Write => contiguous::write(fd, buffer, bytes, access.position),
        }
    }
}

/// Where the data is in memory and how many bytes it has, if these lie in a row.
fn row_in_memory<A: Abi>(mpi: &Mpi<A>, access: &Access<A>) -> Result<Option<(*mut c_void, u64)>, Failure> {
    let (datatype, count) = (access.datatype, access.count);
    let bytes = mpi.type_size(datatype).saturating_mul(count.unsigned_abs());
    if datatype.0 == mpi.constants.byte.0 || flatten::is_elementary(mpi, datatype) {
        return Ok(Some((access.buffer, bytes)));
    }
    let one = flatten::of(mpi, datatype)?;
    // Open MPI's word is not to be relied on where a type has bounds that no data reaches.
    let is_row = bytes == 0 || (one.is_run() && (count == 1 || mpi.extent(datatype) == one.bytes()));
    Ok(is_row.then(|| (first_byte(access, &one), bytes)))
}

/// Where data in a row begins: not at the buffer where the datatype has a displacement. MPI's own answer, the true
/// lower bound, counts blocks without data where the MPI is MPICH.
fn first_byte<A: Abi>(access: &Access<A>, shape: &Shape) -> *mut c_void {
    let displacement = if shape.bytes() == 0 { 0 } else { shape.address(0) };
    access.buffer.wrapping_byte_offset(displacement as isize)
}

/// Begins one rank's access to a view. Where it is long, it goes on after this returns.
///
/// # Safety
/// As [`independently`]; the buffer stays valid, and nobody else uses it, until the request is complete.
pub(crate) unsafe fn begin<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<Request<A>, Failure> {
    if !mpi.has_background_requests() {
        warn_of_blocking(mpi);
        // SAFETY: the caller's promise.
        let moved = unsafe { independently(mpi, fd, access) }?;
        return mpi.completed_request(moved);
    }
    // SAFETY: the caller's promise.
    let operation = unsafe { started(mpi, fd, access) }?;
    match operation.ended() {
        Some(outcome) => mpi.completed_request(outcome?),
        None => mpi.request_for(Arc::clone(&operation) as Arc<dyn Background>).inspect_err(|_| {
            // The program has nothing to wait by, and its buffer back.
            operation.wait();
        }),
    }
}

/// Once in a process: the program's results are right, but nothing overlaps.
fn warn_of_blocking<A: Abi>(mpi: &Mpi<A>) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let version = mpi.version().lines().next().unwrap_or_default();
        tracing::warn!(
            "nonblocking accesses block: '{version}' cannot be told of what goes on in the background"
        );
    });
}

/// One rank's access to a view. Where it is long, it goes on after this returns.
///
/// # Safety
/// As [`begin`].
unsafe fn started<A: Abi>(
    mpi: &Mpi<A>,
    fd: *mut RomioFile<A>,
    access: &Access<A>,
) -> Result<Arc<Operation>, Failure> {
    /// Bytes: what takes less time to copy than a thread takes to begin with it.
    const SHORT: u64 = 1 << 20;
    /// The same where it may go over a wire.
    const SHORT_ELSEWHERE: u64 = 64 << 10;
    shared_pointer::demand()?;
    let bytes = mpi.type_size(access.datatype).saturating_mul(access.count.unsigned_abs());
    // SAFETY: ROMIO's file is valid, and nothing else refers to it meanwhile.
    let file = unsafe { &mut *fd };
    let handle = handle::shared(file)?;
    let short = if handle.company().is_some() { SHORT_ELSEWHERE } else { SHORT };
    // What is converted is in memory that is there until this returns.
    if bytes < short || handle.is_external32() || handle.role != Role::Data {
        // SAFETY: the caller's promise.
        return Ok(Operation::over(unsafe { independently(mpi, fd, access) }));
    }
    let Some(mut ready) = Ready::of(mpi, file, access)? else { return Ok(Operation::over(Ok(0))) };
    if access.position.pointer == INDIVIDUAL && access.direction == Direction::Read {
        // What comes later is not read: the pointer is where it ends already.
        ready.extent = ready.view.clipped(ready.extent, handle.size_to_see()?);
    }
    let end = ready.extent.position + ready.extent.bytes;
    let place = ready.view.pointer_at(end);
    let operation = background::start(handle, move |handle| {
        // SAFETY: the caller's promise.
        unsafe { ready.run(handle) }.map(i64::unsigned_abs)
    })?;
    advance(file, access, place, end);
    Ok(operation)
}

/// Sets the individual file pointer behind an access that has moved it: to `place`, byte `position` of what was
/// counted.
fn advance<A: Abi>(fd: &mut RomioFile<A>, access: &Access<A>, place: i64, position: i64) {
    match (access.position.pointer, access.unit) {
        (INDIVIDUAL, Unit::Etypes) => pointer::note(fd, place, position),
        // What was counted is the file's bytes, not those of the view's data.
        (INDIVIDUAL, Unit::Bytes) => fd.fp_ind = place,
        _ => {}
    }
    fd.fp_sys_posn = -1;
}

/// An access of which all is known that MPI has to tell.
struct Ready {
    direction: Direction,
    buffer: *mut u8,
    /// Where the data is in memory, from the buffer's beginning on.
    memory: Shape,
    view: View,
    extent: Extent,
    /// Which bytes of the file lie between the first and the last.
    bounds: Range<u64>,
    is_atomic: bool,
    callers: Callers,
}

// SAFETY: the buffer is only touched by `run`, whose caller vouches for it.
unsafe impl Send for Ready {}

impl Ready {
    /// `None` where there is nothing to be done.
    fn of<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, access: &Access<A>) -> Result<Option<Ready>, Failure> {
        let bytes = mpi.type_size(access.datatype).saturating_mul(access.count.unsigned_abs());
        if bytes == 0 {
            return Ok(None);
        }
        let one = flatten::of(mpi, access.datatype)?;
        let memory = Shape::clone(&one)
            .repeated(access.count, mpi.extent(access.datatype))
            .ok_or_else(|| Failure::new(ErrorClass::Argument, "the buffer is larger than memory can be"))?;
        let view = match access.unit {
            Unit::Etypes => View::of(mpi, fd)?,
            Unit::Bytes => View::of_bytes(mpi, fd),
        };
        let (pointer, offset) = (access.position.pointer, access.position.offset);
        let outside = || {
            let name = fd.name().to_string_lossy();
            let place =
                if pointer == INDIVIDUAL { "its file pointer".into() } else { format!("offset {offset}") };
            let message = format!("svm:{name}: {bytes} bytes at {place} lie outside of what the view shows");
            Failure::new(ErrorClass::Argument, message)
        };
        let extent = view.extent(pointer, offset, bytes).ok_or_else(outside)?;
        let bounds = view.bounds(extent).ok_or_else(outside)?;
        let (direction, callers) = (access.direction, access.callers);
        let (buffer, memory) = match memory.is_run() {
            true => (first_byte(access, &memory).cast(), Shape::run(memory.bytes())),
            false => (access.buffer.cast(), memory),
        };
        let is_atomic = handle::of(fd)?.is_atomic();
        Ok(Some(Ready { direction, buffer, memory, view, extent, bounds, is_atomic, callers }))
    }

    /// Carries it out; returns the bytes that were moved.
    ///
    /// # Safety
    /// The buffer is valid wherever `memory` says: for reads where this writes, for writes where it reads.
    unsafe fn run(&self, handle: &Handle) -> Result<i64, Failure> {
        let bounds = || self.bounds.clone();
        let moved = match self.direction {
            Direction::Read if self.is_atomic => {
                // SAFETY: the caller's promise.
                handle.locked(bounds(), LockMode::Shared, || unsafe { self.read(handle) })
            }
            // SAFETY: as above.
            Direction::Read => handle.reading(bounds(), || unsafe { self.read(handle) }),
            Direction::Write if self.is_atomic => {
                let written = |size| self.segments(size);
                // SAFETY: as above.
                handle.locked_to_write(bounds(), &written, || unsafe { self.write(handle) })
            }
            // SAFETY: as above.
            Direction::Write => handle.writing(bounds(), || unsafe { self.write(handle) }),
        };
        moved.map_err(|failure| handle.located(failure))
    }

    /// The segments in which any of its bytes are, if they are of such a size.
    fn segments(&self, size: SegmentSize) -> Vec<SegmentIndex> {
        Amounts::of(&self.view, &self.extent, size).units().map(SegmentIndex).collect()
    }

    /// # Safety
    /// As [`Ready::run`].
    unsafe fn read(&self, handle: &Handle) -> Result<i64, Failure> {
        let extent = self.view.clipped(self.extent, handle.file.size());
        let Some(bounds) = self.view.bounds(extent).filter(|_| extent.bytes > 0) else { return Ok(0) };
        let bounds = FileOffset(bounds.start)..FileOffset(bounds.end);
        let mut read = handle.file.read_strided(bounds, extent.bytes.unsigned_abs())?;
        let (mut to, mut from) =
            (Cursor::at(&self.memory, 0), Cursor::at(self.view.shape(), extent.position));
        pairing::each_blocks(&mut to, &mut from, extent.bytes, |blocks, at, stride| {
            // SAFETY: the caller vouches for what `memory` tells of the buffer.
            unsafe { read.get(&blocks, self.buffer.wrapping_offset(at as isize), stride as isize) }
        })?;
        read.finish()?;
        Ok(extent.bytes)
    }

    /// # Safety
    /// As [`Ready::run`].
    unsafe fn write(&self, handle: &Handle) -> Result<i64, Failure> {
        let extent = self.extent;
        let bounds = FileOffset(self.bounds.start)..FileOffset(self.bounds.end);
        let bytes = extent.bytes.unsigned_abs();
        // A collective access that blocks has placed its segments together with the other ranks'.
        handle.file.place_ahead(bounds.clone(), bytes, &|size| self.segments(size))?;
        let mut write = match self.callers {
            Callers::One => handle.file.write_strided(bounds, bytes)?,
            Callers::All => handle.file.write_strided_by_all(bounds, bytes, &handle.team)?,
        };
        let (mut from, mut to) =
            (Cursor::at(&self.memory, 0), Cursor::at(self.view.shape(), extent.position));
        pairing::each_blocks(&mut from, &mut to, extent.bytes, |blocks, at, stride| {
            // SAFETY: the caller vouches for what `memory` tells of the buffer.
            unsafe { write.put(&blocks, self.buffer.wrapping_offset(at as isize), stride as isize) }
        })?;
        write.finish()?;
        Ok(extent.bytes)
    }
}
