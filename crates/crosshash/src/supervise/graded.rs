//! Graded coefficients: rare labels and large overlaps have larger weights.
//!
//! The improved bound (`bound.rs`) holds for any weights of the pairs and any convex weights over
//! the labels that a pair shares (methods.md 16.3). Here a label is weighted by its information
//! content, and a pair by the weighted Jaccard similarity of its labels:
//!
//! ```text
//! omega_s = ln(n / n_s)                             n_s of the n labelled items have label s
//! rho_ij  = omega(Y_i & Y_j) / omega(Y_i | Y_j)     weight of the pair, 1 for equal sets
//! pi_s    = omega_s / omega(Y_i & Y_j)              weight of a shared label
//! q_is    = |n_i| sum_j rho_ij pi_s               = |n_i| sum_{j: s in Y_j} omega_s / omega(Y_i | Y_j)
//! u_js    = sum_i |n_i| rho_ij pi_s + omega_s / omega(Y_j) sum_{i in n_j} sum_k rho_ik
//! ```
//!
//! The sum of all u is twice the sum of all q, as for the bound. Exact sums over pairs of the U
//! distinct label sets: O(U^2), independent of n. Departures: omega is at least 1e-6, so that a label
//! of all items still makes pairs; items without labels are excluded.

use std::sync::atomic::{AtomicUsize, Ordering};

use crosshash_codes::Labels;
use rayon::prelude::*;

use super::Coefficients;
use super::groups::Groups;

/// Minimum weight of a label.
const LEAST: f64 = 1e-6;

/// Unscaled coefficients; `progress` is called with the completed fraction, in thousandths.
pub fn graded(
    labels: &Labels,
    include_self: bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Coefficients {
    of_groups(Groups::new(labels), include_self, progress)
}

/// The same for items that are already grouped.
pub(super) fn of_groups(
    groups: Groups,
    include_self: bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Coefficients {
    let sets = Sets::new(&groups);
    let (count, n) = (sets.total.len(), groups.labelled() as f64);
    let weights: Vec<f64> = groups.weights.iter().map(|&w| w as f64).collect();
    let near = sets.sums(&weights, &|done| progress(done * 500 / count));
    let negatives: Vec<f64> = near.iter().map(|sum| n - sum.positives).collect();
    let own = f64::from(u8::from(!include_self)); // an item's pair with itself
    let grades: Vec<f64> =
        near.iter().map(|sum| sum.shares.iter().sum::<f64>() - own).collect();
    let by_negatives: Vec<f64> =
        weights.iter().zip(&negatives).map(|(w, negatives)| w * negatives).collect();
    let far = sets.sums(&by_negatives, &|done| progress(500 + done * 250 / count));
    let by_grade: Vec<f64> =
        weights.iter().zip(&grades).map(|(w, grade)| w * grade).collect();
    let met = sets.sums(&by_grade, &|done| progress(750 + done * 250 / count));
    let every: f64 = by_grade.iter().sum();
    let (mut q, mut u) = (Vec::new(), Vec::new());
    for (a, total) in sets.total.iter().enumerate() {
        let apart = (every - met[a].positives).max(0.0);
        for (k, label) in groups.sets.indices(a).enumerate() {
            let part = sets.omega[label] / total;
            q.push(negatives[a] * (near[a].shares[k] - own * part));
            let pulled = far[a].shares[k] - own * negatives[a] * part;
            u.push(pulled + part * apart);
        }
    }
    Coefficients::new(groups, q, u)
}

/// Distinct label sets and the weights of their labels.
struct Sets<'a> {
    sets: &'a Labels,
    omega: Vec<f64>, // by label
    total: Vec<f64>, // omega(Y), by set
}

/// Weighted overlap of one set with all sets.
struct Sum {
    positives: f64,   // weight of the sets that share a label
    shares: Vec<f64>, // per label of the set: sum of weight * omega_s / omega(union)
}

impl<'a> Sets<'a> {
    fn new(groups: &'a Groups) -> Sets<'a> {
        let sets = &groups.sets;
        let mut items = vec![0_u64; sets.classes()];
        for (set, &weight) in groups.weights.iter().enumerate() {
            sets.indices(set).for_each(|label| items[label] += weight);
        }
        let n = groups.labelled() as f64;
        let omega = |&items: &u64| (n / items.max(1) as f64).ln().max(LEAST);
        let omega: Vec<f64> = items.iter().map(omega).collect();
        let total = |set| sets.indices(set).map(|label| omega[label]).sum();
        let total = (0..sets.len()).map(total).collect();
        Sets { sets, omega, total }
    }

    /// Each row is summed by one thread in the order of the sets, so the result does not depend
    /// on the number of threads.
    fn sums(&self, weights: &[f64], progress: &(dyn Fn(usize) + Sync)) -> Vec<Sum> {
        let done = AtomicUsize::new(0);
        let sum = |dense: &mut Vec<f64>, a: usize| {
            let sum = self.sum(a, weights, dense);
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(256) {
                progress(done);
            }
            sum
        };
        let classes = self.omega.len();
        (0..self.total.len()).into_par_iter().map_init(|| vec![0.0; classes], sum).collect()
    }

    /// One set against all; `dense` is zero before and after.
    fn sum(&self, a: usize, weights: &[f64], dense: &mut [f64]) -> Sum {
        let row = self.sets.row(a);
        let columns = self.sets.words().chunks_exact(row.len().max(1));
        let mut positives = 0.0;
        for (b, (column, &weight)) in columns.zip(weights).enumerate() {
            let both = || shared(row, column);
            let overlap: f64 = both().map(|label| self.omega[label]).sum();
            if overlap == 0.0 {
                continue; // a shared label weighs at least LEAST
            }
            positives += weight;
            let share = weight / (self.total[a] + self.total[b] - overlap);
            both().for_each(|label| dense[label] += share);
        }
        let labels = self.sets.indices(a);
        let shares = labels.map(|s| std::mem::take(&mut dense[s]) * self.omega[s]);
        Sum { positives, shares: shares.collect() }
    }
}

/// Common labels of two rows, ascending.
fn shared<'r>(a: &'r [u64], b: &'r [u64]) -> impl Iterator<Item = usize> + 'r {
    a.iter().zip(b).enumerate().flat_map(|(k, (a, b))| {
        let mut word = a & b;
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(k * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    /// Reference implementation of the definition, item by item: q and u, dense.
    fn twin(labels: &Labels, include_self: bool) -> (Vec<f64>, Vec<f64>) {
        let (n, classes) = (labels.len(), labels.classes());
        let has = |i: usize, s: usize| labels.indices(i).any(|t| t == s);
        let items: Vec<usize> = (0..n).filter(|&i| labels.count(i) > 0).collect();
        let holders = |s: usize| items.iter().filter(|&&i| has(i, s)).count();
        let omega: Vec<f64> = (0..classes)
            .map(|s| (items.len() as f64 / holders(s).max(1) as f64).ln().max(1e-6))
            .collect();
        let sum = |test: &dyn Fn(usize) -> bool| -> f64 {
            (0..classes).filter(|&s| test(s)).map(|s| omega[s]).sum()
        };
        let shares_label = |i: usize, j: usize| labels.shared(i, labels, j) > 0;
        let negatives =
            |i: usize| items.iter().filter(|&&k| !shares_label(i, k)).count() as f64;
        let rho = |i: usize, j: usize| {
            sum(&|s| has(i, s) && has(j, s)) / sum(&|s| has(i, s) || has(j, s))
        };
        let positives = |i: usize| {
            let others = items.iter().copied().filter(move |&j| include_self || j != i);
            others.filter(|&j| shares_label(i, j)).collect::<Vec<_>>()
        };
        let (mut q, mut u) = (vec![0.0; n * classes], vec![0.0; n * classes]);
        for &i in &items {
            for &j in &positives(i) {
                let overlap = sum(&|s| has(i, s) && has(j, s));
                for s in (0..classes).filter(|&s| has(i, s) && has(j, s)) {
                    let weight = negatives(i) * rho(i, j) * omega[s] / overlap;
                    q[i * classes + s] += weight;
                    u[j * classes + s] += weight;
                }
            }
            let grade: f64 = positives(i).iter().map(|&j| rho(i, j)).sum();
            for &k in items.iter().filter(|&&k| !shares_label(i, k)) {
                for s in labels.indices(k) {
                    u[k * classes + s] += grade * omega[s] / sum(&|t| has(k, t));
                }
            }
        }
        (q, u)
    }

    fn check(labels: &Labels, include_self: bool) {
        let found = graded(labels, include_self, &|_| ());
        let (q, u) = twin(labels, include_self);
        for i in 0..labels.len() {
            let row = found.row(i);
            for (k, &s) in row.labels.iter().enumerate() {
                let place = i * labels.classes() + s as usize;
                for (found, wanted) in [(row.q[k], q[place]), (row.u[k], u[place])] {
                    let off = (found - wanted).abs();
                    assert!(off < 1e-9 * (1.0 + wanted), "{i}, {s}: {found} for {wanted}");
                }
            }
        }
        let (q, u, _) = found.sums();
        assert!((u - 2.0 * q).abs() < 1e-9 * (1.0 + u), "{u} and twice {q}");
    }

    proptest! {
        #![proptest_config(fixed(128))]

        #[test]
        fn follows_the_definition(
            classes in 1_u32..80,
            picks in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..6), 1..14),
            include_self: bool,
        ) {
            let rows = picks.iter().map(|row| {
                row.iter().map(|p| p % classes).collect::<Vec<u32>>()
            });
            check(&Labels::from_indices(classes as usize, rows).unwrap(), include_self);
        }
    }

    #[test]
    fn rare_labels_have_larger_weights() {
        let rows: [&[u32]; 6] = [&[0, 1], &[0, 1], &[0], &[0], &[2], &[2]];
        let found = graded(&Labels::from_indices(3, rows).unwrap(), true, &|_| ());
        let row = found.row(0);
        assert!(row.q[1] > row.q[0], "{:?}", row.q);
        let exact =
            super::super::exact(&Labels::from_indices(3, rows).unwrap(), true, &|_| ())
                .unwrap();
        assert!(exact.row(0).q[1] < exact.row(0).q[0]);
    }
}
