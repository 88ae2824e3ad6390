//! Files of a store that a process may only look at: nobody waits for it.

use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::thread::UnshareFlags;
use svmio_svm::mapping::Advice;

use super::failures::kernel_reads;
use super::*;

/// Runs `body` with a store in memory, and with the same one where it cannot be changed.
fn with_view(body: impl Fn(&Store, &Store) + Send + Sync) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let [path, seen] = ["store", "seen"].map(|name| directory.path().join(name));
    let inside = || {
        // SAFETY: a mount namespace, and the working directory that goes with it, become this thread's own; descriptors
        // and memory stay shared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .expect("tests with mounts of their own must run as root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let store = Store::open(&path).unwrap();
        std::fs::create_dir(&seen).unwrap();
        mount_bind(&path, &seen).unwrap();
        mount_remount(&seen, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
        body(&store, &Store::open(&seen).unwrap());
    };
    std::thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn what_is_removed_while_it_is_mapped_is_lost_and_not_what_another_file_has_in_its_storage() {
    with_view(|store, view| {
        store.keep_spares();
        let [name, other] = ["f", "other"].map(|name| FileName::new(name).unwrap());
        let file = store.open_file(&name, &small_segments()).unwrap();
        file.write_at(FileOffset(0), &[5; SEGMENT as usize]).unwrap();
        let looked_at = Arc::new(view.open_file(&name, &OpenOptions::reading()).unwrap());
        drop(file);
        let mapping = map(&looked_at, SEGMENT, &MappingOptions::new());
        mapping.advise(all(SEGMENT), Advice::Random).unwrap();
        assert_eq!(load(&mapping, 0), 5);
        store.remove(&name).unwrap();
        let file = store.open_file(&other, &small_segments()).unwrap();
        file.write_at(FileOffset(0), &[9; SEGMENT as usize]).unwrap();
        assert_eq!(load(&mapping, 0), 5, "it was read while it was there");
        assert!(!kernel_reads(mapping.as_ptr().wrapping_add(8 * PAGE as usize), 8));
    });
}
