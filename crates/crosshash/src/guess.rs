//! Guessed words: what a classifying backbone says about pictures without text.
//!
//! A picture gets the names of its most likely classes as text, with their probabilities, and its most
//! likely classes as labels. They are written to a table of their own, in a modality of their own, so
//! that nobody takes them for words that a person wrote.

use std::io::Write as _;
use std::path::Path;

use crosshash_codes::write::atomically;
use serde_json::json;

use crate::backbone::Loaded;
use crate::data::{
    Analysis, Features, Items, LabelSource, Language, LoadedDataset, MANIFEST, Manifest,
    Many, ModalitySource,
};
use crate::featurize::FeatureExtractor;
use crate::{Error, Result};

/// The name of the table.
pub const TABLE: &str = "crosshash-guessed.jsonl";
/// The name of the modality.
pub const MODALITY: &str = "guessed";

/// Which classes are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuessOptions {
    /// Maximum number of classes in a text.
    pub max_classes: usize,
    /// Smallest probability of a class in a text.
    pub min_probability: f32,
    /// Smallest probability of a label. The most likely class is always one.
    pub label_probability: f32,
}

impl Default for GuessOptions {
    fn default() -> GuessOptions {
        GuessOptions { max_classes: 5, min_probability: 0.05, label_probability: 0.3 }
    }
}

/// The guess about one picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// The id of the picture.
    pub id: String,
    /// Names of classes, synonyms separated by commas, with their probabilities; the best first.
    pub classes: Vec<(String, f32)>,
}

impl Guess {
    /// The names with their probabilities in percent, e.g. "tabby, tabby cat (62 %); lynx (7 %)".
    pub fn text(&self) -> String {
        let each =
            self.classes.iter().map(|(name, p)| format!("{name} ({:.0} %)", 100.0 * p));
        each.collect::<Vec<_>>().join("; ")
    }

    /// The first names of the classes that are labels.
    pub fn labels(&self, options: &GuessOptions) -> Vec<String> {
        let likely = |(k, (_, p)): &(usize, &(String, f32))| {
            *k == 0 || *p >= options.label_probability
        };
        let named = self.classes.iter().enumerate().filter(likely);
        let first = |name: &str| name.split(',').next().unwrap_or(name).trim().to_owned();
        named.map(|(_, (name, _))| first(name)).collect()
    }
}

/// Guesses the classes of the pictures of a modality. Pictures that cannot be read have no guess, if the
/// extractor skips them.
pub fn guess(
    opened: &LoadedDataset,
    modality: &str,
    loaded: &Loaded,
    extractor: &FeatureExtractor<'_>,
    options: &GuessOptions,
) -> Result<Vec<Guess>> {
    let name = &loaded.feature_source().backbone;
    let classifier = loaded.backbone().classifier().ok_or_else(|| {
        Error::content(format!("backbone {name} does not classify; use efficientnet-lite0"))
    })?;
    let modality = opened.dataset.modality(modality)?;
    if !matches!(modality.features(), Features::Pictures(_)) {
        return Err(Error::content(format!(
            "modality {} has no pictures",
            modality.name()
        )));
    }
    let extracted = extractor.extract(loaded, modality.features(), modality.name())?;
    let width = extracted.rows.width();
    let rows = extracted.rows.values().chunks_exact(width.max(1));
    let one = |(&item, row): (&usize, &[f32])| {
        let mut best = classifier.best(row, options.max_classes);
        let likely = best.iter().filter(|(_, p)| *p >= options.min_probability).count();
        best.truncate(likely.max(1));
        let named = |(class, p): (usize, f32)| (classifier.names()[class].clone(), p);
        Guess {
            id: modality.ids()[item].clone(),
            classes: best.into_iter().map(named).collect(),
        }
    };
    Ok(extracted.kept.iter().zip(rows).map(one).collect())
}

/// Writes guesses beside a manifest without an item table, and adds them to it as a modality of texts and,
/// if it has no labels, as labels.
pub fn add(folder: &Path, guesses: &[Guess], options: &GuessOptions) -> Result<()> {
    let (mut manifest, path) = Manifest::read(folder)?;
    if manifest.items.as_ref().is_some_and(|items| !is_ours(items)) {
        return Err(Error::content(
            "the items have a table; guessed words are for pictures without one",
        )
        .at(&path));
    }
    atomically(&folder.join(TABLE), |out| {
        for guess in guesses {
            let row = json!({
                "id": guess.id, "guessed": guess.text(), "classes": guess.labels(options),
            });
            serde_json::to_writer(&mut *out, &row).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    let text = Some(Many::One("guessed".to_owned()));
    // Probabilities are for readers, not words. The names of the classes are English.
    let stem = Some(Language::English);
    let analysis = Some(Analysis { digits: false, stem, ..Analysis::default() });
    manifest.modality.insert(
        MODALITY.into(),
        ModalitySource { text, analysis, ..ModalitySource::default() },
    );
    manifest.items = Some(Items {
        table: Many::One(TABLE.into()),
        id: Some("id".into()),
        ..Items::default()
    });
    if manifest.labels.is_none() {
        let column = Some(Many::One("classes".to_owned()));
        manifest.labels = Some(LabelSource { column, ..LabelSource::default() });
    }
    let text = manifest.to_toml()?;
    Ok(atomically(&folder.join(MANIFEST), |out| Ok(out.write_all(text.as_bytes())?))?)
}

fn is_ours(items: &Items) -> bool {
    items.table == Many::One(TABLE.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_become_texts_and_labels() {
        let classes =
            vec![("tabby, tabby cat".to_owned(), 0.62), ("lynx".to_owned(), 0.07)];
        let guess = Guess { id: "a/1".into(), classes };
        assert_eq!(guess.text(), "tabby, tabby cat (62 %); lynx (7 %)");
        let options = GuessOptions::default();
        assert_eq!(guess.labels(&options), ["tabby"]);

        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("1.png"), b"x").unwrap();
        fs_err::write(dir.path().join(MANIFEST), "modality.image.pictures = \".\"\n")
            .unwrap();
        let guess = Guess { id: "1".into(), ..guess };
        for _ in 0..2 {
            add(dir.path(), std::slice::from_ref(&guess), &options).unwrap();
        }
        let opened = crate::data::open(dir.path(), None).unwrap();
        assert_eq!(opened.dataset.label_names(), ["tabby"]);
        assert_eq!(opened.dataset.modalities().len(), 2);

        fs_err::write(dir.path().join("t.csv"), "id,x\n1,y\n").unwrap();
        let manifest = "items = { table = \"t.csv\" }\nmodality.t.text = \"x\"\n";
        fs_err::write(dir.path().join(MANIFEST), manifest).unwrap();
        let err = add(dir.path(), &[guess], &options).unwrap_err().to_string();
        assert!(err.contains("the items have a table"), "{err}");
    }
}
