//! Shared virtual memory: files that are the memory and disks of the nodes that use them.
//!
//! A file is a row of **segments** of one size, each a memory-mapped file in the **store** of the node that
//! is its home. There is no server: the processes that have a file open keep it together themselves.
//!
//! ```text
//!  Store ── names/a/b ──► FileId ──► objects/ID/ ┬ manifest   what survives: size, segment table, checksum
//!    │                                           ├ state      what is shared while open: size, table, locks
//!    └ open_file, remove, list                   └ segment-…  the bytes, sparse
//!
//!  File (a handle) ─► Attachment (one per process and file) ─► State     atomics in shared memory
//!    read_at, write_at       who is here (presence)            Segment   a mapping, found in the LRU cache
//!    set_size, lock, …       commit, recovery                  LockTable fair byte-range locks
//!      ▲
//!  Mapping ─► Service        the file as memory: a record per page, faults served by threads (userfaultfd)
//!    loads and stores, lock, barrier, sync, advise, fetch; Region: values under guards
//!  StrictMapping: the same without annotations; Bound: values that come and go with their lock
//! ```
//!
//! * [`Store`] finds, makes, renames and removes files ([`store`](Store) module `store`), whose directories module
//!   `object` knows. A file that is removed without some of its nodes leaves a trace, by which what these have left of
//!   it is known for what it is.
//! * `unnamed` makes files: the name comes last, and a copy can be whole before anybody sees it. `new_file` does so in one
//!   of several stores, where an older file of the name is kept until the new one stays in all.
//! * `attachment` is a file that this process has open. The first process to attach it brings the shared
//!   state up (`recovery`); `presence` tells which others are alive, and the kernel keeps that list.
//!   The last files that were closed are kept mapped, to be opened again at little cost. A [`Hold`] keeps the data of a file
//!   that is not open, whoever removes it.
//! * `manifest` is replaced atomically; `state` is mapped by all and changed by atomic operations.
//! * `changes` knows what this process has to tell other nodes, and to bring to the storage device.
//! * `segment` copies bytes: through the mapping where pages have storage, by system call where not, so
//!   that a full file system gives an error and not a signal; it makes large pages where it can. `copying` moves large
//!   blocks past the caches. `mapping_cache` keeps mappings over close and open.
//! * [`spare`] keeps storage of removed files for new ones.
//! * `cluster` makes one file of what several nodes hold: in each an agent, a thread, does for the others what they cannot
//!   do for themselves. `cache` has pages of their segments, shared by the processes of a node; `placement` says on which
//!   node a new segment is; `accounting` what all that cost.
//! * `locks` gives byte ranges to processes in the order in which they ask; it survives their deaths. `kept_locks` are other
//!   nodes', which a node keeps until somebody asks. `byte_locks` are the kernel's, by which presence is known.
//! * `finding` puts together what several nodes' stores know of a file. [`StoreSet`] does it for somebody who takes
//!   part in no job and has the stores within reach: a [`StoredFile`] is read without disturbing anybody, a
//!   [`SpreadFile`] is made in several stores. A store of another host is looked at through a [`RemoteStore`], which
//!   somebody [serves](serve) there.
//! * [`staging`] brings a file to a job that has none of its nodes, or not all, for reading: from hosts that it may ask.
//! * [`team`]: what processes do together that have a file open together, on one node or on several: all succeed or all
//!   fail.
//! * [`session`]: a process among those with which it opens files, by its environment or by what a program has;
//!   [`joined`] keeps the clusters that they form.
//! * [`mapping`] is the file as memory: a range of it at addresses of a process, whose pages come from their homes when
//!   they are touched, and go back by what was changed of them.
//! * [`environment`] tells of variables that are mistyped, and [`spelling`] what was meant.
//! * [`verify()`] looks a store over, [`StoreSet::verify`] several, and that they agree.
//!
//! A write is visible to every process of the node when it returns. It survives the death of all of them. It
//! survives a power cut once [`File::sync_data`] and [`File::commit`] have returned.
//!
//! ```
//! use svmio_svm::{FileName, FileOffset, OpenOptions, Store};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path();
//! let store = Store::open(path)?;
//! let name = FileName::new("/results/step1")?;
//! let file = store.open_file(&name, &OpenOptions::read_write().create(true))?;
//! file.write_at(FileOffset(1 << 40), b"far out")?;
//! assert_eq!(file.size(), (1 << 40) + 7);
//! let mut bytes = [0; 3];
//! assert_eq!(file.read_at(FileOffset((1 << 40) + 4), &mut bytes)?, 3);
//! assert_eq!(&bytes, b"out");
//! file.sync_data()?;
//! file.commit(true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// The jobs of the integration tests are those of some unit tests, too.
#[cfg(test)]
extern crate self as svmio_svm;

pub mod accounting;
mod attachment;
mod blocks;
mod byte_locks;
mod cache;
mod changes;
mod cluster;
mod copying;
pub mod environment;
mod error;
mod file;
mod finding;
mod hold;
pub mod joined;
mod kept_locks;
#[cfg(test)]
mod killing;
pub mod locks;
mod manifest;
pub mod mapping;
mod mapping_cache;
mod name;
mod new_file;
mod node;
mod object;
mod open_options;
mod placement;
pub mod presence;
mod range_lock;
mod recovery;
mod remote_store;
pub mod robust_mutex;
mod segment;
pub mod session;
pub mod spare;
pub mod spelling;
mod spread_file;
pub mod staging;
mod state;
mod store;
mod store_set;
mod stored_file;
pub mod team;
mod units;
mod unnamed;
mod verify;
#[cfg(test)]
mod warnings;

pub use blocks::Blocks;
pub use cache::{CacheSettings, InvalidCacheSettings};
pub use cluster::{CacheStatistics, Cluster, ClusterStatistics, Introduction, NodeIndex, StraightStatistics};
pub use error::{Error, ErrorKind, Result, Unsynced};
pub use file::{File, SegmentInfo, StridedRead, StridedWrite};
pub use hold::Hold;
pub use locks::{LockError, Mode as LockMode};
pub use manifest::{MANIFEST_VERSION, Manifest, SegmentRun};
pub use name::{DirectoryName, FileName, strip_prefix};
pub use node::{BootId, NodeName};
pub use object::Storage;
pub use open_options::OpenOptions;
pub use placement::{Placement, SizeReason, UnknownPlacement};
pub use range_lock::RangeLock;
pub use remote_store::{Connection, LaunchError, RemoteStore, StoreLauncher, serve};
pub use spread_file::SpreadFile;
pub use store::{Entry, Medium, Mount, Store, StoreIdentity};
pub use store_set::StoreSet;
pub use stored_file::{StoredFile, StoredSegment};
pub use units::{FileId, FileOffset, InvalidFileId, InvalidSegmentSize, SegmentIndex, SegmentSize};
pub use unnamed::UnnamedFile;
pub use verify::{Report, verify, verify_file};
