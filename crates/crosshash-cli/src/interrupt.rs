//! Ctrl-C: the first one stops a training at a step from which it can be resumed, the second one ends
//! the program. Outside of a training the first one ends it; all files are written atomically.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::say;

/// The exit code of an interrupted program, by convention of shells.
const INTERRUPTED: u8 = 130;

static REQUESTED: AtomicBool = AtomicBool::new(false);
static LISTENING: AtomicBool = AtomicBool::new(false);
static HANDED_OVER: AtomicBool = AtomicBool::new(false);
static CATCHING: OnceLock<()> = OnceLock::new();

/// While it exists, Ctrl-C and SIGTERM only request a stop; see [`requested`].
pub struct StopGuard;

/// Until the returned value is dropped, Ctrl-C only requests a stop.
pub fn catch() -> StopGuard {
    CATCHING.get_or_init(|| {
        let handler = || {
            if HANDED_OVER.load(Ordering::SeqCst) {
                return;
            }
            if REQUESTED.swap(true, Ordering::SeqCst) || !LISTENING.load(Ordering::SeqCst) {
                std::process::exit(INTERRUPTED.into());
            }
            say("stopping after this step; press Ctrl-C again to stop at once");
        };
        // If signals cannot be caught, Ctrl-C ends the program.
        let _ = ctrlc::set_handler(handler);
    });
    LISTENING.store(true, Ordering::SeqCst);
    StopGuard
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        LISTENING.store(false, Ordering::SeqCst);
    }
}

/// From now on Ctrl-C is handled elsewhere: by a server, which completes requests in progress.
pub fn hand_over() {
    HANDED_OVER.store(true, Ordering::SeqCst);
}

/// Whether a stop was requested.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

/// The exit code after a requested stop.
pub fn exit_code() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}
