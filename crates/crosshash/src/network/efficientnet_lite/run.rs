//! Layers of EfficientNet-Lite on one picture of planes (channels x height x width). Padding is that of
//! TensorFlow ("SAME"): ceil(side / stride) outputs, and the odd cell of padding is after the picture.

use super::{Block, WIDTH};
use crate::gemm::{Factor, accumulate};

/// A convolution, whose weights are outputs x (inputs x kernel cells), and ReLU6 after it.
pub(super) struct Conv {
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) relu: bool,
}

/// A convolution of every channel by itself, with ReLU6.
pub(super) struct Depthwise {
    /// Channels x kernel cells.
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) size: usize,
    pub(super) stride: usize,
}

/// Activations: the input of a layer, and buffers for its output.
#[derive(Default)]
pub(super) struct Scratch {
    now: Vec<f32>,
    inner: Vec<f32>,
    spatial: Vec<f32>,
    out: Vec<f32>,
    padded: Vec<f32>,
    row: Vec<f32>,
}

#[cfg(test)]
impl Scratch {
    pub(super) fn with(now: Vec<f32>) -> Scratch {
        Scratch { now, ..Scratch::default() }
    }

    pub(super) fn now(&self) -> &[f32] {
        &self.now
    }
}

/// Cells before the picture, and outputs, of one axis.
fn same(side: usize, size: usize, stride: usize) -> (usize, usize) {
    let outputs = side.div_ceil(stride);
    let padding = ((outputs - 1) * stride + size).saturating_sub(side);
    (padding / 2, outputs)
}

impl Conv {
    /// `out <- relu6(weights x + bias)`, where `x` has one row per input.
    fn apply(&self, x: &[f32], cells: usize, out: &mut Vec<f32>) {
        out.clear();
        for &bias in &self.bias {
            out.resize(out.len() + cells, bias);
        }
        let inputs = self.weights.len() / self.bias.len();
        let (weights, x) = (Factor::whole(&self.weights, inputs), Factor::whole(x, cells));
        accumulate(out, 1.0, weights, x, false);
        if self.relu {
            out.iter_mut().for_each(|value| *value = value.clamp(0.0, 6.0));
        }
    }
}

impl Depthwise {
    /// Returns the side of the output.
    fn apply(
        &self,
        x: &[f32],
        side: usize,
        out: &mut Vec<f32>,
        padded: &mut Vec<f32>,
        row: &mut Vec<f32>,
    ) -> usize {
        let Depthwise { size, stride, .. } = *self;
        let (before, outputs) = same(side, size, stride);
        // A padded row is stored as one run of cells per phase of the stride, so that the cells that
        // one weight meets are neighbours.
        let wide = ((outputs - 1) * stride + size).max(before + side);
        let run = wide.div_ceil(stride);
        let pitch = run * stride;
        padded.clear();
        padded.resize(pitch * wide, 0.0);
        row.clear();
        row.resize(outputs, 0.0);
        out.clear();
        out.reserve(self.bias.len() * outputs * outputs);
        let cells = size * size;
        for (channel, (weights, &bias)) in
            self.weights.chunks_exact(cells).zip(&self.bias).enumerate()
        {
            let plane = &x[channel * side * side..][..side * side];
            for (y, line) in plane.chunks_exact(side).enumerate() {
                let to = &mut padded[(y + before) * pitch..][..pitch];
                if stride == 1 {
                    to[before..before + side].copy_from_slice(line);
                } else {
                    for (x, &value) in line.iter().enumerate() {
                        let at = x + before;
                        to[at % stride * run + at / stride] = value;
                    }
                }
            }
            for y in 0..outputs {
                row.fill(bias);
                for (ky, weights) in weights.chunks_exact(size).enumerate() {
                    let line = &padded[(y * stride + ky) * pitch..][..pitch];
                    for (kx, &weight) in weights.iter().enumerate() {
                        let from = kx % stride * run + kx / stride;
                        let cells = &line[from..from + outputs];
                        for (sum, &cell) in row.iter_mut().zip(cells) {
                            *sum += weight * cell;
                        }
                    }
                }
                out.extend(row.iter().map(|value| value.clamp(0.0, 6.0)));
            }
        }
        outputs
    }
}

/// The first convolution: 3 x 3, stride 2. Returns the side of its output.
pub(super) fn stem(conv: &Conv, x: &[f32], side: usize, scratch: &mut Scratch) -> usize {
    const SIZE: usize = 3;
    const STRIDE: usize = 2;
    let (before, outputs) = same(side, SIZE, STRIDE);
    let columns = &mut scratch.inner;
    columns.clear();
    // One row per weight: the cells that it meets.
    for plane in x.chunks_exact(side * side) {
        for (ky, kx) in (0..SIZE * SIZE).map(|k| (k / SIZE, k % SIZE)) {
            for (y, x) in (0..outputs * outputs).map(|k| (k / outputs, k % outputs)) {
                let (y, x) = (y * STRIDE + ky, x * STRIDE + kx);
                let inside = (before..before + side).contains(&y)
                    && (before..before + side).contains(&x);
                let value =
                    if inside { plane[(y - before) * side + x - before] } else { 0.0 };
                columns.push(value);
            }
        }
    }
    conv.apply(&scratch.inner, outputs * outputs, &mut scratch.now);
    outputs
}

/// One block; returns the side of its output.
pub(super) fn block(block: &Block, side: usize, scratch: &mut Scratch) -> usize {
    let Scratch { now, inner, spatial, out, padded, row } = scratch;
    let expanded = match &block.expand {
        Some(expand) => {
            expand.apply(now, side * side, inner);
            &*inner
        }
        None => &*now,
    };
    let outputs = block.depthwise.apply(expanded, side, spatial, padded, row);
    block.project.apply(spatial, outputs * outputs, out);
    if block.skip {
        out.iter_mut().zip(&*now).for_each(|(out, x)| *out += x);
    }
    std::mem::swap(now, out);
    outputs
}

/// The last convolution and the mean over the picture.
pub(super) fn head(conv: &Conv, side: usize, scratch: &mut Scratch) -> Vec<f32> {
    let cells = side * side;
    conv.apply(&scratch.now, cells, &mut scratch.inner);
    let mean = |plane: &[f32]| plane.iter().sum::<f32>() / cells as f32;
    let features: Vec<f32> = scratch.inner.chunks_exact(cells).map(mean).collect();
    debug_assert_eq!(features.len(), WIDTH, "the width of the head");
    features
}
