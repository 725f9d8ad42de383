//! Adam (Kingma and Ba, *Adam: A Method for Stochastic Optimization*, ICLR 2015) and AdamW
//! (Loshchilov and Hutter, *Decoupled Weight Decay Regularization*, ICLR 2019), in one parallel
//! pass.
//!
//! ```text
//! g <- g + w p                          Adam with weight decay; not AdamW
//! m <- b1 m + (1 - b1) g
//! v <- b2 v + (1 - b2) g^2
//! p <- p - eta w p                      AdamW only
//! p <- p - eta (m / (1 - b1^t)) / ( sqrt(v / (1 - b2^t)) + eps )
//! ```
//!
//! As in PyTorch. `t` counts from 1.

use rayon::prelude::*;

use super::BLOCK;

/// Settings of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Adam {
    /// Learning rate, eta.
    pub(crate) rate: f32,
    /// Decay of the first moment, b1.
    pub(crate) beta1: f32,
    /// Decay of the second moment, b2.
    pub(crate) beta2: f32,
    /// Added to the root, eps.
    pub(crate) epsilon: f32,
    /// Weight decay, w.
    pub(crate) decay: f32,
    /// Whether the decay is decoupled from the gradient (AdamW).
    pub(crate) decoupled: bool,
}

impl Adam {
    /// AdamW with the usual constants.
    pub(crate) fn decoupled(rate: f32, decay: f32) -> Adam {
        let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-8);
        Adam { rate, beta1, beta2, epsilon, decay, decoupled: true }
    }

    /// Step number `t`, from 1, on a whole array.
    ///
    /// # Panics
    /// If the arrays differ in length.
    pub(crate) fn step(
        self,
        t: u64,
        values: &mut [f32],
        moments: &mut Moments,
        gradient: &[f32],
    ) {
        let Moments { first, second } = moments;
        let sizes = [first.len(), second.len(), gradient.len()];
        assert!(sizes.iter().all(|&size| size == values.len()), "one cell per value");
        values
            .par_chunks_mut(BLOCK)
            .zip(first.par_chunks_mut(BLOCK))
            .zip(second.par_chunks_mut(BLOCK))
            .zip(gradient.par_chunks(BLOCK))
            .for_each(|(((p, m), v), g)| self.update(t, p, m, v, g));
    }

    /// Step number `t`, from 1, on a slice of an array.
    pub(crate) fn update(
        self,
        t: u64,
        p: &mut [f32],
        m: &mut [f32],
        v: &mut [f32],
        g: &[f32],
    ) {
        let Adam { rate, beta1, beta2, epsilon, decay, decoupled } = self;
        let (size, root) = (rate / bias(beta1, t), 1.0 / bias(beta2, t).sqrt());
        let kept = if decoupled { 1.0 - rate * decay } else { 1.0 };
        let coupled = if decoupled { 0.0 } else { decay };
        for (((p, m), v), g) in p.iter_mut().zip(m).zip(v).zip(g) {
            let g = g + coupled * *p;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *p = kept * *p - size * *m / (v.sqrt() * root + epsilon);
        }
    }
}

/// The moments of an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Moments {
    /// Of the gradient, m.
    pub(crate) first: Vec<f32>,
    /// Of its square, v.
    pub(crate) second: Vec<f32>,
}

impl Moments {
    /// Zero, for `len` values.
    pub(crate) fn zero(len: usize) -> Moments {
        Moments { first: vec![0.0; len], second: vec![0.0; len] }
    }
}

/// `1 - b^t`.
fn bias(beta: f32, t: u64) -> f32 {
    let power = f64::from(beta).powf(t as f64);
    #[expect(clippy::cast_possible_truncation, reason = "steps are single precision")]
    let bias = (1.0 - power) as f32;
    bias
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coupled(rate: f32, decay: f32) -> Adam {
        Adam { decoupled: false, ..Adam::decoupled(rate, decay) }
    }

    /// The formula in double precision, cell by cell.
    fn twin(adam: Adam, start: &[f32], steps: u64) -> Vec<f64> {
        let wide = f64::from;
        let (b1, b2) = (wide(adam.beta1), wide(adam.beta2));
        let (eta, w) = (wide(adam.rate), wide(adam.decay));
        let one = |&start: &f32| {
            let (mut p, mut m, mut v) = (wide(start), 0.0, 0.0);
            for t in 1..=steps {
                let mut g = 2.0 * p; // of the square
                if !adam.decoupled {
                    g += w * p;
                }
                m = b1 * m + (1.0 - b1) * g;
                v = b2 * v + (1.0 - b2) * g * g;
                if adam.decoupled {
                    p -= eta * w * p;
                }
                let t = t as f64;
                let root = (v / (1.0 - b2.powf(t))).sqrt() + wide(adam.epsilon);
                p -= eta * (m / (1.0 - b1.powf(t))) / root;
            }
            p
        };
        start.iter().map(one).collect()
    }

    #[test]
    fn equals_its_twin() {
        let start: Vec<f32> = (0..70_000).map(|k| (k as f32 * 0.37).sin()).collect();
        for adam in [Adam::decoupled(0.01, 0.1), coupled(0.02, 0.1)] {
            let (mut p, mut moments) = (start.clone(), Moments::zero(start.len()));
            for t in 1..=5 {
                let gradient: Vec<f32> = p.iter().map(|p| 2.0 * p).collect();
                adam.step(t, &mut p, &mut moments, &gradient);
            }
            for (found, wanted) in p.iter().zip(twin(adam, &start, 5)) {
                assert!((f64::from(*found) - wanted).abs() < 2e-6, "{found} for {wanted}");
            }
        }
    }

    #[test]
    fn the_first_step_is_as_long_as_the_rate() {
        let (mut p, mut moments) = ([1.0, -3.0], Moments::zero(2));
        coupled(0.25, 0.0).step(1, &mut p, &mut moments, &[1e-3, -40.0]);
        assert!((p[0] - 0.75).abs() < 1e-4 && (p[1] + 2.75).abs() < 1e-6, "{p:?}");
    }
}
