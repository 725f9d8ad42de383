//! Codes whose Hamming distances follow the labels (Lin et al. 2015, eqs. of the first step).
//!
//! ```text
//! P_ij = cos(y_i, y_j) / sum,  P_ii = 0        Q_ij = num_ij / sum,  num_ij = 1 / (1 + |h_i - h_j|^2 / 4)
//! psi = KL(P | Q) + a | |H| - 1 |_F^2,   a = 0.01 / (r n)
//! dpsi/dh_i = sum_j (P_ij - Q_ij) num_ij (h_i - h_j) + 2 a (|h_i| - 1) sgn(h_i)
//! ```
//!
//! For codes of -1, 1 the squared distance divided by 4 is the Hamming distance. P and Q are computed in
//! blocks of rows; the sum of num is known only at the end, so the two parts of the gradient are summed
//! separately. Gradient descent as in t-SNE (momentum 0.5, gains per entry) from 1e-4 N(0, 1), columns
//! centred. Difference from the paper: a step that increases psi is reverted, and the next one is half as
//! long and without momentum, so psi never increases; other steps increase the length by 10 %.

use crosshash_codes::Labels;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::gemm::{Factor, accumulate};
use crate::tower::normal;

/// Rows at a time.
const BLOCK: usize = 128;
const MOMENTUM: f32 = 0.5;
/// The first step length, per item.
const STEP: f32 = 0.1;

/// The objective.
pub(super) struct Divergence {
    labels: Labels,
    bits: usize,
    total: f64,   // sum of cosines
    entropy: f64, // sum of P log P
    weight: f64,  // a
}

/// The sums of one block of rows.
struct Part {
    attract: Vec<f32>, // sum_j P_ij num_ij (h_i - h_j)
    repel: Vec<f32>,   // sum_j num_ij^2 (h_i - h_j)
    cross: f64,        // sum_j P_ij log(1 + d_ij)
    numbers: f64,      // sum of num
}

impl Divergence {
    pub(super) fn new(labels: Labels, bits: usize) -> Divergence {
        let n = labels.len();
        let sums = |i: usize| {
            let own = (0..n).filter(|&j| j != i).map(|j| cosine(&labels, i, j));
            own.fold((0.0, 0.0), |(sum, logs), c| {
                (sum + c, logs + if c > 0.0 { c * c.ln() } else { 0.0 })
            })
        };
        let all: Vec<(f64, f64)> = (0..n).into_par_iter().map(sums).collect();
        let total = all.iter().map(|sums| sums.0).sum::<f64>().max(f64::MIN_POSITIVE);
        let logs: f64 = all.iter().map(|sums| sums.1).sum();
        let weight = 0.01 / (bits * n).max(1) as f64;
        Divergence { labels, bits, total, entropy: logs / total - total.ln(), weight }
    }

    /// The objective at H (rows of bits) and its gradient.
    pub(super) fn at(&self, h: &[f32]) -> (f64, Vec<f32>) {
        let parts: Vec<Part> = h
            .par_chunks(BLOCK * self.bits)
            .enumerate()
            .map(|(k, block)| self.part(h, block, k * BLOCK))
            .collect();
        let numbers: f64 = parts.iter().map(|part| part.numbers).sum();
        let cross: f64 = parts.iter().map(|part| part.cross).sum();
        let mut value = self.entropy + cross + numbers.ln();
        let halves = parts.iter().flat_map(|p| p.attract.iter().zip(&p.repel));
        #[expect(clippy::cast_possible_truncation, reason = "codes are single precision")]
        let (share, slope) = ((1.0 / numbers) as f32, 2.0 * self.weight as f32);
        let gradient = h.iter().zip(halves).map(|(&h, (attract, repel))| {
            let off = h.abs() - 1.0;
            value += self.weight * f64::from(off).powi(2);
            attract - repel * share + slope * off * h.signum()
        });
        let gradient = gradient.collect();
        (value, gradient)
    }

    fn part(&self, h: &[f32], block: &[f32], from: usize) -> Part {
        let (bits, n) = (self.bits, self.labels.len());
        let m = block.len() / bits;
        let squares = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>();
        let all: Vec<f32> = h.chunks_exact(bits).map(squares).collect();
        let mut pull = vec![0.0_f32; m * n];
        let (rows, columns) = (Factor::whole(block, bits), Factor::whole(h, bits));
        accumulate(&mut pull, 0.0, rows, columns.transposed(), false);
        let mut push = vec![0.0_f32; m * n];
        let (mut cross, mut numbers) = (0.0, 0.0);
        let mut sums = vec![[0.0_f32; 2]; m];
        for i in 0..m {
            let (a, b) = (&mut pull[i * n..][..n], &mut push[i * n..][..n]);
            for j in 0..n {
                if j == from + i {
                    (a[j], b[j]) = (0.0, 0.0);
                    continue;
                }
                let distance = 0.25 * (all[from + i] + all[j] - 2.0 * a[j]).max(0.0);
                let number = 1.0 / (1.0 + distance);
                let p = cosine(&self.labels, from + i, j) / self.total;
                if p > 0.0 {
                    cross += p * f64::from(distance.ln_1p());
                }
                numbers += f64::from(number);
                #[expect(clippy::cast_possible_truncation, reason = "codes are single")]
                {
                    a[j] = p as f32 * number;
                }
                b[j] = number * number;
                sums[i][0] += a[j];
                sums[i][1] += b[j];
            }
        }
        let half = |weights: &[f32], which: usize| {
            let mut out = vec![0.0_f32; block.len()];
            accumulate(
                &mut out,
                0.0,
                Factor::whole(weights, n),
                Factor::whole(h, bits),
                false,
            );
            for (i, (out, own)) in
                out.chunks_exact_mut(bits).zip(block.chunks_exact(bits)).enumerate()
            {
                out.iter_mut().zip(own).for_each(|(x, h)| *x = sums[i][which] * h - *x);
            }
            out
        };
        Part { attract: half(&pull, 0), repel: half(&push, 1), cross, numbers }
    }
}

/// The cosine of two rows of labels.
fn cosine(labels: &Labels, i: usize, j: usize) -> f64 {
    match labels.shared(i, labels, j) {
        0 => 0.0,
        shared => shared as f64 / ((labels.count(i) * labels.count(j)) as f64).sqrt(),
    }
}

/// Minimises psi; returns H and the objective. `progress` is called after every iteration; `None` if it
/// stopped the computation.
pub(super) fn descend(
    divergence: &Divergence,
    rounds: usize,
    rng: &mut ChaCha8Rng,
    progress: &mut dyn FnMut(f64) -> bool,
) -> Option<(Vec<f32>, f64)> {
    let (n, bits) = (divergence.labels.len(), divergence.bits);
    let mut h = normal(n * bits, 1e-4, rng);
    let mut velocity = vec![0.0_f32; h.len()];
    let mut gains = vec![1.0_f32; h.len()];
    let mut step = STEP * n as f32;
    let (mut value, mut gradient) = divergence.at(&h);
    for _ in 0..rounds {
        let mut next = h.clone();
        for k in 0..h.len() {
            let turned = (gradient[k] > 0.0) == (velocity[k] > 0.0);
            gains[k] = if turned { gains[k] * 0.8 } else { gains[k] + 0.2 }.max(0.01);
            velocity[k] = MOMENTUM * velocity[k] - step * gains[k] * gradient[k];
            next[k] += velocity[k];
        }
        centre(&mut next, bits);
        let (reached, slope) = divergence.at(&next);
        if reached <= value {
            (h, value, gradient) = (next, reached, slope);
            step *= 1.1;
        } else {
            velocity.fill(0.0);
            gains.fill(1.0);
            step *= 0.5;
        }
        if !progress(value) {
            return None;
        }
    }
    Some((h, value))
}

fn centre(h: &mut [f32], bits: usize) {
    let n = (h.len() / bits).max(1) as f32;
    let mut mean = vec![0.0_f32; bits];
    for row in h.chunks_exact(bits) {
        mean.iter_mut().zip(row).for_each(|(m, x)| *m += x / n);
    }
    for row in h.chunks_exact_mut(bits) {
        row.iter_mut().zip(&mean).for_each(|(x, m)| *x -= m);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    fn labels(n: u32) -> Labels {
        Labels::from_indices(4, (0..n).map(|i| vec![i % 3, 3 - i % 2])).unwrap()
    }

    /// KL and penalty in plain loops.
    fn plain(labels: &Labels, h: &[f64], bits: usize) -> f64 {
        let n = labels.len();
        let each = |f: &dyn Fn(usize, usize) -> f64| -> f64 {
            (0..n)
                .flat_map(|i| (0..n).map(move |j| (i, j)))
                .filter(|(i, j)| i != j)
                .map(|(i, j)| f(i, j))
                .sum()
        };
        let number = |i: usize, j: usize| {
            let square: f64 =
                (0..bits).map(|k| (h[i * bits + k] - h[j * bits + k]).powi(2)).sum();
            1.0 / (1.0 + square / 4.0)
        };
        let (all, numbers) = (each(&|i, j| cosine(labels, i, j)), each(&number));
        let kl = each(&|i, j| {
            let (p, q) = (cosine(labels, i, j) / all, number(i, j) / numbers);
            if p > 0.0 { p * (p / q).ln() } else { 0.0 }
        });
        let off: f64 = h.iter().map(|h| (h.abs() - 1.0).powi(2)).sum();
        kl + 0.01 / (bits * n) as f64 * off
    }

    #[test]
    fn gradient_matches_central_differences() {
        let (n, bits) = (7_u32, 3);
        let labels = labels(n);
        let h: Vec<f32> = (0..7 * bits).map(|k| (k as f32 * 1.7).sin() + 0.05).collect();
        let (value, gradient) = Divergence::new(labels.clone(), bits).at(&h);
        let wide: Vec<f64> = h.iter().map(|&x| f64::from(x)).collect();
        let wanted = plain(&labels, &wide, bits);
        assert!((value - wanted).abs() < 1e-5, "{value} for {wanted}");
        for k in 0..h.len() {
            let shifted = |by: f64| {
                let mut h = wide.clone();
                h[k] += by;
                plain(&labels, &h, bits)
            };
            let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            assert!((f64::from(gradient[k]) - slope).abs() < 1e-5, "{k}: {slope}");
        }
    }

    #[test]
    fn objective_never_increases_and_codes_follow_labels() {
        let labels = labels(120);
        let divergence = Divergence::new(labels.clone(), 8);
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut before = f64::INFINITY;
        let found = descend(&divergence, 100, &mut rng, &mut |value| {
            assert!(value <= before, "{value} after {before}");
            before = value;
            true
        });
        let (h, _) = found.unwrap();
        let distance = |i: usize, j: usize| {
            (0..8).filter(|k| (h[i * 8 + k] >= 0.0) != (h[j * 8 + k] >= 0.0)).count()
        };
        // 0 and 6 have the same labels, 0 and 1 none in common
        assert!(distance(0, 6) < distance(0, 1), "{} {}", distance(0, 6), distance(0, 1));
        let stopped = descend(&divergence, 9, &mut rng, &mut |_| false);
        assert!(stopped.is_none());
    }
}
