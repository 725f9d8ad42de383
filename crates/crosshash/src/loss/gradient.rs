//! Operations that change gradients and not values.
//!
//! ```text
//! straight_through(hard, soft)   value hard, gradient of soft         (Bengio et al. 2013, arXiv:1308.3432)
//! reversed(x, w)                 value x, gradient times -w           (Ganin and Lempitsky, ICML 2015)
//! ```

use burn_tensor::Tensor;

/// The value of `hard` with the gradient of `soft`.
pub(crate) fn straight_through(hard: Tensor<2>, soft: Tensor<2>) -> Tensor<2> {
    soft.clone() + (hard - soft).detach()
}

/// The signs of values, 1 for 0, with the gradient of the values.
pub(crate) fn straight_through_sign(x: Tensor<2>) -> Tensor<2> {
    straight_through(signs(x.clone()), x)
}

/// The signs of values, 1 for 0, without gradient.
pub(crate) fn signs(x: Tensor<2>) -> Tensor<2> {
    x.detach().greater_equal_elem(0.0).float() * 2.0 - 1.0
}

/// The same value; the gradient is multiplied by `-weight`.
pub(crate) fn reversed(x: Tensor<2>, weight: f64) -> Tensor<2> {
    x.clone() * -weight + (x * (1.0 + weight)).detach()
}

#[cfg(test)]
mod tests {
    use super::super::tests::leaf;
    use super::*;

    fn gradient(at: &Tensor<2>, out: Tensor<2>) -> Vec<f64> {
        // d/dx of the sum of squares of the value
        let grads = out.square().sum().backward();
        at.grad(&grads).unwrap().into_data().as_slice::<f64>().unwrap().to_vec()
    }

    #[test]
    fn values_and_gradients() {
        let values = [0.5, -2.0, 0.0];
        let x = leaf(&values, 3);
        let out = reversed(x.clone(), 0.3);
        let found: Vec<f64> = out.to_data().as_slice::<f64>().unwrap().to_vec();
        assert!(found.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-12));
        let slopes = gradient(&x, out);
        assert!(slopes.iter().zip(&values).all(|(g, v)| (g + 0.6 * v).abs() < 1e-12));
        let x = leaf(&values, 3);
        // The gradient of the square of a sign passes to x: 2 sgn(x).
        assert_eq!(gradient(&x, straight_through_sign(x.clone())), [2.0, -2.0, 2.0]);
    }
}
