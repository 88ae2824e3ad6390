//! Where bytes lie that a call sends, or receives, without a copy.

use std::ffi::c_void;

/// The addresses of some bytes, from the first to the last of them; or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    from: usize,
    to: usize,
}

impl Addresses {
    pub(crate) const NONE: Self = Self { from: 0, to: 0 };

    /// Those of so many bytes.
    #[inline]
    pub(crate) fn of(at: *const c_void, length: usize) -> Self {
        if length == 0 {
            return Self::NONE;
        }
        let from = at.addr();
        Self { from, to: from.saturating_add(length) }
    }

    /// Whether an address is among both.
    #[inline]
    pub(crate) fn overlap(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// From the first of both to the last.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NONE, some) | (some, Self::NONE) => some,
            _ => Self { from: self.from.min(other.from), to: self.to.max(other.to) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;

    fn addresses(from: usize, length: usize) -> Addresses {
        Addresses::of(std::ptr::without_provenance(from), length)
    }

    #[test]
    fn bytes_overlap_that_have_one_in_common() {
        for (other, expected) in
            [((10, 5), true), ((14, 1), true), ((5, 6), true), ((12, 1), true), ((0, 40), true)]
                .into_iter()
                .chain([((15, 5), false), ((5, 5), false), ((12, 0), false), ((0, 0), false)])
        {
            let (one, other) = (addresses(10, 5), addresses(other.0, other.1));
            assert_eq!((one.overlap(other), other.overlap(one)), (expected, expected), "{other:?}");
        }
        assert!(!Addresses::NONE.overlap(Addresses::NONE));
    }

    #[test]
    fn several_reach_from_the_first_to_the_last() {
        let all = [addresses(30, 2), addresses(50, 0), addresses(10, 5), Addresses::NONE]
            .into_iter()
            .fold(Addresses::NONE, Addresses::and);
        assert_eq!(all, addresses(10, 22));
    }
}
