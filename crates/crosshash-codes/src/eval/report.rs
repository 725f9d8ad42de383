//! The evaluation report: every metric, every tie rule, both curves, code health, and the
//! protocol, which defines the values.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use super::idf;
use super::sums::{Setup, Sums};
use super::tally::Scratch;
use super::{ApDenominator, AtRadius, Health, RadiusCurve, UserMetrics};
use crate::{Codes, Error, Labels, Result};

/// What to report.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ranks at which metrics are cut.
    pub cutoffs: Vec<usize>,
    /// What AP@K is divided by.
    pub denominator: ApDenominator,
    /// Contribution of a query without any relevant item.
    pub empty_queries: EmptyQueries,
    /// Hamming radii reported on their own; the curve has them all.
    pub radii: Vec<usize>,
    /// How far the top-N precision curve goes.
    pub curve_to: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cutoffs: Vec::new(),
            denominator: ApDenominator::default(),
            empty_queries: EmptyQueries::default(),
            radii: vec![2],
            curve_to: 1000,
        }
    }
}

/// What a query without any relevant item contributes to the means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyQueries {
    /// It counts as 0 (DCMH, SSAH, GDH).
    #[default]
    Zero,
    /// It is left out (SePH, DeepHash).
    Skip,
}

/// One metric under each tie rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Expectation over all orders of tied items: the headline.
    pub tie_aware: f64,
    /// Tied items with the most shared labels first.
    pub optimistic: f64,
    /// Tied items with the fewest shared labels first.
    pub pessimistic: f64,
    /// Tied items in database order.
    pub stable: f64,
}

/// The evaluation of one set of query codes against one database.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// MAP over the whole ranking; absent without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<Bounds>,
    /// Each of [`super::METRICS`] at each cutoff; empty without labels.
    pub at: BTreeMap<&'static str, BTreeMap<usize, Bounds>>,
    /// NDCG with idf gains at [`USER_RANKS`] and the cutoffs, tie-aware; empty without labels.
    pub ndcg_idf_at: BTreeMap<usize, f64>,
    /// Hash look-up at the radii of the options; empty without labels.
    pub radius: BTreeMap<usize, AtRadius>,
    /// The value of a random ranking: the mean share of relevant items; absent without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
    /// All queries.
    pub queries: usize,
    /// Queries for which no database item is relevant; absent without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_without_relevant: Option<usize>,
    /// Share of neighbouring ranks that are tied, mean over queries.
    pub tie_rate: f64,
    /// Share of queries for which chance decides what is among the first k, at [`USER_RANKS`] and
    /// the cutoffs.
    pub tie_rate_at: BTreeMap<usize, f64>,
    /// Health of the database codes.
    pub database_health: Health,
    /// Health of the query codes.
    pub query_health: Health,
    /// The curves; absent without labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curves: Option<Curves>,
    /// Recall of pairs, typed words and rankings by real outputs, where they were evaluated.
    #[serde(flatten)]
    pub user: UserMetrics,
    /// Definition of the values.
    pub protocol: Protocol,
}

/// Ranks that a user looks at.
pub const USER_RANKS: [usize; 3] = [1, 5, 10];

/// Means over queries, tie-aware.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// The ranks of the top-N precision curve.
    pub top_n: Vec<usize>,
    /// P@N at those ranks.
    pub top_n_precision: Vec<f64>,
    /// Recall levels of the precision-recall curve by ranking.
    pub recall: Vec<f64>,
    /// Interpolated precision at those levels.
    pub precision: Vec<f64>,
    /// Precision and recall by Hamming radius.
    pub radius: RadiusCurve,
}

/// The conditions under which the numbers were measured; publish them together.
#[derive(Clone, Debug, Serialize)]
pub struct Protocol {
    /// Number of queries.
    pub queries: usize,
    /// How many database items.
    pub database: usize,
    /// Code length.
    pub bits: usize,
    /// Number of labels.
    pub labels: usize,
    /// When an item is relevant, for metrics that need labels.
    pub relevance: &'static str,
    /// The tie rule of the main values.
    pub tie_rule: &'static str,
    /// What AP@K is divided by; MAP over the whole ranking is always divided by R.
    pub ap_denominator: ApDenominator,
    /// What queries without relevant items contribute.
    pub empty_queries: EmptyQueries,
    /// Which kernel counted.
    pub kernel: &'static str,
    /// Which program evaluated.
    pub evaluated_by: &'static str,
}

impl Report {
    /// Tie-aware MAP over the whole ranking; `None` without labels.
    pub fn mean_average_precision(&self) -> Option<f64> {
        self.map.map(|map| map.tie_aware)
    }
}

/// Evaluates query codes against a database. `progress` is called with the number of finished
/// queries.
///
/// With labels of 0 classes, the metrics that need labels are absent, and a note says so; code health and
/// tie rates remain.
///
/// Time O(queries x database), memory O(database); the result depends neither on the
/// number of threads nor, but for the `stable` values, on the order of the database.
pub fn evaluate(
    query: &Codes,
    database: &Codes,
    query_labels: &Labels,
    database_labels: &Labels,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report> {
    check(query, database, query_labels, database_labels, options)?;
    let setup = Setup::new(database, database_labels, options);
    let done = AtomicUsize::new(0);
    // Chunks depend on the number of queries only, so the sums do not depend on threads.
    let chunk = query.len().div_ceil(256).max(1);
    let chunks: Vec<usize> = (0..query.len()).step_by(chunk).collect();
    let sums: Vec<Sums> = chunks
        .into_par_iter()
        .map_init(<(Scratch, idf::Scratch)>::default, |(scratch, graded), start| {
            let mut sums = Sums::new(&setup);
            for q in start..query.len().min(start + chunk) {
                scratch.count(
                    query.code(q),
                    query_labels.row(q),
                    database,
                    database_labels,
                );
                sums.add_query(scratch, &setup);
                if setup.is_labelled() {
                    let labels: Vec<usize> = query_labels.indices(q).collect();
                    sums.add_graded(scratch, graded, &labels, &setup);
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
            sums
        })
        .collect();
    let mut total = Sums::new(&setup);
    sums.iter().for_each(|part| total.add(part));
    total.into_report(query, database, query_labels, &setup)
}

fn check(
    query: &Codes,
    database: &Codes,
    query_labels: &Labels,
    database_labels: &Labels,
    options: &Options,
) -> Result<()> {
    let same = |left: &str, left_size, right: &str, right_size, unit, remedy| {
        let (left, right) = (left.to_owned(), right.to_owned());
        if left_size == right_size {
            return Ok(());
        }
        Err(Error::Mismatch { left, left_size, right, right_size, unit, remedy })
    };
    let empty = |what: &str| Err(Error::Empty { what: what.into() });
    let (q_bits, d_bits) = (query.bits().get(), database.bits().get());
    let one_length = "both need codes of one length";
    same("the query set", q_bits, "the database", d_bits, "bits a code", one_length)?;
    let row = "there must be one row of labels per code";
    let (codes, labels) = ("the query codes", "the query labels");
    same(codes, query.len(), labels, query_labels.len(), "rows", row)?;
    let (codes, labels) = ("the database codes", "the database labels");
    same(codes, database.len(), labels, database_labels.len(), "rows", row)?;
    let (q_classes, d_classes) = (query_labels.classes(), database_labels.classes());
    let one_vocabulary = "both need the same label columns";
    let (left, right) = ("the query label matrix", "the database label matrix");
    same(left, q_classes, right, d_classes, "labels", one_vocabulary)?;
    if query.is_empty() {
        return empty("the query set is empty: there is nothing to evaluate");
    }
    if database.is_empty() {
        return empty("the database is empty: there is nothing to rank");
    }
    if database.len() >= 1 << 31 {
        return Err(Error::content(format!(
            "{} database items; at most 2^31 - 1 can be evaluated at once",
            database.len()
        )));
    }
    if options.cutoffs.contains(&0) {
        return Err(Error::content("cutoff 0: ranks are counted from 1"));
    }
    if q_classes == 0 {
        return Ok(());
    }
    if query_labels.unlabelled() == query_labels.len() {
        return empty("no query has any label: every value would be 0");
    }
    if database_labels.unlabelled() == database_labels.len() {
        return empty("no database item has any label: every value would be 0");
    }
    Ok(())
}
