//! The kernel's requests, each answered by [`Files`]. What is not among them is refused by the library: links, extended
//! attributes, and copying from file to file, for which the kernel reads and writes then.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno as Number;

use super::changes::{Creation, Wanted};
use super::files::Files;
use super::opener::OpenFile;
use super::refused::{Answer, Refused};

/// For how long what is told is true: whoever asks again is told anew.
const NO_TIME: Duration = Duration::ZERO;

/// Bytes of one write, at most: the kernel has no more at a time.
const LARGEST_WRITE: u32 = 1 << 20;

/// One identity is not given twice, and a directory's number neither.
const ONLY: Generation = Generation(0);

/// What `lseek` is asked for.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// What of `open`'s flags counts here.
const APPEND: i32 = 0o2000;
const EXCLUSIVE: i32 = 0o200;
const TRUNCATE: i32 = 0o1000;
/// Also a part of `O_SYNC`, and what a single write may ask for (`RWF_DSYNC`).
const SYNC_DATA: i32 = 0o10_000;

/// What of a mode tells the kind of file, and that of a plain one.
const KIND: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;

thread_local! {
    /// What was read, on its way to the kernel: memory that is there already.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the kernel talks to.
#[derive(Debug)]
pub(super) struct Face {
    files: Arc<Files>,
}

impl Face {
    pub(super) fn new(files: Files) -> Face {
        Face { files: Arc::new(files) }
    }

    /// How an open file is accessed: past the kernel's pages, by several at a time. Closing one of several nodes gives
    /// nothing up that anybody waits for.
    fn access(&self, handle: FileHandle) -> FopenFlags {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        match self.files.opened(handle).as_deref() {
            Ok(OpenFile::Seen(_)) => direct | FopenFlags::FOPEN_NOFLUSH,
            _ => direct,
        }
    }

    /// What answers, for somebody who has it settle when the end comes.
    pub(super) fn files(&self) -> Arc<Files> {
        Arc::clone(&self.files)
    }
}

/// Sends an answer, or why there is none.
macro_rules! answer {
    ($reply:ident, $answer:expr, $given:pat => $send:expr) => {
        match $answer {
            Ok($given) => $send,
            Err(Refused(number)) => $reply.error(Refused(number).errno()),
        }
    };
}

impl Filesystem for Face {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An older kernel does without. Not `FUSE_ASYNC_DIO`: what is appended asynchronously would come in pieces at the same
        // time, and be stored in the order in which they are answered.
        for capability in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP] {
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(LARGEST_WRITE);
        Ok(())
    }

    fn destroy(&mut self) {
        // What the kernel had closed still when it was unmounted.
        self.files.close_all();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.files.look_up(parent, name);
        // What cannot be a name here is none.
        let found =
            found.map_err(|refused| if refused.0 == Number::INVAL { Number::NOENT.into() } else { refused });
        answer!(reply, found, attributes => reply.entry(&NO_TIME, &attributes, ONLY));
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.files.forget(number, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        answer!(reply, self.files.attributes(number, handle), attributes => reply.attr(&NO_TIME, &attributes));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _checked: Option<SystemTime>,
        _saved: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let modified = modified.map(|time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        });
        let wanted = Wanted { user, group, size, modified };
        let set = self.files.set_attributes(number, handle, &wanted);
        answer!(reply, set, attributes => reply.attr(&NO_TIME, &attributes));
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        let made = match mode & KIND {
            0 | PLAIN => self.files.create(parent, name, Creation { exclusive: true, truncating: false }),
            _ => Err(Number::PERM.into()),
        };
        answer!(reply, made, (attributes, handle) => {
            self.files.close(handle);
            reply.entry(&NO_TIME, &attributes, ONLY);
        });
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        let made = self.files.make_directory(parent, name);
        answer!(reply, made, attributes => reply.entry(&NO_TIME, &attributes, ONLY));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.files.remove_file(parent, name), () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.files.remove_directory(parent, name), () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.files.rename((parent, name), (new_parent, new_name), flags);
        answer!(reply, renamed, () => reply.ok());
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let how = Creation { exclusive: flags & EXCLUSIVE != 0, truncating: flags & TRUNCATE != 0 };
        let made = self.files.create(parent, name, how);
        answer!(reply, made, (attributes, handle) => {
            reply.created(&NO_TIME, &attributes, ONLY, handle, self.access(handle));
        });
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.files.open(number, flags.acc_mode() != OpenAccMode::O_RDONLY);
        answer!(reply, opened, handle => reply.opened(handle, self.access(handle)));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size as usize {
                buffer.resize(size as usize, 0);
            }
            let buffer = &mut buffer[..size as usize];
            let read = self.files.opened(handle).and_then(|file| {
                // The kernel itself reads, for a page.
                if let (OpenFile::Own(file), None) = (&*file, owner) {
                    file.note_mapping();
                }
                file.read(offset, buffer)
            });
            answer!(reply, read, bytes => reply.data(&buffer[..bytes]));
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        by: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Pages of mapped memory have their place, and are not waited for.
        let is_asked_for = |flag| flags.0 & flag != 0 && !by.contains(WriteFlags::FUSE_WRITE_CACHE);
        // The kernel does not know where the end is.
        let appends = is_asked_for(APPEND);
        let write = || -> Answer<()> {
            let file = self.files.opened(handle)?;
            let file = file.own()?;
            file.write((!appends).then_some(offset), data)?;
            // Accesses are direct: the kernel does not ask for it by itself.
            if is_asked_for(SYNC_DATA) {
                file.sync()?;
            }
            Ok(())
        };
        answer!(reply, write(), () => reply.written(data.len() as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let settle = || match &*self.files.opened(handle)? {
            OpenFile::Own(file) => Ok(file.flush()?),
            OpenFile::Seen(_) => Ok(()),
        };
        answer!(reply, settle(), () => reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.close(handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let sync = || match &*self.files.opened(handle)? {
            OpenFile::Own(file) => Ok(file.sync()?),
            OpenFile::Seen(_) => Ok(()),
        };
        answer!(reply, sync(), () => reply.ok());
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.files.open_list(number);
        answer!(reply, opened, handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        answer!(reply, self.files.list(handle, offset), list => {
            for (listed, next) in list.iter().zip(1..).skip(offset as usize) {
                if reply.add(listed.number, next, listed.kind, &listed.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.files.close_list(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A name that comes is on the storage device when it is there. One that goes is not gone there yet.
        answer!(reply, self.files.sync_directory(number), () => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        answer!(reply, self.files.room(), room => match room {
            Some(room) => reply.statfs(
                room.f_blocks,
                room.f_bfree,
                room.f_bavail,
                room.f_files,
                room.f_ffree,
                room.f_bsize as u32,
                room.f_namemax as u32,
                room.f_frsize as u32,
            ),
            None => reply.statfs(0, 0, 0, 0, 0, 512, 255, 0),
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocate = || -> Answer<()> {
            // Stores only know it from the beginning on; otherwise the C library writes into each page.
            if mode != 0 || offset != 0 {
                return Err(Number::OPNOTSUPP.into());
            }
            Ok(self.files.opened(handle)?.own()?.preallocate(length)?)
        };
        answer!(reply, allocate(), () => reply.ok());
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let seek = || -> Answer<u64> {
            let file = self.files.opened(handle)?;
            let from = u64::try_from(offset).map_err(|_| Number::NXIO)?;
            match whence {
                SEEK_DATA => file.data_from(from),
                SEEK_HOLE => file.hole_from(from),
                _ => Err(Number::INVAL.into()),
            }
        };
        answer!(reply, seek(), at => reply.offset(at as i64));
    }
}
