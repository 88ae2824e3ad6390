//! The collectives that XHC's design has within a node, to stand beside svmio's (G. Katevenis, M. Ploumidis and
//! M. Marazakis, "A framework for hierarchical single-copy MPI collectives on multicore nodes").
//!
//! XHC is a component of Open MPI that no release has yet. Its design, on processors that have all cores at the same
//! distance, where its hierarchy has one level: each flag has one writer and a cache line of its own, and holds numbers
//! that only grow. Members tell the leader that they have come, with what they bring, and the leader tells all of them by
//! one flag that they may go on, with the result. Long data each member copies for itself, straight from the root's
//! memory, and says so. Who waits looks at the flag, and gives its core away in between.
//!
//! It is short: there are no checks of arguments, nobody sleeps, a death is noticed by who has waited for long, and the
//! root of data is the leader. Data is read as svmio's fabric reads it, by the kernel; XHC prefers XPMEM, a module that
//! few kernels have.

use std::sync::atomic::{AtomicU64, Ordering};

use svmio_collectives::executor::{Elementwise, Group};
use svmio_transport::back_end::{Backing, MemoryKey, Place, Remote};
use svmio_transport::{
    Fabric, LocalSegment, Rank, Registration, RemoteSegment, SegmentId, SharedMemory, UserMemory,
};

/// Of a space that nobody else in these processes uses.
const ID: SegmentId = SegmentId::new(0x7868_6321, 0);

/// Bytes of a line: as far apart as processors fetch lines together.
const LINE: u64 = 128;

/// Where a line has its number, and what comes with it.
const NUMBER: u64 = 0;
const VALUE: u64 = 8;

/// How often who has a core of his own looks before he gives it away.
const LOOKS: u32 = 1000;

/// After how many times in a row that a core was given away it is asked whether the others still live.
const TURNS: u64 = 1 << 16;

/// One member's part.
pub(super) struct Members {
    fabric: Fabric,
    memory: SharedMemory,
    member: u64,
    size: u64,
    number: u64,
    looks: u32,
    /// The leader's memory for data.
    source: Remote,
    // They keep the memory for the others.
    _own: Option<LocalSegment>,
    _leaders: Option<RemoteSegment>,
    _registration: Option<Registration>,
}

impl Members {
    /// Joins the members of `group`, all of the job's ranks, who broadcast from the first one's `data`; `None`, for all,
    /// where they cannot map, or read, each other's memory.
    ///
    /// # Safety
    /// The data must stay where it is until all members have been dropped.
    ///
    /// # Panics
    /// Where something fails.
    pub(super) unsafe fn join(fabric: &Fabric, group: &mut Group, data: &[u8]) -> Option<Members> {
        let (member, size) = (group.member() as u64, group.size() as u64);
        let backing = Backing::Anonymous { length: LINE * (2 + 2 * size) };
        let is_leader = member == 0;
        let own = is_leader.then(|| fabric.create(ID, &backing).expect("the leader makes a segment"));
        // SAFETY: the caller's promise.
        let registration = is_leader.then(|| unsafe { fabric.register(UserMemory::of(data)) });
        let registration = registration.and_then(Result::ok);
        let mut key = registration.as_ref().map_or([0; 3], |registration| registration.key().0);
        let mut bytes = key.map(u64::to_ne_bytes).concat();
        group.bcast(0, &mut bytes).expect("the leader tells where its data is");
        for (word, bytes) in key.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        }
        let leaders = (!is_leader).then(|| fabric.connect(Rank(0), ID).expect("the leader has a segment"));
        let mapped = match (&own, &leaders) {
            (Some(own), _) => Some(own.memory().clone()),
            (None, Some(leaders)) => leaders.mapping().cloned(),
            (None, None) => None,
        };
        // Of the leader's registration all others hear so.
        let can = mapped.is_some() && (!is_leader || registration.is_some());
        let mut can_all = i64::from(can).to_ne_bytes();
        let least = Elementwise::commutative(|a: i64, b: i64| a.min(b));
        group.allreduce(&mut can_all, &least).expect("the members tell each other whether they can");
        let memory = mapped.filter(|_| i64::from_ne_bytes(can_all) == 1)?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Some(Members {
            fabric: fabric.clone(),
            memory,
            member,
            size,
            number: 0,
            looks: if size > cores { 1 } else { LOOKS },
            source: Remote { owner: Rank(0), place: Place::Registered(MemoryKey(key)) },
            _own: own,
            _leaders: leaders,
            _registration: registration,
        })
    }

    /// Returns when all have come.
    pub(super) fn barrier(&mut self) {
        self.reduce(0);
    }

    /// The sum of all members' numbers, on all of them.
    pub(super) fn allreduce(&mut self, own: i64) -> i64 {
        self.reduce(own.cast_unsigned()).cast_signed()
    }

    /// Everybody's number to the leader, and the sum to all. Who comes to the next sum has read this one, and the leader
    /// waits for all to come.
    fn reduce(&mut self, own: u64) -> u64 {
        self.number += 1;
        if self.member > 0 {
            self.tell(self.arrival(self.member), own);
            self.wait_for(self.leader());
            return self.word(self.leader(), VALUE).load(Ordering::Relaxed);
        }
        let mut sum = own;
        for member in 1..self.size {
            self.wait_for(self.arrival(member));
            sum = sum.wrapping_add(self.word(self.arrival(member), VALUE).load(Ordering::Relaxed));
        }
        self.tell(self.leader(), sum);
        sum
    }

    /// The leader's data to all.
    pub(super) fn bcast(&mut self, into: &mut [u8]) {
        self.number += 1;
        if self.member > 0 {
            self.wait_for(self.source_line());
            self.fabric.read(&self.source, 0, into).expect("the leader's memory can be read");
            self.tell(self.departure(self.member), 0);
            return;
        }
        self.tell(self.source_line(), 0);
        for member in 1..self.size {
            self.wait_for(self.departure(member));
        }
    }

    /// By which all may go on, with the sum.
    fn leader(&self) -> u64 {
        0
    }

    /// By which the leader's data is there: who is slow may still have to read the sum before it.
    fn source_line(&self) -> u64 {
        LINE
    }

    /// What a member brings.
    fn arrival(&self, member: u64) -> u64 {
        LINE * (2 + member)
    }

    /// That a member has its copy.
    fn departure(&self, member: u64) -> u64 {
        LINE * (2 + self.size + member)
    }

    fn word(&self, line: u64, at: u64) -> &AtomicU64 {
        self.memory.word64(line + at).expect("the line lies in the segment")
    }

    fn tell(&self, line: u64, value: u64) {
        self.word(line, VALUE).store(value, Ordering::Relaxed);
        // Release: who sees the number sees the value, and what was done before.
        self.word(line, NUMBER).store(self.number, Ordering::Release);
    }

    fn wait_for(&self, line: u64) {
        let word = self.word(line, NUMBER);
        for turn in 1_u64.. {
            for _ in 0..self.looks {
                // Acquire: pairs with the Release of `tell`.
                if word.load(Ordering::Acquire) >= self.number {
                    return;
                }
                std::hint::spin_loop();
            }
            if turn.is_multiple_of(TURNS) {
                let membership = self.fabric.membership();
                membership.ranks().for_each(|rank| membership.check(rank).expect("nobody is lost"));
            }
            std::thread::yield_now();
        }
    }
}
