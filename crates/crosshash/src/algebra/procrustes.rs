//! The alternating steps of iterative quantisation (`method/itq.rs`): codes for a rotation, and the
//! rotation for the codes (orthogonal Procrustes problem).

use rand_chacha::ChaCha8Rng;

use super::{Matrix, eigen};
use crate::weights::normal;

/// A random k x r matrix with orthonormal rows, k <= r.
pub(crate) fn start(k: usize, r: usize, rng: &mut ChaCha8Rng) -> Matrix {
    let values = normal(k * r, 1.0, rng).into_iter().map(f64::from).collect();
    nearest_rotation(&Matrix { columns: r, values })
}

/// One round: codes for the rotation, the rotation for the codes; also returns |B - V R|^2 in between.
pub(crate) fn turn(v: &Matrix, rotation: &Matrix) -> (Matrix, f64) {
    let turned = v.matmul(rotation);
    let sign = |x: &f64| if *x >= 0.0 { 1.0 } else { -1.0 };
    let values: Vec<f64> = turned.values.iter().map(sign).collect();
    let off = values.iter().zip(&turned.values).map(|(b, x)| (b - x).powi(2)).sum();
    let codes = Matrix { columns: turned.columns, values };
    (nearest_rotation(&v.transpose_matmul(&codes)), off)
}

/// `(M M^T)^(-1/2) M`: of all matrices with orthonormal rows the one nearest to M.
fn nearest_rotation(m: &Matrix) -> Matrix {
    let found = eigen(&m.matmul(&m.transpose()));
    let least = found.values[0].max(f64::MIN_POSITIVE) * 1e-14;
    let u = found.vectors;
    let mut scaled = u.clone();
    for i in 0..scaled.rows() {
        let row = scaled.row_mut(i).iter_mut().zip(&found.values);
        row.for_each(|(x, value)| *x /= value.max(least).sqrt());
    }
    scaled.matmul(&u.transpose()).matmul(m)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn the_objective_never_rises_and_rows_stay_orthonormal() {
        for (k, r) in [(8, 8), (5, 12)] {
            let mut rng = ChaCha8Rng::seed_from_u64(4);
            let values = normal(300 * k, 1.0, &mut rng).into_iter().map(f64::from);
            // components of decreasing variance, as in PCA
            let values =
                values.enumerate().map(|(at, x)| x / (1.0 + (at % k) as f64)).collect();
            let v = Matrix { columns: k, values };
            let mut rotation = start(k, r, &mut rng);
            let mut before = f64::INFINITY;
            for _ in 0..60 {
                let (next, off) = turn(&v, &rotation);
                assert!(off <= before + 1e-9, "{off} after {before}");
                let square = next.matmul(&next.transpose());
                for i in 0..k {
                    for j in 0..k {
                        let same = f64::from(u8::from(i == j));
                        assert!((square.at(i, j) - same).abs() < 1e-9);
                    }
                }
                (rotation, before) = (next, off);
            }
        }
    }
}
