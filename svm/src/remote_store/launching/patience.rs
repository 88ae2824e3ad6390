//! How long a host may say nothing: longer than anything takes that it is asked for, but not for ever. What carries
//! answers may live on when `svmio` there hangs, or wait for a host that is not there.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::LaunchError;

/// Sets both limits.
pub(super) const VARIABLE: &str = "SVMIO_HOSTS_TIMEOUT";

/// How long to wait for a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// For its first word: a batch system may take a while to start something.
    pub(super) until_first: Duration,
    /// For anything further: much that was written takes minutes to get to a slow disk.
    pub(super) afterwards: Duration,
}

impl Patience {
    const DEFAULT: Patience =
        Patience { until_first: Duration::from_secs(60), afterwards: Duration::from_secs(600) };

    /// As [`VARIABLE`] says.
    ///
    /// # Errors
    /// Where it says no time.
    pub(super) fn from_environment() -> Result<Patience, LaunchError> {
        let told = std::env::var_os(VARIABLE).filter(|told| !told.is_empty());
        told.map_or(Ok(Patience::DEFAULT), |told| Patience::told(&told.to_string_lossy()))
    }

    fn told(told: &str) -> Result<Patience, LaunchError> {
        let wrong = |problem| LaunchError::NoTime { variable: VARIABLE, value: told.into(), problem };
        let limit = humantime::parse_duration(told.trim()).map_err(|error| wrong(error.to_string()))?;
        // What a poll takes, and room for sums.
        if limit.is_zero() || limit > Duration::from_secs(1 << 24) {
            return Err(wrong("it has to be between 1ms and 190days".into()));
        }
        Ok(Patience { until_first: limit, afterwards: limit })
    }
}

/// One end of a pipe to what answers for a host.
pub(super) struct Patient<S> {
    stream: S,
    patience: Patience,
    has_spoken: bool,
}

impl<S: AsFd> Patient<S> {
    /// Makes `stream` one that waits no longer than `patience` says.
    ///
    /// # Errors
    /// What the system says where it refuses.
    pub(super) fn new(stream: S, patience: Patience) -> io::Result<Self> {
        fcntl_setfl(&stream, fcntl_getfl(&stream)? | OFlags::NONBLOCK)?;
        Ok(Self { stream, patience, has_spoken: false })
    }

    fn limit(&self) -> Duration {
        if self.has_spoken { self.patience.afterwards } else { self.patience.until_first }
    }

    /// Does `act`, which would have to wait, once it need not.
    fn when(
        &mut self,
        ready: PollFlags,
        mut act: impl FnMut(&mut S) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let deadline = Instant::now() + self.limit();
        loop {
            match act(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                let limit = humantime::format_duration(self.limit());
                let problem = format!(
                    "svmio there has not gone on for {limit}, longer than {VARIABLE} has it waited for"
                );
                return Err(io::Error::new(ErrorKind::TimedOut, problem));
            }
            let rest = Timespec::try_from(rest).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.stream, ready)], Some(&rest)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl<S: AsFd + Read> Read for Patient<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.when(PollFlags::IN, |stream| stream.read(bytes))?;
        self.has_spoken = true;
        Ok(length)
    }
}

impl<S: AsFd + Write> Write for Patient<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nothing is written before the first word has come.
        self.has_spoken = true;
        self.when(PollFlags::OUT, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const SHORT: Patience =
        Patience { until_first: Duration::from_millis(50), afterwards: Duration::from_millis(100) };

    #[test]
    fn times_are_told_as_elsewhere() {
        let both = |limit| Patience { until_first: limit, afterwards: limit };
        assert_eq!(Patience::told("90s").unwrap(), both(Duration::from_secs(90)));
        assert_eq!(Patience::told(" 2h ").unwrap(), both(Duration::from_secs(7200)));
        for wrong in ["0s", "soon", "12", "99999 days"] {
            let error = Patience::told(wrong).unwrap_err().to_string();
            assert!(error.contains(VARIABLE) && error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn who_is_silent_or_reads_nothing_is_waited_for_so_long() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Patient::new(ours, SHORT).unwrap();
        let mut bytes = [0; 8];
        let error = ours.read(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("50ms"), "{error}");
        theirs.write_all(b"word").unwrap();
        assert_eq!(ours.read(&mut bytes).unwrap(), 4);
        assert!(ours.read(&mut bytes).unwrap_err().to_string().contains("100ms"));
        let error = ours.write_all(&vec![1; 16 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "nobody reads it");
        drop(theirs);
        assert!(ours.write(b"more").is_err());
    }
}
