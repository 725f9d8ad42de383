//! Methods that translate the features of one modality to those of another, which has the hash network:
//! which is which, and the composition of networks as one tower.

use super::deep::Work;
use crate::gemm::{Factor, accumulate};
use crate::tower::Layer;
use crate::{Error, Result};

/// Names of modalities that have the hash network, unless one is configured.
const PICTURES: [&str; 4] = ["photo", "image", "picture", "photos"];

/// The modality that is translated and the one with the hash network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Domains {
    pub(super) source: usize,
    pub(super) target: usize,
}

impl Domains {
    /// By the name of the modality with the hash network; empty: a modality of pictures, a dense one,
    /// or the first.
    pub(super) fn new(work: &Work, key: &str, name: &str) -> Result<Domains> {
        work.two_modalities()?;
        let names: Vec<&str> = work.data.iter().map(|one| one.name.as_str()).collect();
        let find = |name: &str| names.iter().position(|own| *own == name);
        let target = if name.is_empty() {
            let dense = || (0..2).find(|&m| !work.input_shape(m).1);
            PICTURES.iter().find_map(|name| find(name)).or_else(dense).unwrap_or(0)
        } else {
            find(name).ok_or_else(|| {
                Error::content(format!(
                    "{key} = {name:?}: it must be a modality of the data set: {}",
                    names.join(" or ")
                ))
            })?
        };
        Ok(Domains { source: 1 - target, target })
    }
}

/// The layer that applies `first` without activation and then `second`.
pub(super) fn composed(first: &Layer, second: &Layer) -> Layer {
    let (inner, columns) = (first.columns, second.columns);
    let apply = |rows: &[f32], mut out: Vec<f32>| {
        let weights = Factor::whole(&second.weight, columns);
        accumulate(&mut out, 1.0, Factor::whole(rows, inner), weights, true);
        out
    };
    let rows = first.weight.len() / inner.max(1);
    Layer {
        columns,
        weight: apply(&first.weight, vec![0.0; rows * columns]),
        bias: apply(&first.bias, second.bias.clone()),
    }
}

/// The layers that compute `x + (relu(x W_1 + b_1) W_2 + b_2)` exactly with rectified units:
/// `x = relu(x) - relu(-x)`.
pub(super) fn with_residual(width: usize, first: &Layer, second: &Layer) -> [Layer; 2] {
    let hidden = first.columns;
    let columns = hidden + 2 * width;
    let mut wide =
        Layer { columns, weight: vec![0.0; width * columns], bias: first.bias.clone() };
    wide.bias.resize(columns, 0.0);
    for (i, row) in wide.weight.chunks_exact_mut(columns).enumerate() {
        row[..hidden].copy_from_slice(&first.weight[i * hidden..][..hidden]);
        row[hidden + i] = 1.0;
        row[hidden + width + i] = -1.0;
    }
    let mut back = second.clone();
    for sign in [1.0, -1.0] {
        for i in 0..width {
            let start = back.weight.len();
            back.weight.resize(start + width, 0.0);
            back.weight[start + i] = sign;
        }
    }
    [wide, back]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(rows: usize, columns: usize, seed: f32) -> Layer {
        let values = |n: usize, s: f32| (0..n).map(|k| (k as f32 * s).sin()).collect();
        Layer {
            columns,
            weight: values(rows * columns, seed),
            bias: values(columns, seed + 1.0),
        }
    }

    fn apply(x: &[f32], layer: &Layer, relu: bool) -> Vec<f32> {
        let mut out = layer.bias.clone();
        for (x, row) in x.iter().zip(layer.weight.chunks_exact(layer.columns)) {
            out.iter_mut().zip(row).for_each(|(o, w)| *o += x * w);
        }
        if relu {
            out.iter_mut().for_each(|x| *x = x.max(0.0));
        }
        out
    }

    fn close(a: &[f32], b: &[f32]) {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5), "{a:?} {b:?}");
    }

    #[test]
    fn compositions_equal_their_parts() {
        let x = [0.3, -1.2, 0.7];
        let (first, second, third) = (layer(3, 4, 0.7), layer(4, 3, 1.1), layer(3, 2, 0.4));
        let hidden = apply(&x, &first, true);
        let plain = apply(&apply(&hidden, &second, false), &third, false);
        close(&apply(&hidden, &composed(&second, &third), false), &plain);
        let [wide, back] = with_residual(3, &first, &second);
        let wanted: Vec<f32> =
            apply(&hidden, &second, false).iter().zip(x).map(|(a, x)| a + x).collect();
        close(&apply(&apply(&x, &wide, true), &back, false), &wanted);
    }
}
