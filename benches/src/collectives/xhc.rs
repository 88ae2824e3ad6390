//! The collectives that XHC's design has within a node, to stand beside svmio's (G. Katevenis, M. Ploumidis and
//! M. Marazakis, "A framework for hierarchical single-copy MPI collectives on multicore nodes").
//!
//! XHC is a component of Open MPI that no release has yet. Its design, on processors that have all cores at the same
//! distance, where its hierarchy has one level: each flag has one writer and a cache line of its own, and holds numbers
//! that only grow. Members tell the leader that they have come, with what they bring, and the leader tells all of them by
//! one flag that they may go on, with the result. Long data each member copies for itself, straight from the root's
//! memory, and says so. Who waits looks at the flag, and gives its core away in between.
//!
//! It is as short as it can be, which favours it: there are no checks of arguments, deaths are not noticed, nobody
//! sleeps, and the root of data is the leader.

use std::sync::atomic::{AtomicU64, Ordering};

use svmio_collectives::executor::Group;
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
    /// Joins the members of `group`, all of the job's ranks, who broadcast from the first one's `data`.
    ///
    /// # Safety
    /// The data must stay where it is until all members have been dropped.
    ///
    /// # Panics
    /// Where something fails.
    pub(super) unsafe fn join(fabric: &Fabric, group: &mut Group, data: &[u8]) -> Members {
        let (member, size) = (group.member() as u64, group.size() as u64);
        let backing = Backing::Anonymous { length: LINE * (1 + 2 * size) };
        let is_leader = member == 0;
        let own = is_leader.then(|| fabric.create(ID, &backing).expect("the leader makes a segment"));
        // SAFETY: the caller's promise.
        let registration = is_leader.then(|| unsafe { fabric.register(UserMemory::of(data)) });
        let registration = registration.map(|done| done.expect("the leader's memory is registered"));
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
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Members {
            fabric: fabric.clone(),
            memory: mapped.expect("members map the leader's segment"),
            member,
            size,
            number: 0,
            looks: if size > cores { 1 } else { LOOKS },
            source: Remote { owner: Rank(0), place: Place::Registered(MemoryKey(key)) },
            _own: own,
            _leaders: leaders,
            _registration: registration,
        }
    }

    /// Returns when all have come.
    pub(super) fn barrier(&mut self) {
        self.reduce(0);
    }

    /// The sum of all members' numbers, on all of them.
    pub(super) fn allreduce(&mut self, own: i64) -> i64 {
        self.reduce(own.cast_unsigned()).cast_signed()
    }

    /// Everybody's number to the leader, and the sum to all. Who comes to the next one has read what this one gave.
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
            self.wait_for(self.leader());
            self.fabric.read(&self.source, 0, into).expect("the leader's memory can be read");
            self.tell(self.departure(self.member), 0);
            return;
        }
        self.tell(self.leader(), 0);
        for member in 1..self.size {
            self.wait_for(self.departure(member));
        }
    }

    fn leader(&self) -> u64 {
        0
    }

    /// What a member brings.
    fn arrival(&self, member: u64) -> u64 {
        LINE * (1 + member)
    }

    /// That a member has its copy.
    fn departure(&self, member: u64) -> u64 {
        LINE * (1 + self.size + member)
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
        loop {
            for _ in 0..self.looks {
                // Acquire: pairs with the Release of `tell`.
                if word.load(Ordering::Acquire) >= self.number {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}
