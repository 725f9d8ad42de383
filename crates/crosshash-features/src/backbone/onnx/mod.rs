//! ONNX networks, run in pure Rust (`tract`) or by the onnxruntime library if the user provides
//! it. Both return the same values up to rounding; onnxruntime is faster.

#![cfg_attr(
    not(all(feature = "onnx", feature = "onnx-pure")),
    allow(dead_code, reason = "a build without a runtime does not use all of it")
)]

#[cfg(feature = "onnx-pure")]
mod pure;
#[cfg(feature = "onnx")]
mod runtime;

use std::path::Path;

use super::Weights;
use crate::{Error, Result};

/// An open network with one selected output.
pub(super) trait Network: Send + Sync {
    /// Names of the inputs, in order.
    fn names(&self) -> &[String];

    /// Runs the network on inputs in the order of [`names`](Network::names); returns the shape and
    /// values of the output.
    fn run(&self, inputs: &[Input<'_>]) -> Result<(Vec<usize>, Vec<f32>)>;

    /// Whether one call uses one thread.
    fn is_single_threaded(&self) -> bool;
}

/// One input.
pub(super) struct Input<'a> {
    pub(super) shape: Vec<usize>,
    pub(super) values: Values<'a>,
}

/// Values of an input.
pub(super) enum Values<'a> {
    Floats(&'a [f32]),
    Integers(&'a [i64]),
}

/// Shape of an input; sizes of `None` vary between calls.
pub(super) struct Shape {
    pub(super) sizes: Vec<Option<usize>>,
    pub(super) integers: bool,
}

/// Opens a network. `shapes` are the shapes of its inputs, `output` is the name of the output
/// (default: the first).
pub(super) fn open(
    path: &Path,
    shapes: &[Shape],
    output: Option<&str>,
    weights: &Weights,
) -> Result<Box<dyn Network>> {
    let opened = match &weights.onnxruntime {
        Some(library) => by_library(path, output, library),
        None => by_tract(path, shapes, output),
    };
    let network = opened.map_err(|err| err.at(path))?;
    if network.names().len() != shapes.len() {
        return Err(Error::content(format!(
            "the network has {} inputs ({}), expected {}",
            network.names().len(),
            network.names().join(", "),
            shapes.len()
        ))
        .at(path));
    }
    Ok(network)
}

#[cfg(feature = "onnx")]
fn by_library(
    path: &Path,
    output: Option<&str>,
    library: &Path,
) -> Result<Box<dyn Network>> {
    Ok(Box::new(runtime::open(path, output, library)?))
}

#[cfg(not(feature = "onnx"))]
fn by_library(_: &Path, _: Option<&str>, _: &Path) -> Result<Box<dyn Network>> {
    Err(Error::disabled("onnxruntime is not supported", "onnx"))
}

#[cfg(feature = "onnx-pure")]
fn by_tract(
    path: &Path,
    shapes: &[Shape],
    output: Option<&str>,
) -> Result<Box<dyn Network>> {
    Ok(Box::new(pure::open(path, shapes, output)?))
}

#[cfg(not(feature = "onnx-pure"))]
fn by_tract(_: &Path, _: &[Shape], _: Option<&str>) -> Result<Box<dyn Network>> {
    let what = "ONNX networks without the onnxruntime library are not supported";
    Err(Error::disabled(what, "onnx-pure"))
}

/// Names of the inputs of a network, in order.
pub(super) fn input_names(path: &Path, weights: &Weights) -> Result<Vec<String>> {
    #[cfg(feature = "onnx-pure")]
    let names = {
        let _ = weights;
        pure::input_names(path)
    };
    #[cfg(not(feature = "onnx-pure"))]
    let names = match &weights.onnxruntime {
        Some(library) => by_library(path, None, library).map(|n| n.names().to_vec()),
        None => by_tract(path, &[], None).map(|n| n.names().to_vec()),
    };
    names.map_err(|err| err.at(path))
}

fn fault(what: &str, err: impl std::fmt::Display) -> Error {
    // tract's errors span many lines; the first describes the cause.
    let text = format!("{err:#}");
    let first = text.lines().next().unwrap_or("").trim().to_owned();
    Error::content(format!("{what}: {first}"))
}

fn no_output<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    Error::unknown("output", name, known)
}
