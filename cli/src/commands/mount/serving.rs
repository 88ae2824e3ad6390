//! A mounted directory, until it is unmounted or a signal comes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fuser::{Config, MountOption, Session, SessionACL};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::MountError;
use super::face::Face;
use super::files::Files;
use super::mapped_pages;
use super::mount_point::{Device, MountPoint};
use crate::commands::CommandError;
use crate::commands::interruption::Interruption;

/// How many requests are answered at a time: one may have to wait for another host, or for a disk.
const AT_A_TIME: usize = 16;

/// Where the kernel is talked to.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A directory that is mounted and served.
pub(super) struct Served {
    point: MountPoint,
    /// What is at the mount point as long as it is this mount.
    device: Device,
    files: Arc<Files>,
    /// Where the kernel is talked to.
    connection: OwnedFd,
    server: JoinHandle<io::Result<()>>,
    /// At its end when the server is.
    end: UnixStream,
}

impl Served {
    /// Mounts it.
    ///
    /// # Errors
    /// What is missing for that, or what the operating system says.
    pub(super) fn mount(
        face: Face,
        point: MountPoint,
        read_only: bool,
        allow_other: bool,
    ) -> Result<Served, MountError> {
        match File::options().read(true).write(true).open(DEVICE) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(MountError::NoFuse),
            opened => opened.map_err(|source| MountError::Device { source })?,
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("svmio".into()),
            // So that the list of mounts tells `fuse.svmio`.
            MountOption::CUSTOM("subtype=svmio".into()),
            MountOption::DefaultPermissions,
        ];
        if read_only {
            config.mount_options.push(MountOption::RO);
        }
        config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(AT_A_TIME);
        config.clone_fd = true;
        let files = face.files();
        let session = Session::new(face, point.path(), &config).map_err(|source| point.refused(source))?;
        let failed = |source| MountError::Serving { point: point.path().to_path_buf(), source };
        let device = point.device().map_err(failed)?;
        let connection = session.as_fd().try_clone_to_owned().map_err(failed)?;
        let (ended, end) = UnixStream::pair().map_err(failed)?;
        let mut session = session.spawn().map_err(failed)?;
        let sessions_end = mem::replace(&mut session.guard, thread::spawn(|| Ok(())));
        // Dropped, it would unmount whatever is at the mount point then, by path alone. This process ends with it.
        mem::forget(session);
        let serve = move || {
            let served = sessions_end.join();
            drop(ended);
            served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let server = thread::Builder::new().name("svmio-mount".into()).spawn(serve).map_err(failed)?;
        Ok(Served { point, device, files, connection, server, end })
    }

    /// Waits until somebody unmounts it, or a signal comes, by which it is unmounted.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn until_it_ends(self, interruption: &Interruption) -> Result<(), CommandError> {
        let failed = |source| MountError::Serving { point: self.point.path().to_path_buf(), source };
        interruption.wait_readable(self.end.as_fd()).map_err(failed)?;
        if interruption.check().is_err() {
            if self.is_at_the_point() {
                let mapped = self.files.mapped().into_iter();
                mapped_pages::bring_in(mapped.map(|path| self.point.path().join(path)).collect());
            }
            self.files.settle_all();
            self.unmount()?;
            // The helper leaves who has something open below it in peace, for as long as they like.
            self.files.close_all();
            return Ok(());
        }
        self.unmount()?;
        let point = self.point.path().to_path_buf();
        let served = self.server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(served.map_err(|source| MountError::Serving { point, source })?)
    }

    /// Takes the mount away, unless somebody has done that: what is at the mount point then is his.
    fn unmount(&self) -> Result<(), MountError> {
        // The number alone does not tell: once the mount is gone, the next one may get it. Until then, the kernel is
        // connected, unless the mount was only cut off (`umount -f` while something is open).
        match self.is_at_the_point() && (self.is_connected() || self.point.is_cut_off()) {
            true => self.point.leave(),
            false => Ok(()),
        }
    }

    /// Whether the mount, or one that has got its number since, is what is seen at the mount point.
    fn is_at_the_point(&self) -> bool {
        self.point.device().is_ok_and(|device| device == self.device)
    }

    /// Whether the kernel may still ask something.
    fn is_connected(&self) -> bool {
        let mut connection = [PollFd::new(&self.connection, PollFlags::empty())];
        // Where it cannot be told, it is as good as gone.
        poll(&mut connection, Some(&Timespec::default())).is_ok()
            && !connection[0].revents().contains(PollFlags::ERR)
    }
}
