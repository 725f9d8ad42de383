//! `View`: what can be found since one commit, and codes as texts.

use std::sync::OnceLock;

use crosshash_codes::index::Query;
use crosshash_codes::segments::Snapshot;
use crosshash_codes::{BitOrder, Bits, Codes, hex};

use super::error::{ApiError, ApiResult};

/// What can be found since one commit.
pub(crate) struct View {
    pub(crate) snapshot: Snapshot,
    counts: OnceLock<Vec<usize>>,
}

impl View {
    pub(crate) fn new(snapshot: Snapshot) -> View {
        View { snapshot, counts: OnceLock::new() }
    }

    /// How many items carry each label.
    pub(crate) fn label_counts(&self) -> &[usize] {
        self.counts.get_or_init(|| {
            let mut counts = vec![0; self.snapshot.label_names().len()];
            let everything = Query::within(u32::MAX);
            let zero = Codes::from_words(self.snapshot.bits(), vec![0; self.words()]);
            let all =
                zero.and_then(|zero| self.snapshot.search(&zero, &everything, &|_| ()));
            for found in all.into_iter().flatten().flatten() {
                for label in self.snapshot.labels(found.hit.item) {
                    if let Some(count) = counts.get_mut(label) {
                        *count += 1;
                    }
                }
            }
            counts
        })
    }

    fn words(&self) -> usize {
        self.snapshot.bits().words()
    }

    /// The item that is called so.
    pub(crate) fn find(&self, id: &str) -> ApiResult<Option<u32>> {
        let Some(id) = self.snapshot.typed_id(id) else { return Ok(None) };
        self.snapshot.find(&id).map_err(ApiError::internal)
    }

    /// The code of an item, in hexadecimal.
    pub(crate) fn hex(&self, item: u32) -> String {
        hex(self.snapshot.bits(), self.snapshot.code(item))
    }

    /// The names of an item's labels.
    pub(crate) fn label_names(&self, item: u32) -> Vec<String> {
        let names = self.snapshot.label_names();
        let name = |label: usize| names.get(label).cloned().unwrap_or(label.to_string());
        self.snapshot.labels(item).into_iter().map(name).collect()
    }
}

/// A code in hexadecimal, as code files pack it: lowest bit first.
pub(crate) fn hex(bits: Bits, code: &[u64]) -> String {
    let bytes = code.iter().flat_map(|word| word.to_le_bytes());
    hex::encode(bytes.take(bits.bytes()))
}

/// The words of a code in hexadecimal.
pub(crate) fn from_hex(bits: Bits, text: &str) -> ApiResult<Vec<u64>> {
    let bytes = hex::decode(text).filter(|bytes| bytes.len() == bits.bytes());
    let codes =
        bytes.and_then(|bytes| Codes::from_packed(bits, &bytes, BitOrder::Lsb).ok());
    codes.map(|codes| codes.words().to_vec()).ok_or_else(|| {
        ApiError::bad_request(format!(
            "a code is {} hexadecimal digits ({bits} bits, lowest bit first), with zeros beyond \
             the last bit",
            2 * bits.bytes()
        ))
    })
}
