//! Coefficients of the semantic cluster unary loss (SCUL), used by JCCH-B.
//!
//! ```text
//! q_is = 1/|Y_i|,    u_is = 1
//! ```
//!
//! Zhang, Li and Zhang, *Semantic Cluster Unary Loss for Efficient Deep Hashing*, 2019, as the
//! JCCH paper applies it to multi-label data. Their mean q is below 1; for a fair comparison
//! with the improved bound, rescale them to mean q = 1 (`Coefficients::rescale`).

use crosshash_codes::Labels;

use super::Coefficients;
use super::groups::Groups;

/// `q = 1/|Y_i|`, `u = 1`.
pub fn scul(labels: &Labels) -> Coefficients {
    by_size(Groups::new(labels), |size| (1.0 / size, 1.0))
}

/// `q = u = 1`: used by the paper for single-label data.
pub fn uniform(labels: &Labels) -> Coefficients {
    by_size(Groups::new(labels), |_| (1.0, 1.0))
}

/// Coefficients that depend only on the number of labels.
pub(super) fn by_size(groups: Groups, of: impl Fn(f64) -> (f64, f64)) -> Coefficients {
    let sizes = (0..groups.sets.len()).map(|set| groups.sets.count(set));
    let (q, u) = sizes.flat_map(|n| std::iter::repeat_n(of(n as f64), n)).unzip();
    Coefficients::new(groups, q, u)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_over_the_number_of_labels() {
        let rows: [&[u32]; 3] = [&[0, 1, 3, 4], &[], &[2]];
        let mut coefficients = scul(&Labels::from_indices(5, rows).unwrap());
        let row = coefficients.row(0);
        assert_eq!(
            (row.labels, row.q, row.u),
            (&[0, 1, 3, 4][..], &[0.25; 4][..], &[1.0; 4][..])
        );
        assert!(coefficients.row(1).labels.is_empty());
        assert_eq!(
            (coefficients.row(2).q, coefficients.row(2).u),
            (&[1.0][..], &[1.0][..])
        );
        assert_eq!(coefficients.rescale(), 0.4); // 2 labelled items, 5 labels
        assert_eq!(coefficients.row(2).q, [2.5]);
    }

    #[test]
    fn uniform_is_one() {
        let rows: [&[u32]; 2] = [&[1], &[0]];
        let coefficients = uniform(&Labels::from_indices(2, rows).unwrap());
        assert_eq!(
            (coefficients.row(1).q, coefficients.row(1).u),
            (&[1.0][..], &[1.0][..])
        );
    }
}
