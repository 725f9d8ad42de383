//! ONNX in pure Rust (`rten`). A call uses one thread; calls may run in parallel.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_tensor::{AsView as _, Layout as _, Tensor, TensorView};

use super::{Input, Network, Values, fault, kernel_shape, no_output};
use crate::{Error, Result};

pub(super) struct Pure {
    model: Model,
    names: Vec<String>,
    output: NodeId,
    idle: Mutex<Vec<Arc<ThreadPool>>>, // pools of one thread, as many as there were parallel calls
}

pub(super) fn open(path: &Path, output: Option<&str>) -> Result<Pure> {
    let mut options = ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let bytes = fs_err::read(path)?;
    let model = match kernel_shape::completed(&bytes) {
        Some(completed) => options.load(completed),
        None if kernel_shape::needs_other_files(&bytes) => options.load_file(path),
        None => options.load(bytes),
    };
    let model = model.map_err(|err| fault("invalid ONNX file", err))?;
    let outputs = names(&model, model.output_ids());
    let at = match output {
        None => 0,
        Some(name) => outputs
            .iter()
            .position(|known| known == name)
            .ok_or_else(|| no_output(name, outputs.iter().map(String::as_str)))?,
    };
    let output = model.output_ids().get(at).copied();
    let output = output.ok_or_else(|| Error::content("the network has no output"))?;
    let names = names(&model, model.input_ids());
    Ok(Pure { model, names, output, idle: Mutex::new(Vec::new()) })
}

fn names(model: &Model, nodes: &[NodeId]) -> Vec<String> {
    let name = |&node: &NodeId| model.node_info(node).and_then(|info| info.name());
    nodes.iter().map(|node| name(node).unwrap_or_default().to_owned()).collect()
}

impl Network for Pure {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn is_single_threaded(&self) -> bool {
        true
    }

    /// Runs one item at a time, so that a result does not depend on the rest of its batch.
    fn run(&self, inputs: &[Input<'_>]) -> Result<(Vec<usize>, Vec<f32>)> {
        let pool = self.idle.lock().ok().and_then(|mut idle| idle.pop());
        let pool = pool.unwrap_or_else(|| Arc::new(ThreadPool::with_num_threads(1)));
        let count = inputs.first().map_or(0, |input| input.shape[0]);
        let (mut shape, mut all) = (Vec::new(), Vec::new());
        for item in 0..count {
            let found = self.one(inputs, item, &pool)?;
            shape = found.shape().to_vec();
            all.extend(found.iter().copied());
        }
        if let Some(first) = shape.first_mut() {
            *first = count;
        }
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(pool);
        }
        Ok((shape, all))
    }
}

impl Pure {
    fn one(
        &self,
        inputs: &[Input<'_>],
        item: usize,
        pool: &Arc<ThreadPool>,
    ) -> Result<Tensor<f32>> {
        let given = self.model.input_ids().iter().copied().zip(inputs);
        let given = given
            .map(|(node, input)| Ok((node, value(input, item)?)))
            .collect::<Result<Vec<_>>>()?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(pool)));
        let found = self
            .model
            .run(given, &[self.output], Some(options))
            .map_err(|err| fault("the network failed", err))?;
        match found.into_iter().next() {
            Some(Value::FloatTensor(found)) => Ok(found),
            _ => Err(Error::content("the output of the network is not of type float")),
        }
    }
}

/// One item of a batch as a batch of one.
fn value<'a>(input: &Input<'a>, item: usize) -> Result<ValueOrView<'a>> {
    let mut shape = input.shape.clone();
    shape[0] = 1;
    let size: usize = shape.iter().product();
    let part = item * size..(item + 1) * size;
    match input.values {
        Values::Floats(values) => {
            let values: &'a [f32] = &values[part];
            let view = TensorView::try_from_data(shape.as_slice(), values);
            Ok(view.map_err(|err| fault("incompatible inputs", err))?.into())
        }
        // rten stores 64-bit integers as 32-bit integers.
        Values::Integers(values) => {
            let values: Vec<i32> = values[part]
                .iter()
                .map(|&value| i32::try_from(value))
                .collect::<Result<_, _>>()
                .map_err(|err| fault("incompatible inputs", err))?;
            let tensor = Tensor::try_from_data(shape.as_slice(), values);
            Ok(tensor.map_err(|err| fault("incompatible inputs", err))?.into())
        }
    }
}
