//! The members' memory, and how signals go through it.
//!
//! A member is *near* where its memory is mapped here: then a signal is a store. To others it is a remote write by the
//! job's fabric. A member that has both kinds of others has two segments, one on each fabric, laid out alike; a flag is
//! in the one that its writer reaches.

use svmio_transport::back_end::{Wait, Waited};
use svmio_transport::{
    Fabric, LocalSegment, Rank, RemoteSegment, SegmentId, SharedMemory, Subscription, WriteOrder,
};

use super::bed::Bed;
use super::error::{Error, Result};
use super::flags::{self, Memory, Wanted};
use super::joining::{self, Joined};
use super::network::Fabrics;
use super::patience::{NAP, Patience, PatienceSettings, Polled, with_meanwhile};

/// A word in a member's segment, or the word of this member's that a member writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: usize,
    pub(super) offset: u64,
}

/// How far behind a flag the word is that tells who will not come any more, where one is to be told: the number of that
/// member, from 1 on. A cache line has room for both.
const REFUSAL: u64 = size_of::<u64>() as u64;

/// The members' memory, and how signals go through it.
#[derive(Debug)]
pub(super) struct Ground {
    fabrics: Fabrics,
    members: Vec<Rank>,
    own: usize,
    id: SegmentId,
    /// Which members are near.
    is_near: Vec<bool>,
    near: Option<Near>,
    far: Option<Side>,
    /// What is done while this member waits.
    meanwhile: Option<fn()>,
}

/// This member's segment on a fabric, and those of others.
#[derive(Debug)]
struct Side {
    remote: Vec<Option<RemoteSegment>>,
    local: LocalSegment,
}

/// The side of mapped memory.
#[derive(Debug)]
struct Near {
    side: Side,
    // Wakes this member when a peer is lost, where it sleeps in its own memory.
    _subscription: Subscription,
}

impl Ground {
    /// Joins the ground of `members`: a segment of `length` bytes of each, which begins with its [`Bed`]. Reaches those
    /// at the places that `reached` says. Returns when all have come; to be called within a [`joining::attempt`].
    ///
    /// # Errors
    /// Those of [`joining::join`].
    pub(super) fn join(
        fabrics: &Fabrics,
        members: &[Rank],
        id: SegmentId,
        length: u64,
        reached: impl Fn(usize) -> bool,
    ) -> Result<Self> {
        let own = joining::place_of(fabrics.job().rank(), members, id)?;
        let length = length.max(size_of::<Bed>() as u64);
        let is_near: Vec<bool> = members.iter().map(|&member| fabrics.is_near(member)).collect();
        let has_far = fabrics.mapped().is_none() || is_near.contains(&false);
        let size = members.len();
        let side = |fabric: &Fabric, wants_near: bool| {
            // Where there are both, all members are on the one that is joined last, that of the job.
            let musters = !(wants_near && has_far);
            let wanted = |own, place: usize| {
                is_near[place] == wants_near && reached(place)
                    || musters && joining::is_told(own, place, size)
            };
            let joined = joining::join(fabric, members, id, length, wanted)?;
            if musters {
                joined.muster(fabric, members, id)?;
            }
            let Joined { local, remote, .. } = joined;
            Ok::<_, Error>(Side { remote, local })
        };
        let near = match fabrics.mapped() {
            Some(fabric) => {
                let side = side(fabric, true)?;
                let memory = side.local.memory().clone();
                let rouse = move || memory.bed().rouse();
                Some(Near { side, _subscription: fabric.membership().on_disturbance(rouse) })
            }
            None => None,
        };
        let far = if has_far { Some(side(fabrics.job(), false)?) } else { None };
        Ok(Self {
            fabrics: fabrics.clone(),
            members: members.to_vec(),
            own,
            id,
            is_near,
            near,
            far,
            meanwhile: None,
        })
    }

    /// Has `meanwhile` called again and again while this member waits for longer than a moment.
    pub(super) fn do_meanwhile(&mut self, meanwhile: fn()) {
        self.meanwhile = Some(meanwhile);
    }

    /// How this member waits for those whose memory is mapped. Where others are reached over a network, that takes as
    /// long as many turns of the processor, so they are given away at once: whoever deals with the network may need
    /// this core.
    pub(super) fn patience(&self) -> Patience {
        if self.near.is_none() || self.far.is_none() {
            return Patience::of_process(PatienceSettings::default(), self.fabrics.job());
        }
        let settings = PatienceSettings { vain_yields: u32::MAX, ..PatienceSettings::default() };
        Patience::new(settings, 2, 1)
    }

    /// This member's place.
    pub(super) fn own(&self) -> usize {
        self.own
    }

    /// How many members there are.
    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// Under which id its segments are.
    pub(super) fn id(&self) -> SegmentId {
        self.id
    }

    /// Whether signals between two members are stores into mapped memory.
    pub(super) fn are_near(&self, one: usize, other: usize) -> bool {
        self.fabrics.are_near(self.members[one], self.members[other])
    }

    /// Adds one to a word; returns what it was.
    pub(super) fn count(&self, place: Place) -> Result<u64> {
        if let (Some(near), true) = (&self.near, place.member == self.own) {
            return flags::count(near.side.local.memory(), place.offset);
        }
        Ok(self.reach(place.member)?.fetch_add(place.offset, 1)?)
    }

    /// Writes the generation into flags.
    pub(super) fn signal(&self, places: &[Place], generation: u64) -> Result<()> {
        if self.near.is_some() {
            self.store(places, generation)?;
        }
        if self.far.is_some() { self.write(places, generation) } else { Ok(()) }
    }

    /// Writes `payload` in front of a flag, and the generation into the flag, which never comes before it.
    pub(super) fn send(&self, payload: &[u8], flag: Place, generation: u64) -> Result<()> {
        let offset = flag.offset - payload.len() as u64;
        if self.maps(flag.member) {
            self.mapped(flag.member)?.write(offset, payload)?;
            return self.store(&[flag], generation);
        }
        let remote = self.reach(flag.member)?;
        let (peer, fabric) = (self.members[flag.member], self.fabrics.job());
        if fabric.capabilities().is_reliable && fabric.capabilities().ordering == WriteOrder::Issued {
            let parts = [payload, &generation.to_ne_bytes()];
            return self.transfer(flag.member, || remote.write_gathered(offset, &parts));
        }
        // A part of it may be late, or be lost until it is repeated.
        fabric.write_checked(peer, || remote.write(offset, payload))?;
        self.write(&[flag], generation)
    }

    /// Reads this member's own memory, where a member has written.
    pub(super) fn read_own(&self, writer: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.written_by(writer)?.read(offset, into)?)
    }

    /// Whether a member's memory is mapped here.
    fn maps(&self, member: usize) -> bool {
        self.is_near[member] && self.near.is_some()
    }

    /// Signals by stores into mapped memory.
    fn store(&self, places: &[Place], generation: u64) -> Result<()> {
        let near = places.iter().filter(|place| self.is_near[place.member]);
        flags::signal(near.map(|place| Ok((self.mapped(place.member)?, place.offset))), generation)
    }

    /// Signals by remote writes, checked where the fabric may lose some.
    fn write(&self, places: &[Place], generation: u64) -> Result<()> {
        let flag = generation.to_ne_bytes();
        places.iter().filter(|place| !self.maps(place.member)).try_for_each(|place| {
            let remote = self.reach(place.member)?;
            self.transfer(place.member, || remote.write(place.offset, &flag))
        })
    }

    fn transfer(&self, member: usize, mut write: impl FnMut() -> svmio_transport::Result<()>) -> Result<()> {
        let (peer, fabric) = (self.members[member], self.fabrics.job());
        if fabric.capabilities().is_reliable {
            write()?;
        } else {
            fabric.write_checked(peer, write)?;
        }
        Ok(fabric.ring(peer)?)
    }

    /// Returns when these flags of this member's, each written by the member that it names, have come to the
    /// generation, or others are told by them that [a member leaves](Self::refuse).
    ///
    /// # Errors
    /// [`Error::Refused`] where one did; those of [`await_all`](Self::await_all).
    pub(super) fn await_flags_or_refusal(
        &self,
        flags: &[Place],
        generation: u64,
        patience: &mut Patience,
    ) -> Result<()> {
        self.await_all(flags, Wanted { generation, or_beside: Some(REFUSAL) }, patience)?;
        // Who has come and left since has come.
        match flags.iter().find(|flag| self.word(**flag) < generation) {
            None => Ok(()),
            Some(flag) => Err(Error::has_left(self.refusal(*flag).unwrap_or(0))),
        }
    }

    /// Because of whom the one will not come any more who is to write this flag of this member's, where it has
    /// [said so](Self::refuse).
    pub(super) fn refusal(&self, flag: Place) -> Option<usize> {
        let told = self.word(Place { offset: flag.offset + REFUSAL, ..flag });
        (told as usize).checked_sub(1)
    }

    /// Has those hear who await these flags that this member will not come any more, because of `member`.
    pub(super) fn refuse(&self, flags: impl Iterator<Item = Place>, member: usize) {
        for flag in flags {
            let refusal = Place { offset: flag.offset + REFUSAL, ..flag };
            // Who cannot be reached is lost, or hears of it from others.
            let _ = self.signal(&[refusal], member as u64 + 1);
        }
    }

    /// Returns when what is wanted of each of these flags of this member's has come.
    pub(super) fn await_all(&self, flags: &[Place], wanted: Wanted, patience: &mut Patience) -> Result<()> {
        if let Some(far) = &self.far {
            let is_far = |flag: &Place| !self.maps(flag.member);
            if flags.iter().any(is_far) {
                self.wait_on_fabric(flags::all_come(far.local.memory(), flags, is_far, wanted))?;
            }
        }
        let Some(near) = &self.near else { return Ok(()) };
        let memory = near.side.local.memory();
        let mut all_came = flags::all_come(memory, flags, |flag| self.is_near[flag.member], wanted);
        if patience.glance(&mut all_came) || patience.give_turns(&mut all_came) {
            return Ok(());
        }
        let every = patience.polls_of_microseconds();
        if patience.poll(with_meanwhile(&mut all_came, self.meanwhile, every)) == Polled::Ready {
            return Ok(());
        }
        flags::doze(memory, self.meanwhile.map(|_| NAP), all_came, || {
            if let Some(meanwhile) = self.meanwhile {
                meanwhile();
            }
            self.check_members()
        })
    }

    /// What is in a word of this member's; 0 where there is none.
    pub(super) fn word(&self, place: Place) -> u64 {
        self.written_by(place.member).and_then(|memory| flags::word(memory, place.offset)).unwrap_or(0)
    }

    /// Waits as the fabric does: in its time, by its own means.
    fn wait_on_fabric(&self, mut all_came: impl FnMut() -> bool) -> Result<()> {
        let fabric = self.fabrics.job();
        loop {
            let mut done = None;
            let mut ready = || {
                if all_came() {
                    done = Some(Ok(()));
                } else if let Err(error) = self.check_members() {
                    done = Some(Err(error));
                }
                done.is_some()
            };
            let deadline = self.meanwhile.map(|_| fabric.now().after(NAP));
            let waited = fabric.wait_until(Wait { deadline, attends: None, ready: &mut ready });
            match (done, self.meanwhile) {
                (Some(done), _) => return done,
                (None, Some(meanwhile)) if waited == Waited::TimedOut => {
                    // Of a fabric that was closed, the members' check tells.
                    self.check_members()?;
                    meanwhile();
                }
                // It ends otherwise only where the fabric was closed.
                (None, _) => return self.check_members(),
            }
        }
    }

    /// Any of them: one that is not lost itself may wait for one that is, and leave with an error.
    fn check_members(&self) -> Result<()> {
        let membership = self.fabrics.job().membership();
        Ok(self.members.iter().try_for_each(|&member| membership.check(member))?)
    }

    fn reach(&self, member: usize) -> Result<&RemoteSegment> {
        let side =
            if self.maps(member) { self.near.as_ref().map(|near| &near.side) } else { self.far.as_ref() };
        side.and_then(|side| side.remote[member].as_ref()).ok_or_else(|| self.not_connected())
    }

    fn mapped(&self, member: usize) -> Result<&SharedMemory> {
        self.reach(member)?.mapping().ok_or_else(|| self.not_connected())
    }

    /// This member's memory as another one reaches it.
    fn written_by(&self, member: usize) -> Result<&SharedMemory> {
        let side =
            if self.maps(member) { self.near.as_ref().map(|near| &near.side) } else { self.far.as_ref() };
        side.map(|side| side.local.memory()).ok_or_else(|| self.not_connected())
    }

    fn not_connected(&self) -> Error {
        Error::NotMapped { back_end: self.fabrics.job().capabilities().back_end.clone() }
    }
}
