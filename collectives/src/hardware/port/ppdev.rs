//! A parallel port by Linux's driver for programs: no root, as far as its device may be opened.
//!
//! From linux/ppdev.h (Linux 6.1): requests of type `'p'`, PPCLAIM 0x8b, PPRELEASE 0x8c, PPEXCL 0x8f without an
//! argument, PPWDATA 0x86 (writes an unsigned char), PPRSTATUS 0x81 (reads one), PPDATADIR 0x90 (writes an int).

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::ioctl::{Getter, NoArg, Opcode, Setter, ioctl, opcode};

use super::{Port, Registers};
use crate::hardware::error::{Error, Result};

const GROUP: u8 = b'p';
const PPRSTATUS: Opcode = opcode::read::<u8>(GROUP, 0x81);
const PPWDATA: Opcode = opcode::write::<u8>(GROUP, 0x86);
const PPCLAIM: Opcode = opcode::none(GROUP, 0x8b);
const PPRELEASE: Opcode = opcode::none(GROUP, 0x8c);
const PPEXCL: Opcode = opcode::none(GROUP, 0x8f);
const PPDATADIR: Opcode = opcode::write::<c_int>(GROUP, 0x90);

/// What is said where there is no such device.
const ABSENT: &str = "a machine with a parallel port has it once the modules parport_pc and ppdev are loaded \
                      (modprobe -a parport_pc ppdev)";
/// What is said where it may not be opened.
const FORBIDDEN: &str = "who is in the device's group may open it (on Debian: adduser USER lp)";
/// What is said where another driver or process has it.
const BUSY: &str = "another program or driver has the port (a printer's: rmmod lp)";

/// A parallel port that was opened as /dev/parportN and claimed.
#[derive(Debug)]
pub struct Ppdev {
    file: File,
}

impl Ppdev {
    /// Whether there is such a device, and this process may open it. Claims nothing.
    ///
    /// # Errors
    /// Why not, and what can be done.
    pub fn check(path: &Path) -> Result<()> {
        open(path).map(drop)
    }

    /// Opens the device, claims its port for this process alone, and has its data lines driven.
    ///
    /// # Errors
    /// Why that cannot be, and what can be done.
    pub fn open(path: &Path) -> Result<Port> {
        let file = open(path)?;
        // SAFETY: the request takes no argument.
        let exclusive = unsafe { ioctl(&file, NoArg::<PPEXCL>::new()) };
        exclusive.map_err(|errno| Error::device("asking for all of", path, BUSY)(errno.into()))?;
        // SAFETY: as above.
        let claimed = unsafe { ioctl(&file, NoArg::<PPCLAIM>::new()) };
        claimed.map_err(|errno| Error::device("claiming", path, BUSY)(errno.into()))?;
        let claimed = Self { file };
        // SAFETY: the request reads an int.
        let directed = unsafe { ioctl(&claimed.file, Setter::<PPDATADIR, c_int>::new(0)) };
        directed.map_err(|errno| Error::device("directing the data lines of", path, "")(errno.into()))?;
        Port::new(Box::new(claimed), path)
    }
}

impl Registers for Ppdev {
    fn write_data(&mut self, data: u8) -> io::Result<()> {
        // SAFETY: the request reads an unsigned char.
        Ok(unsafe { ioctl(&self.file, Setter::<PPWDATA, u8>::new(data)) }?)
    }

    fn read_status(&mut self) -> io::Result<u8> {
        // SAFETY: the request writes an unsigned char.
        Ok(unsafe { ioctl(&self.file, Getter::<PPRSTATUS, u8>::new()) }?)
    }
}

impl Drop for Ppdev {
    fn drop(&mut self) {
        // Closing would release it, too.
        // SAFETY: the request takes no argument.
        let _ = unsafe { ioctl(&self.file, NoArg::<PPRELEASE>::new()) };
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => ABSENT,
            io::ErrorKind::PermissionDenied => FORBIDDEN,
            _ => match error.raw_os_error() {
                // A device file without a driver behind it.
                Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => ABSENT,
                Some(code) if code == rustix::io::Errno::NODEV.raw_os_error() => ABSENT,
                _ => "",
            },
        };
        Error::device("opening", path, hint)(error)
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{PPCLAIM, PPDATADIR, PPEXCL, PPRELEASE, PPRSTATUS, PPWDATA};

    #[test]
    fn requests_have_the_numbers_of_the_header() {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("requests.c"), directory.path().join("requests"));
        let body = "#include <linux/ppdev.h>\n#include <sys/ioctl.h>\n#include <stdio.h>\nint main(void) { printf(\
                    \"%lu %lu %lu %lu %lu %lu\", (unsigned long)PPRSTATUS, (unsigned long)PPWDATA, \
                    (unsigned long)PPCLAIM, (unsigned long)PPRELEASE, (unsigned long)PPEXCL, \
                    (unsigned long)PPDATADIR); return 0; }\n";
        std::fs::write(&source, body).unwrap();
        let compiled = Command::new("cc").arg(&source).arg("-o").arg(&program).status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "install a C compiler and Linux's headers (gcc, linux-libc-dev)"
        );
        let told = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
        let ours = [PPRSTATUS, PPWDATA, PPCLAIM, PPRELEASE, PPEXCL, PPDATADIR];
        assert_eq!(told, ours.map(|request| u64::from(request).to_string()).join(" "));
    }
}
