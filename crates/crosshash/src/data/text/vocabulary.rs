//! The vocabulary: selects and weights terms; fitted on training texts only.
//!
//! Terms are selected by the number of training texts that contain them (df), ties alphabetically, so
//! that the same texts give the same vocabulary. Columns are in alphabetical order. Weights, with tf the
//! number of occurrences in a text and n the number of training texts:
//!
//! ```text
//! binary   1
//! count    tf
//! tf-idf   tf (1 + ln((1 + n) / (1 + df))), rows normalised to length 1   (as scikit-learn)
//! ```
//!
//! Character n-grams of words (`ngrams.rs`), if enabled, are additional terms. Their columns follow those
//! of the words; they are weighted the same way and multiplied by their own weight. They are selected by
//! the number of words of the vocabulary that contain them; unknown words have n-grams, too. Finally,
//! every row is multiplied by a scale ([`Vocabulary::with_scale`], default 1).

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Analyser, Analysis, NGrams};
use crate::data::{Sparse, Texts, Training, View};
use crate::{Error, Result};

/// Weights of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// 1 if the term occurs.
    Binary,
    /// Number of occurrences.
    Count,
    /// Number of occurrences times inverse document frequency; rows have length 1.
    TfIdf,
}

/// The selected terms. It is saved with a model and can be applied to any text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vocabulary {
    analysis: Analysis,
    texts: usize,
    terms: BTreeMap<String, Term>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ngrams: BTreeMap<String, Term>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    scale: f32,
}

fn one() -> f32 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde wants")]
fn is_one(scale: &f32) -> bool {
    *scale == 1.0
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Term {
    pub(super) column: u32,
    pub(super) texts: usize, // training texts that contain it
}

impl Vocabulary {
    /// Fits a vocabulary on the training items of a text modality.
    pub fn fit(
        training: &Training<'_>,
        modality: &str,
        analysis: &Analysis,
    ) -> Result<Vocabulary> {
        let view = training.train(modality)?;
        let texts: Vec<&str> =
            (0..view.len()).map(|at| text_of(&view, at)).collect::<Result<_>>()?;
        let (vocabulary, all) = Vocabulary::learn(&texts, analysis);
        if vocabulary.terms.is_empty() {
            return Err(Error::content(format!(
                "no term of modality {modality} is left of {all} in {} training texts; lower \
                 min_texts or min_length",
                view.len()
            )));
        }
        Ok(vocabulary)
    }

    /// Fits a vocabulary on texts.
    pub fn of_texts(texts: &Texts, analysis: &Analysis) -> Vocabulary {
        let texts: Vec<&str> = (0..texts.len()).map(|item| texts.get(item)).collect();
        Vocabulary::learn(&texts, analysis).0
    }

    /// The vocabulary, and the number of terms before selection.
    fn learn(texts: &[&str], analysis: &Analysis) -> (Vocabulary, usize) {
        let analyser = Analyser::new(analysis);
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut seen: HashSet<String> = HashSet::new();
        for text in texts {
            seen.clear();
            analyser.terms(text, |term| {
                if !seen.contains(term) {
                    seen.insert(term.to_owned());
                }
            });
            for term in seen.drain() {
                *counts.entry(term).or_default() += 1;
            }
        }
        let all = counts.len();
        let terms = choose(counts, texts.len(), analysis);
        let mut vocabulary = Vocabulary {
            analysis: analysis.clone(),
            texts: texts.len(),
            terms,
            ngrams: BTreeMap::new(),
            scale: 1.0,
        };
        if let Some(ngrams) = &analysis.ngrams {
            vocabulary.ngrams = vocabulary.choose_ngrams(ngrams, &analyser, texts);
        }
        (vocabulary, all)
    }

    /// The n-grams of enough words, with the number of texts that contain them.
    fn choose_ngrams(
        &self,
        ngrams: &NGrams,
        analyser: &Analyser,
        texts: &[&str],
    ) -> BTreeMap<String, Term> {
        let mut words: HashMap<String, usize> = HashMap::new();
        let mut seen: HashSet<String> = HashSet::new();
        for word in self.terms.keys() {
            ngrams.of(word, |ngram| {
                if seen.insert(ngram.to_owned()) {
                    *words.entry(ngram.to_owned()).or_default() += 1;
                }
            });
            seen.clear();
        }
        let mut kept: Vec<(String, usize)> =
            words.into_iter().filter(|(_, words)| *words >= ngrams.min_words).collect();
        kept.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        kept.truncate(ngrams.max_terms);
        let mut texts_of: HashMap<String, usize> =
            kept.into_iter().map(|(ngram, _)| (ngram, 0)).collect();
        for text in texts {
            seen.clear();
            analyser.terms(text, |term| {
                ngrams.of(term, |ngram| {
                    if !seen.contains(ngram) {
                        seen.insert(ngram.to_owned());
                    }
                });
            });
            for ngram in &seen {
                texts_of.entry(ngram.clone()).and_modify(|texts| *texts += 1);
            }
        }
        let ordered: BTreeMap<String, usize> = texts_of.into_iter().collect();
        let columns = u32::try_from(self.terms.len()).unwrap_or(u32::MAX)..;
        ordered
            .into_iter()
            .zip(columns)
            .map(|((ngram, texts), column)| (ngram, Term { column, texts }))
            .collect()
    }

    /// Sets the scale, by which every row is multiplied.
    #[must_use]
    pub fn with_scale(self, scale: f32) -> Vocabulary {
        Vocabulary { scale, ..self }
    }

    /// The scale.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// How texts are analysed.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// Whether a term is in the vocabulary, n-grams apart.
    pub fn contains(&self, term: &str) -> bool {
        self.terms.contains_key(term)
    }

    /// Number of training texts that contain a term, n-grams apart; 0 if it is not in the vocabulary.
    pub fn texts_with(&self, term: &str) -> usize {
        self.terms.get(term).map_or(0, |known| known.texts)
    }

    /// A term that is not an n-gram, if it is in the vocabulary.
    pub(super) fn term(&self, word: &str) -> Option<Term> {
        self.terms.get(word).copied()
    }

    /// Calls `take` with each known n-gram of a word.
    pub(super) fn ngrams(&self, word: &str, mut take: impl FnMut(Term)) {
        if let Some(ngrams) = &self.analysis.ngrams {
            ngrams.of(word, |ngram| {
                if let Some(&known) = self.ngrams.get(ngram) {
                    take(known);
                }
            });
        }
    }

    /// All terms and n-grams, by column.
    pub(super) fn every_term(&self) -> impl Iterator<Item = Term> {
        self.terms.values().chain(self.ngrams.values()).copied()
    }

    /// Number of terms and n-grams: the width of the rows.
    pub fn len(&self) -> usize {
        self.terms.len() + self.ngrams.len()
    }

    /// Whether there are no terms.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms, without n-grams, with the number of training texts that contain them, by column.
    pub fn terms(&self) -> impl Iterator<Item = (&str, usize)> {
        self.terms.iter().map(|(term, known)| (term.as_str(), known.texts))
    }

    /// One text as a sparse row; of unknown terms, only n-grams are used.
    pub fn row(&self, text: &str) -> Vec<(u32, f32)> {
        let mut cells = Cells::default();
        self.count(&Analyser::new(&self.analysis), text, &mut cells);
        self.weigh(&mut cells).to_vec()
    }

    /// All texts of a view as sparse rows.
    pub fn encode(&self, view: &View<'_>) -> Result<Sparse> {
        let analyser = Analyser::new(&self.analysis);
        let mut cells = Cells::default();
        let mut rows = Sparse::new(self.len());
        for at in 0..view.len() {
            self.count(&analyser, text_of(view, at)?, &mut cells);
            rows.push(self.weigh(&mut cells))?;
        }
        Ok(rows)
    }

    /// Many texts as sparse rows.
    pub fn rows(&self, texts: &Texts) -> Result<Sparse> {
        let analyser = Analyser::new(&self.analysis);
        let mut cells = Cells::default();
        let mut rows = Sparse::new(self.len());
        for item in 0..texts.len() {
            self.count(&analyser, texts.get(item), &mut cells);
            rows.push(self.weigh(&mut cells))?;
        }
        Ok(rows)
    }

    /// Counts the terms of a text.
    fn count(&self, analyser: &Analyser, text: &str, cells: &mut Cells) {
        analyser.terms(text, |term| {
            if let Some(known) = self.term(term) {
                cells.add(known, 1);
            }
            self.ngrams(term, |known| cells.add(known, 1));
        });
    }

    /// The row of the counted terms, columns ascending; resets the counts.
    pub(super) fn weigh<'c>(&self, cells: &'c mut Cells) -> &'c mut [(u32, f32)] {
        cells.row.clear();
        let words = self.terms.len();
        let own = self.analysis.ngrams.as_ref().map_or(1.0, |ngrams| ngrams.weight);
        for (&column, &(times, texts)) in &cells.counts {
            let mut weight = match self.analysis.weights {
                Weights::Binary => 1.0,
                Weights::Count => f64::from(times),
                Weights::TfIdf => {
                    let idf = ((1 + self.texts) as f64 / (1 + texts) as f64).ln() + 1.0;
                    f64::from(times) * idf
                }
            };
            if column as usize >= words {
                weight *= own;
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "features are single precision"
            )]
            cells.row.push((column, weight as f32));
        }
        cells.counts.clear();
        if self.analysis.weights == Weights::TfIdf {
            let length = cells.row.iter().map(|cell| cell.1 * cell.1).sum::<f32>().sqrt();
            if length > 0.0 {
                cells.row.iter_mut().for_each(|cell| cell.1 /= length);
            }
        }
        if self.scale != 1.0 {
            cells.row.iter_mut().for_each(|cell| cell.1 *= self.scale);
        }
        &mut cells.row
    }
}

/// Counts of the terms of one text, and their row.
#[derive(Debug, Default)]
pub(super) struct Cells {
    counts: BTreeMap<u32, (u32, usize)>, // by column: occurrences, and training texts with the term
    row: Vec<(u32, f32)>,
}

impl Cells {
    /// Counts a term.
    pub(super) fn add(&mut self, term: Term, times: u32) {
        self.counts.entry(term.column).or_insert((0, term.texts)).0 += times;
    }
}

fn text_of<'a>(view: &View<'a>, at: usize) -> Result<&'a str> {
    view.text(at).ok_or_else(|| {
        Error::content(format!("modality {} is {}, not text", view.name(), view.form()))
    })
}

fn choose(
    counts: HashMap<String, usize>,
    n_texts: usize,
    analysis: &Analysis,
) -> BTreeMap<String, Term> {
    let most = analysis.max_share * n_texts as f64;
    let mut kept: Vec<(String, usize)> = counts
        .into_iter()
        .filter(|(_, texts)| *texts >= analysis.min_texts && *texts as f64 <= most)
        .collect();
    kept.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    kept.truncate(analysis.max_terms.unwrap_or(usize::MAX));
    kept.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let columns = 0_u32..;
    kept.into_iter()
        .zip(columns)
        .map(|((term, texts), column)| (term, Term { column, texts }))
        .collect()
}
