//! The vocabulary: which terms count, fitted on training texts only, and their weights.
//!
//! Terms are kept by the number of training texts that hold them (df); among equals the
//! alphabet decides, so the same texts give the same vocabulary. Columns are in the order of
//! the alphabet. Weights, with tf the times a term stands in a text and n the training texts:
//!
//! ```text
//! binary   1
//! count    tf
//! tf-idf   tf (1 + ln((1 + n) / (1 + df))), the row then of length 1   (scikit-learn's)
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Analyser, Analysis};
use crate::data::{Sparse, Texts, Training, View};
use crate::{Error, Result};

/// How much a term counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// 1 if it occurs.
    Binary,
    /// How often it occurs.
    Count,
    /// How often it occurs, rare terms more, rows of length 1.
    TfIdf,
}

/// The terms that count. Can be saved with a model and applied to any text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vocabulary {
    analysis: Analysis,
    texts: usize,
    terms: BTreeMap<String, Term>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Term {
    column: u32,
    texts: usize,
}

impl Vocabulary {
    /// Learns the terms of a text modality from its training items.
    pub fn fit(
        training: &Training<'_>,
        modality: &str,
        analysis: &Analysis,
    ) -> Result<Vocabulary> {
        let view = training.train(modality)?;
        let analyser = Analyser::new(analysis);
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut seen: HashSet<String> = HashSet::new();
        for at in 0..view.len() {
            seen.clear();
            analyser.terms(text_of(&view, at)?, |term| {
                if !seen.contains(term) {
                    seen.insert(term.to_owned());
                }
            });
            for term in seen.drain() {
                *counts.entry(term).or_default() += 1;
            }
        }
        let all = counts.len();
        let terms = choose(counts, view.len(), analysis);
        if terms.is_empty() {
            return Err(Error::content(format!(
                "no term of modality {modality} is left of {all} in {} training texts; lower \
                 min_texts or min_length",
                view.len()
            )));
        }
        Ok(Vocabulary { analysis: analysis.clone(), texts: view.len(), terms })
    }

    /// How many terms there are: the width of the rows.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms with the number of training texts that hold them, by column.
    pub fn terms(&self) -> impl Iterator<Item = (&str, usize)> {
        self.terms.iter().map(|(term, known)| (term.as_str(), known.texts))
    }

    /// One text as a sparse row; unknown terms count nothing.
    pub fn row(&self, text: &str) -> Vec<(u32, f32)> {
        let mut row = Row::default();
        self.fill(&Analyser::new(&self.analysis), text, &mut row);
        row.cells
    }

    /// All texts in view as sparse rows.
    pub fn encode(&self, view: &View<'_>) -> Result<Sparse> {
        let analyser = Analyser::new(&self.analysis);
        let mut row = Row::default();
        let mut rows = Sparse::new(self.len());
        for at in 0..view.len() {
            self.fill(&analyser, text_of(view, at)?, &mut row);
            rows.push(&mut row.cells)?;
        }
        Ok(rows)
    }

    /// Many texts as sparse rows.
    pub fn rows(&self, texts: &Texts) -> Result<Sparse> {
        let analyser = Analyser::new(&self.analysis);
        let mut row = Row::default();
        let mut rows = Sparse::new(self.len());
        for item in 0..texts.len() {
            self.fill(&analyser, texts.get(item), &mut row);
            rows.push(&mut row.cells)?;
        }
        Ok(rows)
    }

    fn fill(&self, analyser: &Analyser, text: &str, row: &mut Row) {
        row.counts.clear();
        analyser.terms(text, |term| {
            if let Some(known) = self.terms.get(term) {
                row.counts.entry(known.column).or_insert((0, known.texts)).0 += 1;
            }
        });
        row.cells.clear();
        let weigh = |(&column, &(times, texts)): (&u32, &(usize, usize))| {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "features are single precision"
            )]
            let weight = match self.analysis.weights {
                Weights::Binary => 1.0,
                Weights::Count => times as f32,
                Weights::TfIdf => {
                    let idf = ((1 + self.texts) as f64 / (1 + texts) as f64).ln() + 1.0;
                    (times as f64 * idf) as f32
                }
            };
            (column, weight)
        };
        row.cells.extend(row.counts.iter().map(weigh));
        if self.analysis.weights == Weights::TfIdf {
            let length = row.cells.iter().map(|cell| cell.1 * cell.1).sum::<f32>().sqrt();
            row.cells.iter_mut().for_each(|cell| cell.1 /= length);
        }
    }
}

/// Room for one row, used again and again.
#[derive(Default)]
struct Row {
    counts: BTreeMap<u32, (usize, usize)>,
    cells: Vec<(u32, f32)>,
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
