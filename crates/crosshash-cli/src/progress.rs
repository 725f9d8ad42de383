//! Progress on stderr: a bar on a terminal, otherwise a line every ten seconds; nothing for work
//! shorter than two seconds.

use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time before progress is shown.
const QUIET: Duration = Duration::from_secs(2);
/// Interval of progress lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of one task, counted in items.
pub struct Progress {
    what: String,
    total: u64,
    started: Instant,
    bar: Option<ProgressBar>,
    last_line: Mutex<Instant>,
}

impl Progress {
    /// Starts the clock; shows nothing yet.
    pub fn new(what: impl Into<String>, total: usize) -> Progress {
        let what = what.into();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(total as u64),
                ProgressDrawTarget::hidden(),
            );
            let style = ProgressStyle::with_template(
                "{msg} [{bar:30}] {human_pos}/{human_len} {per_sec}, {eta} left",
            );
            if let Ok(style) = style {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.with_message(what.clone())
        });
        let started = Instant::now();
        Progress { what, total: total as u64, started, bar, last_line: Mutex::new(started) }
    }

    /// Sets the number of items done; can be called from any thread.
    pub fn set(&self, done: usize) {
        self.set_with(done, String::new);
    }

    /// The same, with an additional message.
    pub fn set_with(&self, done: usize, more: impl Fn() -> String) {
        if self.started.elapsed() < QUIET {
            return;
        }
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                let more = more();
                if !more.is_empty() {
                    bar.set_message(format!("{}: {more}", self.what));
                }
                bar.set_position(done as u64);
            }
            None => self.line(done as u64, more),
        }
    }

    fn line(&self, done: u64, more: impl Fn() -> String) {
        let Ok(mut last) = self.last_line.lock() else { return };
        if last.elapsed() < LINE_EVERY && done < self.total {
            return;
        }
        *last = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = done as f64 / seconds;
        let left = (self.total.saturating_sub(done)) as f64 / rate.max(1e-9);
        let more = more();
        let more = if more.is_empty() { more } else { format!("; {more}") };
        say(format!(
            "{}: {done} of {} in {seconds:.0} s, {}, {left:.0} s left{more}",
            self.what,
            self.total,
            pace(rate)
        ));
    }
}

/// Items per second, or seconds per item if one takes longer than a second.
fn pace(rate: f64) -> String {
    if rate >= 1.0 {
        format!("{rate:.0}/s")
    } else {
        format!("{:.1} s each", 1.0 / rate.max(1e-9))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Prints a message on stderr; stdout is for data.
pub fn say(line: impl std::fmt::Display) {
    use std::io::Write as _;
    // A closed stderr must not stop the work.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::pace;

    #[test]
    fn slow_work_is_shown_in_seconds_per_item() {
        assert_eq!(pace(1234.4), "1234/s");
        assert_eq!(pace(1.0), "1/s");
        assert_eq!(pace(0.2), "5.0 s each");
    }
}
