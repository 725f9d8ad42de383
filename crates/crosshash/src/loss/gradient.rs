//! Operations that change gradients and not values.
//!
//! ```text
//! straight_through(hard, soft)   value hard, gradient of soft         (Bengio et al. 2013, arXiv:1308.3432)
//! reversed(x, w)                 value x, gradient times -w           (Ganin and Lempitsky, ICML 2015)
//! towards_signs(x, s)            value (1 - s) x / |x| + s sgn(x) / sqrt(r), gradient of x / |x|
//! ```

use burn_tensor::Tensor;

use super::unit_rows;

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
    let x = x.detach();
    x.ones_like().mask_fill(x.lower_elem(0.0), -1.0)
}

/// The rows scaled to length 1, moved by `share` of the way to their codes of length 1, with the gradient of
/// the scaled rows. The inner product of two such rows is `(1 - s)^2` times the cosine of the outputs, `s (1 - s)`
/// times each of the two cosines of an output and a code, and `s^2` times the cosine of the codes.
pub(crate) fn towards_signs(x: Tensor<2>, share: f64) -> Tensor<2> {
    let scale = 1.0 / (x.dims()[1] as f64).sqrt();
    let codes = signs(x.clone()) * scale;
    let unit = unit_rows(x);
    unit.clone() + (codes - unit).detach() * share
}

/// The same value; the gradient is multiplied by `-weight`.
pub(crate) fn reversed(x: Tensor<2>, weight: f64) -> Tensor<2> {
    x.clone() * -weight + (x * (1.0 + weight)).detach()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{is_bounded_at_zero, leaf, plain, random};
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

    #[test]
    fn towards_signs_has_the_gradient_of_directions() {
        const R: usize = 4;
        let (values, share) = (random(5, 3, R, 2.0), 0.4);
        let at = leaf(&values, R);
        let out = towards_signs(at.clone(), share);
        let found: Vec<f64> = out.to_data().as_slice::<f64>().unwrap().to_vec();
        for (row, found) in values.chunks_exact(R).zip(found.chunks_exact(R)) {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            for (x, y) in row.iter().zip(found) {
                let code = if *x < 0.0 { -0.5 } else { 0.5 };
                assert!(((1.0 - share) * x / length + share * code - y).abs() < 1e-12);
            }
        }
        let slopes = |at: &Tensor<2>, out: Tensor<2>| -> Vec<f64> {
            let grads = (out * plain(&random(6, 3, R, 1.0), R)).sum().backward();
            at.grad(&grads).unwrap().into_data().as_slice::<f64>().unwrap().to_vec()
        };
        let other = leaf(&values, R);
        let expected = slopes(&other, unit_rows(other.clone()));
        let found = slopes(&at, out);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(found.iter().any(|g| g.abs() > 0.01));
    }

    #[test]
    fn towards_signs_is_bounded_at_zero() {
        is_bounded_at_zero(4, 1000.0, |x| towards_signs(x, 0.5).sum());
    }
}
