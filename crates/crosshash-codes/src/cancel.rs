//! `Cancel`: tells work that nobody waits for its result any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// A flag that is shared by the work and by the one who waits for it. Clones are the same flag. The
/// library reads no clock: a caller with a deadline sets the flag when the time is over.
///
/// ```
/// use crosshash_codes::Cancel;
///
/// let cancel = Cancel::default();
/// assert!(cancel.check().is_ok());
/// cancel.clone().cancel();
/// assert_eq!(cancel.check().unwrap_err().to_string(), "cancelled");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the work to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if the work is to stop; long loops call it.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
