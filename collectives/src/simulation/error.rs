//! Why something has no time.

/// Why something cannot be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// No 64 bits count them.
    #[error("a message has more bytes than can be counted")]
    Bytes,
    /// [`Time`](svmio_transport::Time) has an end.
    #[error("it takes more than the 584 years of virtual time that there are")]
    Time,
}
