//! Libraries in place of those of adapters that the machine does not have.
//!
//! Debian's libfabric is linked with the libraries of two families of adapters, InfiniPath and Omni-Path. Each of them
//! measures the processor's clock when it is loaded, for which it sleeps 0.1 s, and takes signals over, whether there is
//! such an adapter or not. A library that is in the process already is not loaded again; so where there is none, one of
//! the same name comes first, made by this crate's build script, whose functions say that there is no device.

use std::ffi::{CStr, CString, c_void};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::fs::MemfdFlags;

/// A library of an adapter's, and what stands in for it.
struct Adapter {
    /// The library's name.
    library: &'static CStr,
    /// What the names of its devices begin with, in `/dev`.
    device: &'static str,
    /// The other library, whole.
    stand_in: &'static [u8],
}

const ADAPTERS: [Adapter; 2] = [
    Adapter {
        library: c"libpsm_infinipath.so.1",
        device: "ipath",
        stand_in: include_bytes!(concat!(env!("OUT_DIR"), "/libpsm_infinipath.so.1")),
    },
    Adapter {
        library: c"libpsm2.so.2",
        device: "hfi1",
        stand_in: include_bytes!(concat!(env!("OUT_DIR"), "/libpsm2.so.2")),
    },
];

/// Those that were loaded, and the files that they came from. These are closed together: the loader takes what has the
/// name of an earlier library, a descriptor's number in it, for that one.
pub(super) struct StandIns(Vec<(NonNull<c_void>, File)>);

impl StandIns {
    /// Loads one for each adapter that the machine does not have, unless the adapter's own library is there already.
    pub(super) fn load() -> StandIns {
        let is_wanted = |adapter: &&Adapter| !has_device(adapter.device) && !is_loaded(adapter.library);
        let load = |adapter: &Adapter| match load_from_memory(adapter) {
            Ok(loaded) => Some(loaded),
            Err(problem) => {
                tracing::debug!("{:?} is loaded, whose adapter is not there: {problem}", adapter.library);
                None
            }
        };
        StandIns(ADAPTERS.iter().filter(is_wanted).filter_map(load).collect())
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes them again: nobody has been loaded who needs them.
    pub(super) fn unload(self) {
        for (handle, _) in self.0 {
            // SAFETY: a handle of `dlopen`'s, closed once.
            unsafe { libc::dlclose(handle.as_ptr()) };
        }
    }
}

/// Where it cannot be told, there is.
fn has_device(beginning: &str) -> bool {
    let Ok(devices) = fs::read_dir("/dev") else { return true };
    devices.flatten().any(|device| device.file_name().as_encoded_bytes().starts_with(beginning.as_bytes()))
}

/// Whether the process has a library of this name already.
pub(super) fn is_loaded(library: &CStr) -> bool {
    // SAFETY: a string; nothing is loaded.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if !handle.is_null() {
        // SAFETY: the handle of just now, closed once.
        unsafe { libc::dlclose(handle) };
    }
    !handle.is_null()
}

fn load_from_memory(adapter: &Adapter) -> io::Result<(NonNull<c_void>, File)> {
    let descriptor = rustix::fs::memfd_create(c"svmio, no adapter", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(adapter.stand_in)?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    // SAFETY: a string; the library has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let handle = NonNull::new(handle).ok_or_else(|| io::Error::other(super::library::last_problem()))?;
    Ok((handle, file))
}

#[cfg(test)]
mod tests {
    use super::super::library;
    use super::*;

    #[test]
    fn libraries_of_adapters_are_loaded_where_there_are_such_adapters() {
        library().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains("/libfabric.so"), "{maps}");
        for Adapter { library, device, .. } in ADAPTERS {
            let name = library.to_str().unwrap();
            let file = name.split_once(".so").unwrap().0;
            assert!(is_loaded(library), "libfabric needs a {name}");
            assert_eq!(maps.contains(&format!("/{file}.so")), has_device(device), "{name}: {maps}");
        }
    }
}
