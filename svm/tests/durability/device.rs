//! The storage device as the kernel's answers to `fsync` and `fdatasync` make it: what it has, and where it fails.
//!
//! Whoever runs under a [`Device`] has these two calls carried out by the device instead, by way of the kernel's
//! seccomp notifications (seccomp_unotify(2)): it knows what has reached storage and in which order, down to the bytes,
//! and may refuse. The files themselves are real ones.

use std::ffi::c_long;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// What happened, in its order.
#[derive(Debug)]
pub(crate) enum Event {
    /// The device has a file with these bytes; a directory has none. The call that asked for it has not returned.
    Synced { path: PathBuf, bytes: Option<Vec<u8>> },
    /// Noted by whoever runs on the device: a rank has come back from a sync.
    Returned,
}

/// A storage device, of all nodes.
#[derive(Default)]
pub(crate) struct Device {
    events: Mutex<Vec<Event>>,
    /// What it does not take.
    refuses: Mutex<Option<Refusal>>,
}

/// Which files are not taken.
type Refusal = Box<dyn Fn(&Path) -> bool + Send>;

impl Device {
    /// Runs `body`, and all threads that it starts, on this device.
    pub(crate) fn under(&self, body: impl FnOnce() + Send) {
        let (end, ended) = io::pipe().map(|(read, write)| (write, read)).expect("pipes can be made");
        let (tell, listener) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                // Closed when this thread ends, also by a panic.
                let _end: PipeWriter = end;
                tell.send(listen().expect("seccomp notifications, of Linux 5.5 and newer, can be had"))
                    .expect("somebody waits for it");
                body();
            });
            if let Ok(listener) = listener.recv() {
                self.serve(&listener, &ended);
            }
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// From here on files are refused for which `which` holds.
    pub(crate) fn refuse(&self, which: impl Fn(&Path) -> bool + Send + 'static) {
        *self.refuses.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(which));
    }

    /// From here on nothing is refused.
    pub(crate) fn refuse_nothing(&self) {
        *self.refuses.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes that a rank has returned.
    pub(crate) fn note_return(&self) {
        self.events().push(Event::Returned);
    }

    /// What happened since the last time.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.events())
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers calls until the other end of `ended` is closed.
    fn serve(&self, listener: &OwnedFd, ended: &PipeReader) {
        loop {
            let mut both = [PollFd::new(listener, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
            match poll(&mut both, None) {
                Err(Errno::INTR) => continue,
                other => other.expect("both can be polled"),
            };
            if !both[1].revents().is_empty() {
                return;
            }
            // Who asked may be gone by the time this comes.
            let Ok(call) = receive(listener) else { continue };
            let error = self.sync(&call).err().map_or(0, |error| -error.raw_os_error());
            let _ = answer(listener, call.id, error);
        }
    }

    /// Does what was asked, for one thread of this process that waits for it.
    fn sync(&self, call: &libc::seccomp_notif) -> rustix::io::Result<()> {
        // SAFETY: the thread that waits for the answer has it open, in the descriptors that all threads share.
        let file = unsafe { BorrowedFd::borrow_raw(call.data.args[0] as i32) };
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let path = path.expect("open files are there");
        let refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        if refuses.as_ref().is_some_and(|which| which(&path)) {
            return Err(Errno::IO);
        }
        drop(refuses);
        rustix::fs::fsync(file)?;
        // By its name: it may be open for writing only.
        let bytes = (!path.is_dir()).then(|| std::fs::read(&path).expect("what is synced can be read"));
        self.events().push(Event::Synced { path, bytes });
        Ok(())
    }
}

/// From here on this thread, and those that it starts, have to wait in `fsync` and `fdatasync` for the answer of who
/// has what is returned.
fn listen() -> io::Result<OwnedFd> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let is_call = |call: c_long, jt: u8, jf: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt,
        jf,
        k: call as u32,
    };
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number),
        is_call(libc::SYS_fsync, 1, 0),
        is_call(libc::SYS_fdatasync, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true)?;
    let (operation, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the program and its statements outlive the call, which only reads them.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, &raw const program) };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for the caller.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

fn receive(listener: &OwnedFd) -> io::Result<libc::seccomp_notif> {
    // SAFETY: numbers, for which zero is a value; the kernel insists on it.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such structure.
    let outcome =
        unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    if outcome == 0 { Ok(call) } else { Err(io::Error::last_os_error()) }
}

fn answer(listener: &OwnedFd, id: u64, error: i32) -> io::Result<()> {
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags: 0 };
    // SAFETY: the kernel reads one such structure.
    let outcome =
        unsafe { libc::ioctl(listener.as_fd().as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
