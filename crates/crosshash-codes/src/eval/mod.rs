//! Judging codes: rankings by Hamming distance against labels.
//!
//! Each metric is defined once, in its own file, as an expectation over tied ranks; see
//! [`Ties`] for what else can be done with ties. [`evaluate`] runs them all over every
//! query in one pass over the database per query.

mod acg;
mod average_precision;
mod health;
mod ndcg;
mod pr_curve;
mod precision;
mod radius;
mod ranking;
mod recall;
mod report;
mod tally;
#[cfg(test)]
mod twin;

pub use acg::acg;
pub use average_precision::{ApDenominator, average_precision};
pub use health::{Health, health};
pub use ndcg::{Discounts, ndcg};
pub use pr_curve::{levels as recall_levels, precision_at_recall};
pub use precision::{precision, top_n_curve};
pub use radius::{AtRadius, RadiusCurve};
pub use ranking::{Ranking, TieClass, Ties};
pub use recall::recall;
pub use report::{Bounds, Curves, EmptyQueries, Options, Protocol, Report, evaluate};
pub use tally::Tally;

/// A metric of one query's ranking, cut after some rank.
pub struct Metric {
    /// Its key in reports.
    pub name: &'static str,
    /// How tables head it, before the rank.
    pub title: &'static str,
    /// Its value for one query.
    pub value: fn(&Ranking, usize, &Context) -> f64,
}

/// What a metric may need besides the ranking, the same for all queries.
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
