//! What the processes of a benchmark are told to do, and what they report.

use serde::{Deserialize, Serialize};

/// What each process of a benchmark does: the same for all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) what: What,
    /// How messages are sent; several are measured in turn, so that what drifts meets all alike.
    pub(crate) protocols: Vec<Protocol>,
    /// Bytes.
    pub(crate) sizes: Vec<u64>,
    /// How often each measurement is made.
    pub(crate) repeat: u32,
    /// How much is sent in one measurement.
    pub(crate) effort: Effort,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// Half of the time that a message takes to and fro.
    Pingpong,
    /// The time of a message in a stream of them.
    Bandwidth,
    /// The time of sending while computing.
    Overlap {
        /// Seconds of computation.
        compute: Vec<f64>,
    },
    /// Half of the time that a remote interrupt takes to and fro.
    Interrupt {
        /// How many.
        round_trips: u32,
    },
}

/// By which protocol a message is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    /// Whichever the messenger takes for the size
    Automatic,
    /// In control packets
    Short,
    /// Through buffers that are there for each peer
    Eager,
    /// Asked for, then stored by the sender
    RendezvousStores,
    /// Asked for, then by DMA between staging buffers of both sides
    RendezvousStaged,
    /// Asked for, then by DMA with one staging buffer
    RendezvousHalfStaged,
    /// Asked for, then by DMA from user memory to user memory
    RendezvousDirect,
}

/// How much is sent in one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Effort {
    /// Enough for clocks that drift and processors that are shared.
    Real,
    /// A few rounds: virtual time has no noise.
    Virtual,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The back end.
    pub(crate) fabric: String,
    /// What it runs on.
    pub(crate) provider: String,
    pub(crate) points: Vec<Point>,
}

/// One measurement, repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) variant: Variant,
    /// Bytes.
    pub(crate) size: u64,
    /// Seconds of computation meanwhile.
    pub(crate) compute: f64,
    /// Seconds, one number for each repetition.
    pub(crate) seconds: Vec<f64>,
}

/// How messages went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "progress", content = "protocol")]
pub(crate) enum Variant {
    /// As the settings say.
    Configured(Protocol),
    /// Only while the program is in a call of the messenger.
    Synchronous(Protocol),
    /// Also while the program computes.
    Asynchronous(Protocol),
    /// As asynchronous, but with nothing computed meanwhile: what the transfer takes in the rounds in which others
    /// compute.
    AtRest(Protocol),
    /// There were none: only the computation.
    Computation,
    /// There were none: a copy by the peer, asked for by a word in memory that both map.
    Bare,
    /// The same, with nothing computed meanwhile.
    BareAtRest,
    /// There were none: an interrupt.
    Interrupt,
}

impl Protocol {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Automatic => "automatic",
            Protocol::Short => "short",
            Protocol::Eager => "eager",
            Protocol::RendezvousStores => "rendezvous-stores",
            Protocol::RendezvousStaged => "rendezvous-staged",
            Protocol::RendezvousHalfStaged => "rendezvous-half-staged",
            Protocol::RendezvousDirect => "rendezvous-direct",
        }
    }
}

impl Point {
    /// The middle one of its times, seconds.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// How much longer than `other` it took, seconds: the middle one of the differences between what was measured in
    /// the same rounds, so that what changes from round to round does not count.
    pub(crate) fn median_beyond(&self, other: &Point) -> f64 {
        let seconds = self.seconds.iter().zip(&other.seconds).map(|(own, other)| own - other).collect();
        Point { seconds, ..*self }.median()
    }

    /// The shortest of its times, seconds.
    pub(crate) fn least(&self) -> f64 {
        self.quantile(0.0)
    }

    /// The time that a `share` of its times is below, seconds.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let at = (share * seconds.len() as f64) as usize;
        seconds.get(at.min(seconds.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn a_protocol_has_one_name_on_the_command_line_and_in_reports() {
        for protocol in Protocol::value_variants() {
            assert_eq!(protocol.to_possible_value().unwrap().get_name(), protocol.name());
            assert_eq!(serde_json::to_value(protocol).unwrap(), protocol.name());
        }
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let seconds = vec![5.0, 1.0, 4.0, 2.0, 3.0];
        let point = Point { variant: Variant::Interrupt, size: 0, compute: 0.0, seconds };
        assert_eq!([0.0, 0.5, 0.9, 1.0].map(|share| point.quantile(share)), [1.0, 3.0, 5.0, 5.0]);
        assert!(Point { seconds: Vec::new(), ..point }.median().is_nan());
    }

    #[test]
    fn differences_are_taken_round_by_round() {
        let point = |seconds: [f64; 3]| Point {
            variant: Variant::Computation,
            size: 0,
            compute: 0.0,
            seconds: seconds.to_vec(),
        };
        let (long, short) = (point([11.0, 53.0, 32.0]), point([10.0, 50.0, 30.0]));
        assert_eq!(long.median_beyond(&short), 2.0);
        assert_eq!(short.median_beyond(&long), -2.0);
    }
}
