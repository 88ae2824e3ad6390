//! A computation of the program, for measurements: so much work of a processor, however long it takes.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How many steps there are between two looks at the clock: less than a microsecond.
const STEPS: u32 = 256;

/// Computes until the calling thread has had a processor for so long. What takes its processor away meanwhile makes it
/// later.
pub(crate) fn compute(duration: Duration) {
    let processed = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let until = processed() + duration;
    let mut number = 1_u64;
    while processed() < until {
        for _ in 0..STEPS {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}
