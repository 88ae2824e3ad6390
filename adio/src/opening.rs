//! Opening, closing and removing files.
//!
//! Rank 0 finds or makes the file and tells the others its identity; they attach it. So the name is looked
//! up once, exclusive creation works, and all ranks see the same file even if its name changes hands.

use std::ffi::c_int;

use svmio_svm::{File, FileId, FileName, OpenOptions, Store, StoreIdentity};

use crate::abi::{Abi, Info, SUCCESS, amode};
use crate::agreement;
use crate::calls::Mpi;
use crate::failure::{self, ErrorClass, Failure};
use crate::handle::{self, Handle, Role};
use crate::hints;
use crate::host::Host;
use crate::layout::RomioFile;

/// Opens the file `fd.filename` on all ranks of `fd.comm`, in the given access mode.
pub(crate) fn open_collectively<A: Abi>(
    mpi: &Mpi<A>,
    fd: &mut RomioFile<A>,
    access_mode: c_int,
) -> Result<(), Failure> {
    let rank = mpi.rank(fd.comm);
    let segment_size = hints::segment_size(mpi, fd.info);
    let role = if is_shared_pointer(mpi, fd, access_mode) { Role::SharedPointer } else { Role::Data };
    let options = options(access_mode).segment_size(segment_size);
    let first = (rank == 0).then(|| open_first(fd, &options)).transpose();
    let (first, outcome) = parted(first);
    agreement::from(mpi, fd.comm, 0, outcome)?;
    let first = first.flatten();
    let mut introduction = first.as_ref().map_or([0; Introduction::BYTES], |(_, _, i)| i.to_bytes());
    mpi.broadcast(fd.comm, 0, &mut introduction)?;
    let opened = match first {
        Some((store, file, _)) => Ok((store, file)),
        None => open_introduced(fd, Introduction::from_bytes(introduction), &options),
    };
    let opened = opened.and_then(|(store, file)| match role {
        // Its eight bytes now: when they are needed, other ranks may be waiting behind this one.
        Role::SharedPointer => file.preallocate(8).map(|()| (store, file)).map_err(Failure::from),
        Role::Data => Ok((store, file)),
    });
    let opened = opened.and_then(|(store, file)| hints::tell(mpi, fd.info, &store, &file).map(|()| file));
    let (file, outcome) = parted(opened);
    agreement::all(mpi, fd.comm, outcome)?;
    if let Some(file) = file {
        adopt(fd, file, role, rank, access_mode);
    }
    Ok(())
}

/// Readies a stub that ROMIO opened on something harmless, see [`crate::plug::mpich`]: gives it this device's
/// hints and opens the file behind it.
pub(crate) fn open_stub<A: Abi>(
    mpi: &Mpi<A>,
    host: &Host<A>,
    fd: &mut RomioFile<A>,
    users: Info<A>,
    access_mode: c_int,
) -> Result<(), Failure> {
    let comm = fd.comm;
    // What ROMIO took when it opened the stub, once more, now that the device's features count.
    let info = fd.info;
    let hinted = hints::without_sieving(mpi, info)
        .and_then(|()| hints::hand_to_romio(host, fd, info))
        .and_then(|()| hints::tell_sieving(mpi, users, info))
        .and_then(|()| hints::take(mpi, users, info))
        .and_then(|()| mpi.set_info(info, c"romio_filesystem_type", &crate::table::NAME.to_string_lossy()));
    agreement::all(mpi, comm, hinted)?;
    open_collectively(mpi, fd, access_mode)?;
    fd.orig_access_mode = access_mode;
    fd.access_mode = access_mode & !amode::EXCL;
    Ok(())
}

/// Opens the file for this rank alone.
pub(crate) fn open_alone<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>) -> Result<(), Failure> {
    let options = options(fd.access_mode).segment_size(hints::segment_size(mpi, fd.info));
    let (_, file, _) = open_first(fd, &options)?;
    let (rank, access_mode) = (mpi.rank(fd.comm), fd.access_mode);
    adopt(fd, file, Role::Data, rank, access_mode);
    Ok(())
}

/// Closes the file. The manifest is committed when it returns, on any rank.
pub(crate) fn close<A: Abi>(mpi: &Mpi<A>, fd: &mut RomioFile<A>) -> Result<(), Failure> {
    let Some(handle) = handle::detach(fd) else {
        return Ok(());
    };
    // Everyone has written what he wanted to when this returns.
    mpi.maximum(fd.comm, 0)?;
    let goes = fd.access_mode & amode::DELETE_ON_CLOSE != 0;
    let committed = match handle.rank {
        0 if !goes => handle.file.commit(true).map_err(Failure::from),
        _ => Ok(()),
    };
    agreement::from(mpi, fd.comm, 0, committed)
}

/// Removes the file `name`.
///
/// # Errors
/// `MPI_ERR_NO_SUCH_FILE` and the like, with the message to show.
pub fn delete(name: &std::ffi::OsStr) -> Result<(), Failure> {
    Ok(Store::from_environment()?.remove(&FileName::new(name)?)?)
}

/// Makes an error code that ROMIO gave on some ranks one of all ranks. `mine` is this rank's for the open file
/// `fd`; the result differs from it only where this rank succeeded and another failed.
///
/// # Safety
/// `fd` is ROMIO's structure of a file of the device's, and every rank of the file makes the same call.
pub unsafe fn agreed<A: Abi>(mpi: &Mpi<A>, fd: *const RomioFile<A>, mine: c_int) -> c_int {
    // SAFETY: the caller vouches for the file.
    let fd = unsafe { &*fd };
    let unknown =
        || Failure::new(ErrorClass::Io, format!("access to svm:{} failed", fd.name().to_string_lossy()));
    let outcome = if mine == SUCCESS { Ok(()) } else { Err(failure::behind(mine).unwrap_or_else(unknown)) };
    match agreement::all(mpi, fd.comm, outcome) {
        Err(failure) if mine == SUCCESS => failure.to_code(mpi),
        _ => mine,
    }
}

/// What rank 0 tells the others of the file that it opened.
struct Introduction {
    file: FileId,
    store: StoreIdentity,
}

impl Introduction {
    const BYTES: usize = 48;

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.file.to_bytes());
        bytes[16..32].copy_from_slice(&self.store.boot.0);
        bytes[32..40].copy_from_slice(&self.store.device.to_ne_bytes());
        bytes[40..].copy_from_slice(&self.store.inode.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Introduction {
        let sixteen = |at: usize| bytes[at..at + 16].try_into().expect("sixteen bytes");
        let eight = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Introduction {
            file: FileId::from_bytes(sixteen(0)),
            store: StoreIdentity {
                boot: svmio_svm::BootId(sixteen(16)),
                device: eight(32),
                inode: eight(40),
            },
        }
    }
}

fn open_first<A: Abi>(
    fd: &RomioFile<A>,
    options: &OpenOptions,
) -> Result<(Store, File, Introduction), Failure> {
    let store = Store::from_environment()?;
    let file = store.open_file(&name(fd)?, options)?;
    let introduction = Introduction { file: file.id(), store: store.identity() };
    Ok((store, file, introduction))
}

fn open_introduced<A: Abi>(
    fd: &RomioFile<A>,
    introduction: Introduction,
    options: &OpenOptions,
) -> Result<(Store, File), Failure> {
    let store = Store::from_environment()?;
    if store.identity() != introduction.store {
        let message = format!(
            "svm:{} lies in another store than this rank's {} on node {}: all ranks of a file must run on one node \
             and with one SVMIO_STORE",
            fd.name().to_string_lossy(),
            store.path().display(),
            store.node()
        );
        return Err(Failure::new(ErrorClass::Unsupported, message));
    }
    let file = store.attach(introduction.file, &name(fd)?, options)?;
    Ok((store, file))
}

/// A result's value, and its outcome without it.
fn parted<T>(result: Result<T, Failure>) -> (Option<T>, Result<(), Failure>) {
    match result {
        Ok(value) => (Some(value), Ok(())),
        Err(failure) => (None, Err(failure)),
    }
}

fn adopt<A: Abi>(fd: &mut RomioFile<A>, file: File, role: Role, rank: c_int, access_mode: c_int) {
    if access_mode & amode::APPEND != 0 {
        fd.fp_ind = i64::try_from(file.size()).unwrap_or(i64::MAX);
    }
    fd.fd_sys = -1;
    fd.fp_sys_posn = -1;
    fd.blksize = i64::try_from(file.segment_size().bytes()).unwrap_or(i64::MAX);
    fd.is_open = 1;
    fd.access_mode = access_mode;
    handle::attach(fd, Handle::new(file, role, rank));
}

fn options(access_mode: c_int) -> OpenOptions {
    let has = |flag| access_mode & flag != 0;
    let options = if has(amode::RDWR) {
        OpenOptions::read_write()
    } else if has(amode::WRONLY) {
        OpenOptions::writing()
    } else {
        OpenOptions::reading()
    };
    options.create(has(amode::CREATE)).exclusive(has(amode::EXCL)).temporary(has(amode::DELETE_ON_CLOSE))
}

fn name<A: Abi>(fd: &RomioFile<A>) -> Result<FileName, Failure> {
    use std::os::unix::ffi::OsStrExt;
    Ok(FileName::new(std::ffi::OsStr::from_bytes(fd.name().to_bytes()))?)
}

/// ROMIO keeps a shared file pointer in `.NAME.shfp.NUMBER` beside the file, which each rank opens for itself.
fn is_shared_pointer<A: Abi>(mpi: &Mpi<A>, fd: &RomioFile<A>, access_mode: c_int) -> bool {
    const MODE: c_int = amode::CREATE | amode::RDWR | amode::DELETE_ON_CLOSE;
    let name = fd.name().to_bytes();
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
    let named = base.starts_with(b".") && base.windows(6).any(|part| part == b".shfp.");
    named && access_mode == MODE && mpi.size(fd.comm) == 1
}
