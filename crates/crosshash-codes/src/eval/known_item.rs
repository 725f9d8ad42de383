//! Known-item search: does a query find its own pair?
//!
//! ```text
//! R@k         = mean_q P(at least one pair of q among the first k)         see success.rs
//! median rank = the smallest k with R@k >= 1/2: half of the searches end there or before
//! mean rank   = mean_q E[rank of the first pair]
//! ```
//!
//! Means are over queries that have a pair; the others are counted. With one pair per query and
//! no ties these are the usual figures of cross-modal retrieval (Flickr30k, COCO).

use serde::{Deserialize, Serialize};

use super::relevance::{Relevance, Relevant};
use super::scores::Scores;
use super::success::FirstRelevant;
use crate::{Error, Result};

/// Recall of pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownItem {
    /// Queries that have a pair in the database.
    pub queries: usize,
    /// Queries that have none; they are left out.
    pub queries_without_pair: usize,
    /// Database items.
    pub database: usize,
    /// R@1.
    pub r1: f64,
    /// R@5.
    pub r5: f64,
    /// R@10.
    pub r10: f64,
    /// Median rank of the first pair, from 1.
    pub median_rank: usize,
    /// Mean expected rank of the first pair, from 1.
    pub mean_rank: f64,
}

impl KnownItem {
    /// The mean of several folds, each with its number of queries; ranks are those of a fold. `None`
    /// without folds.
    pub fn mean(folds: &[(usize, KnownItem)]) -> Option<KnownItem> {
        let all: usize = folds.iter().map(|(queries, _)| queries).sum();
        let (_, first) = folds.first()?;
        let mean = |value: &dyn Fn(&KnownItem) -> f64| {
            let sum: f64 = folds.iter().map(|(n, found)| *n as f64 * value(found)).sum();
            sum / all.max(1) as f64
        };
        let rank = mean(&|found| found.median_rank as f64);
        #[expect(clippy::cast_possible_truncation, reason = "a rank")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let median_rank = rank.round() as usize;
        Some(KnownItem {
            queries: all,
            queries_without_pair: folds.iter().map(|(_, f)| f.queries_without_pair).sum(),
            database: first.database,
            r1: mean(&|found| found.r1),
            r5: mean(&|found| found.r5),
            r10: mean(&|found| found.r10),
            median_rank,
            mean_rank: mean(&|found| found.mean_rank),
        })
    }
}

/// Evaluates how well queries find their pairs.
///
/// ```
/// use crosshash_codes::eval::{Relevant, Scores, known_item};
/// use crosshash_codes::{Bits, Codes};
///
/// let bits = Bits::new(2)?;
/// let query = Codes::from_signs(bits, &[1.0, 1.0])?;
/// // The pair (row 1) is at distance 1, tied with row 2; row 0 is at distance 0.
/// let database = Codes::from_signs(bits, &[1.0, 1.0, -1.0, 1.0, 1.0, -1.0])?;
/// let pairs = Relevant::from_rows(3, [[1]])?;
/// let found = known_item(&Scores::hamming(&query, &database)?, &pairs)?;
/// assert_eq!((found.r1, found.r5), (0.0, 1.0));
/// assert_eq!((found.mean_rank, found.median_rank), (2.5, 2));
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub fn known_item(scores: &Scores<'_>, pairs: &Relevant) -> Result<KnownItem> {
    let found = scores.map(&Relevance::Listed(pairs), FirstRelevant::of)?;
    let first: Vec<FirstRelevant> = found.iter().copied().flatten().collect();
    if first.is_empty() {
        return Err(Error::Empty {
            what: "no query has a pair in the database: known-item recall is not defined"
                .into(),
        });
    }
    let mean = |value: &dyn Fn(&FirstRelevant) -> f64| {
        first.iter().map(value).sum::<f64>() / first.len() as f64
    };
    let recall = |k: usize| mean(&|first| first.success(k));
    Ok(KnownItem {
        queries: first.len(),
        queries_without_pair: found.len() - first.len(),
        database: scores.items(),
        r1: recall(1),
        r5: recall(5),
        r10: recall(10),
        median_rank: smallest(scores.items(), |k| recall(k) >= 0.5 - 1e-12),
        mean_rank: mean(&FirstRelevant::mean_rank),
    })
}

/// The smallest rank in 1..=most at which something that stays true is true.
fn smallest(most: usize, reached: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (1, most.max(1));
    while low < high {
        let middle = low.midpoint(high);
        if reached(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
