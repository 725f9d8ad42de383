//! ONNX network for pictures, with its preprocessing and one of its outputs.

use std::path::Path;

use super::onnx::{self, Input, Network, Values};
use super::{Backbone, InputKind, Weights};
use crate::picture::{Layout, Preprocessing};
use crate::{Error, Result};

/// A network with its preprocessing.
pub(super) struct OnnxImage {
    network: Box<dyn Network>,
    preprocessing: Preprocessing,
    width: usize,
}

impl OnnxImage {
    /// Opens the network and runs it once, so that incompatible preprocessing fails immediately.
    pub(super) fn open(
        path: &Path,
        preprocessing: Preprocessing,
        output: Option<&str>,
        weights: &Weights,
    ) -> Result<OnnxImage> {
        preprocessing.check().map_err(|err| err.at(path))?;
        let network = onnx::open(path, output, weights)?;
        if network.names().len() != 1 {
            return Err(Error::content(format!(
                "the network has {} inputs ({}), expected 1",
                network.names().len(),
                network.names().join(", ")
            ))
            .at(path));
        }
        let mut image = OnnxImage { network, preprocessing, width: 0 };
        let trial = vec![0.0; image.preprocessing.values()];
        image.width = image.run(&trial, 1).map_err(|err| err.at(path))?.len();
        Ok(image)
    }

    fn run(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let (channels, size) =
            (self.preprocessing.channels.count(), self.preprocessing.size);
        let shape = match self.preprocessing.layout {
            Layout::Planes => vec![count, channels, size, size],
            Layout::Pixels => vec![count, size, size, channels],
        };
        let (_, rows) =
            self.network.run(&[Input { shape, values: Values::Floats(inputs) }])?;
        Ok(rows)
    }
}

impl Backbone for OnnxImage {
    fn input_kind(&self) -> InputKind {
        InputKind::Pictures
    }

    fn width(&self) -> usize {
        self.width
    }

    fn preprocessing(&self) -> Option<&Preprocessing> {
        Some(&self.preprocessing)
    }

    fn is_single_threaded(&self) -> bool {
        self.network.is_single_threaded()
    }

    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let rows = self.run(inputs, count)?;
        if rows.len() == count * self.width {
            Ok(rows)
        } else {
            Err(Error::content(format!(
                "the network returned {} values for {count} pictures, expected {} each",
                rows.len(),
                self.width
            )))
        }
    }
}
