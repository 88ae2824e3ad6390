//! The controller: senses all lines out, drives all lines in.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::memory::{Circuit, Claimed, LineIn, LineOut, Memory};
use super::wire::Claim;
use super::{MOST_CIRCUITS, files};
use crate::executor::{Patience, PatienceSettings, Polled};
use crate::hardware::error::{Error, Result};
use crate::hardware::machine::{Controller, ControllerStep};

/// How long the controller sleeps where nobody rings.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// An emulated controller, which has not begun to run. It is there until it is dropped or its process ends.
#[derive(Debug)]
pub struct Emulator {
    memory: Memory,
    // Locked: by the lines, nodes know that it is there; by the other, controllers know of each other.
    _lines: File,
    _directory: File,
}

impl Emulator {
    /// The controller of a directory, which is made where there is none, with so many circuits. Nodes find it by the
    /// directory; whoever may write its files can be one.
    ///
    /// # Errors
    /// [`Error::Taken`], [`Error::Circuits`]; the system's.
    pub fn create(directory: &Path, circuits: usize) -> Result<Self> {
        if circuits == 0 || circuits > MOST_CIRCUITS {
            return Err(Error::Circuits { circuits });
        }
        fs::create_dir_all(directory).map_err(Error::device("making", directory, ""))?;
        let guard = open(&directory.join(files::CONTROLLER))?;
        lock(&guard, directory)?;
        for circuit in 0..circuits {
            open(&directory.join(files::circuit(circuit)))?;
        }
        // A new file for each controller: nodes of an earlier one keep what they have mapped, and find nobody there.
        let path = directory.join(files::LINES);
        let fresh = path.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::device("removing", fresh, "")(error));
            }
            _ => {}
        }
        let lines = open(&fresh)?;
        lock(&lines, &fresh)?;
        let memory = Memory::create(&lines, &fresh, circuits)?;
        fs::rename(&fresh, &path).map_err(Error::device("naming", &path, ""))?;
        Ok(Self { memory, _lines: lines, _directory: guard })
    }

    /// Runs it until `stop`; that is looked at once a second where nothing happens.
    pub fn run(&self, stop: &AtomicBool) {
        let circuits = (0..self.memory.circuits()).map(|number| Attended::new(self.memory.circuit(number)));
        let mut circuits: Vec<Attended<'_>> = circuits.collect();
        let mut patience = Patience::new(PatienceSettings::default(), 1, cores());
        let mut nodes = 0;
        // Relaxed: nothing else is read by it.
        while !stop.load(Ordering::Relaxed) {
            // Each of them, whatever the ones before say.
            let mut goes_on =
                || circuits.iter_mut().filter_map(|circuit| circuit.attend().then_some(())).count() > 0;
            if patience.glance(&mut goes_on)
                || patience.give_turns(&mut goes_on)
                || patience.poll(&mut goes_on) == Polled::Ready
            {
                let claimed = circuits.iter().map(|circuit| circuit.claimed.nodes).sum();
                if claimed != nodes {
                    nodes = claimed;
                    patience = Patience::new(PatienceSettings::default(), nodes + 1, cores());
                }
                continue;
            }
            let is_ready = || goes_on() || stop.load(Ordering::Relaxed);
            self.memory.head().bell.sleep(LONGEST_SLEEP, is_ready);
        }
    }

    /// Runs it in a thread of this process.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn spawn(self) -> Result<RunningEmulator> {
        let (emulator, stop) = (Arc::new(self), Arc::new(AtomicBool::new(false)));
        let (inside, until) = (Arc::clone(&emulator), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("svmio-lines".into())
            .spawn(move || inside.run(&until))
            .map_err(Error::device("starting the thread of", PathBuf::new(), ""))?;
        Ok(RunningEmulator { emulator, stop, thread: Some(thread) })
    }
}

/// An emulated controller that runs in a thread. Dropping it ends it.
#[derive(Debug)]
pub struct RunningEmulator {
    emulator: Arc<Emulator>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningEmulator {
    /// Ends it. Barriers that are not over then fail.
    pub fn stop(self) {}
}

impl Drop for RunningEmulator {
    fn drop(&mut self) {
        // Relaxed: the bell, which is rung behind it, orders it.
        self.stop.store(true, Ordering::Relaxed);
        self.emulator.memory.head().bell.ring_anyway();
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell, and where it has panicked it has said so.
            let _ = thread.join();
        }
    }
}

/// A circuit, as the controller sees it.
struct Attended<'memory> {
    circuit: &'memory Circuit,
    claimed: Claimed,
    machine: Option<(Claim, Controller)>,
}

impl<'memory> Attended<'memory> {
    fn new(circuit: &'memory Circuit) -> Self {
        Self { circuit, claimed: Claimed { claim: None, nodes: 0 }, machine: None }
    }

    /// Does what there is to do; tells whether there was anything.
    fn attend(&mut self) -> bool {
        let claimed = self.circuit.setup.read();
        let is_new = claimed != self.claimed;
        if is_new {
            self.claimed = claimed;
            self.machine = match claimed {
                Claimed { claim: Some(claim), nodes: 1.. } => Some((claim, Controller::new(claimed.nodes))),
                _ => None,
            };
        }
        let Some((claim, machine)) = &mut self.machine else { return is_new };
        let goes_on = run(machine, *claim, &self.circuit.lines_out, &self.circuit.lines_in);
        is_new || goes_on
    }
}

/// Takes steps until a line is not yet as it has to be, or all lines in have been driven to another level, or the
/// circuit belongs to another claim; tells whether there were any.
pub(super) fn run(machine: &mut Controller, claim: Claim, out: &[LineOut], into: &[LineIn]) -> bool {
    let mut goes_on = false;
    loop {
        match machine.next() {
            ControllerStep::Sense(node) => {
                let before = *machine;
                match out[node].wire.level(claim) {
                    Some(level) => machine.sensed(level),
                    None => return goes_on,
                }
                if *machine == before {
                    return goes_on;
                }
            }
            ControllerStep::Drive(node, level) => {
                let line = &into[node];
                if !line.wire.drive(claim, level) {
                    return goes_on;
                }
                line.bell.ring();
                machine.driven();
                // Other circuits have their turn, however soon the nodes of this one come again.
                if let ControllerStep::Sense(_) = machine.next() {
                    return true;
                }
            }
        }
        goes_on = true;
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(Error::device("opening", path, ""))
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(Error::Taken { path: path.into() }),
        Err(errno) => Err(Error::device("locking", path, "")(errno.into())),
    }
}
