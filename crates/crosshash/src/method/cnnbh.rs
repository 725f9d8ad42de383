//! CNNBH: binary codes from a classifier (Guo and Li, *CNN Based Hashing for Image Retrieval*,
//! arXiv:1509.01354, 2015; as a cross-modal baseline in the JCCH paper).
//!
//! ```text
//! h = tanh(F_m(x)),   L = sum_m 1/n sum_i 1/|Y_i| sum_{s in Y_i} -log softmax_s(h_i W + b)
//! ```
//!
//! The classifier W, b is shared by all modalities, so that equal labels attract equal codes; JCCH
//! without distances and coefficients. Codes are the signs of F.
//!
//! Differences from the paper: towers on features instead of a CNN; several labels per item by the uniform
//! distribution over them; tanh instead of a sigmoid layer, with threshold 0 instead of 0.5; the
//! classifier is shared by modalities (the paper has one modality). A public port trains one
//! classifier per modality, whose codes are not comparable.

use burn_tensor::Tensor;
use crosshash_codes::Labels;

use super::batchwise::{BatchLoss, BatchObjective, label_rows, number, sum};
use super::range::LEARNING_RATE;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::Config;
use crate::data::Training;
use crate::loss::classifier;
use crate::train::Terms;

/// CNNBH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "cnnbh",
        title: "shared classifier on codes",
        paper: "Guo, Li: CNN Based Hashing for Image Retrieval, arXiv:1509.01354",
        year: 2015,
        cost: "O(n (towers + r C))",
        pairs: false,
        ..dcmh::INFO
    },
    sections: &[],
    search: &[LEARNING_RATE],
    build: |_| Ok(Box::new(Cnnbh)),
};

#[derive(Debug)]
struct Cnnbh;

impl Method for Cnnbh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let (bits, classes) = (config.bits().get(), training.label_names().len());
        let shared = [[bits, classes], [1, classes]];
        let new = BatchObjective::new(config, training, &shared, Box::new(Classified))?;
        Ok(Begun::Gradient(Box::new(new)))
    }
}

struct Classified;

impl BatchLoss for Classified {
    fn loss(
        &self,
        outputs: &[Tensor<2>],
        labels: &[Labels],
        shared: &[Tensor<2>],
        terms: &mut Terms,
    ) -> Option<Tensor<1>> {
        let [weight, bias] = shared else { return None };
        let one = |(f, labels): (&Tensor<2>, &Labels)| {
            let logits = f.clone().tanh().matmul(weight.clone()) + bias.clone();
            classifier(logits, label_rows(labels, true, &f.device()))
        };
        let parts: Vec<Tensor<1>> = outputs.iter().zip(labels).map(one).collect();
        parts.iter().for_each(|part| terms.mean("classifier", number(part)));
        sum(parts)
    }
}
