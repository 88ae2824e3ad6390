//! MPICH: its tables are hidden, but its `MPI_File` is the pointer to ROMIO's structure.
//!
//! A stub is opened on `/dev/null`, which every node has, by the driver for Unix file systems; then that one
//! handle gets the device's table, name and access mode, and the device opens the file behind it. The stub's
//! name is padded, so that ROMIO itself makes room for the real one, and so that a structure in which it
//! is found is ROMIO's beyond doubt.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock};

use super::{Plug, drawn, version_after};
use crate::abi::mpich::Mpich;
use crate::abi::{Abi, Comm, Info, MpiFile, SUCCESS, amode};
use crate::calls::Mpi;
use crate::circle;
use crate::failure::{ErrorClass, Failure};
use crate::host::{CountType, Generation, HasHost, Host};
use crate::layout::{COOKIE, FunctionTable, RomioFile, SLOTS, slot};
use crate::library::read_memory;
use crate::modes;
use crate::reopening::Opener;
use crate::{appending, opening, table};

/// ROMIO's number of Unix file systems.
const UNIX_FILE_SYSTEM: c_int = 152;
/// The longest name, bytes: with the stub's padding it fits into PATH_MAX.
const LONGEST_NAME: usize = 4000;
/// How the name of the driver for Unix file systems begins.
const UNIX_DRIVER: &[u8] = b"UFS:";

impl Plug for Mpich {
    unsafe fn open(
        mpi: &'static Mpi<Mpich>,
        comm: Comm<Mpich>,
        name: &CStr,
        access_mode: c_int,
        info: Info<Mpich>,
        file: *mut MpiFile,
    ) -> c_int {
        let mine = if name.to_bytes().len() > LONGEST_NAME {
            let message = format!("name too long: 4,000 bytes are possible: svm:{}", name.to_string_lossy());
            Err(Failure::new(ErrorClass::BadFile, message))
        } else {
            Ok(())
        };
        let team = circle::team(mpi, comm).for_file(name.to_string_lossy());
        if let Err(failure) = modes::agree(&team, mine, name, access_mode) {
            // SAFETY: the caller's pointer.
            unsafe { file.write(mpi.constants.file_null) };
            return mpi.report(failure.to_code(mpi));
        }
        let stub_name = stub_name(name);
        // SAFETY: the caller's arguments; the stub's name is a string.
        let code = unsafe {
            file.write(mpi.constants.file_null);
            mpi.file_open(comm, stub_name.as_ptr(), stub_mode(access_mode), info, file)
        };
        if code != SUCCESS {
            return code;
        }
        // SAFETY: the caller's pointer, to which something has been written.
        let stub = unsafe { &mut *file };
        if *stub == mpi.constants.file_null {
            return refusal(name).to_code(mpi);
        }
        mpi.keep_error_handler(*stub);
        let outcome = (|| {
            let plugged = generation(mpi).and_then(|generation| {
                check(mpi, *stub, &stub_name)?;
                // SAFETY: `check` has found ROMIO's structure here.
                let fd = unsafe { &mut *stub.0.cast::<RomioFile<Mpich>>() };
                let host = plug_in(fd, generation);
                opening::give_hints(mpi, host, fd, name, info)
            });
            // Succeeds on all ranks or on none.
            let [number] = team.agree_on(plugged, [drawn()])?;
            // SAFETY: `check` has found ROMIO's structure here, on every rank.
            let fd = unsafe { &mut *stub.0.cast::<RomioFile<Mpich>>() };
            rename(fd, name, number.unsigned_abs());
            opening::open_stub(mpi, fd, access_mode)
        })();
        if let Err(failure) = outcome {
            // SAFETY: the stub is open; every rank closes it, because they have agreed.
            unsafe { mpi.file_close(stub) };
            *stub = mpi.constants.file_null;
            return mpi.report(failure.to_code(mpi));
        }
        if access_mode & amode::APPEND != 0 {
            let fd = stub.0.cast::<RomioFile<Mpich>>();
            // SAFETY: the file is open, and every rank gets here.
            let code = unsafe { appending::to_the_end(mpi, fd, *stub) };
            if code != SUCCESS {
                // SAFETY: the file is open; every rank closes it, because they have agreed.
                unsafe { mpi.file_close(stub) };
                *stub = mpi.constants.file_null;
                return code;
            }
        }
        SUCCESS
    }

    /// Not by the stock function: the ranks of one group would wait in it for those of the other.
    unsafe fn refuse(
        mpi: &'static Mpi<Mpich>,
        _comm: Comm<Mpich>,
        name: &CStr,
        obstacle: &str,
        file: *mut MpiFile,
    ) -> c_int {
        // SAFETY: the caller's pointer.
        unsafe { file.write(mpi.constants.file_null) };
        let message = format!("svm:{} cannot be opened by {obstacle}", name.to_string_lossy());
        mpi.report(Failure::new(ErrorClass::Communicator, message).to_code(mpi))
    }

    fn opened(file: MpiFile) -> Option<*mut RomioFile<Mpich>> {
        let table: *const FunctionTable = TABLE.get()?;
        let fd = file.0.cast::<RomioFile<Mpich>>();
        // SAFETY: there is a table, so that this MPI's files are pointers to ROMIO's structure; a program that
        // passes something else here is told so by ROMIO, if at all, after following it likewise.
        (!fd.is_null() && unsafe { (*fd).cookie == COOKIE && std::ptr::eq((*fd).fns, table) }).then_some(fd)
    }

    fn openers() -> &'static Mutex<Vec<Opener<Mpich>>> {
        static OPENERS: Mutex<Vec<Opener<Mpich>>> = Mutex::new(Vec::new());
        &OPENERS
    }
}

/// The device's table; it has one place in the process.
static TABLE: OnceLock<FunctionTable> = OnceLock::new();

/// `/dev/null` under a name with room for `name`, and for that of its shared file pointer.
fn stub_name(name: &CStr) -> CString {
    let padding = "/.".repeat((name.to_bytes().len() + 64) / 2);
    CString::new(format!("ufs:/dev{padding}/null")).expect("no zero in it")
}

/// The access mode for the stub: one that leaves `/dev/null` alone.
fn stub_mode(access_mode: c_int) -> c_int {
    access_mode & !(amode::CREATE | amode::EXCL | amode::DELETE_ON_CLOSE | amode::APPEND)
}

fn generation(mpi: &Mpi<Mpich>) -> Result<Generation, Failure> {
    match version_after(Mpich::VERSION_MARK, mpi.version()) {
        Some((4, 0)) => Ok(Generation { count: CountType::Int, has_set_lock: true }),
        Some((4 | 5, _)) => Ok(Generation { count: CountType::Aint, has_set_lock: true }),
        _ => Err(unknown(mpi, "this release is not known")),
    }
}

/// Why ROMIO has opened no file and returned success: MPICH 5 does that where a handler of the program's, which has
/// heard the reason, has been called. The ranks have agreed on the mode; of all else that ROMIO compares, hints are what
/// programs get wrong.
fn refusal(name: &CStr) -> Failure {
    let message = format!("svm:{}: the ranks open it with different hints", name.to_string_lossy());
    Failure::new(ErrorClass::NotSame, message)
}

/// Whether `stub` points to ROMIO's structure as we know it. Nothing is changed. The first time memory is read
/// by the kernel, which cannot be hurt; after that it is known what this process's MPI hands out.
fn check(mpi: &Mpi<Mpich>, stub: MpiFile, stub_name: &CStr) -> Result<(), Failure> {
    let name = stub_name.to_bytes_with_nul().strip_prefix(b"ufs:").unwrap_or_default();
    if Mpich::host().get().is_some() {
        // SAFETY: an earlier file was ROMIO's structure, and the same library made this one.
        let fd = unsafe { &*stub.0.cast::<RomioFile<Mpich>>() };
        if fd.cookie == COOKIE && fd.fs_ptr.is_null() && fd.name().to_bytes_with_nul() == name {
            return Ok(());
        }
    }
    let readable = |address: *const c_void, length: usize| {
        read_memory(address, length)
            .ok_or_else(|| unknown(mpi, "its MPI_File is no pointer to ROMIO's structure"))
    };
    let bytes = readable(stub.0, size_of::<RomioFile<Mpich>>())?;
    // SAFETY: as many bytes as the structure has, which consists of integers and pointers only.
    let fd = unsafe { bytes.as_ptr().cast::<RomioFile<Mpich>>().read_unaligned() };
    let known = fd.cookie == COOKIE
        && fd.file_system == UNIX_FILE_SYSTEM
        && fd.fs_ptr.is_null()
        && readable(fd.filename.cast(), name.len())? == name
        && readable(fd.shared_fp_fname.cast(), 1)? == b"/";
    if !known {
        return Err(unknown(mpi, "its file structure is laid out otherwise"));
    }
    let functions = readable(fd.fns.cast(), SLOTS * size_of::<*const c_void>())?;
    let entries =
        functions.chunks_exact(8).map(|entry| usize::from_ne_bytes(entry.try_into().expect("eight bytes")));
    let entries: Vec<usize> = entries.collect();
    let driver = readable(entries[slot::NAME] as *const c_void, UNIX_DRIVER.len())?;
    if driver != UNIX_DRIVER || entries.contains(&0) {
        return Err(unknown(mpi, "its table of driver functions is laid out otherwise"));
    }
    Ok(())
}

/// Gives the stub the device's table.
fn plug_in(fd: &mut RomioFile<Mpich>, generation: Generation) -> &'static Host<Mpich> {
    let host = Mpich::host().get_or_init(|| {
        // SAFETY: `check` has found a table at `fns`.
        Host::new(generation, unsafe { *fd.fns })
    });
    if fd.is_open != 0 && fd.fd_sys >= 0 {
        // SAFETY: the stub's descriptor of /dev/null, which nobody uses once the table is ours.
        unsafe { libc::close(fd.fd_sys) };
    }
    fd.fd_sys = -1;
    fd.fns = TABLE.get_or_init(|| table::build(host));
    host
}

/// Gives the stub its real name, and its shared file pointer one of its own, with `number` in it, beside it.
fn rename(fd: &mut RomioFile<Mpich>, name: &CStr, number: u64) {
    let bytes = name.to_bytes();
    let base = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let number = format!(".shfp.{number:016x}");
    let pointer = [&bytes[..base], b".", &bytes[base..], number.as_bytes(), b"\0"].concat();
    // SAFETY: both of ROMIO's buffers hold the stub's padded name or one that begins with its directory,
    // which is longer than either of these by `stub_name`.
    unsafe {
        copy(fd.filename, name.to_bytes_with_nul());
        copy(fd.shared_fp_fname, &pointer);
    }
}

/// # Safety
/// `to` has room for `text`.
unsafe fn copy(to: *mut c_char, text: &[u8]) {
    // SAFETY: the caller vouches for the room.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len()) };
}

fn unknown(mpi: &Mpi<Mpich>, reason: &str) -> Failure {
    let version = mpi.version().lines().next().unwrap_or_default();
    let message = format!(
        "svmio does not know the ROMIO inside '{version}': {reason}. MPICH 4 and 5 and Open MPI 4 and 5 are known; \
         files without svm: work as ever"
    );
    Failure::new(ErrorClass::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stub_has_room_for_name_and_shared_pointer() {
        for name in [c"a", c"/results/step1.h5", c"/a/rather/long/name/of/some/file"] {
            let stub = stub_name(name);
            let room = stub.to_bytes().len() - "ufs:".len() + 1;
            let pointer = name.to_bytes().len() + ".".len() + ".shfp.0123456789abcdef".len() + 1;
            assert!(room > pointer, "{room} {pointer}");
        }
    }

    #[test]
    fn the_stub_never_creates() {
        let mode = amode::RDWR | amode::CREATE | amode::EXCL | amode::DELETE_ON_CLOSE | amode::APPEND;
        assert_eq!(stub_mode(mode), amode::RDWR);
    }
}
