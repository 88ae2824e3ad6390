//! A parallel port by access to the processor's ports, for root: as the paper's component does it, which asks for the
//! right to use the instructions IN and OUT.
//!
//! Here it is the file /dev/port (mem(4)), in which the offset is the port's address: the right that a process gets by
//! `ioperm` holds for one thread only, and whoever holds a barrier may take it to another one. The file exists on x86,
//! in kernels that have it (`CONFIG_DEVPORT`) and are not locked down.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Port, Registers};
use crate::hardware::error::{Error, Result};

const FILE: &str = "/dev/port";

/// What is said where it cannot be opened.
const HINT: &str = "access to ports is for root, on x86; others use ppdev:/dev/parportN";

/// The registers of a parallel port at an address: data, and behind it status.
#[derive(Debug)]
pub struct PortAccess {
    file: File,
    address: u16,
}

impl PortAccess {
    /// The address that a first port has nearly always.
    pub const USUAL: u16 = 0x378;

    /// Whether this process may access ports.
    ///
    /// # Errors
    /// Why not, and what can be done.
    pub fn check() -> Result<()> {
        open().map(drop)
    }

    /// The port at an address, which is `USUAL` where nobody knows better. Nothing keeps others from it.
    ///
    /// # Errors
    /// Why that cannot be, and what can be done.
    pub fn open(address: u16) -> Result<Port> {
        let file = open()?;
        Port::new(Box::new(Self { file, address }), format!("{FILE} at {address:#x}"))
    }
}

impl Registers for PortAccess {
    fn write_data(&mut self, data: u8) -> io::Result<()> {
        self.file.write_all_at(&[data], u64::from(self.address))
    }

    fn read_status(&mut self) -> io::Result<u8> {
        let mut status = [0];
        self.file.read_exact_at(&mut status, u64::from(self.address) + 1)?;
        Ok(status[0])
    }
}

fn open() -> Result<File> {
    let path = Path::new(FILE);
    OpenOptions::new().read(true).write(true).open(path).map_err(Error::device("opening", path, HINT))
}
