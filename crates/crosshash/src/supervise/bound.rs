//! The coefficients of the improved unary bound, from sums over overlaps.
//!
//! Zhang, Li and Zhang, *Joint Cluster Unary Loss for Efficient Cross-Modal Hashing* (JCCH),
//! Eq. (ot_mtuub) and Algorithm 1, with the C x C matrices `Q_i` eliminated: `t` ranges over
//! `Y_k` and the weights `1/|Y_k|` add up to 1, so
//!
//! ```text
//! q_is = (n/l)^2 |n_i| sum_{j in a, s in Y_i & Y_j} 1/|Y_i & Y_j|
//! u_js = (n/l) ( sum_{i in a, s in Y_i & Y_j} |n_i|/|Y_i & Y_j| + 1/|Y_j| sum_{i in a, disjoint} |p_i| )
//! ```
//!
//! `a` are the anchors (all items: exact), `l` of them; `|n_i|` counts anchors in `q` and all
//! items in `u`. Over distinct label sets, with `w` items and `v` anchors in a set:
//!
//! | symbol             | here                                            |
//! |--------------------|-------------------------------------------------|
//! | `sum_j 1/|Y&Y|`    | `shares`, weights `v`                           |
//! | `sum_i |n_i|/|Y&Y|`| `far_shares`, weights `v_b |n_b|`               |
//! | disjoint `sum |p|` | `n (l - |p_a|) - (sum v|n| - far_positives)`    |
//!
//! Departures: items without labels are excluded, also from `n` and `l`. `(i, i)` is a positive pair
//! as in Algorithm 1 if `include_self` is set.

use super::coefficients::Coefficients;
use super::groups::Groups;

/// Sums over the overlaps of each label set with the anchors' sets.
pub(super) struct Sums {
    /// Anchors that share a label with the set.
    pub(super) positives: Vec<u128>,
    /// The same, each anchor weighted by its number of negatives among all items.
    pub(super) far_positives: Vec<u128>,
    /// Per label of each set: the anchors with this label, each divided by the size of the overlap.
    pub(super) shares: Vec<f64>,
    /// The same, each anchor weighted by its number of negatives among all items.
    pub(super) far_shares: Vec<f64>,
    /// Negatives of each anchor set among all items; arbitrary for other sets.
    pub(super) negatives: Vec<u64>,
}

/// Computes the coefficients. `anchors[a]` is the number of anchors with set `a`; without
/// `include_self`, every item of such a set must be an anchor.
pub(super) fn assemble(
    groups: Groups,
    anchors: &[u64],
    sums: &Sums,
    include_self: bool,
) -> Coefficients {
    let starts = groups.starts();
    let n = u128::from(groups.labelled());
    let l: u128 = anchors.iter().map(|&v| u128::from(v)).sum();
    let ratio = if l == 0 { 0.0 } else { n as f64 / l as f64 };
    let far_total: u128 = (0..anchors.len())
        .map(|a| u128::from(anchors[a]) * u128::from(sums.negatives[a]))
        .sum();
    let places = sums.shares.len();
    let (mut q, mut u) = (vec![0.0; places], vec![0.0; places]);
    for a in 0..anchors.len() {
        let apart = l - sums.positives[a]; // |n_a| among the anchors
        let mut disjoint = n * apart - (far_total - sums.far_positives[a]);
        let (mut own, mut own_far) = (0.0, 0.0);
        let size = (starts[a + 1] - starts[a]) as f64;
        if !include_self {
            disjoint -= apart; // every anchor has one positive less: itself
            if anchors[a] > 0 {
                (own, own_far) = (1.0 / size, sums.negatives[a] as f64 / size);
            }
        }
        for place in starts[a]..starts[a + 1] {
            q[place] = ratio * ratio * apart as f64 * (sums.shares[place] - own);
            u[place] = ratio * (sums.far_shares[place] - own_far + disjoint as f64 / size);
        }
    }
    Coefficients::new(groups, q, u)
}
