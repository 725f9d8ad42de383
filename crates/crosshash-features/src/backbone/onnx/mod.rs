//! ONNX networks, run in pure Rust (`rten`) or by the onnxruntime library if the user provides
//! it. Both return the same values up to rounding; onnxruntime is faster.

#![cfg_attr(
    not(all(feature = "onnx", feature = "onnx-pure")),
    allow(dead_code, reason = "a build without a runtime does not use all of it")
)]

#[cfg(feature = "onnx-pure")]
mod kernel_shape;
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

/// Opens a network. `output` is the name of the output (default: the first).
pub(super) fn open(
    path: &Path,
    output: Option<&str>,
    weights: &Weights,
) -> Result<Box<dyn Network>> {
    let opened = match &weights.onnxruntime {
        Some(library) => by_library(path, output, library),
        None => in_rust(path, output),
    };
    opened.map_err(|err| err.at(path))
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
fn in_rust(path: &Path, output: Option<&str>) -> Result<Box<dyn Network>> {
    Ok(Box::new(pure::open(path, output)?))
}

#[cfg(not(feature = "onnx-pure"))]
fn in_rust(_: &Path, _: Option<&str>) -> Result<Box<dyn Network>> {
    let what = "ONNX networks without the onnxruntime library are not supported";
    Err(Error::disabled(what, "onnx-pure"))
}

fn fault(what: &str, err: impl std::fmt::Display) -> Error {
    // Errors of runtimes may span many lines; the first describes the cause.
    let text = format!("{err:#}");
    let first = text.lines().next().unwrap_or("").trim().to_owned();
    Error::content(format!("{what}: {first}"))
}

fn no_output<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    Error::unknown("output", name, known)
}
