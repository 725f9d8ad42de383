//! ONNX in pure Rust (`tract`). A call uses one thread; calls may run in parallel.

use std::path::Path;
use std::sync::Arc;

use tract_onnx::prelude::{
    DatumType, Framework as _, InferenceFact, InferenceModel, InferenceModelExt as _,
    IntoRunnable as _, IntoTValue as _, TDim, TVec, Tensor, TypedRunnableModel,
};

use super::{Input, Network, Shape, Values, fault, no_output};
use crate::Result;

pub(super) struct Pure {
    names: Vec<String>,
    plan: Arc<TypedRunnableModel>, // batch size 1
}

fn parse(path: &Path) -> Result<InferenceModel> {
    // Ignore shapes stored by the exporter: they contain symbolic axes that are fixed here.
    tract_onnx::onnx()
        .with_ignore_output_shapes(true)
        .with_ignore_value_info(true)
        .model_for_path(path)
        .map_err(|err| fault("invalid ONNX file", err))
}

fn names(model: &InferenceModel) -> Vec<String> {
    model.inputs.iter().map(|input| model.node(input.node).name.clone()).collect()
}

pub(super) fn input_names(path: &Path) -> Result<Vec<String>> {
    Ok(names(&parse(path)?))
}

pub(super) fn open(path: &Path, shapes: &[Shape], output: Option<&str>) -> Result<Pure> {
    let mut model = parse(path)?;
    let names = names(&model);
    let length = model.symbols.sym("length");
    // The first axis is the batch. A plan with batch size 1 is better optimised, and texts are
    // encoded one at a time anyway.
    for (input, shape) in shapes.iter().enumerate().take(names.len()) {
        let sizes: TVec<TDim> = shape
            .sizes
            .iter()
            .enumerate()
            .map(|(axis, size)| match (axis, size) {
                (0, None) => 1.into(),
                (_, Some(size)) => (*size).into(),
                (_, None) => length.clone().into(),
            })
            .collect();
        let kind = if shape.integers { DatumType::I64 } else { DatumType::F32 };
        model
            .set_input_fact(input, InferenceFact::dt_shape(kind, sizes))
            .map_err(|err| fault("incompatible inputs", err))?;
    }
    let outputs = model.outputs.clone();
    let label = |at: usize| -> &str {
        let outlet = outputs[at];
        model.outlet_label(outlet).unwrap_or(&model.node(outlet.node).name)
    };
    let wanted = match output {
        None => 0,
        Some(name) => (0..outputs.len())
            .find(|&at| label(at) == name || model.node(outputs[at].node).name == name)
            .ok_or_else(|| no_output(name, (0..outputs.len()).map(label)))?,
    };
    let plan = model
        .with_output_outlets(&[outputs[wanted]])
        .and_then(|model| model.into_optimized()?.into_runnable())
        .map_err(|err| fault("the network cannot be run in pure Rust", err))?;
    Ok(Pure { names, plan })
}

impl Network for Pure {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn is_single_threaded(&self) -> bool {
        true
    }

    fn run(&self, inputs: &[Input<'_>]) -> Result<(Vec<usize>, Vec<f32>)> {
        let count = inputs.first().map_or(0, |input| input.shape[0]);
        let (mut shape, mut all) = (Vec::new(), Vec::new());
        for item in 0..count {
            let one = |input: &Input<'_>| -> tract_onnx::prelude::TractResult<_> {
                let mut shape = input.shape.clone();
                shape[0] = 1;
                let size: usize = shape.iter().product();
                let part = item * size..(item + 1) * size;
                Ok(match input.values {
                    Values::Floats(values) => Tensor::from_shape(&shape, &values[part])?,
                    Values::Integers(values) => Tensor::from_shape(&shape, &values[part])?,
                }
                .into_tvalue())
            };
            let failed = |err| fault("the network failed", err);
            let given: TVec<_> =
                inputs.iter().map(one).collect::<Result<_, _>>().map_err(failed)?;
            let given = self.plan.run(given).map_err(failed)?;
            let found = given[0].cast_to::<f32>().map_err(failed)?;
            let values = found.to_plain_array_view::<f32>().map_err(failed)?;
            shape = values.shape().to_vec();
            all.extend(values.iter().copied());
        }
        if let Some(first) = shape.first_mut() {
            *first = count;
        }
        Ok((shape, all))
    }
}
