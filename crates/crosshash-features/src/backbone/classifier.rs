//! `Classifier`: the last layer of a network that was trained to classify, applied to its features.

/// A linear classifier on features.
#[derive(Debug, Clone)]
pub struct Classifier {
    names: Vec<String>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Classifier {
    /// `weights` has one row per class.
    ///
    /// # Panics
    /// If there is not one name, one row of weights and one bias per class.
    pub fn new(names: Vec<String>, weights: Vec<f32>, bias: Vec<f32>) -> Classifier {
        assert_eq!(names.len(), bias.len(), "one name per class");
        assert!(
            !names.is_empty() && weights.len().is_multiple_of(names.len()),
            "whole rows"
        );
        Classifier { names, weights, bias }
    }

    /// Names of the classes; synonyms are separated by commas.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Probabilities of the classes (softmax) for the features of one picture.
    ///
    /// # Panics
    /// If the features have another width.
    pub fn probabilities(&self, features: &[f32]) -> Vec<f32> {
        let width = self.weights.len() / self.names.len();
        assert_eq!(features.len(), width, "the width of the features");
        let logit = |(row, bias): (&[f32], &f32)| {
            bias + row.iter().zip(features).map(|(w, x)| w * x).sum::<f32>()
        };
        let mut all: Vec<f32> =
            self.weights.chunks_exact(width).zip(&self.bias).map(logit).collect();
        let most = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        all.iter_mut().for_each(|x| *x = (*x - most).exp());
        let sum: f32 = all.iter().sum();
        all.iter_mut().for_each(|x| *x /= sum);
        all
    }

    /// The most likely classes of one picture with their probabilities, the best first.
    pub fn best(&self, features: &[f32], count: usize) -> Vec<(usize, f32)> {
        let all = self.probabilities(features);
        let mut ranked: Vec<(usize, f32)> = all.into_iter().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.truncate(count);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_a_softmax() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let classifier = Classifier::new(names, vec![1.0, 0.0, 0.0, 1.0], vec![0.0, 1.0]);
        let p = classifier.probabilities(&[2.0, 3.0]);
        let expected = 1.0 / (1.0 + 2.0_f32.exp()); // logits 2 and 4
        assert!((p[0] - expected).abs() < 1e-6 && (p[0] + p[1] - 1.0).abs() < 1e-6);
        assert_eq!(classifier.best(&[2.0, 3.0], 1)[0].0, 1);
    }
}
