//! The terms that JCCH+ adds to the loss of a batch, and their state: queues of recent outputs, the
//! learned scale and offset of the similarity term, the moving average of the weights.

use burn_tensor::{Device, Gradients, Tensor, TensorData};
use crosshash_codes::Labels;

use super::Plus;
use crate::checkpoint::Arrays;
use crate::loss::{
    OutputQueue, QueuedColumns, balance, cosine_likelihood, instance, queue_likelihood,
};
use crate::optimise::{Adam, Average, Moments, floats};
use crate::train::Terms;
use crate::{Error, Result};

/// Initial scale and offset of the similarity term.
const SCALE: [f32; 2] = [8.0, -2.0];
/// Steps between two updates of the moving average.
const AVERAGE_EVERY: u64 = 16;

/// The state of the added terms.
pub(crate) struct Extra {
    pub(crate) settings: Plus,
    bits: usize,
    scale: Scale,
    queues: Vec<OutputQueue>, // of the similarity term, by modality
    instance_queues: Vec<OutputQueue>, // by modality
    pub(crate) average: Option<Average>,
    has_labels: bool,
}

/// The learned scale and offset of the similarity term. Their optimiser is Adam, because their gradients
/// have a different magnitude than those of the weights.
struct Scale {
    values: [f32; 2],
    moments: Moments,
    steps: u64,
    leaf: Option<Tensor<2>>, // in the present step
}

/// The names of the state of [`Scale`] in a checkpoint.
const SCALE_STATE: &str = "similarity_scale";
/// Step counts are saved as two numbers below this, which are exact in single precision.
const LOW: u64 = 1 << 16;

impl Scale {
    fn new() -> Scale {
        Scale { values: SCALE, moments: Moments::zero(2), steps: 0, leaf: None }
    }

    fn tensor(&self, device: &Device) -> Tensor<2> {
        Tensor::from_data([self.values], device)
    }

    fn step(&mut self, grads: &mut Gradients, rate: f32) {
        let gradient = self.leaf.take().and_then(|leaf| leaf.grad_remove(grads));
        let Some(gradient) = gradient else { return };
        self.steps += 1;
        let adam = Adam::decoupled(rate, 0.0);
        adam.step(self.steps, &mut self.values, &mut self.moments, &floats(gradient));
    }

    fn save(&self, arrays: &mut Arrays) {
        let Moments { first, second } = &self.moments;
        let steps = [(self.steps / LOW) as f32, (self.steps % LOW) as f32];
        let state = [&self.values[..], first, second, &steps].concat();
        arrays.push(SCALE_STATE.into(), 2, state);
    }

    fn restore(arrays: &mut Arrays) -> Result<Scale> {
        let state = arrays.take(SCALE_STATE)?.values;
        let &[a, b, c, d, e, f, high, low] = &state[..] else {
            return Err(Error::content(format!("{SCALE_STATE} must hold eight numbers")));
        };
        #[expect(clippy::cast_possible_truncation, reason = "whole numbers, as saved")]
        #[expect(clippy::cast_sign_loss, reason = "not negative, as saved")]
        let steps = (high as u64) * LOW + low as u64;
        let moments = Moments { first: vec![c, d], second: vec![e, f] };
        Ok(Scale { values: [a, b], moments, steps, leaf: None })
    }
}

/// Two modalities of a batch.
pub(crate) struct PairInputs<'a> {
    /// The modalities, by number.
    pub(crate) modalities: [usize; 2],
    /// Their outputs.
    pub(crate) outputs: [&'a Tensor<2>; 2],
    /// The labels of their items.
    pub(crate) labels: [&'a Labels; 2],
    /// 1 for positives, by rows of the first modality.
    pub(crate) positives: Vec<f32>,
    /// 1 for positives in the queue of the other modality, by rows of each; `None` without a queue.
    pub(crate) queued: [Option<Vec<f32>>; 2],
}

impl Extra {
    pub(crate) fn new(
        settings: &Plus,
        bits: usize,
        modalities: usize,
        has_labels: bool,
    ) -> Extra {
        Extra {
            bits,
            scale: Scale::new(),
            queues: vec![OutputQueue::new(bits, settings.queue); modalities],
            instance_queues: {
                vec![OutputQueue::new(bits, settings.instance_queue); modalities]
            },
            average: None,
            settings: settings.clone(),
            has_labels,
        }
    }

    /// Forgets all earlier outputs, and starts the moving average again at these weights.
    pub(crate) fn start_again(&mut self, weights: Arrays) {
        let (bits, modalities) = (self.bits, self.queues.len());
        let Plus { queue, instance_queue, .. } = self.settings;
        self.queues = vec![OutputQueue::new(bits, queue); modalities];
        self.instance_queues = vec![OutputQueue::new(bits, instance_queue); modalities];
        self.start_average(weights);
    }

    /// Starts the moving average at these weights.
    pub(crate) fn start_average(&mut self, weights: Arrays) {
        if self.settings.average > 0.0 {
            let average = Average::new(self.settings.average, AVERAGE_EVERY, weights);
            self.average = Some(average);
        }
    }

    /// The terms of two modalities; `all` are the labels of all training items of each modality.
    pub(crate) fn pair_terms(
        &self,
        pair: &PairInputs<'_>,
        all: [&Labels; 2],
        device: &Device,
        terms: &mut Terms,
    ) -> Option<Tensor<1>> {
        let [f, g] = pair.outputs.map(Clone::clone);
        let shape = [f.dims()[0], g.dims()[0]];
        let matrix = |values: Vec<f32>| -> Tensor<2> {
            Tensor::from_data(TensorData::new(values, shape), device)
        };
        let mut sum: Option<Tensor<1>> = None;
        let mut add = |name: &str, weight: f64, term: Tensor<1>, terms: &mut Terms| {
            terms.mean(name, f64::from(term.clone().into_scalar::<f32>()));
            let term = term * weight;
            sum = Some(match sum.take() {
                None => term,
                Some(sum) => sum + term,
            });
        };
        let Plus { instance: weight, temperature, similarity, .. } = self.settings;
        if weight > 0.0 && pair.positives.contains(&1.0) {
            let positives = matrix(pair.positives.clone());
            let [a, b] = pair.modalities;
            let queue = |modality: usize, positives: &Option<Vec<f32>>| {
                let positives = positives.clone()?;
                let columns = self.instance_queues[modality].tensor(device);
                let shape = [positives.len() / columns.dims()[0], columns.dims()[0]];
                let positives = TensorData::new(positives, shape);
                let positives = Tensor::from_data(positives, device);
                Some(QueuedColumns { outputs: columns, positives })
            };
            let queues = [queue(b, &pair.queued[0]), queue(a, &pair.queued[1])];
            let term = instance(f.clone(), g.clone(), positives, temperature, queues);
            add("instance", weight, term, terms);
        }
        if similarity > 0.0 && self.has_labels {
            let [own, other] = pair.labels;
            let mut shared = Vec::with_capacity(shape[0] * shape[1]);
            for i in 0..shape[0] {
                let alike = |j: usize| own.shared(i, other, j) > 0;
                shared.extend((0..shape[1]).map(|j| f32::from(u8::from(alike(j)))));
            }
            let scale =
                self.scale.leaf.clone().unwrap_or_else(|| self.scale.tensor(device));
            let mut term =
                cosine_likelihood(f.clone(), g.clone(), matrix(shared), scale.clone());
            let [a, b] = pair.modalities;
            for (rows, labels, queue, items) in
                [(f, own, &self.queues[b], all[1]), (g, other, &self.queues[a], all[0])]
            {
                if self.settings.queue > 0 && !queue.is_empty() {
                    let queued = items.select(queue.items());
                    term = term
                        + queue_likelihood(rows, labels, queue, &queued, scale.clone());
                }
            }
            add("similarity", similarity, term, terms);
        }
        sum
    }

    /// The balance term of one modality.
    pub(crate) fn balance(&self, outputs: &Tensor<2>) -> Option<Tensor<1>> {
        let weight = self.settings.balance;
        (weight > 0.0 && outputs.dims()[0] > 1).then(|| {
            let found = balance(outputs.clone());
            (found.mean + found.correlation) * weight
        })
    }

    /// The items in the queue of the instance term.
    pub(crate) fn queued_items(&self, modality: usize) -> &[usize] {
        self.instance_queues[modality].items()
    }

    /// Adds the outputs of a batch to the queues.
    pub(crate) fn enqueue(
        &mut self,
        modality: usize,
        outputs: &Tensor<2>,
        items: &[usize],
    ) {
        if self.settings.instance_queue > 0 && self.settings.instance > 0.0 {
            self.instance_queues[modality].push(&floats(outputs.clone().inner()), items);
        }
        if self.settings.queue > 0 && self.settings.similarity > 0.0 && self.has_labels {
            self.queues[modality].push(&floats(outputs.clone().inner()), items);
        }
    }

    /// Prepares the parameters of the terms for a step.
    pub(crate) fn begin_step(&mut self, device: &Device) {
        self.scale.leaf = Some(self.scale.tensor(device).require_grad());
    }

    /// Updates the parameters of the terms.
    pub(crate) fn step(&mut self, grads: &mut Gradients, rate: f32) {
        self.scale.step(grads, rate);
    }

    pub(crate) fn save(&self, arrays: &mut Arrays) {
        self.scale.save(arrays);
        for (m, queue) in self.queues.iter().enumerate() {
            queue.save(&format!("queue{m}"), arrays);
        }
        for (m, queue) in self.instance_queues.iter().enumerate() {
            queue.save(&format!("instance_queue{m}"), arrays);
        }
        if let Some(average) = &self.average {
            average.save("average.", arrays);
        }
    }

    pub(crate) fn restore(&mut self, arrays: &mut Arrays) -> Result<()> {
        self.scale = Scale::restore(arrays)?;
        for (m, queue) in self.queues.iter_mut().enumerate() {
            queue.restore(&format!("queue{m}"), arrays)?;
        }
        for (m, queue) in self.instance_queues.iter_mut().enumerate() {
            queue.restore(&format!("instance_queue{m}"), arrays)?;
        }
        match &mut self.average {
            Some(average) => average.restore("average.", arrays),
            None => Ok(()),
        }
    }
}
