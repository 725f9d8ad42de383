//! The weight of the quantisation loss, set by a controller.
//!
//! The paper sets alpha "such that the quantization loss of both modalities is around 0.15" and
//! gives no details. Here, per modality and step, with e a running mean of the loss:
//!
//! ```text
//! e <- 0.95 e + 0.05 l_q,    alpha <- clamp( alpha exp(k (e - target)), 0.001, 100 )
//! k = clamp( 60 / steps of the whole training, 0.1, 0.3 )
//! ```
//!
//! Short trainings use a larger gain, to reach the target before the end; a gain above 0.3 would
//! oscillate, because e lags by about 20 steps. When the learning rate decreases, updates become smaller,
//! and the loss may remain a little below the target.

use serde::{Deserialize, Serialize};

const MEMORY: f64 = 0.95;
const GAIN: (f64, f64) = (0.1, 0.3);
const STEPS: f64 = 60.0;
const RANGE: (f64, f64) = (1e-3, 100.0);

/// Alpha of one modality.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alpha {
    value: f64,
    mean: Option<f64>,
    target: Option<f64>,
    gain: f64,
    most: f64,
}

impl Alpha {
    /// A fixed alpha.
    pub(crate) fn fixed(value: f64) -> Alpha {
        Alpha { value, mean: None, target: None, gain: 0.0, most: RANGE.1 }
    }

    /// An alpha that is controlled so that the loss reaches a target, in a training of `steps` steps.
    pub(crate) fn controlled(target: f64, steps: usize) -> Alpha {
        let gain = (STEPS / steps.max(1) as f64).clamp(GAIN.0, GAIN.1);
        Alpha { value: 0.1, mean: None, target: Some(target), gain, most: RANGE.1 }
    }

    /// The same with a smaller limit: beside terms on angles, a large weight would dominate the loss.
    pub(crate) fn at_most(self, most: f64) -> Alpha {
        Alpha { most, ..self }
    }

    /// The weight now.
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// Records the loss of one step and updates the weight.
    pub(crate) fn record(&mut self, loss: f64) {
        let mean = MEMORY * self.mean.unwrap_or(loss) + (1.0 - MEMORY) * loss;
        self.mean = Some(mean);
        if let Some(target) = self.target {
            let next = self.value * (self.gain * (mean - target)).exp();
            self.value = next.clamp(RANGE.0, self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loss that falls with alpha is brought to the target and stays there.
    #[test]
    fn converges_to_the_target() {
        let loss = |alpha: f64| 0.3 / (1.0 + alpha);
        for steps in [200, 3000] {
            let mut alpha = Alpha::controlled(0.15, steps);
            for _ in 0..steps {
                alpha.record(loss(alpha.value()));
            }
            assert!((loss(alpha.value()) - 0.15).abs() < 0.005, "alpha {}", alpha.value());
        }
        let mut fixed = Alpha::fixed(0.4);
        fixed.record(1.0);
        assert_eq!(fixed.value(), 0.4);
    }

    #[test]
    fn stays_in_its_range() {
        let mut alpha = Alpha::controlled(0.15, 9000);
        (0..2000).for_each(|_| alpha.record(0.9));
        assert_eq!(alpha.value(), 100.0);
        (0..9000).for_each(|_| alpha.record(0.0));
        assert_eq!(alpha.value(), 1e-3);
    }
}
