//! Triplet loss of squared distances within a batch.
//!
//! ```text
//! L = 1/|A| sum_{(i,j,k) in T} max(0, margin + scale |f_i - g_j|^2 - |f_i - g_k|^2)
//! ```
//!
//! T are the given triplets (row of f, row of g, row of g), A those that are not 0. ADAH (Zhang, Lai and
//! Feng, ECCV 2018) has scale 1 and margin r/2, ACMR (Wang et al., ACM MM 2017) scale 5 and margin
//! 0.1. Departure: the mean over the active triplets instead of a sum, so that the size of a step does
//! not fall with their number.

use burn_tensor::{Int, Tensor, TensorData, activation::relu};
use crosshash_codes::Labels;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// Triplets of an anchor, a more similar and a less similar item, as positions in two batches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Triplets {
    anchors: Vec<i32>,
    near: Vec<i32>,
    far: Vec<i32>,
}

impl Triplets {
    /// Triplets of items that share a label and items that do not; at most `most` of each per anchor, drawn
    /// at random. `apart`: an item is not its own positive (both batches are the same items).
    pub(crate) fn new(
        own: &Labels,
        other: &Labels,
        most: usize,
        apart: bool,
        rng: &mut ChaCha8Rng,
    ) -> Triplets {
        let mut found = Triplets::default();
        let index = |k: usize| i32::try_from(k).unwrap_or(i32::MAX);
        for i in 0..own.len() {
            let is_used = |j: &usize| !(apart && *j == i);
            let (mut near, mut far): (Vec<usize>, Vec<usize>) = (0..other.len())
                .filter(is_used)
                .partition(|&j| own.shared(i, other, j) > 0);
            for side in [&mut near, &mut far] {
                if side.len() > most {
                    side.shuffle(rng);
                    side.truncate(most);
                }
            }
            for &j in &near {
                for &k in &far {
                    found.anchors.push(index(i));
                    found.near.push(index(j));
                    found.far.push(index(k));
                }
            }
        }
        found
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }
}

/// The loss of two batches; 0 without active triplets.
///
/// # Panics
/// If there are no triplets.
pub(crate) fn triplet(
    f: &Tensor<2>,
    g: &Tensor<2>,
    triplets: &Triplets,
    margin: f64,
    scale: f64,
) -> Tensor<1> {
    assert!(!triplets.is_empty(), "at least one triplet");
    let [n, m] = [f.dims()[0], g.dims()[0]];
    // |f_i - g_j|^2 for all pairs, then a gather.
    let squares = |x: &Tensor<2>| x.clone().square().sum_dim(1);
    let distances =
        squares(f) + squares(g).transpose() - f.clone().matmul(g.clone().transpose()) * 2.0;
    let distances: Tensor<1> = distances.reshape([n * m]);
    let cells = |column: &[i32]| -> Tensor<1, Int> {
        let width = i32::try_from(m).unwrap_or(i32::MAX);
        let cell = |(&i, &j): (&i32, &i32)| i * width + j;
        let cells: Vec<i32> = triplets.anchors.iter().zip(column).map(cell).collect();
        let count = cells.len();
        Tensor::from_data(TensorData::new(cells, [count]), &f.device())
    };
    let near = distances.clone().select(0, cells(&triplets.near));
    let far = distances.select(0, cells(&triplets.far));
    let hinge = relu(near * scale - far + margin);
    let active = hinge.clone().detach().greater_elem(0.0).float().sum().clamp_min(1.0);
    hinge.sum() / active
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::super::tests::{agrees, plain, random};
    use super::*;

    const R: usize = 3;

    fn labels() -> (Labels, Labels) {
        let own = Labels::from_indices(3, [vec![0], vec![1], vec![0, 2], vec![2]]).unwrap();
        let other =
            Labels::from_indices(3, [vec![0], vec![1, 2], vec![2], vec![1], vec![0]])
                .unwrap();
        (own, other)
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let (own, other) = labels();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let triplets = Triplets::new(&own, &other, 99, false, &mut rng);
        let g = random(4, 5, R, 1.0);
        for (margin, scale) in [(0.5, 1.0), (0.1, 5.0)] {
            let twin = |f: &[f64]| {
                let (mut sum, mut active) = (0.0, 0.0_f64);
                let distance = |i: usize, j: usize| {
                    (0..R).map(|k| (f[i * R + k] - g[j * R + k]).powi(2)).sum::<f64>()
                };
                for i in 0..4 {
                    for j in (0..5).filter(|&j| own.shared(i, &other, j) > 0) {
                        for k in (0..5).filter(|&k| own.shared(i, &other, k) == 0) {
                            let value = margin + scale * distance(i, j) - distance(i, k);
                            sum += value.max(0.0);
                            active += f64::from(u8::from(value > 0.0));
                        }
                    }
                }
                sum / active.max(1.0)
            };
            let term = |f: Tensor<2>| triplet(&f, &plain(&g, R), &triplets, margin, scale);
            agrees(&random(5, 4, R, 1.0), R, term, twin);
        }
    }

    #[test]
    fn triplets_are_limited_and_drawn_by_the_seed() {
        let (own, other) = labels();
        let drawn = |seed: u64, most: usize, apart: bool| {
            let other = if apart { &own } else { &other };
            Triplets::new(&own, other, most, apart, &mut ChaCha8Rng::seed_from_u64(seed))
        };
        let all = drawn(1, 99, false);
        assert_eq!(all.anchors.len(), 2 * 3 + 2 * 3 + 4 + 2 * 3);
        assert_eq!(drawn(1, 1, false).anchors.len(), 4);
        assert_eq!(drawn(1, 2, false), drawn(1, 2, false));
        let apart = drawn(1, 99, true);
        assert!(!apart.is_empty());
        assert!(apart.anchors.iter().zip(&apart.near).all(|(i, j)| i != j));
    }
}
