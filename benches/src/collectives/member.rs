//! A process that takes part in svmio's collectives, or those of XHC's design (module `xhc`), and measures them.

use std::hint::black_box;
use std::time::Instant;

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

/// Measures what the arguments behind [`WORD`] name, as `programs/collectives` does.
///
/// # Panics
/// Where something fails.
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
        for share in [0.0, 0.1, 1.0] {
            let count = (limit * share / seconds).clamp(COUNTS[0], COUNTS[1]) as u64;
            seconds = member.seconds_of(call, count);
        }
        if member.group.member() == 0 {
            println!("{name} {seconds:.12}");
        }
    }
    if names.iter().any(|name| name == "bcast") && by_design == member.design.is_some() {
        assert!(member.one.iter().all(|byte| *byte == 1), "what was broadcast is not what has come");
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
            let (own, size) = (member.group.member() as i64, member.group.size() as i64);
            assert_eq!(member.by_design().allreduce(own), size * (size - 1) / 2);
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
        let one = vec![group.member() as u8 + 1; LENGTH];
        let all = vec![0; LENGTH * group.size()];
        Self { group, design: None, one, all }
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
        let mut longest = started.elapsed().as_secs_f64().to_ne_bytes();
        let answer = self.group.allreduce(&mut longest, &Elementwise::commutative(f64::max));
        answer.unwrap_or_else(|error| panic!("allreduce: {error}"));
        f64::from_ne_bytes(longest) / count as f64
    }

    fn barrier(&mut self) {
        self.group.barrier().unwrap_or_else(|error| panic!("barrier: {error}"));
    }

    fn allreduce(&mut self) {
        let mut sum = (self.group.member() as i64).to_ne_bytes();
        let answer = self.group.allreduce(&mut sum, &Elementwise::commutative(|a: i64, b: i64| a + b));
        answer.unwrap_or_else(|error| panic!("allreduce: {error}"));
        let size = self.group.size() as i64;
        assert_eq!(i64::from_ne_bytes(sum), size * (size - 1) / 2);
    }

    fn bcast(&mut self) {
        self.group.bcast(0, black_box(&mut self.one)).unwrap_or_else(|error| panic!("bcast: {error}"));
    }

    fn allgather(&mut self) {
        let answer = self.group.allgather(black_box(&self.one), black_box(&mut self.all));
        answer.unwrap_or_else(|error| panic!("allgather: {error}"));
    }
}
