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

/// Why a provider does not take an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It has no room for it now.
    Busy,
    /// This process or its machine lacks something that it takes.
    Short,
    /// It cannot do this one, as memory cannot be written that it wants to map for that.
    Unfit,
    /// The peer cannot be reached.
    Lost,
}

/// What is short while others have it: descriptors, memory, ports, what an adapter translates addresses by.
const SHORTAGES: [i32; 6] =
    [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::ENOSPC, libc::EADDRNOTAVAIL];

/// What is wrong with an operation itself.
const UNFIT: [i32; 7] =
    [libc::EFAULT, libc::EINVAL, libc::EMSGSIZE, libc::EACCES, libc::EPERM, libc::EOPNOTSUPP, libc::ENOSYS];

/// What it says that the provider does not take an operation, with this `code`.
pub(super) fn refusal(code: i32) -> Refusal {
    match code {
        libc::EAGAIN => Refusal::Busy,
        code if SHORTAGES.contains(&code) => Refusal::Short,
        code if UNFIT.contains(&code) || code >= FIRST_OF_LIBFABRIC => Refusal::Unfit,
        _ => Refusal::Lost,
    }
}

/// What providers say of what was under way when a connection was closed.
const CUT_OFF: [i32; 5] =
    [libc::ECANCELED, libc::ENOTCONN, libc::ECONNRESET, libc::ECONNABORTED, libc::EPIPE];

/// What they say of a transfer that the peer refused, and of nothing else; besides these there are libfabric's own
/// codes, such as that of a key that there is not.
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
    use super::{
        CUT_OFF, OUT_OF_REACH, Operation, REFUSALS, Refusal, SHORTAGES, UNFIT, Verdict, refusal, verdict,
    };
    use crate::ofi::sys;

    #[test]
    fn what_cannot_be_posted_says_something_of_the_peer_only_where_that_cannot_be_reached() {
        assert_eq!(refusal(libc::EAGAIN), Refusal::Busy);
        for code in SHORTAGES {
            assert_eq!(refusal(code), Refusal::Short, "{code}");
        }
        for code in UNFIT.into_iter().chain([258, 266]) {
            assert_eq!(refusal(code), Refusal::Unfit, "{code}");
        }
        for code in OUT_OF_REACH.into_iter().chain(CUT_OFF) {
            assert_eq!(refusal(code), Refusal::Lost, "{code}");
        }
    }

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
