//! A measurement by who has two exchange signals, however it has them do that.

use super::pairs::{Exchange, Pairs};
use crate::executor::error::Result;

/// Who has pairs measured, and gets the time.
pub(in crate::executor) trait Conductor {
    /// The members.
    fn pairs(&mut self) -> &mut Pairs;

    /// Has two do their parts of an exchange, as it was planned; the time that the one has taken who begins.
    fn exchanged(&mut self, from: (usize, Exchange), to: (usize, Exchange)) -> Result<f64>;

    /// Has one take the time of beginning to signal.
    fn started(&mut self, member: usize, repetitions: u32) -> Result<f64>;
}

/// Makes a [`Conductor`] one who [measures](crate::profile::Measure).
macro_rules! measure_by_conducting {
    ($conductor:ty) => {
        impl $crate::profile::Measure for $conductor {
            type Error = $crate::executor::Error;

            fn ranks(&self) -> u32 {
                self.pairs.size() as u32
            }

            fn one_way(
                &mut self,
                from: $crate::Rank,
                to: $crate::Rank,
                bytes: u64,
                repetitions: u32,
            ) -> $crate::executor::Result<f64> {
                let shape = $crate::executor::measuring::pairs::Shape::Message(bytes);
                $crate::executor::measuring::conducting::measured(self, from, to, shape, repetitions)
            }

            fn burst(
                &mut self,
                from: $crate::Rank,
                to: $crate::Rank,
                signals: u32,
                repetitions: u32,
            ) -> $crate::executor::Result<f64> {
                let shape = $crate::executor::measuring::pairs::Shape::Burst(signals);
                $crate::executor::measuring::conducting::measured(self, from, to, shape, repetitions)
            }

            fn start(&mut self, rank: $crate::Rank, repetitions: u32) -> $crate::executor::Result<f64> {
                // One alone never signals.
                if self.pairs.size() == 1 { Ok(0.0) } else { self.started(rank.index(), repetitions) }
            }
        }
    };
}
pub(in crate::executor) use measure_by_conducting;

/// Has two exchange signals of a shape; half of how long they take to and fro.
pub(in crate::executor) fn measured(
    conductor: &mut impl Conductor,
    from: crate::Rank,
    to: crate::Rank,
    shape: super::pairs::Shape,
    repetitions: u32,
) -> Result<f64> {
    let (from, to) = (from.index(), to.index());
    let (first, second) = conductor.pairs().plan(from, to, shape, repetitions);
    conductor.exchanged((from, first), (to, second))
}
