//! Relevance given as lists instead of labels: which database rows are relevant to a query.
//!
//! Two kinds of queries need this. A *known item* query looks for its own pair (the caption of a
//! picture, the photo of a sketch). A *typed word* query is one word, and the items whose texts
//! contain it are relevant. Labels do not express either.

use std::ops::RangeInclusive;

use crate::{Error, Labels, Result};

/// The relevant database rows of each query, as a compressed sparse matrix.
///
/// ```
/// use crosshash_codes::eval::Relevant;
///
/// // Query 0 has one pair, query 1 has two, query 2 has none; 5 database rows.
/// let pairs = Relevant::from_rows(5, [vec![3], vec![4, 0], vec![]])?;
/// assert_eq!((pairs.len(), pairs.row(1)), (3, &[0, 4][..]));
/// assert!(Relevant::from_rows(5, [[5]]).is_err()); // out of range
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relevant {
    database: usize,
    starts: Vec<usize>, // invariant: one more than queries, ascending
    rows: Vec<u32>,     // invariant: below `database`, strictly ascending within a query
}

impl Relevant {
    /// One list of database rows per query, in any order; a row named twice counts once.
    pub fn from_rows<R: AsRef<[u32]>>(
        database: usize,
        queries: impl IntoIterator<Item = R>,
    ) -> Result<Relevant> {
        let mut all = Relevant { database, starts: vec![0], rows: Vec::new() };
        for (query, list) in queries.into_iter().enumerate() {
            let start = all.rows.len();
            all.rows.extend_from_slice(list.as_ref());
            all.rows[start..].sort_unstable();
            let mut last = None;
            let mut kept = start;
            for at in start..all.rows.len() {
                let row = all.rows[at];
                if row as usize >= database {
                    return Err(Error::content(format!(
                        "query {query}: relevant row {row} is out of range, the database has \
                         {database} rows"
                    )));
                }
                if last.replace(row) != Some(row) {
                    all.rows[kept] = row;
                    kept += 1;
                }
            }
            all.rows.truncate(kept);
            all.starts.push(kept);
        }
        Ok(all)
    }

    /// Pairs by key: a database row is relevant to every query with the same key.
    ///
    /// ```
    /// use crosshash_codes::eval::Relevant;
    ///
    /// let captions = ["dog", "cat", "dog"];
    /// let pairs = Relevant::by_key(&["cat", "dog", "cow"], &captions)?;
    /// assert_eq!((pairs.row(0), pairs.row(1), pairs.row(2)), (&[1][..], &[0, 2][..], &[][..]));
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn by_key<K: std::hash::Hash + Eq>(
        query: &[K],
        database: &[K],
    ) -> Result<Relevant> {
        let mut rows: std::collections::HashMap<&K, Vec<u32>> = Default::default();
        for (key, row) in database.iter().zip(0..) {
            rows.entry(key).or_default().push(row);
        }
        let lists = query.iter().map(|key| rows.get(key).map_or(&[][..], Vec::as_slice));
        Relevant::from_rows(database.len(), lists)
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows the database has.
    pub fn database(&self) -> usize {
        self.database
    }

    /// The relevant rows of one query, ascending.
    pub fn row(&self, query: usize) -> &[u32] {
        &self.rows[self.starts[query]..self.starts[query + 1]]
    }

    /// How many queries have no relevant row.
    pub fn without(&self) -> usize {
        self.starts.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }
}

/// The words to type and the items that contain them.
///
/// `items` are the terms of each database item; a term is typed if the number of items that
/// contain it is in `items_per_word`. Gives the terms, ascending, and for each (as a query) the
/// items that contain it.
///
/// ```
/// use crosshash_codes::eval::word_queries;
///
/// let texts = [vec![0, 2], vec![0, 1], vec![0, 1, 2]];
/// let (words, relevant) = word_queries(&texts, 2..=2)?;
/// assert_eq!(words, [1, 2]); // term 0 occurs in three items
/// assert_eq!(relevant.row(0), [1, 2]);
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub fn word_queries<R: AsRef<[u32]>>(
    items: &[R],
    items_per_word: RangeInclusive<usize>,
) -> Result<(Vec<u32>, Relevant)> {
    let mut contains: std::collections::BTreeMap<u32, Vec<u32>> = Default::default();
    for (terms, item) in items.iter().zip(0..) {
        for &term in terms.as_ref() {
            let list = contains.entry(term).or_default();
            if list.last() != Some(&item) {
                list.push(item);
            }
        }
    }
    contains.retain(|_, list| items_per_word.contains(&list.len()));
    let relevant = Relevant::from_rows(items.len(), contains.values())?;
    Ok((contains.into_keys().collect(), relevant))
}

/// When a database item is relevant to a query.
#[derive(Clone, Copy, Debug)]
pub enum Relevance<'a> {
    /// If it shares a label.
    Labels {
        /// Of the queries.
        query: &'a Labels,
        /// Of the database.
        database: &'a Labels,
    },
    /// If it is listed.
    Listed(&'a Relevant),
}

impl Relevance<'_> {
    pub(super) fn check(&self, queries: usize, items: usize) -> Result<()> {
        let (found_queries, found_items, what) = match self {
            Relevance::Labels { query, database } => {
                if query.classes() != database.classes() {
                    return Err(Error::Mismatch {
                        left: "the query label matrix".into(),
                        left_size: query.classes(),
                        right: "the database label matrix".into(),
                        right_size: database.classes(),
                        unit: "labels",
                        remedy: "both need the same label columns",
                    });
                }
                (query.len(), database.len(), "the labels")
            }
            Relevance::Listed(list) => {
                (list.len(), list.database(), "the list of relevant rows")
            }
        };
        for (left, left_size, right_size) in [
            ("the query set", queries, found_queries),
            ("the database", items, found_items),
        ] {
            if left_size != right_size {
                return Err(Error::Mismatch {
                    left: left.into(),
                    left_size,
                    right: what.into(),
                    right_size,
                    unit: "rows",
                    remedy: "relevance must be given for every row",
                });
            }
        }
        Ok(())
    }

    /// Calls `relevant` with every relevant row of a query, ascending.
    pub(super) fn each(&self, q: usize, mut relevant: impl FnMut(usize)) {
        match self {
            Relevance::Listed(list) => {
                list.row(q).iter().for_each(|&row| relevant(row as usize));
            }
            Relevance::Labels { query, database } => {
                let labels = query.row(q);
                for item in 0..database.len() {
                    let row = database.row(item);
                    if labels.iter().zip(row).any(|(a, b)| a & b != 0) {
                        relevant(item);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_counted_once() {
        let all = Relevant::from_rows(9, [&[8, 0, 8, 3][..], &[], &[1]]).unwrap();
        assert_eq!(
            (all.row(0), all.row(1), all.row(2)),
            (&[0, 3, 8][..], &[][..], &[1][..])
        );
        assert_eq!((all.len(), all.database(), all.without()), (3, 9, 1));
        let text = Relevant::from_rows(2, [[0], [2]]).unwrap_err().to_string();
        assert_eq!(
            text,
            "query 1: relevant row 2 is out of range, the database has 2 rows"
        );
    }

    #[test]
    fn words_are_typed_within_the_bounds() {
        let texts = [vec![7, 1, 7], vec![1], vec![1, 3], vec![3, 7]];
        let (words, relevant) = word_queries(&texts, 2..=2).unwrap();
        assert_eq!(words, [3, 7]);
        assert_eq!((relevant.row(0), relevant.row(1)), (&[2, 3][..], &[0, 3][..]));
        assert!(word_queries(&texts, 4..=60).unwrap().1.is_empty());
    }
}
