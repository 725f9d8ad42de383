//! Evaluation of rankings.
//!
//! Each metric is defined once, in its own file, as an expectation over the orders of tied items;
//! see [`Ties`] for the other tie rules.
//!
//! - [`evaluate`]: codes ranked by Hamming distance, relevance by shared labels; every metric and
//!   tie rule in one pass over the database per query.
//! - [`known_item`], [`words`]: relevance given as lists ([`Relevant`]), for any ranking.
//! - [`Scores`]: rankings by Hamming distance, by real queries against codes (asymmetric) and by
//!   cosine of real outputs; [`ranking_quality`] compares them.
//! - [`paired_bootstrap`], [`holm`]: whether a method is better than another on the same queries.
//! - [`health`]: how much the bits of a set of codes are used.

mod acg;
mod average_precision;
mod health;
mod idf;
mod known_item;
mod ndcg;
mod pr_curve;
mod precision;
mod radius;
mod ranking;
mod recall;
mod relevance;
mod report;
mod scores;
mod significance;
mod success;
mod sums;
mod tally;
#[cfg(test)]
mod twin;
#[cfg(test)]
mod twin_scores;
mod typed_words;
mod user_metrics;

pub use acg::acg;
pub use average_precision::{ApDenominator, average_precision};
pub use health::{Health, health};
pub use idf::IdfGains;
pub use known_item::{KnownItem, known_item};
pub use ndcg::{Discounts, ndcg};
pub use pr_curve::{levels as recall_levels, precision_at_recall};
pub use precision::{precision, top_n_curve};
pub use radius::{AtRadius, RadiusCurve};
pub use ranking::{Ranking, TieClass, Ties};
pub use recall::recall;
pub use relevance::{Relevance, Relevant, word_queries};
pub use report::{
    Bounds, Curves, EmptyQueries, Options, Protocol, Report, USER_RANKS, evaluate,
};
pub use scores::Scores;
pub use significance::{PairedDifference, holm, paired_bootstrap};
pub use success::{FirstRelevant, success};
pub use tally::Tally;
pub use typed_words::{ITEMS_PER_WORD, TypedWords, words};
pub use user_metrics::{Known, RankingQuality, UserMetrics, ranking_quality};

/// A metric of one query's ranking, cut after some rank.
pub struct Metric {
    /// Its key in reports.
    pub name: &'static str,
    /// Its title in tables, before the rank.
    pub title: &'static str,
    /// Its value for one query.
    pub value: fn(&Ranking, usize, &Context) -> f64,
}

/// What metrics need besides the ranking; the same for all queries.
pub struct Context {
    /// What AP@K is divided by.
    pub denominator: ApDenominator,
    /// Discounts up to the largest cutoff.
    pub discounts: Discounts,
}

/// Every metric with a cutoff, in the order tables print them.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "map_at",
        title: "MAP",
        value: |ranking, k, context| {
            average_precision(ranking, Some(k), context.denominator)
        },
    },
    Metric {
        name: "precision_at",
        title: "P",
        value: |ranking, k, _| precision(ranking, k),
    },
    Metric { name: "recall_at", title: "R", value: |ranking, k, _| recall(ranking, k) },
    Metric {
        name: "ndcg_at",
        title: "NDCG",
        value: |ranking, k, context| ndcg(ranking, k, &context.discounts),
    },
    Metric { name: "acg_at", title: "ACG", value: |ranking, k, _| acg(ranking, k) },
];
