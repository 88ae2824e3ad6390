//! A mounted directory, until it is unmounted or a signal comes.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};

use super::MountError;
use super::face::Face;
use super::files::Files;
use super::mount_point::MountPoint;
use crate::commands::CommandError;
use crate::commands::interruption::Interruption;

/// How many requests are answered at a time: one may have to wait for another host, or for a disk.
const AT_A_TIME: usize = 16;

/// Where the kernel is talked to.
pub(super) const DEVICE: &str = "/dev/fuse";

/// A directory that is mounted and served.
pub(super) struct Served {
    point: MountPoint,
    files: Arc<Files>,
    unmounter: SessionUnmounter,
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
        let mut session =
            Session::new(face, point.path(), &config).map_err(|source| point.refused(source))?;
        let unmounter = session.unmount_callable();
        let failed = |source| MountError::Serving { point: point.path().to_path_buf(), source };
        let (ended, end) = UnixStream::pair().map_err(failed)?;
        let serve = move || {
            let served = session.run();
            drop(ended);
            served
        };
        let server = thread::Builder::new().name("svmio-mount".into()).spawn(serve).map_err(failed)?;
        Ok(Served { point, files, unmounter, server, end })
    }

    /// Waits until somebody unmounts it, or a signal comes, by which it is unmounted.
    ///
    /// # Errors
    /// What the operating system says.
    pub(super) fn until_it_ends(mut self, interruption: &Interruption) -> Result<(), CommandError> {
        let point = self.point.path().to_path_buf();
        let failed = |source| MountError::Serving { point: point.clone(), source };
        interruption.wait_readable(self.end.as_fd()).map_err(failed)?;
        if interruption.check().is_err() {
            self.files.settle_all();
            if let Err(error) = self.unmounter.unmount() {
                // Somebody has a file open still, or is in a directory.
                tracing::debug!("unmounting {}: {error}", point.display());
                self.point.leave()?;
            }
            // The helper leaves who has something open below it in peace, for as long as they like.
            self.files.close_all();
            return Ok(());
        }
        let served = self.server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(served.map_err(failed)?)
    }
}
