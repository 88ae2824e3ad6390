//! Transfers that were handed over: chains, carried out part by part as earlier parts arrive.

use std::collections::{HashSet, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::adapter::{Adapter, Token, closed};
use super::attendant::Task;
use super::endpoint::{Endpoint, Part, Posted};
use super::groups::{SCRATCH, Scratch};
use super::sources::Source;
use crate::dma::{Completion, Direction, Transfer};
use crate::error::{Error, Result};
use crate::membership::Membership;
use crate::memory::UserMemory;
use crate::stopwatch::Stopwatch;
use crate::units::Rank;

use self::steps::{Step, may_overlap};

mod steps;

/// All chains that have not ended.
#[derive(Default)]
pub(super) struct Chains {
    active: Mutex<Vec<Arc<Chain>>>,
    /// Those that found no room in the provider's queues.
    stalled: Mutex<VecDeque<Arc<Chain>>>,
    stalled_count: AtomicUsize,
    /// Those that have failed, but of which the provider still holds parts.
    abandoned: Mutex<Vec<(Arc<Chain>, Instant)>>,
    abandoned_count: AtomicUsize,
}

/// Transfers to be carried out in order.
pub(super) struct Chain {
    steps: Vec<Step>,
    done: Arc<Completion>,
    progress: Mutex<Progress>,
}

/// What a part moves through a buffer of ours.
pub(super) struct Passage {
    scratch: Scratch,
    /// Where it goes from there when it was read.
    into: Option<UserMemory>,
}

#[derive(Default)]
struct Progress {
    step: usize,
    posted: usize,
    in_flight: usize,
    is_stalled: bool,
    /// Whether the rest of this step's bytes is copied first: the provider finds the memory unfit that they are in.
    is_copied: bool,
    /// For how long this process has lacked what it takes to reach a peer, since the last part left.
    lacking: Option<Stopwatch>,
    /// Whether it did so at the last part that did not leave.
    is_lacking: bool,
    has_ended: bool,
    /// Whether the provider's parts of it are waited for only so long.
    is_abandoned: bool,
    error: Option<Error>,
}

impl Chains {
    /// Whether some wait for room, or for a lost peer's grace to pass.
    pub(super) fn needs_attention(&self) -> bool {
        self.stalled_count.load(Ordering::Relaxed) > 0 || self.abandoned_count.load(Ordering::Relaxed) > 0
    }

    /// With whom parts are under way, or wait for room.
    pub(super) fn expected(&self) -> HashSet<Rank> {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner).clone();
        active.iter().filter_map(|chain| chain.expects(&chain.progress())).collect()
    }

    /// Fails the chains to lost peers. They end when the provider has let go of their parts, or at `deadline`.
    pub(super) fn fail_lost(&self, membership: &Membership, deadline: Instant) {
        let active = self.active.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for chain in active {
            let lost = chain.steps.iter().find_map(|step| membership.check(step.owner).err());
            let Some(error) = lost else { continue };
            let mut progress = chain.progress();
            // Whoever goes on with a chain may have found the peer lost before.
            progress.error.get_or_insert(error);
            let is_listed = std::mem::replace(&mut progress.is_abandoned, true);
            let has_ended = progress.has_ended;
            drop(progress);
            if !is_listed && !has_ended {
                let mut abandoned = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
                abandoned.push((chain, deadline));
                self.abandoned_count.store(abandoned.len(), Ordering::Relaxed);
            }
        }
    }

    fn forget(&self, chain: &Arc<Chain>) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.retain(|other| !Arc::ptr_eq(other, chain));
    }

    fn stall(&self, chain: &Arc<Chain>) {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).push_back(Arc::clone(chain));
        self.stalled_count.fetch_add(1, Ordering::Relaxed);
    }
}

impl Chain {
    /// With whom parts are under way, or wait for room.
    fn expects(&self, progress: &Progress) -> Option<Rank> {
        // The parts of one step end before the next begins, but where both are with one peer.
        let is_ending = progress.in_flight > 0 && progress.posted == 0;
        let step = if is_ending { progress.step.saturating_sub(1) } else { progress.step };
        let lacks = progress.is_lacking && progress.in_flight == 0;
        self.steps.get(step).filter(|_| !lacks).map(|step| step.owner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Takes note of whether this process lacks what the next part takes; returns for how long it has.
    fn note(&mut self, is_lacking: bool) -> Duration {
        self.is_lacking = is_lacking;
        if !is_lacking && self.lacking.is_none() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        // What takes no part for want of room is no shortage, nor the end of one.
        self.lacking.get_or_insert_with(|| Stopwatch::new(now)).look_if(now, is_lacking)
    }
}

impl Adapter {
    /// Takes a chain over and begins with it.
    ///
    /// # Safety
    /// As for [`BackEnd::post`](crate::back_end::BackEnd::post).
    ///
    /// # Errors
    /// `OutOfBounds`, `PeerLost`, `Ending`, `Provider`.
    pub(super) unsafe fn post_chain(&self, transfers: Vec<Transfer>, done: Arc<Completion>) -> Result<()> {
        let mut steps = Vec::with_capacity(transfers.len());
        for Transfer { direction, local, remote, offset } in transfers {
            let target = self.resolve(&remote, offset, local.length)?;
            self.peer(target.owner)?;
            if local.length == 0 {
                continue;
            }
            // What is read comes in by buffers of ours; what stays within this process is copied.
            let leaves = direction == Direction::Write && target.owner != self.rank();
            steps.push(Step {
                direction,
                local,
                source: if leaves { self.source(local)? } else { Source::Plain },
                owner: target.owner,
                key: target.memory.key,
                base: target.memory.base,
                offset,
            });
        }
        let chain = Arc::new(Chain { steps, done, progress: Mutex::default() });
        self.with_endpoint(|endpoint| {
            self.chains.active.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&chain));
            self.advance(endpoint, &chain);
            Ok(())
        })
    }

    /// Posts as many parts of a chain as may be under way; ends it when all have arrived.
    pub(super) fn advance(&self, endpoint: &Endpoint<Token>, chain: &Arc<Chain>) {
        let mut progress = chain.progress();
        while !progress.has_ended && progress.error.is_none() {
            let Some(step) = chain.steps.get(progress.step) else { break };
            if progress.posted == step.local.length {
                progress.step += 1;
                progress.posted = 0;
                progress.is_copied = false;
                continue;
            }
            if progress.in_flight >= self.settings.transfers_in_flight || !self.may_begin(chain, &progress) {
                return;
            }
            if step.owner == self.rank() {
                if !self.attendant.is_this_thread() {
                    self.leave(Task::Advance(Arc::clone(chain)));
                    return;
                }
                let length = self.copy_here(step, progress.posted);
                match length {
                    Ok(length) => progress.posted += length,
                    Err(error) => progress.error = Some(error),
                }
                continue;
            }
            let posted = self.post_next(endpoint, chain, step, &progress);
            let lacked = progress.note(matches!(posted, Ok((Posted::Short(_), _))));
            match posted {
                Ok((Posted::Yes, length)) => {
                    progress.posted += length;
                    progress.in_flight += 1;
                    progress.lacking = None;
                }
                Ok((Posted::Short(code), _)) if lacked >= self.settings.answer_limit() => {
                    progress.error = Some(self.short(step.owner, code));
                }
                Ok((Posted::Unfit(_), _)) if step.direction == Direction::Write && !progress.is_copied => {
                    progress.is_copied = true;
                }
                Ok((Posted::Unfit(code), _)) => progress.error = Some(self.unfit(step.owner, code)),
                Ok((Posted::Busy | Posted::Short(_), _)) => {
                    if !std::mem::replace(&mut progress.is_stalled, true) {
                        self.chains.stall(chain);
                    }
                    return;
                }
                Err(error) => progress.error = Some(error),
            }
        }
        self.end_if_over(chain, progress);
    }

    /// Whether the next part may be posted: within a step always; the next step waits for all before it, unless both
    /// are writes to one peer in parts of which the network keeps the order.
    fn may_begin(&self, chain: &Chain, progress: &Progress) -> bool {
        if progress.posted > 0 || progress.in_flight == 0 || progress.step == 0 {
            return true;
        }
        let [before, next] = &chain.steps[progress.step - 1..=progress.step] else { return true };
        let longest_part = self.settings.transfer_bytes;
        may_overlap(before.posts(longest_part), next.posts(longest_part), self.orders_writes_below)
    }

    fn post_next(
        &self,
        endpoint: &Endpoint<Token>,
        chain: &Arc<Chain>,
        step: &Step,
        progress: &Progress,
    ) -> Result<(Posted, usize)> {
        let (longest, from) = (self.settings.transfer_bytes, progress.posted);
        let mut local = step.local.part(from, longest);
        let mut passage = None;
        let is_direct = step.direction == Direction::Write && !progress.is_copied;
        let direct = step.source.descriptor().filter(|_| is_direct);
        let descriptor = if let Some(descriptor) = direct {
            descriptor
        } else {
            let mut scratch = match self.take_scratch(endpoint) {
                // What is under way gives some back.
                Err(Error::Memory { .. }) => return Ok((Posted::Short(libc::ENOMEM), 0)),
                scratch => scratch?,
            };
            let ours = step.local.part(from, longest.min(SCRATCH));
            local = scratch.memory(ours.length);
            let descriptor = scratch.descriptor();
            let is_read = step.direction == Direction::Read;
            if !is_read {
                // SAFETY: whoever posted the chain keeps the memory valid and unchanged until its end.
                scratch.fill(unsafe { std::slice::from_raw_parts(ours.start.as_ptr(), ours.length) });
            }
            passage = Some(Passage { scratch, into: is_read.then_some(ours) });
            descriptor
        };
        let part = Part {
            direction: step.direction,
            local,
            descriptor,
            key: step.key,
            address: step.base.wrapping_add(step.offset).wrapping_add(from as u64),
        };
        let peer = self.peer(step.owner)?;
        let token = Token::Posted(Arc::clone(chain), step.owner, passage);
        // SAFETY: what is written stays as long as the chain has not ended, as whoever posted it promised; a provider
        // that holds on to it longer only reads it. What passes through a buffer has that in the token.
        let posted = unsafe { self.transfer(endpoint, peer, &part, token) }?;
        Ok((posted, local.length))
    }

    /// Copies one part within this process.
    fn copy_here(&self, step: &Step, from: usize) -> Result<usize> {
        let local = step.local.part(from, self.settings.transfer_bytes);
        let offset = step.offset + from as u64;
        let place = step.base.wrapping_add(offset);
        let copied =
            self.exports.with(step.key, |memory| {
                // SAFETY: whoever posted the chain keeps the memory valid, unchanged for writes and untouched for reads,
                // until its end.
                unsafe {
                    match step.direction {
                        Direction::Write => memory
                            .write(place, std::slice::from_raw_parts(local.start.as_ptr(), local.length)),
                        Direction::Read => memory
                            .read(place, std::slice::from_raw_parts_mut(local.start.as_ptr(), local.length)),
                    }
                }
            });
        match copied {
            Some(true) => Ok(local.length),
            _ => Err(super::receiving::refused(step.owner, offset, local.length as u64)),
        }
    }

    /// A part from or to `peer` has arrived, or failed. By then, the chain may be at a step of another peer.
    pub(super) fn finish_part(
        &self,
        endpoint: &Endpoint<Token>,
        chain: &Arc<Chain>,
        peer: Rank,
        outcome: Result<Option<Passage>>,
    ) {
        let mut progress = chain.progress();
        progress.in_flight -= 1;
        match outcome {
            Ok(passage) => {
                let into = passage.as_ref().and_then(|passage| passage.into);
                if let Some(peer) = self.peers.get(peer.index())
                    && into.is_none()
                {
                    peer.has_landed.store(true, Ordering::Release);
                }
                if let Some(Passage { scratch, .. }) = passage {
                    if let Some(into) = into.filter(|_| !progress.has_ended) {
                        let read = NonNull::from(scratch.bytes()).cast();
                        // SAFETY: valid until the chain has ended, which it cannot while its progress is held.
                        unsafe { into.start.copy_from_nonoverlapping(read, into.length) };
                    }
                    self.keep_scratch(scratch);
                }
            }
            Err(error) if progress.error.is_none() => {
                // That the peer is lost says more than what the provider made of it.
                progress.error = Some(self.membership.check(peer).err().unwrap_or(error));
            }
            Err(_) => {}
        }
        drop(progress);
        self.advance(endpoint, chain);
    }

    /// Goes on with those that found no room before.
    pub(super) fn advance_stalled(&self, endpoint: &Endpoint<Token>) {
        if self.chains.stalled_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let stalled =
            std::mem::take(&mut *self.chains.stalled.lock().unwrap_or_else(PoisonError::into_inner));
        self.chains.stalled_count.fetch_sub(stalled.len(), Ordering::Relaxed);
        for chain in stalled {
            chain.progress().is_stalled = false;
            self.advance(endpoint, &chain);
        }
    }

    /// Ends the chains that failed, as soon as the provider holds nothing of them, or it has had its time.
    pub(super) fn end_abandoned_chains(&self, now: Instant) {
        if self.chains.abandoned_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut abandoned = self.chains.abandoned.lock().unwrap_or_else(PoisonError::into_inner);
        abandoned.retain(|(chain, deadline)| {
            let mut progress = chain.progress();
            if now >= *deadline && progress.in_flight > 0 && !progress.has_ended {
                tracing::warn!(
                    parts = progress.in_flight,
                    "the provider holds on to transfers to a lost peer"
                );
                self.end(chain, &mut progress);
                return false;
            }
            self.end_if_over(chain, progress)
        });
        self.chains.abandoned_count.store(abandoned.len(), Ordering::Relaxed);
    }

    /// Ends all chains; the provider holds nothing any more.
    pub(super) fn end_all_chains(&self) {
        let active = self.chains.active.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for chain in active {
            let mut progress = chain.progress();
            progress.error.get_or_insert_with(closed);
            let result = self.take_end(&chain, &mut progress);
            drop(progress);
            if let Some(result) = result {
                chain.done.finish(result);
            }
        }
        self.waiters.look_again();
    }

    /// Ends a chain whose last part has arrived, or that failed and has no part under way. Returns whether it goes on.
    fn end_if_over(&self, chain: &Arc<Chain>, mut progress: MutexGuard<'_, Progress>) -> bool {
        let is_over = progress.error.is_some() || progress.step == chain.steps.len();
        if is_over && progress.in_flight == 0 {
            self.end(chain, &mut progress);
        }
        !progress.has_ended
    }

    fn end(&self, chain: &Arc<Chain>, progress: &mut Progress) {
        let Some(result) = self.take_end(chain, progress) else { return };
        let done = Arc::clone(&chain.done);
        if done.calls_back() {
            // The program is called by a thread that holds nothing of ours.
            self.leave(Task::Finish { done, result });
        } else {
            done.finish(result);
            self.waiters.look_again();
        }
    }

    /// Marks a chain as ended; returns with which result, the first time.
    fn take_end(&self, chain: &Arc<Chain>, progress: &mut Progress) -> Option<Result<()>> {
        if std::mem::replace(&mut progress.has_ended, true) {
            return None;
        }
        self.chains.forget(chain);
        Some(progress.error.clone().map_or(Ok(()), Err))
    }
}
