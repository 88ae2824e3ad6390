//! The barrier in Rust.

use std::fmt::{Error, Write};

use crate::emission::{Action, Program, write_lines};

const HEAD: &str = r"// A barrier of {ranks} ranks in {steps} steps, written by svmio.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How many ranks take part.
pub const RANKS: usize = {ranks};

/// How often to look before other threads are let run.
const SPINS: u32 = 64;

#[repr(align(64))]
struct Line(AtomicU32);

/// What the ranks share.
pub struct Memory {
    entered: [Line; {ranks}],
    arrived: [Line; {flags}],
}

impl Memory {
    /// For ranks none of which has come yet.
    pub const fn new() -> Self {
        Self {
            entered: [const { Line(AtomicU32::new(0)) }; {ranks}],
            arrived: [const { Line(AtomicU32::new(0)) }; {flags}],
        }
    }

    #[inline]
    fn set(&self, flag: usize, number: u32) {
        self.arrived[flag].0.store(number, Ordering::Release);
    }

    #[inline]
    fn wait(&self, flag: usize, number: u32) {
        let mut looks = 0_u32;
        // The difference tells which is later even when the numbers begin anew.
        while (self.arrived[flag].0.load(Ordering::Acquire).wrapping_sub(number) as i32) < 0 {
            looks = looks.saturating_add(1);
            if looks > SPINS + 10_000 {
                std::thread::sleep(Duration::from_micros(50));
            } else if looks > SPINS {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns when all ranks have called it as often as this one, whose number is `rank`.
pub fn wait(memory: &Memory, rank: usize) {
    let entered = &memory.entered[rank].0;
    let number = entered.load(Ordering::Relaxed).wrapping_add(1);
    entered.store(number, Ordering::Relaxed);
    match rank {
";

const TAIL: &str = "        _ => {}
    }
}
";

pub(super) fn write(source: &mut String, program: &Program) -> Result<(), Error> {
    program.fill(source, HEAD, "");
    for (rank, actions) in program.parts.iter().enumerate() {
        writeln!(source, "        {rank} => {{")?;
        write_lines(source, actions, |action| match action {
            Action::Set(flag, to) => format!("            memory.set({flag}, number); // rank {to}"),
            Action::Await(flag, from) => format!("            memory.wait({flag}, number); // rank {from}"),
        })?;
        writeln!(source, "        }}")?;
    }
    source.push_str(TAIL);
    Ok(())
}
