//! A few rows that tell in half a minute whether svmio is still what it was.

use super::{Bed, HARD, MEBIBYTE};
use crate::files::workload::{Goal, Workload};

impl Bed {
    /// One row of each kind of use, with the goals that it must keep.
    ///
    /// They lie well below what two virtual cores measure with all of a file (docs/measured.md): a machine that
    /// others share comes that far, and svmio without one of its fast paths does not.
    pub(super) fn short(self) -> Vec<Workload> {
        let mut hard = self.blocks(32 * MEBIBYTE, "interleaved", HARD);
        hard.title = format!("ior hard: {}", hard.title);
        let apart = self.apart(4 << 10, 16 * MEBIBYTE);
        let times = |times| Goal::TimesStock(times);
        vec![
            // 41 to 46, and 62.
            self.interleaved(2 * MEBIBYTE, 8, "file", "collective")
                .with_goals(&[("write", times(10.0)), ("read", times(4.0))]),
            // 9 to 11, and 2.1 to 2.5; with large pages on both sides 2.4 and 1.4.
            hard.with_goals(&[("write", times(1.3)), ("read", times(1.0))]),
            // 4.4 and 3.4.
            self.small(8 * MEBIBYTE).with_goals(&[("write", times(1.5)), ("read", times(1.5))]),
            // 2.3.
            self.open_close(200).with_goals(&[("pair", times(1.0))]),
            // As much as an independent one; stock drivers are not needed for that.
            Workload { is_compared: false, ..apart }
                .with_goals(&[("collective", Goal::TimesRow { times: 1.5, row: "independent" })]),
        ]
    }
}
