//! Hash look-up: everything within a Hamming radius of the query.
//!
//! ```text
//! ball t of query q: N_t items, N_t+ relevant;  R_q relevant items in the database
//! precision(t)        = mean_q N_t+ / N_t      an empty ball counts as 0
//! precision_pooled(t) = sum_q N_t+ / sum_q N_t
//! recall(t)           = mean_q N_t+ / R_q      a query without relevant items counts as 0
//! empty(t)            = share of queries with N_t = 0
//! ```
//!
//! Ties play no part: a ball has no order.

use serde::Serialize;

use super::tally::Tally;

/// Sums over queries, one entry per radius 0..=bits.
#[derive(Clone, Debug, Default)]
pub(super) struct RadiusSums {
    precision: Vec<f64>,
    recall: Vec<f64>,
    items: Vec<u64>,
    relevant: Vec<u64>,
    empty: Vec<u64>,
}

impl RadiusSums {
    pub(super) fn new(bits: usize) -> RadiusSums {
        RadiusSums {
            precision: vec![0.0; bits + 1],
            recall: vec![0.0; bits + 1],
            items: vec![0; bits + 1],
            relevant: vec![0; bits + 1],
            empty: vec![0; bits + 1],
        }
    }

    pub(super) fn add_query(&mut self, tally: &Tally) {
        let total = tally.relevant();
        let (mut items, mut relevant) = (0, 0);
        for t in 0..self.items.len() {
            let (at, relevant_at) = tally.at(t);
            items += at;
            relevant += relevant_at;
            self.items[t] += items;
            self.relevant[t] += relevant;
            if items == 0 {
                self.empty[t] += 1;
            } else {
                self.precision[t] += relevant as f64 / items as f64;
            }
            if total > 0 {
                self.recall[t] += relevant as f64 / total as f64;
            }
        }
    }

    pub(super) fn add(&mut self, other: &RadiusSums) {
        for t in 0..self.items.len() {
            self.precision[t] += other.precision[t];
            self.recall[t] += other.recall[t];
            self.items[t] += other.items[t];
            self.relevant[t] += other.relevant[t];
            self.empty[t] += other.empty[t];
        }
    }

    pub(super) fn means(&self, n_queries: usize) -> RadiusCurve {
        let n = n_queries as f64;
        let pooled = self.relevant.iter().zip(&self.items);
        RadiusCurve {
            radius: (0..self.items.len()).collect(),
            precision: self.precision.iter().map(|p| p / n).collect(),
            precision_pooled: pooled
                .map(|(&r, &i)| if i == 0 { 0.0 } else { r as f64 / i as f64 })
                .collect(),
            recall: self.recall.iter().map(|r| r / n).collect(),
            empty: self.empty.iter().map(|&e| e as f64 / n).collect(),
        }
    }
}

/// Precision and recall by Hamming radius, means over queries.
#[derive(Clone, Debug, Serialize)]
pub struct RadiusCurve {
    /// 0, 1, ..., bits.
    pub radius: Vec<usize>,
    /// Mean over queries, empty balls as 0.
    pub precision: Vec<f64>,
    /// All balls of a radius together.
    pub precision_pooled: Vec<f64>,
    /// Mean over queries.
    pub recall: Vec<f64>,
    /// Share of queries whose ball is empty.
    pub empty: Vec<f64>,
}

/// One radius of a [`RadiusCurve`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AtRadius {
    /// Mean over queries, empty balls as 0.
    pub precision: f64,
    /// All balls together.
    pub precision_pooled: f64,
    /// Mean over queries.
    pub recall: f64,
    /// Share of queries whose ball is empty.
    pub empty: f64,
}

impl RadiusCurve {
    /// The values at one radius; beyond the code length the ball is the whole database.
    pub fn at(&self, radius: usize) -> AtRadius {
        let t = radius.min(self.radius.len() - 1);
        AtRadius {
            precision: self.precision[t],
            precision_pooled: self.precision_pooled[t],
            recall: self.recall[t],
            empty: self.empty[t],
        }
    }
}
