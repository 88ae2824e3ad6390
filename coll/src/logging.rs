//! What svmio tells besides MPI's error codes: to standard error, as much as `SVMIO_LOG` asks for.

use std::sync::Once;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging, once. `SVMIO_LOG` is `error`, `warn` (the default), `info`, `debug`, `trace` or such for single
/// modules, as `svmio_svm=debug,svmio_transport=warn`.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let asked = std::env::var("SVMIO_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
        let filter = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
        let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        // Where standard error cannot be written to, as after the end of a terminal, telling that would panic.
        let format = format.log_internal_errors(false);
        let format = format.with_ansi(false).without_time().with_target(false);
        // Fails where the program has a subscriber of its own: that one gets the events then.
        let _ = tracing_subscriber::registry().with(filter).with(format).try_init();
    });
}
