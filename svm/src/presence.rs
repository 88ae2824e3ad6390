//! Which processes of the node have a file attached, and the gate they pass one at a time.
//!
//! Each attached process keeps a lock on one byte of the file's state file: the byte `1 + slot`.
//! Byte 0 is the gate. The bytes need not exist; only the kernel's record of the locks matters, and
//! the kernel drops a process's locks when it dies, however it dies. So a slot is occupied exactly
//! while its process lives, and nobody has to clean up after a crash.
//!
//! The byte behind those of all slots is for [holds](crate::Hold): who has a shared lock on it has no place among
//! those who have the file open, and only those heed him who would take the file's data away.
//!
//! Attaching goes: [`Gate::lock`]; see by [`GateGuard::anybody_present`] whether the shared state
//! is in use, and initialise it if not; [`Presence::enter`] with a clone of the same file; drop the
//! guard.
//!
//! The locks are *open file description* locks (`fcntl` with `F_OFD_SETLK`, Linux 3.15): they belong
//! to what `open` returned, not to the process. Hence
//! * a process may attach a file several times, each time with an `open` of its own, and has a slot
//!   for each; closing another descriptor of the same file releases nothing;
//! * a `fork`ed child shares its parent's locks. While it lives, or until it calls `exec` (Rust
//!   opens files with `O_CLOEXEC`), the parent's slot stays occupied even if the parent has died,
//!   and the gate does not keep the two apart. A forked child must not use its parent's `Presence`;
//! * descriptors made by `try_clone` or `dup` share the locks, too.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::byte_locks::{Bytes, Kind, locked_by_another, try_lock, unlock, wait_for_lock};

/// The number of an attached process among those of its node that have the same file attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessSlot(pub u16);

/// This process's place among those that have the file attached; dropping it leaves.
#[derive(Debug)]
pub struct Presence {
    file: File,
    slot: AtomicU16,
    /// Whether the process has left, and may enter again.
    has_left: AtomicBool,
    /// Keeps the threads of this process apart, to whom the kernel would give the gate together,
    /// since they share one open file description.
    gate_within_process: Mutex<()>,
}

impl Presence {
    /// Takes the first free one of `slots` slots.
    ///
    /// `file` is the state file, open for writing, with an open file description that no other
    /// `Presence` uses. The caller holds the gate if it initialises what the slots index.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] when all slots are taken; else what `fcntl` reports, for
    /// instance that the file is open for reading only.
    pub fn enter(file: File, slots: u16) -> io::Result<Presence> {
        for slot in (0..slots).map(ProcessSlot) {
            if try_lock(&file, slot_byte(slot))? {
                let (slot, has_left) = (AtomicU16::new(slot.0), AtomicBool::new(false));
                return Ok(Presence { file, slot, has_left, gate_within_process: Mutex::new(()) });
            }
        }
        Err(full(slots))
    }

    /// Leaves for a while: the slot is free for others.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn leave(&self) -> io::Result<()> {
        // Relaxed, here and below: the caller sees to it that nobody uses a presence that is changing.
        if !self.has_left.swap(true, Ordering::Relaxed) {
            unlock(&self.file, slot_byte(self.slot()))?;
        }
        Ok(())
    }

    /// After [`Presence::leave`]: takes the same slot again, or the first free one of `slots` slots. The caller holds
    /// the gate.
    ///
    /// # Errors
    /// As [`Presence::enter`].
    pub fn enter_again(&self, slots: u16) -> io::Result<()> {
        for slot in std::iter::once(self.slot()).chain((0..slots).map(ProcessSlot)) {
            if try_lock(&self.file, slot_byte(slot))? {
                self.slot.store(slot.0, Ordering::Relaxed);
                self.has_left.store(false, Ordering::Relaxed);
                return Ok(());
            }
        }
        Err(full(slots))
    }

    /// Whether the process has left, and may enter again.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// The state file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The slot of this process.
    pub fn slot(&self) -> ProcessSlot {
        // Relaxed: it changes only while nobody uses the file.
        ProcessSlot(self.slot.load(Ordering::Relaxed))
    }

    /// Whether the process that took `slot` still lives. One's own slot is alive.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn alive(&self, slot: ProcessSlot) -> io::Result<bool> {
        Ok(slot == self.slot() || locked_by_another(&self.file, slot_byte(slot))?)
    }

    /// Whether any other process has the file attached, or this one a second time.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn others_alive(&self) -> io::Result<bool> {
        locked_by_another(&self.file, all_slots())
    }

    /// Whether anybody holds the file.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn is_held(&self) -> io::Result<bool> {
        locked_by_another(&self.file, HOLD)
    }

    /// Waits, asleep, until no other thread of whatever process is in the gate, and enters it.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn gate(&self) -> io::Result<GateGuard<'_>> {
        // A panic inside the gate does not make the gate unusable.
        let within_process = self.gate_within_process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = Gate::lock(&self.file)?;
        guard._within_process = Some(within_process);
        Ok(guard)
    }
}

/// Whether a process has the file attached whose state is `file`, open for reading at least: to somebody who only looks
/// on, and whom nobody waits for.
///
/// # Errors
/// What `fcntl` reports.
pub(crate) fn anybody_attached(file: &File) -> io::Result<bool> {
    locked_by_another(file, all_slots())
}

/// Holds the file whose state is `file`, open for reading at least, with an open file description that is used for
/// nothing else but the gate.
///
/// # Errors
/// What `fcntl` reports.
pub(crate) fn hold(file: &File) -> io::Result<()> {
    // Nobody ever has an exclusive lock there.
    wait_for_lock(file, Kind::Shared, HOLD)
}

/// Holds the file no more.
///
/// # Errors
/// What `fcntl` reports.
pub(crate) fn let_go(file: &File) -> io::Result<()> {
    unlock(file, HOLD)
}

impl Drop for Presence {
    fn drop(&mut self) {
        // Closing would do, but for descriptors that a fork or a clone has multiplied. There is
        // nothing to be done about an error; closing follows.
        let _ = self.leave();
    }
}

/// The gate of a file, for those who have not yet entered.
#[derive(Debug)]
pub struct Gate;

impl Gate {
    /// Waits, asleep, until nobody else is in the gate of the state file `file`, and enters it.
    ///
    /// `file` must be open for writing, by an `open` of this thread's own: those who share an open
    /// file description pass together. Who has entered takes [`Presence::gate`].
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn lock(file: &File) -> io::Result<GateGuard<'_>> {
        // Mostly it is held for a microsecond, in which sleeping would take longer.
        for _ in 0..TRIES_BEFORE_SLEEP {
            if try_lock(file, GATE)? {
                return Ok(GateGuard { file, _within_process: None });
            }
            // Not offering the core: whoever else wants it would keep it for a thousand times as long.
            std::hint::spin_loop();
        }
        wait_for_lock(file, Kind::Exclusive, GATE)?;
        Ok(GateGuard { file, _within_process: None })
    }

    /// Enters the gate if nobody else is in it.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub(crate) fn try_lock(file: &File) -> io::Result<Option<GateGuard<'_>>> {
        Ok(try_lock(file, GATE)?.then(|| GateGuard { file, _within_process: None }))
    }
}

/// Being in the gate; dropping it leaves.
#[derive(Debug)]
#[must_use = "the gate is left when the guard is dropped"]
pub struct GateGuard<'f> {
    file: &'f File,
    // Unlocked after `drop` has unlocked byte 0, so that no thread of this process believes to have
    // locked byte 0 when this guard is about to unlock it.
    _within_process: Option<MutexGuard<'f, ()>>,
}

impl GateGuard<'_> {
    /// Whether anybody has the file attached, other than through the descriptor of this gate.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn anybody_present(&self) -> io::Result<bool> {
        locked_by_another(self.file, all_slots())
    }

    /// Whether anybody [holds](crate::Hold) the file, other than through the descriptor of this gate.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn is_held(&self) -> io::Result<bool> {
        locked_by_another(self.file, HOLD)
    }

    /// Whether the file's data is anybody's: of one who has it open, or holds it.
    ///
    /// # Errors
    /// What `fcntl` reports.
    pub fn is_anybodys(&self) -> io::Result<bool> {
        Ok(self.anybody_present()? || self.is_held()?)
    }
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        // Unlocking a lock that one has fails only for want of memory to split a lock record,
        // which a lock of one byte never needs.
        let outcome = unlock(self.file, GATE);
        debug_assert!(outcome.is_ok(), "leaving the gate: {outcome:?}");
    }
}

/// How often one who wants to pass the gate looks whether it is free before he goes to sleep.
const TRIES_BEFORE_SLEEP: u32 = 32;

fn full(slots: u16) -> io::Error {
    let message = format!("all {slots} places for processes of this node are taken");
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

/// The byte of the state file that is the gate.
const GATE: Bytes = Bytes { start: 0, len: 1 };

fn slot_byte(slot: ProcessSlot) -> Bytes {
    Bytes { start: 1 + i64::from(slot.0), len: 1 }
}

fn all_slots() -> Bytes {
    Bytes { start: 1, len: HOLD.start - 1 }
}

/// The byte of holds: behind those of all slots that there can be.
const HOLD: Bytes = Bytes { start: 2 + u16::MAX as i64, len: 1 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    /// A state file, and a way to open it anew.
    struct State(tempfile::NamedTempFile);

    impl State {
        fn new() -> Self {
            State(tempfile::NamedTempFile::new().unwrap())
        }

        fn open(&self) -> File {
            self.0.reopen().unwrap()
        }
    }

    #[test]
    fn slots_are_taken_in_order_and_free_again_after_leaving() {
        let state = State::new();
        let first = Presence::enter(state.open(), 3).unwrap();
        assert!(!first.others_alive().unwrap());
        let second = Presence::enter(state.open(), 3).unwrap();
        assert_eq!((first.slot(), second.slot()), (ProcessSlot(0), ProcessSlot(1)));
        assert!(first.others_alive().unwrap() && second.others_alive().unwrap());
        for one in [&first, &second] {
            assert!(one.alive(ProcessSlot(0)).unwrap());
            assert!(one.alive(ProcessSlot(1)).unwrap());
            assert!(!one.alive(ProcessSlot(2)).unwrap());
        }
        drop(first);
        assert!(!second.alive(ProcessSlot(0)).unwrap());
        assert!(!second.others_alive().unwrap());
        let third = Presence::enter(state.open(), 3).unwrap();
        assert_eq!(third.slot(), ProcessSlot(0));
    }

    #[test]
    fn who_has_left_enters_again_where_there_is_room() {
        let state = State::new();
        let first = Presence::enter(state.open(), 3).unwrap();
        let second = Presence::enter(state.open(), 3).unwrap();
        first.leave().unwrap();
        assert!(first.has_left() && !second.others_alive().unwrap());
        first.enter_again(3).unwrap();
        assert_eq!((first.has_left(), first.slot()), (false, ProcessSlot(0)));
        first.leave().unwrap();
        let third = Presence::enter(state.open(), 3).unwrap();
        assert_eq!(third.slot(), ProcessSlot(0));
        first.enter_again(3).unwrap();
        assert_eq!(first.slot(), ProcessSlot(2));
        assert!(second.alive(ProcessSlot(0)).unwrap() && second.alive(ProcessSlot(2)).unwrap());
        first.leave().unwrap();
        let _fourth = Presence::enter(state.open(), 3).unwrap();
        assert_eq!(first.enter_again(3).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(third);
        drop(first);
        assert!(second.alive(ProcessSlot(2)).unwrap(), "who has left takes nobody's slot along");
    }

    #[test]
    fn who_holds_the_file_takes_no_place_and_is_seen_by_who_asks_for_holds() {
        let state = State::new();
        let (one, other, last) = (state.open(), state.open(), state.open());
        for file in [&one, &other] {
            hold(file).unwrap();
            assert!(!anybody_attached(&state.open()).unwrap());
        }
        let presence = Presence::enter(last.try_clone().unwrap(), u16::MAX).unwrap();
        assert!(!presence.others_alive().unwrap() && presence.is_held().unwrap());
        drop(presence);
        let gate = Gate::lock(&last).unwrap();
        assert!(!gate.anybody_present().unwrap() && gate.is_anybodys().unwrap());
        let_go(&one).unwrap();
        assert!(gate.is_held().unwrap());
        drop(other);
        assert!(!gate.is_anybodys().unwrap());
        // The last slot that there can be is none of theirs.
        let is_slot = |file: &File| try_lock(file, slot_byte(ProcessSlot(u16::MAX))).unwrap();
        assert!(is_slot(&one) && gate.anybody_present().unwrap() && !gate.is_held().unwrap());
    }

    #[test]
    fn entering_a_full_house_says_so() {
        let state = State::new();
        let _there = Presence::enter(state.open(), 1).unwrap();
        let error = Presence::enter(state.open(), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(error.to_string().contains("all 1 places"), "{error}");
    }

    #[test]
    fn a_file_open_for_reading_only_is_an_error_not_a_taken_slot() {
        let state = State::new();
        let read_only = File::open(state.0.path()).unwrap();
        let error = Presence::enter(read_only, 4).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn attaching_sees_in_the_gate_whether_anybody_is_there() {
        let state = State::new();
        let file = state.open();
        let gate = Gate::lock(&file).unwrap();
        assert!(!gate.anybody_present().unwrap());
        let presence = Presence::enter(file.try_clone().unwrap(), 4).unwrap();
        drop(gate);
        drop(file);

        let other = state.open();
        let gate = Gate::lock(&other).unwrap();
        assert!(gate.anybody_present().unwrap(), "the clone keeps the slot after the gate has been left");
        drop(gate);
        drop(presence);
        assert!(!Gate::lock(&other).unwrap().anybody_present().unwrap());
    }

    #[test]
    fn one_thread_at_a_time_passes_the_gate_with_shared_and_with_own_descriptors() {
        let state = State::new();
        let shared = Presence::enter(state.open(), 8).unwrap();
        let inside = AtomicU32::new(0);
        let pass = |guard: GateGuard<'_>| {
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
            thread::yield_now();
            assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
            drop(guard);
        };
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..500).for_each(|_| pass(shared.gate().unwrap())));
            }
            scope.spawn(|| {
                let own = state.open();
                (0..500).for_each(|_| pass(Gate::lock(&own).unwrap()));
            });
        });
    }
}
