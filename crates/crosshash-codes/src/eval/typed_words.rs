//! Typed words: of the first results for a single typed word, how many contain it?
//!
//! A query is one word; the items whose texts contain it are relevant (binary gains). Words are
//! chosen by [`super::word_queries`]; their codes are those of the word typed alone.

use serde::{Deserialize, Serialize};

use super::relevance::{Relevance, Relevant};
use super::scores::Scores;
use super::{Discounts, ndcg, precision};
use crate::{Error, Result};

/// The usual bounds of the number of items that contain a typed word.
pub const ITEMS_PER_WORD: std::ops::RangeInclusive<usize> = 3..=60;

/// Precision and NDCG of typed words, means over words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypedWords {
    /// Words that are typed; those without a relevant item are left out.
    pub queries: usize,
    /// Database items.
    pub database: usize,
    /// P@5.
    pub p5: f64,
    /// P@5 divided by the value that is possible: a word of three items reaches 3/5 at most.
    pub p5_possible: f64,
    /// P@10.
    pub p10: f64,
    /// NDCG@10.
    pub ndcg10: f64,
}

/// Evaluates queries with listed relevant items.
///
/// ```
/// use crosshash_codes::eval::{Relevant, Scores, words};
/// use crosshash_codes::{Bits, Codes};
///
/// let bits = Bits::new(1)?;
/// let word = Codes::from_signs(bits, &[1.0])?;
/// let items = Codes::from_signs(bits, &[1.0; 4])?; // all tied
/// let contain = Relevant::from_rows(4, [[0, 1]])?;
/// let found = words(&Scores::hamming(&word, &items)?, &contain)?;
/// assert_eq!((found.queries, found.p5), (1, 0.4)); // 2 of 5 places
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub fn words(scores: &Scores<'_>, relevant: &Relevant) -> Result<TypedWords> {
    let discounts = Discounts::up_to(10);
    let values = scores.map(&Relevance::Listed(relevant), |ranking| {
        let value = || {
            let top = [precision(ranking, 5), precision(ranking, 10)];
            let possible = top[0] * 5.0 / ranking.relevant.min(5) as f64;
            [top[0], top[1], ndcg(ranking, 10, &discounts), possible]
        };
        (ranking.relevant > 0).then(value)
    })?;
    let values: Vec<[f64; 4]> = values.into_iter().flatten().collect();
    if values.is_empty() {
        return Err(Error::Empty {
            what: "no typed word has a relevant item: nothing can be evaluated".into(),
        });
    }
    let mean = |k: usize| values.iter().map(|v| v[k]).sum::<f64>() / values.len() as f64;
    Ok(TypedWords {
        queries: values.len(),
        database: scores.items(),
        p5: mean(0),
        p5_possible: mean(3),
        p10: mean(1),
        ndcg10: mean(2),
    })
}
