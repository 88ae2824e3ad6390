//! Measurements between two simulated processes.

use std::sync::Arc;
use std::time::Duration;

use super::Result;
use crate::back_end::Backing;
use crate::dma::{Completion, Direction, Transfer};
use crate::error::Error;
use crate::fabric::Fabric;
use crate::memory::UserMemory;
use crate::message::{MessageSettings, Messenger, Port};
use crate::segment::RemoteSegment;
use crate::sim::model::Model;
use crate::sim::options::SimOptions;
use crate::sim::world::World;
use crate::units::{Interrupt, Rank, SegmentId, Time};

const SEGMENT: SegmentId = SegmentId::new(0, 0);

/// How often small things are repeated.
const ROUNDS: u32 = 20;

/// Runs both processes and returns what each measured.
fn measure<T>(model: &Arc<Model>, body: impl Fn(&Fabric, Rank) -> Result<T, Error>) -> Result<[T; 2]> {
    let world = World::new(SimOptions::new(2, Arc::clone(model)));
    let report = world.run(|fabric| body(&fabric, Rank(1 - fabric.rank().0)))?;
    let mut results = Vec::new();
    for result in report.results.into_iter().flatten() {
        results.push(result?);
    }
    // Nobody is killed, so there are two.
    results.try_into().map_err(|_| Error::Ending { reason: "a process did not return".into() }.into())
}

/// Half of a message's round trip.
///
/// # Errors
/// [`FigureError`](super::FigureError).
pub fn latency(model: &Arc<Model>, settings: &MessageSettings, size: u64) -> Result<Duration> {
    let [first, _] = measure(model, |fabric, peer| {
        let messenger = Messenger::open(fabric, Port::FIRST, settings)?;
        let mut bytes = vec![0; size as usize];
        let mut begun = fabric.now();
        let rounds = if size > 1 << 20 { 2 } else { ROUNDS };
        // The first round trip connects.
        for round in 0..=rounds {
            if round == 1 {
                begun = fabric.now();
            }
            if fabric.rank() < peer {
                messenger.send(peer, &bytes)?;
                messenger.receive(peer, &mut bytes)?;
            } else {
                messenger.receive(peer, &mut bytes)?;
                messenger.send(peer, &bytes)?;
            }
        }
        Ok(fabric.now().since(begun) / (2 * rounds))
    })?;
    Ok(first)
}

/// The paper's figure 10: how long a computation and a message take that is sent beside it, for each computation.
///
/// # Errors
/// [`FigureError`](super::FigureError).
pub fn overlap(
    model: &Arc<Model>,
    settings: &MessageSettings,
    size: u64,
    jobs: &[Duration],
) -> Result<Vec<Duration>> {
    let [sender, receiver] = measure(model, |fabric, peer| {
        let messenger = Messenger::open(fabric, Port::FIRST, settings)?;
        let mut bytes = vec![0; size as usize];
        let mut times: Vec<(Time, Time)> = Vec::new();
        // The first one connects.
        for &job in [Duration::ZERO].iter().chain(jobs) {
            meet(&messenger, fabric, peer)?;
            let begun = fabric.now();
            if fabric.rank() < peer {
                messenger.scope(|scope| {
                    let request = scope.send(peer, &bytes)?;
                    fabric.back_end().compute(job);
                    request.wait()?;
                    Ok(())
                })?;
            } else {
                messenger.receive(peer, &mut bytes)?;
            }
            times.push((begun, fabric.now()));
        }
        Ok(times)
    })?;
    let total = |(sender, receiver): (&(Time, Time), &(Time, Time))| sender.1.max(receiver.1).since(sender.0);
    Ok(sender.iter().zip(&receiver).skip(1).map(total).collect())
}

/// Lets both begin together; the receiver is first.
fn meet(messenger: &Messenger, fabric: &Fabric, peer: Rank) -> Result<(), Error> {
    if fabric.rank() < peer {
        messenger.send(peer, &[])?;
        messenger.receive(peer, &mut [])?;
        fabric.back_end().sleep(Duration::from_millis(1));
    } else {
        messenger.receive(peer, &mut [])?;
        messenger.send(peer, &[])?;
    }
    Ok(())
}

/// How long a block's remote write by stores takes, with a store barrier at its end.
///
/// # Errors
/// [`FigureError`](super::FigureError).
pub fn store_time(model: &Arc<Model>, size: u64) -> Result<Duration> {
    write_time(model, size, |_, peer, fabric, remote| {
        remote.write(0, &vec![1; size as usize])?;
        fabric.store_barrier(peer)
    })
}

/// How long a block's DMA takes, with its set-up and the wait for its end.
///
/// # Errors
/// [`FigureError`](super::FigureError).
pub fn dma_time(model: &Arc<Model>, size: u64) -> Result<Duration> {
    write_time(model, size, |local, _, fabric, remote| {
        let (direction, remote) = (Direction::Write, remote.remote());
        let done = Arc::new(Completion::new());
        let transfer = Transfer { direction, local, remote, offset: 0 };
        // SAFETY: `write_time` keeps the segment, and nobody changes it before the wait has ended.
        unsafe { fabric.post(vec![transfer], &done) }?;
        fabric.wait_for(&done)
    })
}

fn write_time(
    model: &Arc<Model>,
    size: u64,
    write: impl Fn(UserMemory, Rank, &Fabric, &RemoteSegment) -> Result<(), Error>,
) -> Result<Duration> {
    let [first, _] = measure(model, |fabric, peer| {
        let local = fabric.create(SEGMENT, &Backing::Anonymous { length: size })?;
        fabric.back_end().sleep(Duration::from_millis(10));
        let remote = fabric.connect(peer, SEGMENT)?;
        fabric.back_end().sleep(Duration::from_millis(100));
        let begun = fabric.now();
        if fabric.rank() < peer
            && let Some(start) = std::ptr::NonNull::new(local.memory().as_ptr())
        {
            write(UserMemory { start, length: size as usize }, peer, fabric, &remote)?;
        }
        let took = fabric.now().since(begun);
        // The other's segment stays until all has arrived.
        fabric.back_end().sleep(Duration::from_secs(1));
        Ok(took)
    })?;
    Ok(first)
}

/// Half of a remote interrupt's round trip, as in the paper's figure 7.
///
/// # Errors
/// [`FigureError`](super::FigureError).
pub fn interrupt_latency(model: &Arc<Model>) -> Result<Duration> {
    let [first, _] = measure(model, |fabric, peer| {
        let interrupt = Interrupt(0);
        let begun = fabric.now();
        for _ in 0..ROUNDS {
            if fabric.rank() < peer {
                fabric.trigger(peer, interrupt)?;
                fabric.wait_interrupt(interrupt, None)?;
            } else {
                fabric.wait_interrupt(interrupt, None)?;
                fabric.trigger(peer, interrupt)?;
            }
        }
        Ok(fabric.now().since(begun) / (2 * ROUNDS))
    })?;
    Ok(first)
}
