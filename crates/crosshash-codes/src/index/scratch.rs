//! Memory that a thread uses for one query after the other.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Calls `search` with the memory of this thread, or with new memory if a search of this thread is using it already.
pub(super) fn with_scratch<S: Default, T>(
    memory: &'static LocalKey<RefCell<S>>,
    search: impl FnOnce(&mut S) -> T,
) -> T {
    memory.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => search(&mut scratch),
        Err(_) => search(&mut S::default()),
    })
}
