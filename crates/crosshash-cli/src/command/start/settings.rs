//! Settings of a training by what the data are and how many.

use crosshash::data::Manifest;

/// A method with its settings.
pub(super) struct Chosen {
    pub(super) method: &'static str,
    pub(super) bits: usize,
    pub(super) set: Vec<String>,
    /// Whether the final model is trained again on all items.
    pub(super) refit: bool,
    /// The reason, as a sentence.
    pub(super) why: String,
}

/// Chooses by modalities, labels and number of items.
pub(super) fn choose(manifest: &Manifest, items: usize, bits: usize) -> Chosen {
    if manifest.modality.len() < 2 {
        return Chosen {
            method: "itq",
            bits: bits.min(items / 2),
            set: Vec::new(),
            refit: false,
            why:
                "one modality and no words: codes are learnt from the features alone (ITQ)"
                    .into(),
        };
    }
    let learnt = if manifest.labels.is_some() {
        "pairs and labels"
    } else {
        "pairs; there are no labels"
    };
    // Small data are trained for more epochs with smaller towers, and on single words in most steps: a word has few
    // texts to be learnt from (docs/start.md has the figures).
    let (hidden, epochs) = match items {
        ..=5_000 => (512, 60),
        5_001..=30_000 => (1_024, 30),
        _ => (2_048, 15),
    };
    let set = [("hidden", hidden), ("hidden_sparse", hidden), ("epochs", epochs)];
    let mut set = set.map(|(key, value)| format!("{key}={value}")).to_vec();
    if items <= 5_000 {
        set.extend(["plus.truncate=0.9".to_owned(), "plus.max_words=1".to_owned()]);
    }
    Chosen {
        method: "jcch+",
        bits,
        set,
        refit: items <= 30_000,
        why: format!("JCCH+ learns from {learnt}"),
    }
}
