//! Exact coefficients of the improved bound between modalities that have different items.
//!
//! With pairs, both modalities have the same label sets, and `exact.rs` applies. Without pairs, the
//! positives and negatives of an item of one modality are items of the others (paper, Eq. (ot_cmul):
//! `i` in one modality, `j` and `k` in the other). With `w` items of the own modality and `v` of the
//! others per label set, `p_i` and `n_i` of the modality in brackets,
//!
//! ```text
//! q_is = |n_i(v)| sum_{j in v, s in Y_i & Y_j} 1/|Y_i & Y_j|
//! u_js = sum_{i in v, s in Y_i & Y_j} |n_i(w)|/|Y_i & Y_j| + 1/|Y_j| sum_{i in v, disjoint} |p_i(w)|
//! ```
//!
//! If both have the same label sets in the same numbers, this is `exact.rs` with `(i, i)` as a
//! positive pair. Items without labels are excluded.

use crosshash_codes::Labels;

use super::exact::Plan;
use super::groups::Groups;
use super::{Coefficients, EXACT_STEPS, Kind, Options, Scale, exact_steps};
use crate::Result;

/// Scaled coefficients of the items of `own`, supervised by the items of `others`; `None` if the options ask
/// for another kind, or if exact sums would take too long.
pub fn between(
    own: &Labels,
    others: &Labels,
    options: &Options,
) -> Result<Option<Coefficients>> {
    let fits = match options.kind {
        Kind::Exact => true,
        Kind::Auto if options.anchors.is_none() => {
            exact_steps(&Groups::new(&own.concat(others)?)) <= EXACT_STEPS
        }
        _ => false,
    };
    if !fits {
        return Ok(None);
    }
    let mut found = cross(own, others)?;
    if options.scale != Scale::Raw {
        found.rescale();
    }
    Ok(Some(found))
}

/// Unscaled coefficients of the items of `own`, supervised by the items of `other`.
pub fn cross(own: &Labels, other: &Labels) -> Result<Coefficients> {
    let mut groups = Groups::new(&own.concat(other)?);
    let count = |items: &[u32]| {
        let mut counts = vec![0_u64; groups.sets.len()];
        let labelled = items.iter().filter(|&&set| groups.weights[set as usize] > 0);
        labelled.for_each(|&set| counts[set as usize] += 1);
        counts
    };
    let (items, others) = groups.of_item.split_at(own.len());
    let (w, v) = (count(items), count(others));
    let total = |weights: &[u64]| weights.iter().map(|&x| u128::from(x)).sum::<u128>();
    let (n_own, n_other) = (total(&w), total(&v));
    let plan = Plan::new(&groups);
    let (in_own, _) = plan.sums(&w, &|_| ());
    let (in_other, shares) = plan.sums(&v, &|_| ());
    let by_negatives: Vec<u64> = v
        .iter()
        .zip(&in_own)
        .map(|(&v, &p)| v * u64::try_from(n_own - p).unwrap_or(u64::MAX))
        .collect();
    let (far_positives, far_shares) = plan.sums(&by_negatives, &|_| ());
    let every: u128 = v.iter().zip(&in_own).map(|(&v, &p)| u128::from(v) * p).sum();
    let starts = groups.starts();
    let mut q = vec![0.0; shares.len()];
    let mut u = q.clone();
    for a in 0..groups.sets.len() {
        let negatives = (n_other - in_other[a]) as f64;
        let disjoint = every + far_positives[a] - n_own * in_other[a];
        let size = (starts[a + 1] - starts[a]) as f64;
        for place in starts[a]..starts[a + 1] {
            q[place] = negatives * shares[place];
            u[place] = far_shares[place] + disjoint as f64 / size;
        }
    }
    groups.of_item.truncate(own.len());
    Ok(Coefficients::new(groups, q, u))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;
    use crate::supervise::exact;

    const CLASSES: u32 = 6;

    fn labels(picks: &[Vec<u32>]) -> Labels {
        let rows =
            picks.iter().map(|row| row.iter().map(|p| p % CLASSES).collect::<Vec<_>>());
        Labels::from_indices(CLASSES as usize, rows).unwrap()
    }

    /// The sums of the header, item by item.
    fn twin(own: &Labels, other: &Labels, item: usize, s: usize) -> (f64, f64) {
        let with = |all: &Labels, i: usize, l: usize| all.indices(i).any(|x| x == l);
        let labelled = |all: &Labels| {
            (0..all.len()).filter(|&i| all.count(i) > 0).collect::<Vec<usize>>()
        };
        let overlap = |i: usize| own.shared(item, other, i) as f64;
        let negatives = labelled(other).iter().filter(|&&i| overlap(i) == 0.0).count();
        let (mut q, mut u) = (0.0, 0.0);
        for i in labelled(other) {
            let near =
                labelled(own).iter().filter(|&&k| own.shared(k, other, i) > 0).count();
            if overlap(i) == 0.0 {
                u += near as f64 / own.count(item) as f64;
            } else if with(other, i, s) {
                q += negatives as f64 / overlap(i);
                u += (labelled(own).len() - near) as f64 / overlap(i);
            }
        }
        (q, u)
    }

    proptest! {
        #![proptest_config(fixed(128))]

        #[test]
        fn coefficients_follow_the_definition(
            left in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..5), 1..20),
            right in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..5), 1..20),
        ) {
            let (own, other) = (labels(&left), labels(&right));
            let found = cross(&own, &other).unwrap();
            for item in 0..own.len() {
                let row = found.row(item);
                for (k, &s) in row.labels.iter().enumerate() {
                    let (q, u) = twin(&own, &other, item, s as usize);
                    prop_assert!((row.q[k] - q).abs() < 1e-9 * (1.0 + q), "{} {q}", row.q[k]);
                    prop_assert!((row.u[k] - u).abs() < 1e-9 * (1.0 + u), "{} {u}", row.u[k]);
                }
            }
        }

        #[test]
        fn equal_modalities_give_the_coefficients_of_pairs(
            picks in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..5), 1..20),
        ) {
            let own = labels(&picks);
            let (found, paired) = (cross(&own, &own).unwrap(), exact(&own, true, &|_| ()).unwrap());
            for item in 0..own.len() {
                let (a, b) = (found.row(item), paired.row(item));
                for (x, y) in a.q.iter().zip(b.q).chain(a.u.iter().zip(b.u)) {
                    prop_assert!((x - y).abs() < 1e-9 * (1.0 + y), "{x} {y}");
                }
            }
        }
    }
}
