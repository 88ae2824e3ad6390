//! From nothing to a back end: an address first, life once everybody's is known.

use std::sync::Arc;

use crate::back_end::{BackEnd, Prepared};
use crate::error::{Error, Result};
use crate::fabric::Fabric;
use crate::membership::Membership;
use crate::secret::JobSecret;
use crate::units::Rank;

use super::adapter::Adapter;
use super::answer::Door;
use super::control::ControlSegment;
use super::machine::Machine;
use super::process::Parts;
use super::process_memory;
use super::settings::ShmSettings;
use super::storage::Storage;
use super::wire::Address;

/// Prepares this process for a job on shared memory: from now on its peers may ask for its memory, and are answered
/// once it has [joined](Prepared::join).
///
/// # Errors
/// `System` where there is no socket; `Memory`.
pub fn prepare(settings: &ShmSettings, secret: &JobSecret) -> Result<Box<dyn Prepared>> {
    let failed = |error| Error::system("preparing shared memory", error);
    let name = super::random_bytes().map_err(failed)?;
    let cookie = process_memory::own_cookie().map_err(failed)?;
    let opened = if settings.copy_between_processes {
        process_memory::open_own()
    } else {
        Err("the settings say so".into())
    };
    if let Err(reason) = &opened {
        tracing::debug!(reason, "no copies straight between processes");
    }
    let address = Address {
        name,
        machine: Machine::own(),
        process: rustix::process::getpid().as_raw_nonzero().get().cast_unsigned(),
        user: rustix::process::geteuid().as_raw(),
        name_spaces: process_memory::own_name_spaces(),
        opens_memory: opened.is_ok(),
        cookie_at: cookie.as_ptr() as u64,
        cookie: *cookie,
        processors: own_processors(),
    };
    let door = Door::open(&name).map_err(|error| failed(error.into()))?;
    let control = ControlSegment::reserve()?;
    Ok(Box::new(ShmPrepared { settings: *settings, secret: secret.clone(), address, door, control }))
}

/// The processors that this process may run on, a bit each. Where the kernel does not tell, as many as it may use.
fn own_processors() -> Vec<u8> {
    let mut bits = Vec::new();
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        bits.resize(rustix::thread::CpuSet::MAX_CPU / 8, 0);
        for processor in (0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)) {
            bits[processor / 8] |= 1 << (processor % 8);
        }
    }
    while bits.last() == Some(&0) {
        bits.pop();
    }
    bits
}

/// On how many cores the processes at `addresses` run altogether.
fn cores(addresses: &[Address]) -> usize {
    let mut all: Vec<u8> = Vec::new();
    for address in addresses {
        all.resize(all.len().max(address.processors.len()), 0);
        for (all, own) in all.iter_mut().zip(&address.processors) {
            *all |= own;
        }
    }
    let processors: usize = all.iter().map(|bits| bits.count_ones() as usize).sum();
    let own: usize = own_processors().iter().map(|bits| bits.count_ones() as usize).sum();
    // A control group may grant the time of fewer cores than there are to run on.
    match std::thread::available_parallelism() {
        Ok(granted) if granted.get() < own => processors.min(granted.get()),
        _ => processors.max(1),
    }
}

struct ShmPrepared {
    settings: ShmSettings,
    secret: JobSecret,
    address: Address,
    door: Door,
    control: Storage,
}

impl Prepared for ShmPrepared {
    fn address(&self) -> Vec<u8> {
        self.address.encode()
    }

    fn join(
        self: Box<Self>,
        membership: Arc<Membership>,
        addresses: Vec<Vec<u8>>,
    ) -> Result<Arc<dyn BackEnd>> {
        if addresses.len() != membership.size() as usize {
            let problem = format!("{} addresses for a job of {}", addresses.len(), membership.size());
            return Err(Error::StartUp { problem });
        }
        let decode = |(rank, bytes): (usize, &Vec<u8>)| {
            let rank = Rank(rank as u32);
            Address::decode(bytes).map_err(|malformed| {
                Error::wire(&membership, rank, format!("its address is wrong: {malformed}"))
            })
        };
        let addresses = addresses.iter().enumerate().map(decode).collect::<Result<Vec<_>>>()?;
        check_places(&self.address.machine, &membership, &addresses)?;
        let Self { settings, secret, door, control, .. } = *self;
        let cores = cores(&addresses);
        let copies_between_processes = copies_between_processes(&addresses);
        let parts =
            Parts { settings, secret, membership, addresses, door, control, cores, copies_between_processes };
        Ok(Adapter::start(parts)?)
    }
}

/// Refuses a job of whom this process, that is at `own`, could not share memory with.
fn check_places(own: &Machine, membership: &Membership, addresses: &[Address]) -> Result<()> {
    let elsewhere = |(rank, address): (usize, &Address)| {
        own.apart_from(&address.machine).map(|where_to| (Rank(rank as u32), where_to))
    };
    let Some((rank, where_to)) = addresses.iter().enumerate().find_map(elsewhere) else { return Ok(()) };
    let me = membership.rank();
    let problem = format!(
        "rank {rank} (node {}) is {where_to} than rank {me} (node {}): shared memory does not reach it; choose \
         the fabric of networks for this job, SVMIO_FABRIC=ofi, or fabric = \"ofi\" in the configuration",
        membership.node(rank),
        membership.node(me)
    );
    Err(Error::StartUp { problem })
}

/// Whether all can copy from and to each other's private memory: by what all say of themselves, and, as far as this
/// process goes, by trying.
fn copies_between_processes(addresses: &[Address]) -> bool {
    if !process_memory::all_open(addresses) {
        return false;
    }
    let refusal = addresses.iter().enumerate().find_map(|(rank, address)| {
        process_memory::probe(address).err().map(|error| (rank, address.process, error))
    });
    let Some((rank, process, error)) = refusal else {
        return true;
    };
    tracing::warn!(rank, process, %error, "the kernel forbids copying from a peer's memory; staging instead");
    false
}

/// A job of `size` within this process, each rank with a back end of its own: for tests, which run each rank on
/// a thread.
///
/// # Panics
/// Where it does not come about.
#[doc(hidden)]
#[must_use]
pub fn within_process(size: u32) -> Vec<Fabric> {
    within_process_with(size, &ShmSettings::default())
}

/// As [`within_process`], with other settings than the default ones.
///
/// # Panics
/// Where it does not come about.
#[doc(hidden)]
#[must_use]
pub fn within_process_with(size: u32, settings: &ShmSettings) -> Vec<Fabric> {
    let secret = JobSecret::random().expect("the kernel has random numbers");
    let prepared: Vec<_> =
        (0..size).map(|_| prepare(settings, &secret).expect("shared memory can be prepared")).collect();
    let addresses: Vec<_> = prepared.iter().map(|prepared| prepared.address()).collect();
    let join = |(rank, prepared): (u32, Box<dyn Prepared>)| {
        let membership = Membership::new(Rank(rank), vec!["here".into(); size as usize]);
        let back_end = prepared.join(Arc::new(membership), addresses.clone());
        Fabric::new(back_end.expect("shared memory can be joined"))
    };
    (0..size).zip(prepared).map(join).collect()
}
