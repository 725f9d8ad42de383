//! `Features`: the content of the items of a modality, as input of a tower or a backbone.

use super::{Dense, Pictures, Sparse};
use crate::{Error, Result};

/// The features of a modality, in one of four forms.
#[derive(Debug, Clone)]
pub enum Features {
    /// A dense matrix, in memory or mapped.
    Dense(Dense),
    /// A sparse matrix.
    Sparse(Sparse),
    /// Texts; a vocabulary fitted on the training items turns them into sparse rows.
    Text(Texts),
    /// Pictures in a folder or archive; a backbone turns them into features.
    Pictures(Pictures),
}

impl Features {
    /// Number of items.
    pub fn len(&self) -> usize {
        match self {
            Features::Dense(dense) => dense.len(),
            Features::Sparse(sparse) => sparse.len(),
            Features::Text(texts) => texts.len(),
            Features::Pictures(pictures) => pictures.len(),
        }
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of features, if it is known before fitting.
    pub fn width(&self) -> Option<usize> {
        match self {
            Features::Dense(dense) => Some(dense.width()),
            Features::Sparse(sparse) => Some(sparse.width()),
            Features::Text(_) | Features::Pictures(_) => None,
        }
    }

    /// The form's name: dense, sparse, text or pictures.
    pub fn form(&self) -> &'static str {
        match self {
            Features::Dense(_) => "dense",
            Features::Sparse(_) => "sparse",
            Features::Text(_) => "text",
            Features::Pictures(_) => "pictures",
        }
    }

    /// The items with these numbers, in this order.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Features {
        match self {
            Features::Dense(dense) => Features::Dense(dense.select(items)),
            Features::Sparse(sparse) => Features::Sparse(sparse.select(items)),
            Features::Text(texts) => {
                Features::Text(items.iter().map(|&item| texts.get(item)).collect())
            }
            Features::Pictures(pictures) => Features::Pictures(pictures.select(items)),
        }
    }

    /// Transposes an array whose columns are the items.
    pub fn transpose(self) -> Result<Features> {
        match self {
            Features::Dense(dense) => Ok(Features::Dense(dense.transpose()?)),
            other => Err(Error::content(format!(
                "{} features cannot be transposed",
                other.form()
            ))),
        }
    }

    /// The items of `self` followed by those of `other`.
    pub fn append(self, other: Features) -> Result<Features> {
        match (self, other) {
            (Features::Dense(a), Features::Dense(b)) => Ok(Features::Dense(a.append(b)?)),
            (Features::Sparse(a), Features::Sparse(b)) => {
                Ok(Features::Sparse(a.append(&b)?))
            }
            (a, b) => Err(Error::content(format!(
                "{} and {} features cannot be concatenated into one modality",
                a.form(),
                b.form()
            ))),
        }
    }
}

/// Texts in one buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    buffer: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds one text.
    pub fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
        self.ends.push(self.buffer.len());
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One text.
    pub fn get(&self, item: usize) -> &str {
        let start = if item == 0 { 0 } else { self.ends[item - 1] };
        &self.buffer[start..self.ends[item]]
    }
}

impl<S: AsRef<str>> FromIterator<S> for Texts {
    fn from_iter<I: IntoIterator<Item = S>>(texts: I) -> Texts {
        let mut all = Texts::default();
        texts.into_iter().for_each(|text| all.push(text.as_ref()));
        all
    }
}
