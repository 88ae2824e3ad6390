//! What the first open of a process would wait for, done when the library is loaded.
//!
//! In a collective open all ranks wait for the slowest again and again, so that what each does there for the first time
//! adds up. Code and constants come into the process by a hundred page faults; and the processor is asked what it can
//! do, which takes long in a virtual machine. Before MPI starts, a tenth of a millisecond is not noticed.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use svmio_adio::Mpi;
use svmio_adio::abi::Abi;
use svmio_adio::environment;

/// Maps the code and the constants of the library that has this function, has the processor asked what it can do,
/// readies what is told besides MPI's error codes, looks for mistyped variables, and looks up MPI's functions.
pub extern "C" fn warm_up<A: Abi>() {
    // The answer is kept for all who ask.
    #[cfg(target_arch = "x86_64")]
    std::hint::black_box(std::arch::is_x86_feature_detected!("avx"));
    svmio_logging::start();
    environment::look();
    let mut library = Parts { around: note as *const () as usize, constant: Vec::new() };
    // SAFETY: `note` gets the pointer that is passed here, and is called before this returns.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut library).cast()) };
    for Range { start, end } in library.constant {
        // Fails before Linux 5.14; then there are faults.
        // SAFETY: these are pages of a loaded library, whose content stays as it is.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_POPULATE_READ) };
    }
    // Not there yet where a program loads MPI later, and told by the first call where it cannot be used.
    let _ = Mpi::<A>::get();
}

/// Parts of a loaded library, by addresses.
struct Parts {
    /// An address in one of them.
    around: usize,
    /// Those that are never written to.
    constant: Vec<Range<usize>>,
}

/// Notes the parts of a library if it is the one that is looked for, and says so.
///
/// # Safety
/// As the callback of dl_iterate_phdr(3), with [`Parts`].
unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, parts: *mut c_void) -> c_int {
    // SAFETY: the linker's promise, and that of `warm_up`.
    let (info, parts) = unsafe { (&*info, &mut *parts.cast::<Parts>()) };
    // SAFETY: the linker's promise: there are so many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let range = |header: &libc::Elf64_Phdr| {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        start..start + header.p_memsz as usize
    };
    if !loaded().any(|header| range(header).contains(&parts.around)) {
        return 0;
    }
    // madvise(2) wants addresses of pages; parts are aligned to those at least.
    let pages = |part: Range<usize>, alignment: u64| part.start & !(alignment.max(1) as usize - 1)..part.end;
    let constant = loaded().filter(|header| header.p_flags & libc::PF_W == 0);
    parts.constant = constant.map(|header| pages(range(header), header.p_align)).collect();
    1
}

/// Defines a function that the linker calls when it has loaded the library.
#[macro_export]
macro_rules! warm_up_on_load {
    ($family:ty) => {
        // SAFETY: the section has pointers to functions without results, which are called with arguments that this one
        // does not look at; of what other libraries ready when they are loaded, it needs nothing: MPI tells its version
        // at any time.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static WARM_UP: extern "C" fn() = $crate::warm_up::<$family>;
    };
}

#[cfg(test)]
mod tests {
    use svmio_adio::abi::mpich::Mpich;

    use super::*;

    /// The bytes of the mapping with `address`, and how many of them are in the process, by proc_pid_smaps(5).
    fn mapping_with(address: usize) -> (usize, usize) {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("/proc is mounted");
        let mut lines = maps.lines();
        let bytes = lines.by_ref().find_map(|line| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            let range = number(start)?..number(end)?;
            range.contains(&address).then(|| range.len())
        });
        let kibibytes = lines.find_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB"));
        let resident = kibibytes.and_then(|text| text.parse::<usize>().ok()).expect("a size in kB");
        (bytes.expect("code is mapped"), resident * 1024)
    }

    #[test]
    fn all_code_is_mapped() {
        warm_up::<Mpich>();
        let (bytes, resident) = mapping_with(note as *const () as usize);
        assert_eq!(resident, bytes);
    }
}
