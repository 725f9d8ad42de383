//! The log: lines on stderr, as text or as JSON, one per event.

use clap::ValueEnum;
use tracing::Level;

/// The form of a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Form {
    /// key=value, for people
    Text,
    /// one JSON object a line, for machines
    Json,
}

/// What is worth a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Detail {
    /// failures of the server
    Error,
    /// and what should be looked at
    Warn,
    /// and starts, reloads, stops
    Info,
    /// and every request
    Debug,
}

/// Starts the log of this process.
pub(crate) fn start(form: Form, detail: Detail) {
    let level = match detail {
        Detail::Error => Level::ERROR,
        Detail::Warn => Level::WARN,
        Detail::Info => Level::INFO,
        Detail::Debug => Level::DEBUG,
    };
    // Libraries below us have their own idea of what is worth telling.
    let ours = tracing_subscriber::filter::filter_fn(move |event| {
        *event.level() <= level && event.target().starts_with("crosshash")
    });
    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::util::SubscriberInitExt as _;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let registry = tracing_subscriber::registry();
    // A second start in one process keeps the first log.
    let _ = match form {
        Form::Text => registry.with(lines.with_ansi(false).with_filter(ours)).try_init(),
        Form::Json => {
            registry.with(lines.json().flatten_event(true).with_filter(ours)).try_init()
        }
    };
}
