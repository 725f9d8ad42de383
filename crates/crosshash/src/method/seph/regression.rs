//! Kernel logistic regression of all bits at once.
//!
//! ```text
//! min over w_b:  1/n sum_i log(1 + e^(-b_i k_i w_b)) + penalty w_b^T K w_b
//! ```
//!
//! k_i are the kernel features of item i, K those of the centres, b_i in {-1, 1}. By L-BFGS (Liu
//! and Nocedal 1989, memory 8) with backtracking, all bits in one vector: the problem is convex,
//! and the bits do not interact.

use rayon::prelude::*;

use crate::gemm::{Factor, accumulate};

/// Maximum number of steps.
pub(super) const ROUNDS: usize = 80;
const MEMORY: usize = 8;
/// The minimisation ends when the relative decrease is below this.
const SETTLED: f64 = 1e-5;

/// The weights, centres x bits, for features (n x centres) and the signs of `codes` (n x bits);
/// `progress` is called after every step; `None` if it stopped the computation.
pub(super) fn regress(
    features: &[f32],
    own: &[f32],
    codes: &[f32],
    bits: usize,
    penalty: f64,
    progress: &mut dyn FnMut() -> bool,
) -> Option<Vec<f32>> {
    let problem = Problem { features, own, codes, bits, penalty };
    let centres = features.len() / (codes.len() / bits).max(1);
    let mut w = vec![0.0_f64; centres * bits];
    let (mut value, mut gradient) = problem.at(&w);
    let mut memory: Vec<(Vec<f64>, Vec<f64>)> = Vec::new(); // steps and changes of gradient
    for _ in 0..ROUNDS {
        let direction = two_loops(&gradient, &memory);
        let slope = dot(&direction, &gradient);
        let mut length =
            if memory.is_empty() { 1.0 / norm(&gradient).max(1e-12) } else { 1.0 };
        let mut found = None;
        for _ in 0..30 {
            let next: Vec<f64> =
                w.iter().zip(&direction).map(|(w, d)| w - length * d).collect();
            let (reached, g) = problem.at(&next);
            if reached <= value - 1e-4 * length * slope {
                found = Some((next, reached, g));
                break;
            }
            length *= 0.5;
        }
        let Some((next, reached, g)) = found else { break };
        let step: Vec<f64> = next.iter().zip(&w).map(|(a, b)| a - b).collect();
        let change: Vec<f64> = g.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        if dot(&step, &change) > 1e-12 * norm(&step) * norm(&change) {
            memory.push((step, change));
            if memory.len() > MEMORY {
                memory.remove(0);
            }
        }
        let settled = value - reached <= SETTLED * value.abs();
        (w, value, gradient) = (next, reached, g);
        if !progress() {
            return None;
        }
        if settled {
            break;
        }
    }
    #[expect(clippy::cast_possible_truncation, reason = "towers are single precision")]
    let single = w.iter().map(|&x| x as f32).collect();
    Some(single)
}

struct Problem<'a> {
    features: &'a [f32],
    own: &'a [f32],
    codes: &'a [f32],
    bits: usize,
    penalty: f64,
}

impl Problem<'_> {
    /// The objective and its gradient, both summed over bits.
    fn at(&self, w: &[f64]) -> (f64, Vec<f64>) {
        let bits = self.bits;
        let (n, centres) = (self.codes.len() / bits, w.len() / bits);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "products are single precision"
        )]
        let single: Vec<f32> = w.iter().map(|&x| x as f32).collect();
        let weights = Factor::whole(&single, bits);
        let mut out = vec![0.0_f32; self.codes.len()];
        let features = Factor::whole(self.features, centres);
        accumulate(&mut out, 0.0, features, weights, true);
        // log(1 + e^-t) and -b sigma(-t) for t = b k w
        let losses: Vec<f64> = out
            .par_chunks_mut(bits)
            .zip(self.codes.par_chunks(bits))
            .map(|(row, codes)| {
                let mut sum = 0.0;
                for (x, code) in row.iter_mut().zip(codes) {
                    let sign = if *code >= 0.0 { 1.0 } else { -1.0 };
                    let t = sign * *x;
                    let small = (-t.abs()).exp();
                    sum += f64::from(small.ln_1p() + (-t).max(0.0));
                    let sigma = if t >= 0.0 { small } else { 1.0 } / (1.0 + small);
                    *x = -sign * sigma / n as f32;
                }
                sum
            })
            .collect();
        let mut gradient = vec![0.0_f32; w.len()];
        let slopes = Factor::whole(&out, bits);
        accumulate(&mut gradient, 0.0, features.transposed(), slopes, true);
        let mut smooth = vec![0.0_f32; w.len()]; // K w
        accumulate(&mut smooth, 0.0, Factor::whole(self.own, centres), weights, true);
        let size: f64 = smooth.iter().zip(w).map(|(&s, w)| f64::from(s) * w).sum();
        let value = losses.iter().sum::<f64>() / n as f64 + self.penalty * size;
        let both = gradient.iter().zip(&smooth);
        let slope =
            |(&g, &s): (&f32, &f32)| f64::from(g) + 2.0 * self.penalty * f64::from(s);
        (value, both.map(slope).collect())
    }
}

/// The gradient multiplied by the approximate inverse Hessian.
fn two_loops(gradient: &[f64], memory: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut q = gradient.to_vec();
    let mut shares = Vec::new();
    for (step, change) in memory.iter().rev() {
        let share = dot(step, &q) / dot(step, change);
        q.iter_mut().zip(change).for_each(|(q, c)| *q -= share * c);
        shares.push(share);
    }
    if let Some((step, change)) = memory.last() {
        let scale = dot(step, change) / dot(change, change);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((step, change), share) in memory.iter().zip(shares.into_iter().rev()) {
        let other = dot(change, &q) / dot(step, change);
        q.iter_mut().zip(step).for_each(|(q, s)| *q += (share - other) * s);
    }
    q
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES: [f32; 10] = [1.0, 0.2, 0.8, 0.3, 0.1, 0.9, 0.3, 1.0, 0.5, 0.5];
    const OWN: [f32; 4] = [1.0, 0.3, 0.3, 1.0];
    const CODES: [f32; 10] = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0];

    fn problem() -> Problem<'static> {
        Problem { features: &FEATURES, own: &OWN, codes: &CODES, bits: 2, penalty: 0.05 }
    }

    #[test]
    fn gradient_matches_central_differences() {
        let w = [0.3, -0.7, 0.2, 0.9];
        let (_, gradient) = problem().at(&w);
        for k in 0..4 {
            let shifted = |by: f64| {
                let mut w = w;
                w[k] += by;
                problem().at(&w).0
            };
            let slope = (shifted(1e-2) - shifted(-1e-2)) / 2e-2;
            assert!((gradient[k] - slope).abs() < 1e-4, "{k}: {} for {slope}", gradient[k]);
        }
    }

    #[test]
    fn gradient_is_zero_at_the_end() {
        let w = regress(&FEATURES, &OWN, &CODES, 2, 0.05, &mut || true).unwrap();
        let wide: Vec<f64> = w.iter().map(|&x| f64::from(x)).collect();
        let (value, gradient) = problem().at(&wide);
        assert!(norm(&gradient) < 5e-3, "{gradient:?}");
        assert!(value < problem().at(&[0.0; 4]).0);
        assert!(regress(&FEATURES, &OWN, &CODES, 2, 0.05, &mut || false).is_none());
    }
}
