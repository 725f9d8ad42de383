//! The metrics that a user notices, for several rankings of the same items side by side.
//!
//! Codes are searched by Hamming distance; the real outputs behind them rank the same database
//! better. The difference between the rows is the quantisation gap.

use serde::{Deserialize, Serialize};

use super::relevance::{Relevance, Relevant};
use super::scores::Scores;
use super::{ApDenominator, KnownItem, TypedWords, average_precision, known_item, words};
use crate::{Error, Labels, Result};

/// Known relations of queries and database; metrics without their data are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Labels of the queries and of the database, for MAP.
    pub labels: Option<(&'a Labels, &'a Labels)>,
    /// The pairs of each query, for known-item recall.
    pub pairs: Option<&'a Relevant>,
}

/// The quality of one ranking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankingQuality {
    /// What ranked: hamming, asymmetric, cosine or reranked.
    pub ranking: String,
    /// Tie-aware MAP over the whole ranking; queries without a relevant item count as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<f64>,
    /// Recall of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_item: Option<KnownItem>,
}

/// Evaluates one ranking.
///
/// ```
/// use crosshash_codes::eval::{Known, Relevant, Scores, ranking_quality};
/// use crosshash_codes::{Bits, Codes, Labels};
///
/// let outputs = [0.9, -0.1, 0.2, 0.8]; // two items of two bits
/// let codes = Codes::from_signs(Bits::new(2)?, &outputs)?;
/// let labels = Labels::from_indices(2, [[0], [1]])?;
/// let pairs = Relevant::from_rows(2, [[0], [1]])?;
/// let known = Known { labels: Some((&labels, &labels)), pairs: Some(&pairs) };
/// for scores in [
///     Scores::hamming(&codes, &codes)?,
///     Scores::asymmetric(&outputs, &codes)?,
///     Scores::cosine(&outputs, &outputs, 2)?,
/// ] {
///     let quality = ranking_quality(&scores, &known)?;
///     assert_eq!((quality.map, quality.known_item.map(|found| found.r1)), (Some(1.0), Some(1.0)));
/// }
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub fn ranking_quality(scores: &Scores<'_>, known: &Known<'_>) -> Result<RankingQuality> {
    let map = match known.labels {
        Some((query, database)) => Some(mean_ap(scores, query, database)?),
        None => None,
    };
    let known_item = known.pairs.map(|pairs| known_item(scores, pairs)).transpose()?;
    Ok(RankingQuality { ranking: scores.name().to_owned(), map, known_item })
}

fn mean_ap(scores: &Scores<'_>, query: &Labels, database: &Labels) -> Result<f64> {
    let each = scores.map(&Relevance::Labels { query, database }, |ranking| {
        average_precision(ranking, None, ApDenominator::Total)
    })?;
    if each.is_empty() {
        return Err(Error::Empty { what: "the query set is empty".into() });
    }
    Ok(each.iter().sum::<f64>() / each.len() as f64)
}

/// Optional parts of a report, each left out with a note where the data do not allow it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserMetrics {
    /// Recall of pairs, by Hamming distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_item: Option<KnownItem>,
    /// Typed words over all items, by Hamming distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<TypedWords>,
    /// Typed words over items that training did not see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_unseen: Option<TypedWords>,
    /// Hamming, asymmetric and cosine ranking side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rankings: Vec<RankingQuality>,
    /// Why something is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl UserMetrics {
    /// Adds the recall of pairs, or a note if no query has one.
    pub fn add_known_item(&mut self, scores: &Scores<'_>, pairs: &Relevant) -> Result<()> {
        if pairs.without() == pairs.len() {
            self.note("known_item: no query has a pair in the database");
            return Ok(());
        }
        self.known_item = Some(known_item(scores, pairs)?);
        Ok(())
    }

    /// Adds typed words, or a note if there are none.
    pub fn add_words(&mut self, scores: &Scores<'_>, relevant: &Relevant) -> Result<()> {
        self.words = self.words_or_note("words", scores, relevant)?;
        Ok(())
    }

    /// Adds typed words over unseen items, or a note if there are none.
    pub fn add_words_unseen(
        &mut self,
        scores: &Scores<'_>,
        relevant: &Relevant,
    ) -> Result<()> {
        self.words_unseen = self.words_or_note("words_unseen", scores, relevant)?;
        Ok(())
    }

    /// Adds the quality of a ranking.
    pub fn add_ranking(&mut self, scores: &Scores<'_>, known: &Known<'_>) -> Result<()> {
        let pairs = known.pairs.filter(|pairs| pairs.without() < pairs.len());
        self.rankings.push(ranking_quality(scores, &Known { pairs, ..*known })?);
        Ok(())
    }

    /// Adds a ranking of which only the recall of pairs is known.
    pub fn add_known_ranking(&mut self, ranking: &str, found: KnownItem) {
        let ranking = ranking.to_owned();
        self.rankings.push(RankingQuality { ranking, map: None, known_item: Some(found) });
    }

    /// Adds a note, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn words_or_note(
        &mut self,
        what: &str,
        scores: &Scores<'_>,
        relevant: &Relevant,
    ) -> Result<Option<TypedWords>> {
        if relevant.without() == relevant.len() {
            self.note(format!("{what}: no word occurs in enough items"));
            return Ok(None);
        }
        words(scores, relevant).map(Some)
    }
}
