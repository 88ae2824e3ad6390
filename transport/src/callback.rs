//! Calling what the program left to be called.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it; returns whether it panicked, which is to be logged. The program's panic is the program's: the thread here
/// serves others, who would wait for ever.
#[must_use = "whether it panicked is to be logged"]
pub(crate) fn panics(callback: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(callback)).is_err()
}
