//! Closed forms of the unary bound for balanced, uncorrelated labels.
//!
//! Zhang, Li and Zhang, SCDH, as recalled in the JCCH paper after Eq. (uub). One label per
//! item, evenly distributed:
//!
//! ```text
//! M = (n/C)^2 (C-1),    q = 1,    u = 2
//! ```
//!
//! Several labels, each present with probability `p`, independently:
//!
//! ```text
//! M = (C-1) p^2 n^2,    q(x) = (C-x)/(C-1) (1-p)^x,    u(x) = q(x) + (1-p)^2 (1-p^2)^(C-2)
//! ```
//!
//! with `x = |Y_i|`. Departures: `p` is the mean of the label matrix over labelled items. The
//! forms were derived for a triplet loss weighted by `|Y_i & Y_j|`, which the JCCH paper does not
//! mention; they are provided for comparison.

use crosshash_codes::Labels;

use super::Coefficients;
use super::groups::Groups;
use super::scul::by_size;

/// `q(x)`, `u(x)` for data in which `classes` labels are each present with probability `p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balanced {
    /// Number of labels, C.
    pub classes: usize,
    /// Probability of each label.
    pub p: f64,
}

impl Balanced {
    /// `q(x)`; 0 if there are fewer than two labels, because there are no negatives.
    pub fn q(self, x: f64) -> f64 {
        let c = self.classes as f64;
        if self.classes < 2 { 0.0 } else { (c - x) / (c - 1.0) * (1.0 - self.p).powf(x) }
    }

    /// `u(x)`.
    pub fn u(self, x: f64) -> f64 {
        let c = self.classes as f64;
        if self.classes < 2 {
            return 0.0;
        }
        self.q(x) + (1.0 - self.p).powi(2) * (1.0 - self.p * self.p).powf(c - 2.0)
    }

    /// `M`: the factor by which the bound of `n` items is larger than these coefficients.
    pub fn scale(self, n: f64) -> f64 {
        (self.classes as f64 - 1.0).max(0.0) * self.p * self.p * n * n
    }
}

/// The coefficients of the formulas, and M, the factor by which they are smaller than the bound.
/// Single-label data has `q = 1`, `u = 2`.
pub fn balanced(labels: &Labels) -> (Coefficients, f64) {
    let groups = Groups::new(labels);
    let n = groups.labelled() as f64;
    let classes = labels.classes();
    if super::is_single_label(labels) {
        let c = classes.max(1) as f64;
        return (by_size(groups, |_| (1.0, 2.0)), (n / c).powi(2) * (c - 1.0));
    }
    let total: usize = labels.histogram().iter().sum();
    let form = Balanced { classes, p: total as f64 / (n * classes as f64) };
    (by_size(groups, |x| (form.q(x), form.u(x))), form.scale(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_by_hand() {
        let form = Balanced { classes: 5, p: 0.5 };
        assert_eq!(form.q(1.0), 0.5);
        assert_eq!(form.q(3.0), 0.5 * 0.125);
        assert_eq!(form.u(3.0), 0.0625 + 0.25 * 0.75_f64.powi(3));
        assert_eq!(form.scale(10.0), 4.0 * 0.25 * 100.0);
        assert_eq!(form.q(5.0), 0.0);
    }

    #[test]
    fn the_vocabulary_may_be_one_label() {
        let (coefficients, _) =
            balanced(&Labels::from_indices(1, [vec![0], vec![], vec![0]]).unwrap());
        assert!(coefficients.row(0).q.iter().all(|q| q.is_finite()));
    }

    #[test]
    fn one_label_each_gives_one_and_two() {
        let rows = [[0_u32], [1], [2], [0], [1], [2]];
        let (coefficients, scale) = balanced(&Labels::from_indices(3, rows).unwrap());
        assert_eq!(
            (coefficients.row(4).q, coefficients.row(4).u),
            (&[1.0][..], &[2.0][..])
        );
        assert_eq!(scale, 8.0);
    }
}
