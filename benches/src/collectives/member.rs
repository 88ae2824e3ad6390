//! A process that takes part in svmio's collectives, or those of XHC's design (module `xhc`), and measures them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use svmio_collectives::executor::{Elementwise, Group, GroupSettings};
use svmio_transport::job::Job;
use svmio_transport::{Rank, SegmentId};

use super::{LENGTH, xhc};

/// The first argument of such a process.
pub const WORD: &str = "member";

/// The argument that gives it a session of its own.
pub const SESSIONS: &str = "--sessions";

/// The argument that has it take part in those of XHC's design.
pub const XHC: &str = "--xhc";

/// The group's segments.
const ID: SegmentId = SegmentId::new(0x626e_6368, 0);

/// How many calls of each kind there are at least and at most.
const COUNTS: [f64; 2] = [4.0, 1e6];

/// Measures what the arguments behind [`WORD`] name, as `programs/collectives` does. What they give is checked before and
/// after they are timed.
///
/// # Panics
/// Where something fails, or something else comes than was given.
pub fn run(arguments: &[String]) {
    let (limit, mut names) = arguments.split_first().expect("the milliseconds are given");
    let limit = limit.parse::<f64>().expect("milliseconds are a number") / 1e3;
    if names.first().is_some_and(|word| word == SESSIONS) {
        names = &names[1..];
        rustix::process::setsid().expect("a child that leads no group can get a session");
    }
    let by_design = names.first().is_some_and(|word| word == XHC);
    if by_design {
        names = &names[1..];
    }
    let job = Job::from_environment().unwrap_or_else(|error| panic!("joining the job: {error}"));
    let members: Vec<Rank> = job.membership().ranks().collect();
    let group = Group::join(job.fabric(), &members, ID, GroupSettings::default());
    let mut member = Member::new(group.unwrap_or_else(|error| panic!("joining the group: {error}")));
    if by_design {
        // SAFETY: the member keeps its data as long as the group of the design, and leaves together with the others.
        member.design = unsafe { xhc::Members::join(job.fabric(), &mut member.group, &member.one) };
    }
    for name in names {
        let call = if by_design { call_of_design(name) } else { call_of(name) };
        let mut seconds = f64::INFINITY;
        if by_design && member.design.is_none() {
            // Not a number: there is none.
            if member.group.member() == 0 {
                println!("{name} {}", f64::NAN);
            }
            continue;
        }
        member.check(name, call, 0);
        for share in [0.0, 0.1, 1.0] {
            let count = (limit * share / seconds).clamp(COUNTS[0], COUNTS[1]) as u64;
            seconds = member.seconds_of(call, count);
        }
        member.check(name, call, 1);
        if member.group.member() == 0 {
            println!("{name} {seconds:.12}");
        }
    }
    // Nobody reads from anybody any more.
    member.barrier();
    drop(member);
    job.finish().unwrap_or_else(|error| panic!("finishing the job: {error}"));
}

struct Member {
    /// By which members also begin together, and tell each other how long they took.
    group: Group,
    design: Option<xhc::Members>,
    one: Vec<u8>,
    all: Vec<u8>,
    /// What is added to the member's number where numbers are summed up: another one in each check.
    turn: i64,
}

type Call = fn(&mut Member);

fn call_of(name: &str) -> Call {
    match name {
        "barrier" => Member::barrier,
        "allreduce" => Member::allreduce,
        "bcast" => Member::bcast,
        "allgather" => Member::allgather,
        _ => panic!("no such collective: {name}"),
    }
}

fn call_of_design(name: &str) -> Call {
    match name {
        "barrier" => |member| member.by_design().barrier(),
        "allreduce" => |member| {
            let own = member.own_number();
            assert_eq!(member.by_design().allreduce(own), member.sum());
        },
        "bcast" => |member| {
            let design = member.design.as_mut().expect("it takes part");
            design.bcast(black_box(&mut member.one));
        },
        _ => panic!("XHC's design has no such collective: {name}"),
    }
}

impl Member {
    fn new(group: Group) -> Self {
        let (one, all) = (vec![0; LENGTH], vec![0; LENGTH * group.size()]);
        Self { group, design: None, one, all, turn: 0 }
    }

    fn by_design(&mut self) -> &mut xhc::Members {
        self.design.as_mut().expect("it takes part")
    }

    fn seconds_of(&mut self, call: Call, count: u64) -> f64 {
        self.barrier();
        let started = Instant::now();
        for _ in 0..count {
            call(self);
        }
        let own = started.elapsed().as_secs_f64();
        self.most(own) / count as f64
    }

    /// Does it once, with data of this turn, and looks at what has come.
    fn check(&mut self, name: &str, call: Call, turn: i64) {
        self.turn = turn;
        let own = self.group.member();
        for (at, byte) in self.one.iter_mut().enumerate() {
            *byte = byte_of(own, turn, at);
        }
        self.all.fill(0);
        // Whose data all look at is not changed before all have done so.
        self.barrier();
        if name == "barrier" {
            return self.check_barrier(call, turn);
        }
        call(self);
        match name {
            "bcast" => check_bytes(&self.one, 0, turn),
            "allgather" => {
                let parts = self.all.chunks_exact(LENGTH).enumerate();
                parts.for_each(|(giver, bytes)| check_bytes(bytes, giver, turn));
            }
            // The call has compared it.
            _ => {}
        }
        self.barrier();
    }

    /// Nobody leaves before the last, another one in each turn, has come.
    fn check_barrier(&mut self, call: Call, turn: i64) {
        if self.group.member() as i64 == turn % self.group.size() as i64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let come = monotonic_seconds();
        call(self);
        let left = monotonic_seconds();
        let last = self.most(come);
        assert!(left >= last, "a member has left a barrier {} s before the last one came", last - left);
    }

    /// The largest of all members' numbers.
    fn most(&mut self, own: f64) -> f64 {
        let mut most = own.to_ne_bytes();
        let answer = self.group.allreduce(&mut most, &Elementwise::commutative(f64::max));
        answer.unwrap_or_else(|error| panic!("allreduce: {error}"));
        f64::from_ne_bytes(most)
    }

    fn own_number(&self) -> i64 {
        self.group.member() as i64 + self.turn
    }

    /// Of all members' numbers.
    fn sum(&self) -> i64 {
        let size = self.group.size() as i64;
        size * (size - 1) / 2 + size * self.turn
    }

    fn barrier(&mut self) {
        self.group.barrier().unwrap_or_else(|error| panic!("barrier: {error}"));
    }

    fn allreduce(&mut self) {
        let mut sum = self.own_number().to_ne_bytes();
        let answer = self.group.allreduce(&mut sum, &Elementwise::commutative(|a: i64, b: i64| a + b));
        answer.unwrap_or_else(|error| panic!("allreduce: {error}"));
        assert_eq!(i64::from_ne_bytes(sum), self.sum());
    }

    fn bcast(&mut self) {
        self.group.bcast(0, black_box(&mut self.one)).unwrap_or_else(|error| panic!("bcast: {error}"));
    }

    fn allgather(&mut self) {
        let answer = self.group.allgather(black_box(&self.one), black_box(&mut self.all));
        answer.unwrap_or_else(|error| panic!("allgather: {error}"));
    }
}

/// What a member gives, as `programs/collectives` has it: another byte for each giver, turn and place.
fn byte_of(giver: usize, turn: i64, at: usize) -> u8 {
    let spread = (at as u64).wrapping_mul(2_654_435_761) >> 13;
    (spread as u8).wrapping_add((giver as u8).wrapping_mul(31)).wrapping_add((turn as u8).wrapping_mul(7))
}

fn check_bytes(bytes: &[u8], giver: usize, turn: i64) {
    let wrong = bytes.iter().enumerate().find(|(at, byte)| **byte != byte_of(giver, turn, *at));
    assert!(wrong.is_none(), "something else has come of member {giver} than it gave: {wrong:?}");
}

/// By a clock that all processes of this machine share.
fn monotonic_seconds() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
