//! What svmio tells besides errors: to standard error, as much as `SVMIO_LOG` asks for.

use tracing_subscriber::EnvFilter;

/// Starts logging. `SVMIO_LOG` is as for programs that `svmio run` starts: `warn` is the default.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("SVMIO_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Where standard error cannot be written to, as after the end of a terminal, telling that would panic.
    let format = format.log_internal_errors(false);
    // It is the only one here.
    let _ = format.with_ansi(false).without_time().with_target(false).try_init();
}
