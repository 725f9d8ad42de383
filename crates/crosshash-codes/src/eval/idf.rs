//! Graded NDCG with idf gains: a rare shared label is worth more than a common one.
//!
//! ```text
//! gain of item i for query q = sum over shared labels l of idf(l)
//! idf(l)                     = ln(N / df_l)    N database items, df_l of them with label l
//! ```
//!
//! The gain 2^s - 1 of `ndcg.rs` counts shared labels only, so that a ranking that knows nothing
//! but the most frequent label scores well. A label that every item has is worth nothing here.
//!
//! Gains are kept in units of 2^-40 and summed as integers: the value does not depend on the order
//! of the database, to the last bit. Time per query is the number of items that share a label.

use super::ndcg::{Discounts, ndcg};
use super::ranking::{Ranking, TieClass};
use super::tally::Tally;
use crate::Labels;

/// One in fixed point.
const ONE: f64 = (1_u64 << 40) as f64;

/// The idf of every label, and the items that carry it.
#[derive(Clone, Debug)]
pub struct IdfGains {
    idf: Vec<u64>,        // by label, in units of 2^-40
    items: Vec<Vec<u32>>, // by label, ascending
    n_items: usize,
}

impl IdfGains {
    /// From the labels of the database.
    pub fn new(database: &Labels) -> IdfGains {
        let mut items = vec![Vec::new(); database.classes()];
        for (item, number) in (0..database.len()).zip(0_u32..) {
            database.indices(item).for_each(|label| items[label].push(number));
        }
        let n = database.len() as f64;
        #[expect(clippy::cast_possible_truncation, reason = "at most 22 * 2^40")]
        #[expect(clippy::cast_sign_loss, reason = "a label has at most n items")]
        let idf = |items: &Vec<u32>| match items.len() {
            0 => 0,
            df => ((n / df as f64).ln() * ONE).round() as u64,
        };
        IdfGains { idf: items.iter().map(idf).collect(), items, n_items: database.len() }
    }

    /// The idf of a label; 0 if no database item carries it.
    pub fn idf(&self, label: usize) -> f64 {
        self.idf[label] as f64 / ONE
    }
}

/// Room for one thread's work.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    gains: Vec<u64>, // by item; all zero between two queries
    best: Vec<u64>,
    by_distance: Vec<u128>,
}

impl Scratch {
    /// NDCG at each cutoff for a query with these labels, given the distances of the items and
    /// how many there are at each. `discounts` must reach to the deepest cutoff.
    pub(super) fn ndcg_at(
        &mut self,
        idf: &IdfGains,
        labels: &[usize],
        (distances, tally): (&[u16], &Tally),
        cutoffs: &[usize],
        discounts: &Discounts,
    ) -> Vec<f64> {
        let deepest = cutoffs.iter().copied().max().unwrap_or(0).min(idf.n_items);
        self.gains.resize(idf.n_items, 0);
        self.best.clear();
        self.by_distance.clear();
        self.by_distance.resize(tally.max_distance() + 1, 0);
        let worth = || labels.iter().copied().filter(|&label| idf.idf[label] > 0);
        for label in worth() {
            let gain = idf.idf[label];
            idf.items[label].iter().for_each(|&item| self.gains[item as usize] += gain);
        }
        // An item is taken when it is met first; its place is 0 afterwards.
        let mut least = 0;
        for label in worth() {
            for &item in &idf.items[label] {
                let gain = std::mem::take(&mut self.gains[item as usize]);
                self.by_distance[usize::from(distances[item as usize])] += u128::from(gain);
                if gain > least {
                    self.best.push(gain);
                    if self.best.len() >= 2 * deepest.max(32) {
                        least = keep_largest(&mut self.best, deepest);
                    }
                }
            }
        }
        keep_largest(&mut self.best, deepest);
        self.best.sort_unstable_by(|a, b| b.cmp(a));
        let class = |items: u64, gain: f64| TieClass { items, gain, ..TieClass::default() };
        let classes = self.by_distance.iter().enumerate();
        let ranking = Ranking {
            classes: classes
                .map(|(distance, &gain)| class(tally.at(distance).0, gain as f64 / ONE))
                .filter(|class| class.items > 0)
                .collect(),
            ideal: self.best.iter().map(|&gain| class(1, gain as f64 / ONE)).collect(),
            relevant: 0, // not used by NDCG
        };
        cutoffs.iter().map(|&k| ndcg(&ranking, k, discounts)).collect()
    }
}

/// Drops all but the `most` largest values; gives the smallest that is kept, if any was dropped.
fn keep_largest(values: &mut Vec<u64>, most: usize) -> u64 {
    if most == 0 || values.len() <= most {
        values.truncate(most);
        return 0;
    }
    let (_, &mut least, _) = values.select_nth_unstable_by(most - 1, |a, b| b.cmp(a));
    values.truncate(most);
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_labels_are_worth_more() {
        let labels = Labels::from_indices(3, [vec![0, 1], vec![0], vec![0], vec![0, 1]]);
        let idf = IdfGains::new(&labels.unwrap());
        assert_eq!((idf.idf(0), idf.idf(2)), (0.0, 0.0));
        assert!((idf.idf(1) - 2_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_largest_are_kept() {
        let mut values = vec![5, 1, 9, 7, 7];
        assert_eq!(keep_largest(&mut values, 3), 7);
        values.sort_unstable();
        assert_eq!(values, [7, 7, 9]);
        assert_eq!((keep_largest(&mut values, 3), values.len()), (0, 3));
        assert_eq!((keep_largest(&mut values, 0), values.len()), (0, 0));
    }
}
