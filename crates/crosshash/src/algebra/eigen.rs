//! Eigenvalues and eigenvectors of symmetric matrices: all of a small one, the largest of a
//! large one.
//!
//! Small: reduction to a tridiagonal by Householder reflections, then implicit QL (Bowdler,
//! Martin, Reinsch and Wilkinson, *Numerische Mathematik* 11, 1968; EISPACK's tred2 and tql2).
//! Large: block Krylov with restarts: V spans [V, A V, A^2 V, ..]; the small problem V^T A V is
//! solved, and its best vectors are the next start, until all residuals are small:
//!
//! ```text
//! |A v - theta v| <= 1e-10 |theta_1|
//! ```
//!
//! Departures: eigenvalues are in descending order; the largest component of a vector is positive, so
//! that results do not depend on the initial vectors.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::Matrix;
use super::cholesky::dot;
use crate::weights::normal;

/// Matrices up to this size are decomposed completely.
const SMALL: usize = 400;
/// Extra vectors beyond the requested ones.
const MORE: usize = 16;
/// Blocks of the Krylov space.
const BLOCKS: usize = 4;
/// Maximum restarts; vectors that have not converged by then belong to nearly equal eigenvalues.
const RESTARTS: usize = 60;
const TOLERANCE: f64 = 1e-10;

/// Eigenvalues in descending order, and eigenvectors as columns.
pub(crate) struct Eigen {
    pub(crate) values: Vec<f64>,
    pub(crate) vectors: Matrix,
}

/// The `count` largest eigenvalues of a symmetric matrix.
pub(crate) fn largest(a: &Matrix, count: usize) -> Eigen {
    let (n, count) = (a.rows(), count.min(a.rows()));
    if n <= SMALL || (count + MORE) * BLOCKS >= n {
        let all = eigen(a);
        return Eigen {
            values: all.values[..count].to_vec(),
            vectors: all.vectors.first_columns(count),
        };
    }
    let block = count + MORE;
    let mut rng = ChaCha8Rng::seed_from_u64(0); // the result does not depend on the start
    let start = normal(n * block, 1.0, &mut rng);
    // Vectors are stored as rows for contiguous inner products.
    let mut best =
        Matrix { columns: n, values: start.iter().map(|&x| f64::from(x)).collect() };
    for restart in 0..RESTARTS {
        let mut space = Matrix { columns: n, values: Vec::new() };
        join(&mut space, best);
        let mut last = 0;
        while space.rows() > last && space.rows() < BLOCKS * block {
            let next = space.rows_of(last..space.rows()).matmul(a);
            last = space.rows();
            join(&mut space, next);
        }
        let moved = space.matmul(a);
        let small = eigen(&moved.matmul(&space.transpose()));
        let chosen = small.vectors.first_columns(block.min(space.rows())).transpose();
        let (vectors, images) = (chosen.matmul(&space), chosen.matmul(&moved));
        let limit = TOLERANCE * small.values[0].abs().max(f64::MIN_POSITIVE);
        let converged = (0..count).all(|k| {
            let parts = images.row(k).iter().zip(vectors.row(k));
            let residual: f64 = parts.map(|(y, v)| (y - small.values[k] * v).powi(2)).sum();
            residual.sqrt() <= limit
        });
        if converged || restart + 1 == RESTARTS {
            let mut vectors = vectors.rows_of(0..count).transpose();
            sign(&mut vectors);
            return Eigen { values: small.values[..count].to_vec(), vectors };
        }
        best = vectors;
    }
    unreachable!("the last restart returns")
}

/// Extends an orthonormal set by rows (Gram-Schmidt, applied twice); drops rows that are nearly
/// linearly dependent.
fn join(space: &mut Matrix, more: Matrix) {
    for mut row in more.values.chunks_exact(more.columns).map(<[f64]>::to_vec) {
        let first = dot(&row, &row).sqrt();
        for _ in 0..2 {
            for known in space.values.chunks_exact(space.columns) {
                let share = dot(known, &row);
                row.iter_mut().zip(known).for_each(|(x, k)| *x -= share * k);
            }
        }
        let length = dot(&row, &row).sqrt();
        if length > 1e-12 * first {
            space.values.extend(row.iter().map(|x| x / length));
        }
    }
}

/// All eigenvalues of a symmetric matrix.
pub(crate) fn eigen(a: &Matrix) -> Eigen {
    let n = a.rows();
    assert_eq!(n, a.columns, "square matrix");
    let mut v = a.clone();
    let (mut d, mut e) = tridiagonal(&mut v);
    // Vectors are stored as rows for contiguous rotations.
    let mut v = v.transpose();
    implicit_ql(&mut d, &mut e, &mut v);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[j].total_cmp(&d[i]));
    let mut vectors = Matrix::from_fn(n, n, |i, j| v.at(order[j], i));
    sign(&mut vectors);
    Eigen { values: order.iter().map(|&k| d[k]).collect(), vectors }
}

/// Flips the signs of columns so that their largest component is positive.
fn sign(vectors: &mut Matrix) {
    let (rows, columns) = (vectors.rows(), vectors.columns);
    for j in 0..columns {
        let mut most = 0.0_f64;
        for i in 0..rows {
            let x = vectors.at(i, j);
            // A margin, so that rounding does not decide between equal components.
            most = if x.abs() > most.abs() * (1.0 + 1e-9) { x } else { most };
        }
        if most < 0.0 {
            (0..rows).for_each(|i| vectors.values[i * columns + j] *= -1.0);
        }
    }
}

/// Householder reduction: replaces `a` by the orthogonal Q with Q^T A Q tridiagonal; returns its
/// diagonal and subdiagonal.
fn tridiagonal(a: &mut Matrix) -> (Vec<f64>, Vec<f64>) {
    let n = a.rows();
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    for i in (1..n).rev() {
        let mut h = 0.0;
        if i > 1 {
            let scale: f64 = a.row(i)[..i].iter().map(|x| x.abs()).sum();
            if scale == 0.0 {
                e[i] = a.at(i, i - 1);
            } else {
                a.row_mut(i)[..i].iter_mut().for_each(|x| *x /= scale);
                h = dot(&a.row(i)[..i], &a.row(i)[..i]);
                let f = a.at(i, i - 1);
                let g = if f >= 0.0 { -h.sqrt() } else { h.sqrt() };
                e[i] = scale * g;
                h -= f * g;
                a.row_mut(i)[i - 1] = f - g;
                let u = a.row(i)[..i].to_vec();
                // p = A u / h over the lower triangle, each row read once
                let mut p = vec![0.0; i];
                for j in 0..i {
                    let row = &a.row(j)[..=j];
                    p[j] += dot(row, &u[..=j]);
                    let below = row[..j].iter();
                    p[..j].iter_mut().zip(below).for_each(|(p, x)| *p += x * u[j]);
                }
                p.iter_mut().for_each(|p| *p /= h);
                let k = dot(&u, &p) / (2.0 * h);
                p.iter_mut().zip(&u).for_each(|(p, u)| *p -= k * u);
                for j in 0..i {
                    let (f, g) = (u[j], p[j]);
                    let row = &mut a.row_mut(j)[..=j];
                    let parts = row.iter_mut().zip(p.iter().zip(&u));
                    parts.for_each(|(x, (p, u))| *x -= f * p + g * u);
                }
            }
        } else {
            e[i] = a.at(i, i - 1);
        }
        d[i] = h;
    }
    d[0] = 0.0;
    // Accumulate Q from the reflections.
    for i in 0..n {
        if d[i] != 0.0 {
            let u: Vec<f64> = a.row(i)[..i].to_vec();
            let mut g = vec![0.0; i];
            for k in 0..i {
                let row = &a.row(k)[..i];
                g.iter_mut().zip(row).for_each(|(g, x)| *g += u[k] * x);
            }
            for k in 0..i {
                let share = u[k] / d[i];
                let row = &mut a.row_mut(k)[..i];
                row.iter_mut().zip(&g).for_each(|(x, g)| *x -= g * share);
            }
        }
        d[i] = a.at(i, i);
        a.row_mut(i)[..i].fill(0.0);
        a.row_mut(i)[i] = 1.0;
        (0..i).for_each(|k| a.row_mut(k)[i] = 0.0);
    }
    (d, e)
}

/// Implicit QL of a tridiagonal matrix; applies the rotations to `vectors` (rows).
fn implicit_ql(d: &mut [f64], e: &mut [f64], vectors: &mut Matrix) {
    let n = d.len();
    if n == 0 {
        return;
    }
    e.rotate_left(1);
    e[n - 1] = 0.0;
    for l in 0..n {
        // A generous limit, so that NaN does not loop forever.
        for _ in 0..200 {
            let split =
                |m: &usize| e[*m].abs() <= f64::EPSILON * (d[*m].abs() + d[*m + 1].abs());
            let m = (l..n - 1).find(split).unwrap_or(n - 1);
            if m == l {
                break;
            }
            let g = (d[l + 1] - d[l]) / (2.0 * e[l]);
            let r = g.hypot(1.0);
            let mut g = d[m] - d[l] + e[l] / (g + if g >= 0.0 { r } else { -r });
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut early = false;
            for i in (l..m).rev() {
                let (f, b) = (s * e[i], c * e[i]);
                let r = f.hypot(g);
                e[i + 1] = r;
                if r == 0.0 {
                    d[i + 1] -= p;
                    e[m] = 0.0;
                    early = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = d[i + 1] - p;
                let r = (d[i] - g) * s + 2.0 * c * b;
                p = s * r;
                d[i + 1] = g + p;
                g = c * r - b;
                let width = vectors.columns;
                let (low, high) = vectors.values.split_at_mut((i + 1) * width);
                let pairs = low[i * width..].iter_mut().zip(&mut high[..width]);
                pairs.for_each(|(x, y)| (*x, *y) = (c * *x - s * *y, s * *x + c * *y));
            }
            if !early {
                d[l] -= p;
                e[l] = g;
                e[m] = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symmetric(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| {
            let (low, high) = (i.min(j), i.max(j));
            ((low * 37 + high * 11) as f64).sin()
                + if i == j { i as f64 * 0.1 } else { 0.0 }
        })
    }

    fn check(a: &Matrix, found: &Eigen, tolerance: f64) {
        for k in 0..found.values.len() {
            let v: Vec<f64> = (0..a.rows()).map(|i| found.vectors.at(i, k)).collect();
            assert!((dot(&v, &v) - 1.0).abs() < 1e-9, "unit length");
            for i in 0..a.rows() {
                let off = dot(a.row(i), &v) - found.values[k] * v[i];
                assert!(off.abs() < tolerance, "vector {k}, row {i}: {off}");
            }
        }
        assert!(found.values.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn eigenvectors_satisfy_the_definition() {
        for n in [1, 2, 3, 10, 60] {
            let a = symmetric(n);
            let found = eigen(&a);
            check(&a, &found, 1e-10);
            assert!((found.values.iter().sum::<f64>() - a.trace()).abs() < 1e-9);
        }
        let twins = Matrix::from_fn(4, 4, |i, j| f64::from(u8::from(i == j)) * 2.0);
        assert_eq!(eigen(&twins).values, [2.0; 4]);
    }

    #[test]
    fn largest_eigenvalues_match_the_full_decomposition() {
        let a = symmetric(SMALL + 60);
        let (all, some) = (eigen(&a), largest(&a, 20));
        check(&a, &some, 1e-7);
        for k in 0..20 {
            assert!((all.values[k] - some.values[k]).abs() < 1e-8);
            for i in 0..a.rows() {
                assert!((all.vectors.at(i, k) - some.vectors.at(i, k)).abs() < 1e-6);
            }
        }
    }
}
