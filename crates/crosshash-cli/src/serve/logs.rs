//! The log on stderr: one line per event, as text or JSON.

use clap::ValueEnum;
use tracing::Level;

/// The format of a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// key=value text
    Text,
    /// one JSON object per line
    Json,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    /// internal errors
    Error,
    /// also warnings
    Warn,
    /// also starts, reloads, stops
    Info,
    /// also every request
    Debug,
}

/// Starts the log of this process.
pub(crate) fn start(format: Format, level: LogLevel) {
    let max_level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    // Events of other libraries are not logged.
    let ours = tracing_subscriber::filter::filter_fn(move |event| {
        *event.level() <= max_level && event.target().starts_with("crosshash")
    });
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::util::SubscriberInitExt as _;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry();
    // A second call in one process keeps the first log.
    let _ = match format {
        Format::Text => registry.with(lines.with_ansi(false).with_filter(ours)).try_init(),
        Format::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(ours)).try_init()
        }
    };
}
