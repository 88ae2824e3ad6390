//! Making programs shorter that go wrong.

use std::time::{Duration, Instant};

use super::program::{Program, Step, TogetherWay};
use super::running::{World, Wrong};

/// How often a program is run that may go wrong: what does depends on who is faster.
const ATTEMPTS: usize = 8;
/// How many are run by one job.
const AT_ONCE: usize = 6;
/// A job that takes longer will not end, also where others use the machine.
const LIMIT: Duration = Duration::from_secs(120);

/// The shortest program that still goes wrong which is found in this time, and how it does.
pub(crate) fn reduced(world: &World, program: &Program, what: String, time: Duration) -> (Program, String) {
    let begun = Instant::now();
    let (mut program, mut what) = (program.clone(), what);
    'shorter: loop {
        for some in shorter(&program).chunks(AT_ONCE) {
            if begun.elapsed() >= time {
                break 'shorter;
            }
            let all: Vec<_> =
                some.iter().flat_map(|one| std::iter::repeat_n(one.clone(), ATTEMPTS)).collect();
            if let Err(Wrong { number, what: how }) = world.run(&all, LIMIT) {
                (program, what) = (some[number / ATTEMPTS].clone(), how);
                continue 'shorter;
            }
        }
        break;
    }
    (program, what)
}

/// Programs that have a part less, those with the largest first.
fn shorter(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let count = program.steps.len();
    let mut length = count / 2;
    while length > 0 {
        all.extend((0..count).step_by(length).map(|from| {
            let mut shorter = program.clone();
            shorter.steps.drain(from..(from + length).min(count));
            shorter
        }));
        length /= 2;
    }
    for (place, step) in program.steps.iter().enumerate() {
        all.extend(shorter_steps(step).into_iter().map(|step| {
            let mut shorter = program.clone();
            shorter.steps[place] = step;
            shorter
        }));
    }
    for hint in 0..program.hints.len() {
        let mut shorter = program.clone();
        shorter.hints.remove(hint);
        all.push(shorter);
    }
    all
}

fn shorter_steps(step: &Step) -> Vec<Step> {
    match step {
        Step::Alone(accesses) => without_one(accesses).map(Step::Alone).collect(),
        Step::Together(together) => {
            let mut all = Vec::new();
            if together.way != TogetherWay::Blocking {
                let mut shorter = together.clone();
                shorter.way = TogetherWay::Blocking;
                all.push(shorter);
            }
            if let TogetherWay::Split(meanwhile) = &together.way {
                all.extend(without_one(meanwhile).map(|meanwhile| {
                    let mut shorter = together.clone();
                    shorter.way = TogetherWay::Split(meanwhile);
                    shorter
                }));
            }
            for part in (0..together.parts.len()).filter(|part| together.parts[*part].length > 0) {
                let mut shorter = together.clone();
                shorter.parts[part].length = 0;
                all.push(shorter);
            }
            all.into_iter().map(Step::Together).collect()
        }
        Step::Shared(shared) => {
            let fewer = without_one(&shared.writers).zip(without_one(&shared.readers));
            let fewer = fewer.map(|(writers, readers)| {
                let mut shorter = shared.clone();
                (shorter.writers, shorter.readers) = (writers, readers);
                Step::Shared(shorter)
            });
            fewer.collect()
        }
        Step::Ordered(ordered) => {
            let fewer = without_one(&ordered.accesses).map(|accesses| {
                let mut shorter = ordered.clone();
                shorter.accesses = accesses;
                Step::Ordered(shorter)
            });
            fewer.collect()
        }
        _ => Vec::new(),
    }
}

fn without_one<T: Clone>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..all.len()).filter(|_| all.len() > 1).map(|one| {
        let mut fewer = all.to_vec();
        fewer.remove(one);
        fewer
    })
}
