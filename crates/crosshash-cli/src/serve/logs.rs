//! The log on stderr: one line per event, as text or JSON.

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::{MakeWriter, format};
use tracing_subscriber::registry::LookupSpan;

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
    let registry = tracing_subscriber::registry();
    // A second call in one process keeps the first log.
    let _ = match format {
        Format::Text => registry.with(text(std::io::stderr).with_filter(ours)).try_init(),
        Format::Json => {
            let lines = tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_target(false)
                .json()
                .flatten_event(true);
            registry.with(lines.with_filter(ours)).try_init()
        }
    };
}

/// Lines of text; control characters in values are escaped.
fn text<S, W>(writer: W) -> impl tracing_subscriber::Layer<S>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    let fields = format::debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        let escaped = value.chars().map(|c| match c {
            c if c.is_control() => c.escape_default().to_string(),
            c => c.to_string(),
        });
        let escaped: String = escaped.collect();
        match field.name() {
            "message" => write!(writer, "{escaped}"),
            name => write!(writer, "{name}={escaped}"),
        }
    });
    tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_target(false)
        .with_ansi(false)
        .fmt_fields(fields.delimited(" "))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Names of items and files may contain control characters, which a terminal would obey.
    #[test]
    fn control_characters_are_escaped() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::registry().with(super::text(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let bad = "a\u{1b}[31mb\u{7}c\r";
            tracing::warn!(id = bad, error = %bad, "{bad}");
        });
        let line = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(line.lines().count(), 1, "{line:?}");
        assert!(!line.trim_end_matches('\n').contains(char::is_control), "{line:?}");
    }
}
