//! A barrier that is measured while it is in use, and changed for another where that pays.
//!
//! ```text
//!   wait ─► the barrier in use ─► every so often a burst of further ones, timed ─► window ─► council: agreed cost
//!                                                                                              │ drift? budget?
//!   the old one stays ◄── none is cheaper ── trial: bursts of old and new ◄── tune ◄── survey ◄┘
//!   the new one is in use ◄── one is ──┘                                            all members together
//! ```
//!
//! J. C. Meyer and A. C. Elster, "Optimized Barriers for Heterogeneous Systems Using MPI", section VIII, leave this
//! to future work, and name what is hard about it: local observations have to be communicated, and changing has to
//! pay.
//!
//! **What is measured.** A single wait tells little: it is as long as the last rank is late, which no member knows.
//! So after every so many barriers each member goes through a short burst of further ones. They begin together,
//! because they follow a barrier, and nobody does anything between them; that is what predictions are for, too. The
//! median of some bursts is left alone by a rank that is late or has to share its core now and then, and a drift has
//! to show in several windows in a row.
//!
//! **Who decides.** All members, by the same rule from the same numbers: each number that a decision depends on is
//! agreed upon in a council first, which takes the least that any member has measured. A burst lies between two
//! barriers, so what is slow is slow for all; what only one member has seen is not the barrier's.
//!
//! **What is decided.** What is predicted to be cheap is tried beside the barrier in use, in turns, and only what was
//! measured to be cheaper replaces it. Its measured cost is what is expected from then on. So a model that is wrong
//! for this machine costs time, which is [limited](RetuningSettings::share), but makes no barrier worse.
//!
//! **Changing.** A new barrier has memory of its own, beside that of the old one. Members take it into use after a
//! council that follows the old one's last round: nobody leaves a council before all have come to it, and who has
//! come has left the old barrier. So all have left the old one's last round before any enters the new one's first,
//! and no signal of the old one is under way. Where a member cannot join a new barrier, the council tells all, and
//! all keep the old one.
//!
//! **Failing.** Who meets an error of its own in any of this tells all who may wait for it, in the barriers, in the
//! council and where signals are measured, and who hears of it tells it on: so for all members the call ends with an
//! error.

mod budget;
mod concerted;
mod council;
mod drift;
mod settings;
mod trial;

use svmio_transport::{Rank, SegmentId, Time};

use super::barrier::Barrier;
use super::error::{Error, Result};
use super::joining;
use super::measuring::pairs::{nanoseconds, rounds};
use super::network::Fabrics;
use crate::schedule::Schedule;
use budget::Budget;
use council::{Council, Waiting};
use drift::{Drift, Window};
pub use settings::RetuningSettings;

/// What a [`TunedBarrier`] begins with: the same for all members.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// The first schedule, which [is a barrier](Schedule::is_barrier).
    pub schedule: Schedule,
    /// What it is predicted to cost, in nanoseconds.
    pub predicted: f64,
    /// How it is watched.
    pub settings: RetuningSettings,
}

/// What has happened to a [`TunedBarrier`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Retunings {
    /// What a barrier cost in the last window, as all members have agreed, in nanoseconds.
    pub cost: Option<f64>,
    /// How often it was tuned again.
    pub attempts: u64,
    /// How often another barrier was taken into use.
    pub switches: u64,
    /// How often something could not be built, so that the old one was kept or there was less to choose from.
    pub failures: u64,
}

/// A barrier of some processes that is measured in use, as one of them holds it. Most waits cost what the barrier in
/// use costs; after every [so many](RetuningSettings::every) there are a few barriers more, and when it is tuned
/// again, which all members do in the same call, that one takes as long as the survey of the machine. After an error
/// it is of no more use.
#[derive(Debug)]
pub struct TunedBarrier {
    fabrics: Fabrics,
    members: Vec<Rank>,
    /// The first of its segments.
    first: SegmentId,
    /// Which of them comes next.
    next: u32,
    /// Which the barrier in use has.
    in_use: u32,
    settings: RetuningSettings,
    schedule: Schedule,
    barrier: Barrier,
    council: Council,
    window: Window,
    drift: Drift,
    budget: Budget,
    joined: Time,
    /// How many signals a survey of the machine takes: as many as the last one did, at first the most that it can.
    survey_signals: f64,
    /// After how many barriers the next burst comes; none for a member alone, who has nothing to measure.
    until_burst: Option<u64>,
    retunings: Retunings,
    has_left: bool,
    /// What is done again and again while this member waits.
    meanwhile: Option<fn()>,
}

/// A barrier beside the one in use, and which segment it has.
struct Built {
    barrier: Barrier,
    segment: u32,
}

impl TunedBarrier {
    /// How many segments it has: the ids from its first one on.
    pub const SEGMENTS: u32 = 1024;

    /// Joins the barrier of `members`. All call this with the same ones in the same order, the same `tuning`, and the
    /// `first` of [`SEGMENTS`](Self::SEGMENTS) ids that none of them uses for anything else.
    ///
    /// # Errors
    /// [`Error::Members`], also where the schedule is for another number of ranks, the settings make no sense, or
    /// those of the members differ; [`Error::NotJoined`] where another member fails; the fabric's.
    pub fn join(fabrics: &Fabrics, members: &[Rank], first: SegmentId, tuning: Tuning) -> Result<Self> {
        joining::attempt(fabrics, first, || Self::join_all(fabrics, members, first, tuning))
    }

    fn join_all(fabrics: &Fabrics, members: &[Rank], first: SegmentId, tuning: Tuning) -> Result<Self> {
        let Tuning { schedule, predicted, settings } = tuning;
        let misfit = |problem: &str| Error::Members { id: first, problem: problem.to_owned() };
        if let Some(problem) = settings.problem() {
            return Err(misfit(problem));
        }
        let mut council = Council::join(fabrics, members, first)?;
        let fingerprint = f64::from(settings.fingerprint());
        let [predicted, largest, least, _] =
            council.largest([predicted, fingerprint, -fingerprint, 0.0], Waiting::Awake)?;
        if largest > -least {
            return Err(misfit("the members' settings for tuning differ"));
        }
        let barrier = Barrier::join_across(fabrics, members, numbered(first, 1), &schedule)?;
        Ok(Self {
            window: Window::new(settings.window),
            drift: Drift::new(predicted, settings.factor, settings.windows),
            budget: Budget::new(settings.share),
            until_burst: (members.len() > 1).then_some(settings.every),
            joined: fabrics.job().now(),
            survey_signals: signals_of_survey(fabrics, members, &settings),
            fabrics: fabrics.clone(),
            members: members.to_vec(),
            first,
            next: 2,
            in_use: 1,
            meanwhile: None,
            has_left: false,
            settings,
            schedule,
            barrier,
            council,
            retunings: Retunings::default(),
        })
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The schedule in use.
    #[must_use]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What has happened so far: the same for all members after the same number of calls.
    #[must_use]
    pub fn retunings(&self) -> Retunings {
        self.retunings
    }

    /// Has `meanwhile` called again and again while this member waits for others to come, as
    /// [`Group::do_meanwhile`](super::Group::do_meanwhile) has it.
    pub fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
        self.barrier.do_meanwhile(meanwhile);
    }

    /// Has the others hear that this member will not come any more.
    pub(crate) fn refuse(&mut self) {
        self.leave(self.council.own());
    }

    /// Has the others hear that this member will not come any more, because of `member`. Nothing is told twice: the
    /// first reason counts.
    fn leave(&mut self, member: usize) {
        if !std::mem::replace(&mut self.has_left, true) {
            self.barrier.refuse_for(member);
            self.council.leave(member);
            // Who is a council ahead may wait for this member where the next barrier is joined.
            let next = numbered(self.first, self.next);
            let _ = joining::attempt(&self.fabrics, next, || Err::<(), _>(Error::has_left(member)));
        }
    }

    /// Has this member leave where `body` fails.
    #[inline]
    fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let done = body(self);
        if let Err(error) = &done
            && let Some(member) = error.who_leaves(self.council.own())
        {
            self.leave(member);
        }
        done
    }

    /// Returns when all members have come.
    ///
    /// # Errors
    /// [`Error::Refused`] where another member has met an error, or left; the fabric's, for a lost member above all.
    pub fn wait(&mut self) -> Result<()> {
        self.attempt(|barrier| {
            barrier.barrier.wait()?;
            match &mut barrier.until_burst {
                None => Ok(()),
                Some(1) => barrier.look(),
                Some(left) => {
                    *left -= 1;
                    Ok(())
                }
            }
        })
    }

    /// Tunes again, whatever the barrier costs; tells whether another one is in use from now on. All members call
    /// this at the same point, as a barrier.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn retune(&mut self) -> Result<bool> {
        self.attempt(Self::retune_together)
    }

    fn retune_together(&mut self) -> Result<bool> {
        let begun = self.elapsed();
        let has_switched = self.tune_again()?;
        let elapsed = self.elapsed();
        let [spent, elapsed, ..] =
            self.council.largest([elapsed - begun, elapsed, 0.0, 0.0], Waiting::Awake)?;
        self.budget.charge(spent, elapsed, has_switched);
        self.retunings.attempts += 1;
        Ok(has_switched)
    }

    /// Takes the barrier of another schedule into use, which is predicted to cost so many nanoseconds; tells whether
    /// all members could join it. Otherwise they keep the old one. All call this at the same point with the same
    /// arguments, as a barrier.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn switch(&mut self, schedule: &Schedule, predicted: f64) -> Result<bool> {
        self.attempt(|barrier| {
            let Some(built) = barrier.built(schedule)? else { return Ok(false) };
            let met = barrier.council.largest([predicted, 0.0, 0.0, 0.0], Waiting::Awake);
            let [predicted, ..] = barrier.telling(met, |member| built.barrier.refuse_for(member))?;
            barrier.take(schedule.clone(), built);
            barrier.expect(predicted);
            Ok(true)
        })
    }

    /// Measures a burst, and comes to a conclusion when it ends a window.
    fn look(&mut self) -> Result<()> {
        self.until_burst = Some(self.settings.every);
        let burst = timed(&mut self.barrier, &self.fabrics, self.settings.burst)?;
        let Some(cost) = self.window.push(burst) else { return Ok(()) };
        let [least, elapsed, ..] = self.council.largest([-cost, self.elapsed(), 0.0, 0.0], Waiting::Awake)?;
        let cost = -least;
        self.retunings.cost = Some(cost);
        if self.drift.observe(cost) && self.budget.allows(self.planned(cost), elapsed) {
            self.retune_together()?;
        }
        Ok(())
    }

    /// A barrier beside the one in use; none where a member could not join it.
    fn built(&mut self, schedule: &Schedule) -> Result<Option<Built>> {
        let segment = self.next_segment();
        let id = numbered(self.first, segment);
        let joined = Barrier::join_across(&self.fabrics, &self.members, id, schedule);
        let joined = self.all_have(joined, |barrier, member| barrier.refuse_for(member))?;
        Ok(joined.map(|barrier| Built { barrier, segment }))
    }

    /// What this member has joined, if all members could. Who uses it already hears by `leave` of a member because of
    /// which this one does not come to it.
    fn all_have<T>(&mut self, joined: Result<T>, leave: impl FnOnce(&T, usize)) -> Result<Option<T>> {
        let joined = match joined {
            Err(Error::Fabric(error)) if error.lost_peer().is_some() => return Err(error.into()),
            joined => joined.ok(),
        };
        let failed = f64::from(u8::from(joined.is_none()));
        let met = self.council.largest([failed, 0.0, 0.0, 0.0], Waiting::Asleep);
        let [failed, ..] = self.telling(met, |member| {
            if let Some(joined) = &joined {
                leave(joined, member);
            }
        })?;
        if failed > 0.0 {
            self.retunings.failures += 1;
            return Ok(None);
        }
        Ok(joined)
    }

    /// What a council has come to. Where this member does not come to its end, it has others hear by `leave` because of
    /// whom: they may have, and be where that council leads.
    fn telling<T>(&self, met: Result<T>, leave: impl FnOnce(usize)) -> Result<T> {
        met.inspect_err(|error| {
            if let Some(member) = error.who_leaves(self.council.own()) {
                leave(member);
            }
        })
    }

    /// To be called after a council that has followed the old barrier's last round.
    fn take(&mut self, schedule: Schedule, built: Built) {
        (self.schedule, self.barrier, self.in_use) = (schedule, built.barrier, built.segment);
        if let Some(meanwhile) = self.meanwhile {
            self.barrier.do_meanwhile(meanwhile);
        }
        self.retunings.switches += 1;
    }

    fn expect(&mut self, cost: f64) {
        self.drift.expect(cost);
        self.window.clear();
    }

    /// A segment that was not used for long: others may still have a former one in place of its successor otherwise.
    /// Since it was, all have left hundreds of councils.
    fn next_segment(&mut self) -> u32 {
        let segment = self.next;
        let after = |segment: u32| if segment + 1 < Self::SEGMENTS { segment + 1 } else { 1 };
        self.next = after(segment);
        if self.next == self.in_use {
            self.next = after(self.next);
        }
        segment
    }

    /// What tuning again is likely to take, in nanoseconds, where a barrier takes `cost`: one signal takes no longer
    /// than a step of it.
    fn planned(&self, cost: f64) -> f64 {
        let signal = cost / self.schedule.steps().len().max(1) as f64;
        let barriers = f64::from(self.settings.window) * (f64::from(self.settings.burst) + 1.0);
        self.survey_signals * signal + (2.0 * self.settings.candidates as f64 + 1.0) * barriers * cost
    }

    /// Nanoseconds since this member has joined.
    fn elapsed(&self) -> f64 {
        nanoseconds(self.fabrics.job().now().since(self.joined))
    }
}

/// One of its segments.
fn numbered(first: SegmentId, segment: u32) -> SegmentId {
    SegmentId::new(first.space, first.number + segment)
}

/// How many signals are sent one after the other in a survey of the members, if no pair looks like another one.
fn signals_of_survey(fabrics: &Fabrics, members: &[Rank], settings: &RetuningSettings) -> f64 {
    let each = f64::from(settings.measurements()) * (f64::from(settings.survey.repetitions) + 1.0) * 2.0;
    let mut signals = 0.0;
    for (place, &one) in members.iter().enumerate() {
        for &other in &members[..place] {
            signals += each * rounds(fabrics.are_near(one, other)) as f64;
        }
    }
    signals
}

/// What a barrier takes, in nanoseconds, in a burst of so many. All begin together: after one more.
fn timed(barrier: &mut Barrier, fabrics: &Fabrics, count: u32) -> Result<f64> {
    barrier.wait()?;
    let begun = fabrics.job().now();
    (0..count).try_for_each(|_| barrier.wait())?;
    Ok(nanoseconds(fabrics.job().now().since(begun)) / f64::from(count))
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests;
