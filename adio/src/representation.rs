//! How the data of a view are represented in the file. ROMIO hears of `native` ones only, see
//! [`converting`](crate::converting).

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// One of MPI's data representations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    Native,
    /// The same bytes, under another name.
    Internal,
    External32,
}

impl Representation {
    const ALL: [Representation; 3] =
        [Representation::Native, Representation::Internal, Representation::External32];

    /// The one that ROMIO knows by that name.
    pub(crate) fn named(name: &CStr) -> Option<Representation> {
        match name.to_bytes() {
            b"native" | b"NATIVE" => Some(Representation::Native),
            b"internal" | b"INTERNAL" => Some(Representation::Internal),
            b"external32" | b"EXTERNAL32" => Some(Representation::External32),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Representation::Native => c"native",
            Representation::Internal => c"internal",
            Representation::External32 => c"external32",
        }
    }
}

/// That of a file's view, which all ranks set together, when no access is under way.
#[derive(Debug)]
pub(crate) struct OfView(AtomicU8);

impl OfView {
    pub(crate) const fn new(representation: Representation) -> OfView {
        OfView(AtomicU8::new(representation as u8))
    }

    pub(crate) fn set(&self, representation: Representation) {
        // Relaxed: no access is under way.
        self.0.store(representation as u8, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> Representation {
        // Relaxed: as above.
        Representation::ALL[usize::from(self.0.load(Ordering::Relaxed)).min(Representation::ALL.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_by_which_it_is_known() {
        for representation in Representation::ALL {
            assert_eq!(Representation::named(representation.name()), Some(representation));
            assert_eq!(OfView::new(representation).get(), representation);
        }
        let upper = [c"NATIVE", c"INTERNAL", c"EXTERNAL32"].map(Representation::named);
        assert_eq!(upper, Representation::ALL.map(Some));
        assert_eq!(Representation::named(c"Native"), None);
    }

    #[test]
    fn the_one_that_was_set_is_told() {
        let of_view = OfView::new(Representation::Native);
        for representation in Representation::ALL {
            of_view.set(representation);
            assert_eq!(of_view.get(), representation);
        }
    }
}
