//! Which bytes of a file a view shows, and which of them an access is to.

/// A rank's view: blocks of bytes at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    /// Its first byte.
    pub(crate) from: u64,
    /// How the program makes its datatype (`programs/mpi_model/view.c`).
    pub(crate) kind: &'static str,
    pub(crate) block: u64,
    /// From the beginning of a block to that of the next one; as long as a block where there are no gaps.
    pub(crate) stride: u64,
}

impl View {
    /// What a file has that was just opened.
    pub(crate) const WHOLE: View = View { from: 0, kind: "bytes", block: 1, stride: 1 };

    /// Where in the file a byte of the view is.
    pub(crate) fn place(&self, at: u64) -> u64 {
        self.from + at / self.block * self.stride + at % self.block
    }

    /// How many of its bytes are before this place of the file.
    pub(crate) fn bytes_before(&self, place: u64) -> u64 {
        let behind = place.saturating_sub(self.from);
        behind / self.stride * self.block + (behind % self.stride).min(self.block)
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.block == self.stride
    }

    /// The bytes that `length` bytes from `at` on are.
    pub(crate) fn span(&self, at: u64, length: u64) -> Span {
        Span { view: *self, at, length }
    }
}

/// The bytes of the file that an access is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    view: View,
    at: u64,
    pub(crate) length: u64,
}

impl Span {
    /// All bytes from this place on.
    pub(crate) fn from(place: u64) -> Span {
        View::WHOLE.span(place, u64::MAX - place)
    }

    pub(crate) fn start(&self) -> u64 {
        self.view.place(self.at)
    }

    /// Behind the last byte; 0 if there is none.
    pub(crate) fn end(&self) -> u64 {
        if self.length == 0 { 0 } else { self.view.place(self.at + self.length - 1) + 1 }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.view.is_contiguous()
    }

    /// How many of its bytes are before this place of the file.
    pub(crate) fn bytes_before(&self, place: u64) -> u64 {
        self.view.bytes_before(place).saturating_sub(self.at).min(self.length)
    }

    pub(crate) fn may_overlap(&self, other: &Span) -> bool {
        self.length > 0 && other.length > 0 && self.start() < other.end() && other.start() < self.end()
    }

    pub(crate) fn covers(&self, place: u64) -> bool {
        if self.length == 0 || place < self.start() || place >= self.end() {
            return false;
        }
        (place - self.view.from) % self.view.stride < self.view.block
    }

    /// The next place behind this one from which on it may be otherwise.
    pub(crate) fn border_behind(&self, place: u64) -> u64 {
        let (start, end) = (self.start(), self.end());
        if self.length == 0 || place >= end {
            return u64::MAX;
        }
        if place < start {
            return start;
        }
        if self.is_contiguous() {
            return end;
        }
        let (block, stride) = (self.view.block, self.view.stride);
        let within = (place - self.view.from) % stride;
        let border = if within < block { block } else { stride };
        (place - within + border).min(end)
    }

    /// The pieces of the file that it is, in their order, as their places and lengths.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Span { view, mut at, length } = *self;
        let end = at + length;
        std::iter::from_fn(move || {
            let piece =
                if view.is_contiguous() { end - at } else { (view.block - at % view.block).min(end - at) };
            let place = view.place(at);
            at += piece;
            (piece > 0).then_some((place, piece))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_covers_the_bytes_of_its_pieces_and_changes_at_borders_only() {
        let view = View { from: 5, kind: "vector", block: 3, stride: 7 };
        for (at, length) in [(0, 1), (1, 9), (2, 4), (4, 0), (3, 3)] {
            let span = view.span(at, length);
            let pieces: Vec<u64> = span.pieces().flat_map(|(from, length)| from..from + length).collect();
            let covered: Vec<u64> = (0..60).filter(|place| span.covers(*place)).collect();
            assert_eq!(covered, pieces);
            assert_eq!(pieces.len() as u64, length);
            for place in 0..60 {
                let border = span.border_behind(place).min(60);
                assert!((place..border).all(|other| span.covers(other) == span.covers(place)), "{span:?}");
                let before = pieces.iter().filter(|piece| **piece < place).count() as u64;
                assert_eq!(span.bytes_before(place), before);
            }
        }
    }
}
