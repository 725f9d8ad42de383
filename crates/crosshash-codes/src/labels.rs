//! `Labels`: multi-hot rows of any width, packed, and the relevance rule.
//!
//! Two items are relevant to each other iff they share at least one label.

use std::fmt;

use crate::{Error, Result};

/// One multi-hot row of labels per item.
#[derive(Clone, PartialEq, Eq)]
pub struct Labels {
    classes: usize,
    rows: usize,
    words: Vec<u64>, // invariant: rows * stride words, bits at or above `classes` are zero
}

impl Labels {
    /// Maximum number of labels per item.
    pub const MAX_PER_ITEM: usize = u16::MAX as usize;

    /// Labels from lists of indices (0-based), one list per item; a label named twice counts
    /// once, an empty list is an unlabelled item.
    pub fn from_indices<R>(
        classes: usize,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<Labels>
    where
        R: AsRef<[u32]>,
    {
        let mut labels = Labels { classes, rows: 0, words: Vec::new() };
        for row in rows {
            labels.push(row.as_ref())?;
        }
        Ok(labels)
    }

    /// Labels from a dense matrix of 0 and 1, `classes` values a row.
    pub fn from_dense(classes: usize, values: &[u8]) -> Result<Labels> {
        if classes == 0 || !values.len().is_multiple_of(classes) {
            return Err(Error::Ragged {
                what: "labels",
                got: values.len(),
                width: classes,
            });
        }
        let mut labels = Labels { classes, rows: 0, words: Vec::new() };
        let mut indices = Vec::new();
        for (row, dense) in values.chunks_exact(classes).enumerate() {
            indices.clear();
            for (column, &value) in dense.iter().enumerate() {
                match value {
                    0 => {}
                    1 => indices.push(u32::try_from(column).unwrap_or(u32::MAX)),
                    other => {
                        return Err(Error::BadValue {
                            row,
                            column,
                            value: other.to_string(),
                            wanted: "is neither 0 nor 1".into(),
                        });
                    }
                }
            }
            labels.push(&indices)?;
        }
        Ok(labels)
    }

    /// Labels over words in this crate's layout (see [`Labels::words`]).
    pub(crate) fn from_words(
        classes: usize,
        rows: usize,
        words: Vec<u64>,
    ) -> Result<Labels> {
        let labels = Labels { classes, rows, words };
        let stride = labels.stride();
        if labels.words.len() != rows * stride {
            return Err(Error::Ragged {
                what: "label words",
                got: labels.words.len(),
                width: stride,
            });
        }
        for row in 0..rows {
            let beyond = labels.indices(row).last().filter(|&label| label >= classes);
            if let Some(label) = beyond {
                return Err(Error::LabelRange { row, label: label as u64, classes });
            }
            labels.check_count(row)?;
        }
        Ok(labels)
    }

    /// Adds one item.
    pub fn push(&mut self, indices: &[u32]) -> Result<()> {
        let (row, stride) = (self.rows, self.stride());
        let start = self.words.len();
        self.words.resize(start + stride, 0);
        for &label in indices {
            if label as usize >= self.classes {
                self.words.truncate(start);
                return Err(Error::LabelRange {
                    row,
                    label: u64::from(label),
                    classes: self.classes,
                });
            }
            self.words[start + label as usize / 64] |= 1 << (label % 64);
        }
        self.rows += 1;
        self.check_count(row)
    }

    /// Number of different labels, used or not.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Words per row.
    pub fn stride(&self) -> usize {
        self.classes.div_ceil(64)
    }

    /// All words, row after row; label `l` is bit `l % 64` of word `l / 64`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The words of one item.
    pub fn row(&self, item_idx: usize) -> &[u64] {
        &self.words[item_idx * self.stride()..][..self.stride()]
    }

    /// The labels of one item, ascending.
    pub fn indices(&self, item_idx: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.row(item_idx).iter().enumerate();
        row.flat_map(|(k, &word)| ones(word).map(move |bit| k * 64 + bit))
    }

    /// How many labels an item has, |Y_i|.
    pub fn count(&self, item_idx: usize) -> usize {
        self.row(item_idx).iter().map(|w| w.count_ones() as usize).sum()
    }

    /// How many labels two items share, |Y_i & Y_j|.
    pub fn shared(&self, item_idx: usize, others: &Labels, other_idx: usize) -> usize {
        assert_eq!(self.classes, others.classes, "labels of different vocabularies");
        let pair = self.row(item_idx).iter().zip(others.row(other_idx));
        pair.map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// How many items have each label.
    pub fn histogram(&self) -> Vec<usize> {
        let mut counts = vec![0; self.classes];
        for item_idx in 0..self.rows {
            for label in self.indices(item_idx) {
                counts[label] += 1;
            }
        }
        counts
    }

    /// How many items have no label.
    pub fn unlabelled(&self) -> usize {
        (0..self.rows).filter(|&i| self.row(i).iter().all(|&w| w == 0)).count()
    }

    /// The same rows over a larger vocabulary.
    pub fn widen(&self, classes: usize) -> Result<Labels> {
        if classes < self.classes {
            return Err(Error::content(format!(
                "{} labels do not fit into {classes}",
                self.classes
            )));
        }
        let mut wide = Labels { classes, rows: self.rows, words: Vec::new() };
        let stride = wide.stride();
        wide.words.resize(self.rows * stride, 0);
        for item_idx in 0..self.rows {
            wide.words[item_idx * stride..][..self.stride()]
                .copy_from_slice(self.row(item_idx));
        }
        Ok(wide)
    }

    /// The items with these numbers, in this order.
    pub fn select(&self, items: &[usize]) -> Labels {
        let words = items.iter().flat_map(|&i| self.row(i)).copied().collect();
        Labels { classes: self.classes, rows: items.len(), words }
    }

    /// These items, followed by others with the same label columns.
    pub fn concat(&self, others: &Labels) -> Result<Labels> {
        if self.classes != others.classes {
            return Err(Error::content(format!(
                "labels of {} columns cannot follow labels of {}",
                others.classes, self.classes
            )));
        }
        let words = [&self.words[..], &others.words].concat();
        Ok(Labels { classes: self.classes, rows: self.rows + others.rows, words })
    }

    fn check_count(&self, row: usize) -> Result<()> {
        let count = self.count(row);
        if count > Self::MAX_PER_ITEM {
            return Err(Error::content(format!(
                "row {row} carries {count} labels; an item may carry at most {}",
                Self::MAX_PER_ITEM
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Labels({} items, {} labels)", self.rows, self.classes)
    }
}

/// The places of the ones in a word, ascending.
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        let found = (word != 0).then_some(bit);
        word &= word.wrapping_sub(1);
        found
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    #[test]
    fn out_of_range_names_row_and_label() {
        let err = Labels::from_indices(3, [vec![0_u32], vec![1, 3]]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "row 1: label 3 is out of range, there are 3 labels (0 to 2)"
        );
    }

    #[test]
    fn two_is_not_a_label() {
        let err = Labels::from_dense(2, &[0, 1, 2, 0]).unwrap_err();
        assert_eq!(err.to_string(), "row 1, column 0: 2 is neither 0 nor 1");
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn rows_keep_their_labels(
            classes in 1_usize..200,
            rows in prop::collection::vec(prop::collection::btree_set(0_u32..200, 0..12), 0..12),
        ) {
            let rows: Vec<Vec<u32>> = rows
                .into_iter()
                .map(|set| set.into_iter().filter(|&l| (l as usize) < classes).collect())
                .collect();
            let labels = Labels::from_indices(classes, &rows).unwrap();
            prop_assert_eq!(labels.len(), rows.len());
            let mut dense = vec![0_u8; rows.len() * classes];
            for (i, row) in rows.iter().enumerate() {
                let back: Vec<u32> =
                    labels.indices(i).map(|l| u32::try_from(l).unwrap()).collect();
                prop_assert_eq!(&back, row);
                prop_assert_eq!(labels.count(i), row.len());
                for (j, other) in rows.iter().enumerate() {
                    let shared = row.iter().filter(|l| other.contains(l)).count();
                    prop_assert_eq!(labels.shared(i, &labels, j), shared);
                }
                row.iter().for_each(|&l| dense[i * classes + l as usize] = 1);
            }
            prop_assert_eq!(&Labels::from_dense(classes, &dense).unwrap(), &labels);
            let wide = labels.widen(classes + 70).unwrap();
            prop_assert!((0..rows.len()).all(|i| wide.indices(i).eq(labels.indices(i))));
        }
    }
}
