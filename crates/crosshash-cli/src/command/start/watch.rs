//! Looks for changed files while the page is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crosshash::data::import;

use super::{Folders, train, update};
use crate::progress::say;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// Stops looking when it is dropped.
pub(super) struct Watching(Arc<AtomicBool>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Starts a thread that updates the run when the files of the source have changed and are no longer
/// changing. The service notices the new codes by itself.
pub(super) fn start(folders: Folders, args: train::Args) -> Watching {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        let look = || import::fingerprint(&folders.source).ok();
        let mut known = look();
        let mut last = known;
        while !stopped.load(Ordering::SeqCst) {
            std::thread::sleep(EVERY);
            let now = look();
            if now == known || now != last {
                last = now; // unchanged, or still changing
                continue;
            }
            let Some(fingerprint) = now else { continue };
            known = now;
            if let Err(err) = update(&folders, &args, fingerprint) {
                say(format!("the page shows the last state: {err:#}"));
            }
        }
    });
    Watching(stop)
}
