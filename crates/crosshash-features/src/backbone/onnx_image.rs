//! Any ONNX network that takes pictures: its recipe, one of its outputs.

use std::path::Path;

use super::onnx::{self, Input, Network, Shape, Values};
use super::{Backbone, Takes, Weights};
use crate::picture::{Layout, Recipe};
use crate::{Error, Result};

/// A network with its recipe.
pub(super) struct OnnxImage {
    network: Box<dyn Network>,
    recipe: Recipe,
    width: usize,
}

impl OnnxImage {
    /// Opens it and asks it once, so that a recipe that does not fit is found out at once.
    pub(super) fn open(
        path: &Path,
        recipe: Recipe,
        output: Option<&str>,
        weights: &Weights,
    ) -> Result<OnnxImage> {
        recipe.check().map_err(|err| err.at(path))?;
        let (channels, size) = (recipe.channels.count(), recipe.size);
        let sizes = match recipe.layout {
            Layout::Planes => [None, Some(channels), Some(size), Some(size)],
            Layout::Pixels => [None, Some(size), Some(size), Some(channels)],
        };
        let shape = Shape { sizes: sizes.to_vec(), integers: false };
        let network = onnx::open(path, &[shape], output, weights)?;
        let mut image = OnnxImage { network, recipe, width: 0 };
        let trial = vec![0.0; image.recipe.values()];
        image.width = image.run(&trial, 1).map_err(|err| err.at(path))?.len();
        Ok(image)
    }

    fn run(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let (channels, size) = (self.recipe.channels.count(), self.recipe.size);
        let shape = match self.recipe.layout {
            Layout::Planes => vec![count, channels, size, size],
            Layout::Pixels => vec![count, size, size, channels],
        };
        let (_, rows) =
            self.network.run(&[Input { shape, values: Values::Floats(inputs) }])?;
        Ok(rows)
    }
}

impl Backbone for OnnxImage {
    fn takes(&self) -> Takes {
        Takes::Pictures
    }

    fn width(&self) -> usize {
        self.width
    }

    fn recipe(&self) -> Option<&Recipe> {
        Some(&self.recipe)
    }

    fn is_single_threaded(&self) -> bool {
        self.network.is_single_threaded()
    }

    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let rows = self.run(inputs, count)?;
        match rows.len() == count * self.width {
            true => Ok(rows),
            false => Err(Error::content(format!(
                "the network gave {} numbers for {count} pictures, not {} each",
                rows.len(),
                self.width
            ))),
        }
    }
}
