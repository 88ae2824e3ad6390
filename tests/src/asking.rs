//! How much is asked of the tests.

/// Whether the tests that repeat themselves shall do so as often as is promised, and not as often as fits into
/// a check of minutes: `SVMIO_FULL=1`.
pub fn is_full_run() -> bool {
    std::env::var_os("SVMIO_FULL").is_some_and(|value| value == "1")
}
