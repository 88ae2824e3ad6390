//! What svmio tells besides errors: to standard error, as much as `SVMIO_LOG` asks for.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging. `SVMIO_LOG` is as for programs that `svmio run` starts: `warn` is the default.
pub(crate) fn start() {
    let asked = std::env::var("SVMIO_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // Where standard error cannot be written to, as after the end of a terminal, telling that would panic.
    let format = format.log_internal_errors(false);
    let format = format.with_ansi(false).without_time().with_target(false);
    // It is the only one here.
    let _ = tracing_subscriber::registry().with(filter).with(format).try_init();
}
