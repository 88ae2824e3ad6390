//! What the failure of an operation says of its peer.
//!
//! Providers tell little. Those over TCP close the connection over a transfer that the peer refuses, and say of all
//! that was under way that it was canceled. `verbs` says `EIO` of the one that was refused, as of each that fails
//! otherwise, and that the others were canceled; `cxi` says `EIO` of nearly all. So most of what fails says nothing of
//! the peer, which is asked then ([`doubts`](super::doubts)).

use super::adapter::Token;

/// What has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// A message that must not be missing.
    Numbered,
    /// Another one.
    Message,
    /// A remote write or read.
    Transfer,
}

impl Operation {
    /// That of this token.
    pub(super) fn of(token: &Token) -> Self {
        match token {
            Token::Message { is_numbered: true, .. } => Self::Numbered,
            Token::Message { .. } | Token::Repeated(_) => Self::Message,
            Token::Part(_) | Token::Posted(..) | Token::Probe(..) => Self::Transfer,
        }
    }
}

/// What follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Verdict {
    /// The peer lives, and refused it.
    Refused,
    /// The peer may live, and have refused it, or may be dead: it is asked.
    Doubtful,
    /// The peer cannot be reached, or misses what it was sent.
    Lost,
}

/// What providers say of what was under way when a connection was closed.
const CUT_OFF: [i32; 5] =
    [libc::ECANCELED, libc::ENOTCONN, libc::ECONNRESET, libc::ECONNABORTED, libc::EPIPE];

/// What they say of a transfer that the peer refused, and of nothing else; besides these there are libfabric's own codes,
/// such as that of a key that there is not.
const REFUSALS: [i32; 4] = [libc::EACCES, libc::EINVAL, libc::EKEYREJECTED, libc::EPERM];

/// What they say once they have tried all to reach it.
const OUT_OF_REACH: [i32; 5] =
    [libc::EHOSTUNREACH, libc::ENETUNREACH, libc::EHOSTDOWN, libc::ETIMEDOUT, libc::ECONNREFUSED];

/// Where libfabric's own codes begin, above those of the system (`FI_ERRNO_OFFSET` of `rdma/fi_errno.h`).
const FIRST_OF_LIBFABRIC: i32 = 256;

/// What it says of the peer that an operation failed with the provider's `code`.
pub(super) fn verdict(operation: Operation, code: i32) -> Verdict {
    match operation {
        // A connection that was closed, perhaps over something else: most of what is asked is asked again.
        Operation::Message if CUT_OFF.contains(&code) => Verdict::Doubtful,
        Operation::Message | Operation::Numbered => Verdict::Lost,
        Operation::Transfer if REFUSALS.contains(&code) || code > FIRST_OF_LIBFABRIC => Verdict::Refused,
        Operation::Transfer if OUT_OF_REACH.contains(&code) => Verdict::Lost,
        Operation::Transfer => Verdict::Doubtful,
    }
}

#[cfg(test)]
mod tests {
    use super::{CUT_OFF, OUT_OF_REACH, Operation, REFUSALS, Verdict, verdict};
    use crate::ofi::sys;

    #[test]
    fn a_transfer_that_fails_without_a_reason_says_nothing_of_its_peer() {
        // As `verbs` and `cxi` say of a transfer to memory that is not there any more.
        for code in [libc::EIO, libc::EREMOTEIO, libc::EFAULT].into_iter().chain(CUT_OFF) {
            assert_eq!(verdict(Operation::Transfer, code), Verdict::Doubtful, "{code}");
        }
        for code in OUT_OF_REACH {
            assert_eq!(verdict(Operation::Transfer, code), Verdict::Lost, "{code}");
        }
        for code in REFUSALS.into_iter().chain([257, sys::FI_ENOKEY as i32, 300]) {
            assert_eq!(verdict(Operation::Transfer, code), Verdict::Refused, "{code}");
        }
    }

    #[test]
    fn a_message_is_missing_unless_it_can_be_asked_again() {
        for code in [libc::EIO, libc::EACCES, 300].into_iter().chain(OUT_OF_REACH) {
            assert_eq!(verdict(Operation::Message, code), Verdict::Lost, "{code}");
        }
        for code in CUT_OFF {
            assert_eq!(verdict(Operation::Message, code), Verdict::Doubtful, "{code}");
            assert_eq!(verdict(Operation::Numbered, code), Verdict::Lost, "{code}");
        }
    }
}
