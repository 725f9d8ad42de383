//! `Replaced`: versions of models that were replaced while requests used them. Every request keeps the version
//! it started with; without a limit, frequent reloads under long requests would keep many in memory.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Replaced versions in use, from which on a reload waits.
const MOST: usize = 2;
/// How long a reload waits before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Replaced<T>(Mutex<Vec<Weak<T>>>);

impl<T> Default for Replaced<T> {
    fn default() -> Replaced<T> {
        Replaced(Mutex::default())
    }
}

impl<T> Replaced<T> {
    /// Adds a version that was replaced.
    pub(crate) fn add(&self, version: &Arc<T>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(version));
    }

    /// Returns when there is room for another version.
    pub(crate) async fn room(&self) {
        while self.in_use() >= MOST {
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn in_use(&self) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|one| one.strong_count() > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_when_few_replaced_versions_are_in_use() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let replaced = Replaced::default();
            let has_room = async |replaced: &Replaced<u8>| {
                tokio::time::timeout(2 * PAUSE, replaced.room()).await.is_ok()
            };
            let mut versions: Vec<Arc<u8>> = (0..3).map(Arc::new).collect();
            replaced.add(&versions[0]);
            assert!(has_room(&replaced).await);
            replaced.add(&versions[1]);
            assert!(!has_room(&replaced).await);
            versions.remove(0);
            assert!(has_room(&replaced).await);
            replaced.add(&versions[1]);
            assert!(!has_room(&replaced).await);
            drop(versions);
            assert!(has_room(&replaced).await);
        });
    }
}
