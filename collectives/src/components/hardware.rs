//! The component of the hardware barrier.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use svmio_transport::Fabric;

use super::basic::Basic;
use super::component::{Component, Parameter, Wish};
use super::error::{Error, Result};
use super::function::{Function, Functions};
use super::module::Module;
use super::notice::Notice;
use super::team::Team;
use crate::executor::Elementwise;
use crate::hardware::{
    Barrier, EmulatedLines, Error as HardwareError, Lines, MOST_NODES, Port, PortAccess, Ppdev, Ticket,
    Trial, trial,
};

/// A controller between nodes is faster than any network.
const PORT_PRIORITY: u32 = 60;

/// An emulated one is for trying things out: through shared memory alone a barrier costs less.
const EMULATED_PRIORITY: u32 = 20;

/// The proposal of those who have an emulated controller; bits below are circuits of a port.
const EMULATED: u64 = 1 << 63;

/// The usual device of a parallel port, of which is told where none is named.
const USUAL_DEVICE: &str = "/dev/parport0";

/// The hardware barrier.
#[derive(Debug, Default)]
pub(super) struct Hardware {
    device: Option<Device>,
    /// How long the controller may take to answer when it is tried; none for what is usual.
    limit: Option<Duration>,
    /// The port, from when a team was first wanted: this process has it, and all its groups share it.
    port: Mutex<Option<Port>>,
}

/// How a controller is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Device {
    /// `emulated:DIRECTORY`.
    Emulated(PathBuf),
    /// `ppdev:/dev/parportN`.
    Ppdev(PathBuf),
    /// `port:ADDRESS`.
    Access(u16),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = |text: &str| {
            let number = match text.strip_prefix("0x") {
                Some(digits) => u16::from_str_radix(digits, 16),
                None => text.parse(),
            };
            number.map_err(|_| format!("{text:?} is no address of a port, as {:#x} is", PortAccess::USUAL))
        };
        match text.split_once(':') {
            Some(("emulated", path)) if !path.is_empty() => Ok(Self::Emulated(path.into())),
            Some(("ppdev", path)) if !path.is_empty() => Ok(Self::Ppdev(path.into())),
            Some(("port", text)) => Ok(Self::Access(address(text)?)),
            _ => {
                Err(format!("{text:?} is none of emulated:DIRECTORY, ppdev:{USUAL_DEVICE} and port:ADDRESS"))
            }
        }
    }
}

impl Hardware {
    /// Claims nothing.
    fn check(&self) -> Result<(), String> {
        match &self.device {
            Some(Device::Emulated(directory)) => told(EmulatedLines::check(directory)),
            Some(Device::Ppdev(path)) => {
                if self.port.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                    return Ok(());
                }
                told(Ppdev::check(path))
            }
            Some(Device::Access(_)) => told(PortAccess::check()),
            None => {
                let usual = match Ppdev::check(Path::new(USUAL_DEVICE)) {
                    Ok(()) => {
                        format!("{USUAL_DEVICE} is there, but nobody says that a controller is behind it")
                    }
                    Err(error) => error.to_string(),
                };
                Err(format!(
                    "no device is named: set hardware.device to emulated:DIRECTORY, ppdev:{USUAL_DEVICE} or \
                     port:ADDRESS ({usual})"
                ))
            }
        }
    }

    /// The port, which this process has from then on.
    fn port(&self, device: &Device) -> Result<Option<Port>, HardwareError> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        if port.is_none() {
            *port = match device {
                Device::Emulated(_) => None,
                Device::Ppdev(path) => Some(Ppdev::open(path)?),
                Device::Access(address) => Some(PortAccess::open(*address)?),
            };
        }
        Ok(port.clone())
    }

    /// This member's lines. All members do the same with `basic`.
    fn lines(&self, team: &Team, basic: &mut Basic, proposal: u64) -> Result<Box<dyn Lines>> {
        let no_device = || HardwareError::Trial { problem: "no device is named" };
        let device = self.device.as_ref().ok_or_else(no_device)?;
        match device {
            Device::Emulated(directory) => emulated_lines(directory, team, basic),
            _ => {
                let port = self.port(device)?.ok_or_else(no_device)?;
                Ok(Box::new(port.claim(proposal.trailing_zeros() as usize)?))
            }
        }
    }
}

impl Component for Hardware {
    fn name(&self) -> &'static str {
        "hardware"
    }

    fn purpose(&self) -> &'static str {
        "a controller with a line out and a line in per node"
    }

    fn functions(&self) -> Functions {
        Functions::only(Function::Barrier)
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "device",
                meaning: "emulated:DIRECTORY, ppdev:/dev/parportN or port:ADDRESS: none",
                is_local: true,
            },
            Parameter {
                name: "limit",
                meaning: "ms that a controller may take to answer: 1000, and 100 for each node",
                is_local: true,
            },
        ]
    }

    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        if parameter == "limit" {
            let limit = value.parse().map_err(|_| format!("{value:?} is no number of milliseconds"))?;
            self.limit = Some(Duration::from_millis(limit));
        } else {
            self.device = Some(value.parse()?);
        }
        Ok(())
    }

    fn availability(&self, _here: &Fabric) -> Result<(), String> {
        self.check()
    }

    fn query(&self, team: &Team) -> Result<Wish, String> {
        if team.size() > MOST_NODES {
            return Err(format!("a controller has lines for {MOST_NODES} nodes, not for {}", team.size()));
        }
        let Some(device) = &self.device else { return Err("no device is named".into()) };
        if matches!(device, Device::Emulated(_)) {
            return Ok(Wish { priority: EMULATED_PRIORITY, proposal: EMULATED });
        }
        let mut nodes: Vec<&str> = (0..team.size()).map(|member| team.node(member)).collect();
        nodes.sort_unstable();
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("a port serves one process, and two members are on node {}", twice[0]));
        }
        match told(self.port(device))?.map(|port| port.free()) {
            None | Some(0) => Err(format!("all {} circuits of the port are in use", Port::CIRCUITS)),
            Some(free) => Ok(Wish { priority: PORT_PRIORITY, proposal: u64::from(free) }),
        }
    }

    fn join(&self, team: &Team, basic: &mut Basic, proposal: u64) -> Result<Box<dyn Module>> {
        let lines = self.lines(team, basic, proposal).and_then(|lines| Ok((lines, Notice::open(team)?)));
        let mut have_all = [u8::from(lines.is_ok())];
        basic.allreduce(&mut have_all, &Elementwise::commutative(u8::min))?;
        let (mut lines, notice) = lines?;
        if have_all == [0] {
            return Err(HardwareError::Trial { problem: "another member has no lines" }.into());
        }
        let mut part = Trial::of_node(team.own(), team.size());
        part.limit = self.limit.unwrap_or(part.limit);
        trial(&mut *lines, part, || basic.barrier())?;
        let beside = (0..team.size()).filter(|&member| team.node(member) == team.node(team.own())).count();
        Ok(Box::new(Controlled { barrier: Barrier::new(lines, beside), notice, completed: 0 }))
    }
}

/// The hardware barrier of a team.
#[derive(Debug)]
struct Controlled {
    barrier: Barrier,
    notice: Notice,
    /// How many are over.
    completed: u64,
}

impl Module for Controlled {
    fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.barrier.do_meanwhile(meanwhile);
    }

    fn withdraw(&mut self, _reason: &str) {
        self.notice.give(self.completed);
    }

    #[inline]
    fn barrier(&mut self) -> Result<()> {
        let Self { barrier, notice, completed } = self;
        barrier.wait(|| notice.check(*completed + 1))?;
        *completed += 1;
        Ok(())
    }
}

/// Member 0 claims a circuit, and the others attach to it.
fn emulated_lines(directory: &Path, team: &Team, basic: &mut Basic) -> Result<Box<dyn Lines>> {
    // No claim has number 0.
    let mut words = [0_u32; 2];
    let claimed = (team.own() == 0).then(|| EmulatedLines::claim(directory, team.size()));
    if let Some(Ok(lines)) = &claimed {
        words = [lines.ticket().circuit, lines.ticket().claim];
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    basic.bcast(0, &mut bytes)?;
    if let Some(claimed) = claimed {
        return Ok(Box::new(claimed?));
    }
    let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[4 * at + byte]));
    let ticket = Ticket { circuit: word(0), claim: word(1), nodes: team.size() as u32 };
    if ticket.claim == 0 {
        return Err(Error::from(HardwareError::Trial { problem: "member 0 has no circuit" }));
    }
    Ok(Box::new(EmulatedLines::attach(directory, ticket, team.own())?))
}

fn told<T>(result: Result<T, HardwareError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
