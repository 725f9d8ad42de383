//! The layers against plain loops, the sizes against published numbers of parameters, and all against
//! reference features, if the weights are there.

use super::run::{Conv, Depthwise};
use super::*;

fn numbers(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|k| (k as f32 * step).sin()).collect()
}

/// A convolution by its definition, with the padding of TensorFlow.
fn plain(
    x: &[f32],
    side: usize,
    weights: &[f32],
    bias: &[f32],
    [size, stride, groups]: [usize; 3],
) -> Vec<f32> {
    let inputs = x.len() / (side * side);
    let outputs = side.div_ceil(stride);
    let padding = ((outputs - 1) * stride + size).saturating_sub(side) / 2;
    let own = inputs / groups; // inputs of one output
    let per_group = bias.len() / groups;
    let mut out = Vec::new();
    for (o, &bias) in bias.iter().enumerate() {
        for (y, x0) in (0..outputs * outputs).map(|k| (k / outputs, k % outputs)) {
            let mut sum = bias;
            for i in 0..own {
                let plane = &x[(o / per_group * own + i) * side * side..];
                for (ky, kx) in (0..size * size).map(|k| (k / size, k % size)) {
                    let (at_y, at_x) = (y * stride + ky, x0 * stride + kx);
                    if at_y < padding || at_x < padding {
                        continue;
                    }
                    let (at_y, at_x) = (at_y - padding, at_x - padding);
                    if at_y < side && at_x < side {
                        sum += weights[((o * own + i) * size + ky) * size + kx]
                            * plane[at_y * side + at_x];
                    }
                }
            }
            out.push(sum.clamp(0.0, 6.0));
        }
    }
    out
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (k, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() < 1e-4, "{k}: {a} and {b}");
    }
}

#[test]
fn layers_equal_plain_loops() {
    for (side, size, stride) in [
        (8, 3, 1),
        (8, 3, 2),
        (7, 3, 2),
        (9, 5, 1),
        (9, 5, 2),
        (10, 5, 2),
        (3, 5, 2),
        (1, 3, 1),
    ] {
        let channels = 3;
        let x = numbers(channels * side * side, 0.7);
        let (weights, bias) =
            (numbers(channels * size * size, 0.3), numbers(channels, 1.1));
        let expected = plain(&x, side, &weights, &bias, [size, stride, channels]);
        // The block applies the depthwise convolution and an identity.
        let mut identity = vec![0.0; channels * channels];
        (0..channels).for_each(|k| identity[k * channels + k] = 1.0);
        let block = Block {
            expand: None,
            depthwise: Depthwise { weights, bias, size, stride },
            project: Conv { weights: identity, bias: vec![0.0; channels], relu: false },
            skip: false,
        };
        let mut scratch = Scratch::with(x);
        let outputs = run::block(&block, side, &mut scratch);
        assert_eq!(outputs, side.div_ceil(stride));
        close(scratch.now(), &expected);
    }
    let (side, x) = (9, numbers(3 * 81, 0.9));
    let (weights, bias) = (numbers(4 * 27, 0.2), numbers(4, 0.5));
    let expected = plain(&x, side, &weights, &bias, [3, 2, 1]);
    let mut scratch = Scratch::default();
    run::stem(&Conv { weights, bias, relu: true }, &x, side, &mut scratch);
    close(scratch.now(), &expected);
}

#[test]
fn batch_normalisation_is_folded() {
    let arrays = vec![vec![2.0, 4.0], vec![3.0], vec![0.5], vec![1.5], vec![4.0 - EPSILON]];
    let conv = Reading(arrays.into_iter()).conv(false);
    // 3 / sqrt(4) = 1.5
    close(&conv.weights, &[3.0, 6.0]);
    close(&conv.bias, &[0.5 - 1.5 * 1.5]);
}

/// Millions of parameters as published: 4.7, 5.4, 6.1, 8.2 and 13.0.
#[test]
fn the_sizes_are_those_of_the_paper() {
    for (variant, millions) in VARIANTS.into_iter().zip([4.7, 5.4, 6.1, 8.2, 13.0]) {
        let learnt =
            specs(variant).into_iter().filter(|spec| !spec.name.contains("running"));
        let count: usize = learnt.map(|spec| spec.len()).sum();
        assert!((count as f64 / 1e6 - millions).abs() < 0.06, "{count} and {millions}");
    }
    assert_eq!(CLASSES.lines().count(), 1000);
    assert_eq!(CLASSES.lines().nth(282), Some("tiger cat"));
}

/// A network with made weights runs at its own size, and gives different features to different pictures.
#[test]
fn a_network_with_made_weights_runs() {
    let values: Vec<Vec<f32>> = specs(VARIANTS[0])
        .iter()
        .enumerate()
        .map(|(k, spec)| {
            let inputs: usize = spec.shape[1..].iter().product();
            let size = 1.0 / (inputs.max(1) as f32).sqrt();
            let base = if spec.name.ends_with("running_var") { 1.0 } else { 0.0 };
            let scale = if spec.shape.len() == 1 { 0.1 } else { size };
            let values = numbers(spec.len(), 0.37 + k as f32 * 0.01);
            values
                .into_iter()
                .map(|x| {
                    base + scale * x
                        + if spec.name.contains("bn") && spec.name.ends_with("weight") {
                            1.0
                        } else {
                            0.0
                        }
                })
                .collect()
        })
        .collect();
    let preprocessing = Preprocessing::squash(32);
    let network = EfficientNetLite::from_values(VARIANTS[0], values, preprocessing);
    let pictures = numbers(2 * 3 * 32 * 32, 0.013);
    let rows = network.inputs(&pictures, 2).unwrap();
    assert_eq!(rows.len(), 2 * WIDTH);
    assert!(rows.iter().all(|x| x.is_finite() && (0.0..=6.0).contains(x)));
    assert!(rows[..WIDTH] != rows[WIDTH..]);
    let classifier = network.classifier().unwrap();
    let probabilities = classifier.probabilities(&rows[..WIDTH]);
    assert!((probabilities.iter().sum::<f32>() - 1.0).abs() < 1e-4);
}
