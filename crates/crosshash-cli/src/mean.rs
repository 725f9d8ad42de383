//! Mean and standard deviation of repeated measurements.

/// A mean and the standard deviation of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    pub(crate) spread: f64,
}

impl Mean {
    /// Of some values; `None` if there are none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Mean> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let spread = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        (!values.is_empty()).then_some(Mean { mean, spread })
    }

    /// As text; without a deviation for one seed.
    pub(crate) fn text(self, seeds: usize) -> String {
        match seeds {
            1 => format!("{:.4}", self.mean),
            _ => format!("{:.4} ± {:.4}", self.mean, self.spread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_deviation() {
        let mean = Mean::of([1.0, 2.0, 3.0, 6.0].into_iter()).unwrap();
        assert_eq!(mean.mean, 3.0);
        assert!((mean.spread - (14.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Mean::of([5.0].into_iter()).unwrap().spread, 0.0);
        assert_eq!(Mean::of(std::iter::empty()), None);
    }
}
