//! What the processes of a node share about a file while it is open: its size, its segment table, its locks.
//!
//! The `state` file beside the manifest is mapped by every process that has the file open. It is worth
//! something only while the kernel runs on: after a reboot, or when it is damaged, it is rebuilt from the
//! manifest and the segments (see [`crate::recovery`]).
//!
//! Layout: [`Header`], the lock table, the locks kept of other nodes, then one [`Entry`] per segment. The file is
//! sparse; storage of an entry is reserved before it is first touched, so that a full file system never turns into a
//! SIGBUS.
//!
//! Where several nodes share the file, each has such a state: a replica of the master node's. Entries never change
//! once they are set, so a replica can only lack some.

mod deaths;
mod locking;
mod sizing;
mod table;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::FallocateFlags;
use rustix::io::retry_on_intr;

use crate::error::ErrorKind;
use crate::kept_locks::KeptLocks;
use crate::locks::LockTable;
use crate::node::BootId;
use crate::spare;
use crate::units::{FileId, SegmentIndex, SegmentSize};

use self::table::Entry;

/// The most segments that a file can have.
pub(crate) const MAX_SEGMENTS: u32 = 1 << 24;

const MAGIC: u64 = u64::from_le_bytes(*b"svmstate");
const VERSION: u64 = 7;
const PAGE: u64 = 4096;
const LOCKS_AT: u64 = PAGE;
const KEPT_AT: u64 = (LOCKS_AT + LockTable::BYTES as u64).next_multiple_of(PAGE);
const TABLE_AT: u64 = (KEPT_AT + KeptLocks::BYTES as u64).next_multiple_of(PAGE);
const ENTRY: u64 = size_of::<Entry>() as u64;
const LENGTH: u64 = TABLE_AT + MAX_SEGMENTS as u64 * ENTRY;

/// All fields are atomics: any bit pattern is a valid one, and several processes change them at once.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    boot: [AtomicU64; 2],
    id: [AtomicU64; 2],
    size: AtomicU64,
    /// Raised whenever parts of segments were given back: knowledge of which pages have storage is then void.
    punches: AtomicU64,
    /// How many entries of the segment table have storage.
    table_entries: AtomicU64,
    /// How many segments there are.
    segments: AtomicU64,
    /// Size and number of segments that the manifest on storage tells of, and its epoch.
    committed_size: AtomicU64,
    committed_segments: AtomicU64,
    epoch: AtomicU64,
    deleted: AtomicU64,
    /// Through which cluster the file is open; 0 where it is open on this node alone.
    cluster: AtomicU64,
    /// How often the file was made shorter: tells a replica whether a smaller size is news.
    truncations: AtomicU64,
    /// The size that the master node is known to know.
    reported_size: AtomicU64,
    /// Bytes of each segment; may change as long as there is none.
    segment_size: AtomicU64,
    /// How often bytes of this node that were written under a lock were given up, times 256, plus the kind of the last
    /// error that led to it.
    losses: AtomicU64,
    /// How many processes have entered and not left: more than are alive where one died.
    users: AtomicU64,
    /// How often the state was made anew or fit for new users, or the file got another name: what a process knows from
    /// before is then void.
    revivals: AtomicU64,
    /// The epoch whose manifest is known to have reached the storage device, plus one.
    durable_epoch: AtomicU64,
    /// Not 0 where ranges are locked at the master, too, whatever homes their segments have.
    also_locked_at_master: AtomicU64,
    /// How often homes were entered of which the master did not tell whether they make for that, and up to which time
    /// it has been asked since.
    unasked_homes: AtomicU64,
    asked_homes: AtomicU64,
    /// Whether the size of segments may change, see [`sizing`].
    sizing: AtomicU64,
}

/// A file's shared state, mapped into this process.
pub(crate) struct State {
    map: MmapRaw,
    file: File,
    writable: bool,
}

impl State {
    /// Maps the state in `file`, which was opened for writing, and gives it storage for header and locks.
    /// What it says counts only once [`State::is_valid`] or [`State::reset`].
    pub(crate) fn map(file: File) -> io::Result<State> {
        if file.metadata()?.len() != LENGTH {
            spare::reserve(&file, 0..TABLE_AT)?;
            file.set_len(LENGTH)?;
        }
        let map = MmapOptions::new().len(LENGTH as usize).map_raw(&file)?;
        // Read ahead, its pages would be large ones on some disks, which need storage for all of them when any byte is
        // stored.
        map.advise(Advice::Random)?;
        Ok(State { map, file, writable: true })
    }

    /// Maps the state in `file`, which was opened for reading. `None` where it has never been complete.
    pub(crate) fn map_for_reading(file: File) -> io::Result<Option<State>> {
        if file.metadata()?.len() != LENGTH {
            return Ok(None);
        }
        let map = MmapOptions::new().len(LENGTH as usize).map_raw_read_only(&file)?;
        Ok(Some(State { map, file, writable: false }))
    }

    /// Whether this state was written under this kernel's run for this file.
    pub(crate) fn is_valid(&self, boot: BootId, id: FileId) -> bool {
        let header = self.header();
        // Acquire: whoever made the state valid did so last (`reset`).
        header.magic.load(Ordering::Acquire) == MAGIC
            && header.version.load(Ordering::Relaxed) == VERSION
            && words(&header.boot) == boot.0
            && words(&header.id) == id.to_bytes()
    }

    /// Starts the state anew: no segments, no locks, the given size. The caller alone has the file open,
    /// and calls [`State::publish`] when it has entered the segments.
    pub(crate) fn reset(&self, boot: BootId, id: FileId, size: u64, epoch: u64) -> io::Result<()> {
        let header = self.header();
        let was_one = header.magic.swap(0, Ordering::Acquire) == MAGIC
            && header.version.load(Ordering::Relaxed) == VERSION;
        if was_one {
            // What processes left unsynced counts as long as the kernel runs on, whatever else does not.
            let kept = if words(&header.boot) == boot.0 { u32::MAX } else { 0 };
            // Storage that the table has is kept: a full file system would not give it again.
            (0..self.entries()).filter_map(|index| self.entry(SegmentIndex(index))).for_each(|entry| {
                entry.home.store(0, Ordering::Relaxed);
                entry.changed.fetch_and(kept, Ordering::Relaxed);
            });
        } else {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            retry_on_intr(|| rustix::fs::fallocate(&self.file, flags, TABLE_AT, LENGTH - TABLE_AT))?;
            header.table_entries.store(0, Ordering::Relaxed);
        }
        header.version.store(VERSION, Ordering::Relaxed);
        set_words(&header.boot, boot.0);
        set_words(&header.id, id.to_bytes());
        header.size.store(size, Ordering::Relaxed);
        header.epoch.store(epoch, Ordering::Relaxed);
        let counts = [&header.segments, &header.committed_size, &header.committed_segments];
        let zeroed = counts.into_iter().chain([&header.deleted, &header.cluster, &header.truncations]);
        let zeroed = zeroed.chain([&header.reported_size, &header.losses, &header.durable_epoch]);
        zeroed.for_each(|field| field.store(0, Ordering::Relaxed));
        self.revive()
    }

    /// Makes a state that survived its users fit for new ones: all locks are free, and nobody's knowledge of
    /// which pages have storage holds any more. The caller alone has the file open.
    pub(crate) fn revive(&self) -> io::Result<()> {
        self.add_punch();
        self.header().users.store(0, Ordering::Relaxed);
        let header = self.header();
        let asked = [&header.unasked_homes, &header.asked_homes];
        let fields = [&header.also_locked_at_master, &header.sizing].into_iter().chain(asked);
        fields.for_each(|field| field.store(0, Ordering::Relaxed));
        self.header().revivals.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the lock table's place in the mapping has storage (`map`), is aligned to a page, and the
        // caller guarantees that no other process uses it.
        unsafe { LockTable::init_at(self.locks_ptr(), LockTable::BYTES) }.map_err(io::Error::other)?;
        // SAFETY: likewise for the kept locks' place.
        unsafe { KeptLocks::init_at(self.kept_ptr()) }.map_err(io::Error::other)
    }

    /// Declares that what the state says counts no more, of a file in which this node has the position `own`. The
    /// caller alone has the file open.
    pub(crate) fn void(&self, own: Option<u32>) {
        self.leave_unsynced_of_dead(own);
        // Not the boot identity: what was left unsynced is told still (`reset`).
        self.header().id.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Declares the state complete.
    pub(crate) fn publish(&self) {
        // Release: makes all that was stored before visible to whoever finds the state valid.
        self.header().magic.store(MAGIC, Ordering::Release);
    }

    /// The logical size of the file, bytes.
    pub(crate) fn size(&self) -> u64 {
        // Acquire: pairs with the Release of `grow`, so that bytes below the size are the written ones.
        self.header().size.load(Ordering::Acquire)
    }

    /// Makes the file at least `size` bytes long.
    pub(crate) fn grow(&self, size: u64) {
        let header = self.header();
        // The load spares overwriting accesses the cache line's ownership. Release: see `size`.
        if header.size.load(Ordering::Relaxed) < size {
            header.size.fetch_max(size, Ordering::Release);
        }
    }

    /// Sets the size, also to a smaller one.
    pub(crate) fn set_size(&self, size: u64) {
        self.header().size.store(size, Ordering::Release);
    }

    /// How often storage was given back.
    pub(crate) fn punches(&self) -> u64 {
        // Acquire: pairs with `add_punch`; what was learnt before it is then not trusted after it.
        self.header().punches.load(Ordering::Acquire)
    }

    /// Tells everyone that storage was given back.
    pub(crate) fn add_punch(&self) {
        self.header().punches.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the manifest on storage does not tell all that is here.
    pub(crate) fn needs_commit(&self) -> bool {
        let header = self.header();
        header.size.load(Ordering::Acquire) != header.committed_size.load(Ordering::Acquire)
            || header.segments.load(Ordering::Acquire) != header.committed_segments.load(Ordering::Acquire)
    }

    /// Whether the manifest on storage tells all segments that are known here, and no others.
    pub(crate) fn is_table_committed(&self) -> bool {
        self.segments() == self.header().committed_segments.load(Ordering::Acquire)
    }

    /// The number of the last commit.
    pub(crate) fn epoch(&self) -> u64 {
        self.header().epoch.load(Ordering::Acquire)
    }

    /// Notes what a manifest on storage tells.
    pub(crate) fn set_committed(&self, size: u64, segments: u64, epoch: u64) {
        let header = self.header();
        header.committed_size.store(size, Ordering::Release);
        header.committed_segments.store(segments, Ordering::Release);
        header.epoch.store(epoch, Ordering::Release);
    }

    /// Notes that bytes of this node were given up. Returns the number that this loss has.
    pub(crate) fn add_loss(&self, kind: ErrorKind) -> u64 {
        let next = |losses: u64| ((losses >> 8) + 1) << 8 | u64::from(kind.code());
        let losses = &self.header().losses;
        // Relaxed: whoever has to hear of it has flushed or unlocked after it, both of which order more than this.
        let (Ok(before) | Err(before)) =
            losses.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |losses| Some(next(losses)));
        next(before) >> 8
    }

    /// How often bytes of this node were given up, and the kind of the last error that led to it.
    pub(crate) fn losses(&self) -> (u64, ErrorKind) {
        let losses = self.header().losses.load(Ordering::Relaxed);
        (losses >> 8, ErrorKind::from_code(losses as u8))
    }

    /// Whether the manifest on the storage device tells all that is here, as far as that is known.
    pub(crate) fn is_durable(&self) -> bool {
        let header = self.header();
        !self.needs_commit()
            && header.durable_epoch.load(Ordering::Acquire)
                == header.epoch.load(Ordering::Acquire).wrapping_add(1)
    }

    /// Notes that the manifest of `epoch` has reached the storage device.
    pub(crate) fn set_durable(&self, epoch: u64) {
        self.header().durable_epoch.store(epoch.wrapping_add(1), Ordering::Release);
    }

    /// Whether any manifest has reached the storage device since the state was made, as far as that is known.
    pub(crate) fn has_been_durable(&self) -> bool {
        self.header().durable_epoch.load(Ordering::Acquire) != 0
    }

    /// Notes that the manifest on storage may never reach the device: the next commit is to write another one.
    pub(crate) fn distrust_manifest(&self) {
        // No file has so many.
        self.header().committed_segments.store(u64::MAX, Ordering::Release);
    }

    /// Counts a process that enters, in the gate; returns how many there were before.
    pub(crate) fn add_user(&self) -> u64 {
        self.header().users.fetch_add(1, Ordering::AcqRel)
    }

    /// Counts a process that has entered and is leaving.
    pub(crate) fn remove_user(&self) {
        // Not below zero, whatever was stored here: a wrong count only makes for an unnecessary recovery.
        let fewer = |users: u64| users.checked_sub(1);
        let _ = self.header().users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, fewer);
    }

    /// How many processes have entered and not left.
    pub(crate) fn users(&self) -> u64 {
        self.header().users.load(Ordering::Acquire)
    }

    /// Has processes that have the file open, or keep it, find it by its name anew: before it loses that, so that nobody
    /// who is killed in between leaves them with it. The caller holds the gate until the name has changed.
    pub(crate) fn void_names(&self) {
        // Release: whoever learns of the new name, which comes after this, finds the count raised.
        self.header().revivals.fetch_add(1, Ordering::Release);
    }

    /// How often the state was made anew or fit for new users, or the file lost a name.
    pub(crate) fn revivals(&self) -> u64 {
        self.header().revivals.load(Ordering::Acquire)
    }

    /// Whether the file has lost its name; it goes with its last user.
    pub(crate) fn is_deleted(&self) -> bool {
        self.header().deleted.load(Ordering::Acquire) != 0
    }

    /// Notes that the file has lost its name.
    pub(crate) fn set_deleted(&self) {
        // Seen by whoever leaves without the gate after this process saw him there: see `Attachment::leave`.
        self.header().deleted.store(1, Ordering::SeqCst);
    }

    /// Through which cluster the file is open; 0 where it is open on this node alone.
    pub(crate) fn cluster(&self) -> u64 {
        self.header().cluster.load(Ordering::Acquire)
    }

    /// Notes through which cluster the file is open. The caller alone has the file open.
    pub(crate) fn set_cluster(&self, cluster: u64) {
        self.header().cluster.store(cluster, Ordering::Release);
    }

    /// How often the file was made shorter.
    pub(crate) fn truncations(&self) -> u64 {
        self.header().truncations.load(Ordering::Acquire)
    }

    /// Counts that the file was made shorter, after its size is set.
    pub(crate) fn add_truncation(&self) {
        self.header().truncations.fetch_add(1, Ordering::Release);
    }

    /// Notes how often the file was made shorter.
    pub(crate) fn set_truncations(&self, truncations: u64) {
        self.header().truncations.store(truncations, Ordering::Release);
    }

    /// The size that the master node is known to know, bytes.
    pub(crate) fn reported_size(&self) -> u64 {
        self.header().reported_size.load(Ordering::Acquire)
    }

    /// Notes the size that the master node knows.
    pub(crate) fn set_reported_size(&self, size: u64) {
        self.header().reported_size.store(size, Ordering::Release);
    }

    /// The size of each segment; `None` where this is no state of a file.
    #[inline]
    pub(crate) fn segment_size(&self) -> Option<SegmentSize> {
        // Relaxed: it changes only while no segment has a home. Who has counted by it looks again once one has
        // (`File::segment_to_write`), and finding the home orders more than this.
        SegmentSize::new(self.header().segment_size.load(Ordering::Relaxed)).ok()
    }

    /// Notes the size of each segment.
    pub(crate) fn set_segment_size(&self, size: SegmentSize) {
        self.header().segment_size.store(size.bytes(), Ordering::Relaxed);
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: the mapping is longer than a header, page-aligned, lives as long as `self`, and a header
        // consists of atomics, which any content is valid for. In a mapping for reading nothing is stored:
        // the functions that store are called on writable states only.
        unsafe { &*self.map.as_mut_ptr().cast::<Header>() }
    }
}

fn words(fields: &[AtomicU64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&fields[0].load(Ordering::Relaxed).to_ne_bytes());
    bytes[8..].copy_from_slice(&fields[1].load(Ordering::Relaxed).to_ne_bytes());
    bytes
}

fn set_words(fields: &[AtomicU64; 2], bytes: [u8; 16]) {
    for (field, half) in fields.iter().zip(bytes.chunks_exact(8)) {
        field.store(u64::from_ne_bytes(half.try_into().expect("eight bytes")), Ordering::Relaxed);
    }
}
