//! A long cable: a host's link on which every packet takes its time, each way.
//!
//! The kernel has no such link without `netem`, which many do not have. So both ends are TAP devices, and threads of
//! this process carry packets from one to the other: whole segments of TCP, as the kernel hands them over, so that they
//! cost about two system calls each. These are the processors' time that a network card would not take.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// The longest segment of TCP that the kernel hands over, with what is before it.
const LONGEST: usize = (64 << 10) + 256;

/// Carries packets until it is dropped.
#[derive(Debug)]
pub(super) struct Wire {
    /// Readable when the threads are to end.
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

/// Where an end of a wire is: a process in whose network, and the device's name there.
pub(super) type End<'a> = (u32, &'a str);

impl Wire {
    /// # Panics
    /// Where the devices cannot be made.
    pub(super) fn between(ends: [End<'_>; 2], delay: Duration) -> Wire {
        let [one, other] = ends.map(|(process, device)| {
            let made = thread::scope(|scope| {
                // A thread of its own: it stays in the network that it enters.
                let made = scope.spawn(|| enter(process).and_then(|()| open(device)));
                made.join().expect("a thread that opens a device does not panic")
            });
            Arc::new(made.unwrap_or_else(|error| panic!("making the device {device}: {error}")))
        });
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("there are descriptors");
        let stop = Arc::new(stop);
        let ways = [(Arc::clone(&one), Arc::clone(&other)), (other, one)];
        let start = |(from, to): (Arc<File>, Arc<File>)| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || carry(&from, &to, delay, &stop))
        };
        let threads = ways.map(start).into();
        Wire { stop, threads }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).is_ok() {
            for thread in self.threads.drain(..) {
                // Its panic has been told.
                let _ = thread.join();
            }
        }
    }
}

/// Carries packets one way.
fn carry(from: &File, to: &File, delay: Duration, stop: &OwnedFd) {
    wake_precisely();
    let mut on_its_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut buffer = vec![0; LONGEST];
    loop {
        while let Some((due, packet)) = on_its_way.front()
            && *due <= Instant::now()
        {
            // A device that is down, or full, loses it, as wires do.
            let _ = (&*to).write(packet);
            on_its_way.pop_front();
        }
        match (&*from).read(&mut buffer) {
            Ok(length) => {
                on_its_way.push_back((Instant::now() + delay, buffer[..length].to_vec()));
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Down for now, or gone for ever, with its network: then the end is near.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
        let left = on_its_way.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let left = left
            .map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) });
        let mut wanted = [PollFd::new(from, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // Interrupted, it looks again.
        let _ = poll(&mut wanted, left.as_ref());
        if wanted[1].revents().contains(PollFlags::IN) {
            return;
        }
    }
}

/// Has this thread's sleeps end in time, and not with others' up to 50 µs later.
fn wake_precisely() {
    // SAFETY: it takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Moves this thread into the network of a process.
fn enter(process: u32) -> io::Result<()> {
    let network = File::open(format!("/proc/{process}/ns/net"))?;
    // SAFETY: it takes a descriptor.
    match unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a TAP device in this thread's network, which goes when it is closed.
fn open(name: &str) -> io::Result<File> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    // SAFETY: the structure is plain numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // Packets come with what is left to be done of them: checksums, and cutting into segments.
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // SAFETY: the structure is the kernel's for this request; the other one takes a number.
    let done = unsafe {
        libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) == 0
            && libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) == 0
    };
    if done { Ok(device) } else { Err(io::Error::last_os_error()) }
}
