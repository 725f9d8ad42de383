//! Ctrl-C: while a training runs the first asks it to stop where it can go on later, the second ends
//! the program; elsewhere the first ends it, because files are written whole or not at all.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::say;

/// What the program answers when it was interrupted, as shells expect it.
const INTERRUPTED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);
static LISTENING: AtomicBool = AtomicBool::new(false);
static HANDED_OVER: AtomicBool = AtomicBool::new(false);
static CATCHING: OnceLock<()> = OnceLock::new();

/// As long as it lives, Ctrl-C (and a polite kill) only asks; [`asked`] tells.
pub struct Asking;

/// From now on, until the answer is dropped, Ctrl-C only asks.
pub fn catch() -> Asking {
    CATCHING.get_or_init(|| {
        let handler = || {
            if HANDED_OVER.load(Ordering::SeqCst) {
                return;
            }
            if ASKED.swap(true, Ordering::SeqCst) || !LISTENING.load(Ordering::SeqCst) {
                std::process::exit(INTERRUPTED.into());
            }
            say("stopping after this step; press Ctrl-C again to stop at once");
        };
        // Where signals cannot be caught, the program ends as it always would.
        let _ = ctrlc::set_handler(handler);
    });
    LISTENING.store(true, Ordering::SeqCst);
    Asking
}

impl Drop for Asking {
    fn drop(&mut self) {
        LISTENING.store(false, Ordering::SeqCst);
    }
}

/// From now on somebody else listens to Ctrl-C: a server, which ends what it has begun.
pub fn hand_over() {
    HANDED_OVER.store(true, Ordering::SeqCst);
}

/// Whether the user wants to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// The exit code of work that stopped because it was asked to.
pub fn exit_code() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}
