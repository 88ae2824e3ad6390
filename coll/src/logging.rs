//! What svmio tells besides MPI's error codes: to standard error, as much as `SVMIO_LOG` asks for.

use std::sync::Once;

use tracing_subscriber::EnvFilter;

/// Starts logging, once. `SVMIO_LOG` is `error`, `warn` (the default), `info`, `debug`, `trace` or a filter of the
/// `tracing` kind.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let filter = EnvFilter::try_from_env("SVMIO_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
        let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // Where standard error cannot be written to, as after the end of a terminal, telling that would panic.
        let format = format.log_internal_errors(false);
        // Fails where the program has a subscriber of its own: that one gets the events then.
        let _ = format.with_ansi(false).without_time().with_target(false).try_init();
    });
}
