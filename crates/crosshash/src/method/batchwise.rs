//! Methods whose loss depends on the outputs and labels of one batch of all modalities: towers as for
//! JCCH, stochastic gradient descent and its schedule, and parameters that modalities share.

use std::sync::Arc;

use burn_tensor::{Device, Tensor, TensorData};
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::ModalityData;
use super::jcch::sampler::{Batches, Sampler};
use crate::checkpoint::Arrays;
use crate::config::Config;
use crate::data::{Training, View};
use crate::model::{ModalityModel, Model};
use crate::optimise::{Param, Sgd, schedule};
use crate::tower::{Tower, normal};
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// Standard deviation of the initial values of shared parameters.
const SHARED: f64 = 0.01;

/// The loss of a batch.
pub(super) trait BatchLoss: Send {
    /// The loss and its terms by name; `outputs` and `labels` by modality, without empty modalities.
    fn loss(
        &self,
        outputs: &[Tensor<2>],
        labels: &[Labels],
        shared: &[Tensor<2>],
        terms: &mut Terms,
    ) -> Option<Tensor<1>>;
}

/// A training by batches.
pub(super) struct BatchObjective {
    config: Config,
    modalities: Vec<(ModalityData, Tower)>,
    shared: Vec<Param>,
    sampler: Arc<Sampler>,
    batches: Option<Batches>,
    loss: Box<dyn BatchLoss>,
    device: Device,
}

impl BatchObjective {
    /// Random towers, and shared matrices of the given sizes.
    pub(super) fn new(
        config: &Config,
        training: &Training<'_>,
        shared: &[[usize; 2]],
        loss: Box<dyn BatchLoss>,
    ) -> Result<BatchObjective> {
        let data = ModalityData::every(config, training)?;
        let views: Vec<View<'_>> =
            data.iter().map(|one| training.train(&one.name)).collect::<Result<_>>()?;
        let labels: Vec<Labels> = data.iter().map(|one| one.labels.clone()).collect();
        let sampler = Arc::new(Sampler::new(&views, &labels, true));
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let device = crate::device::learning();
        let mut modalities = Vec::new();
        for one in data {
            let shape = config.shape(&one.name, &one.preparation, 0);
            modalities.push((one, Tower::new(shape, &mut rng, &device)));
        }
        let mut params = Vec::new();
        for &[rows, columns] in shared {
            let values = normal(rows * columns, SHARED, &mut rng);
            params.push(Param::new(values, columns, &device));
        }
        Ok(BatchObjective {
            config: config.clone(),
            modalities,
            shared: params,
            sampler,
            batches: None,
            loss,
            device,
        })
    }

    fn sgd(&self, epoch: usize, rate: f64) -> Sgd {
        let config = &self.config;
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        let [rate, momentum, decay] =
            [rate, config.momentum(), config.weight_decay()].map(|x| x as f32);
        Sgd { rate: schedule(rate, epoch, config.epochs()), momentum, decay }
    }
}

impl Objective for BatchObjective {
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize {
        let config = &self.config;
        let mut batches = self.sampler.epoch(config.seed(), epoch, config.batch_size());
        let all = batches.len();
        batches.by_ref().take(done).for_each(drop);
        self.batches = Some(batches);
        all
    }

    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize> {
        let Some(indices) = self.batches.as_mut().and_then(Iterator::next) else {
            return Ok(0);
        };
        let (mut used, mut outs, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (m, (data, tower)) in self.modalities.iter_mut().enumerate() {
            let items = &indices.items[m];
            if items.is_empty() {
                continue;
            }
            let batch = data.rows.batch(items)?;
            outs.push(tower.forward(&batch));
            labels.push(data.labels.select(items));
            used.push((m, batch));
        }
        let items = indices.items.iter().map(Vec::len).sum();
        let hashes: Vec<Tensor<2>> = outs.iter().map(|out| out.hash.clone()).collect();
        let shared: Vec<Tensor<2>> = self.shared.iter().map(Param::leaf).collect();
        let Some(loss) = self.loss.loss(&hashes, &labels, &shared, terms) else {
            return Ok(items);
        };
        terms.loss(f64::from(loss.clone().into_scalar::<f32>()));
        terms.check(at, self.rate_key())?;
        let mut grads = loss.backward();
        drop((hashes, shared));
        for ((m, batch), out) in used.into_iter().zip(outs) {
            let (data, tower) = &self.modalities[m];
            let rates = self.config.learning_rates(&data.name, tower.shape().hidden);
            let sgd = rates.map(|rate| self.sgd(at.epoch, rate));
            self.modalities[m].1.step(&mut grads, &batch, out, sgd);
        }
        let sgd = self.sgd(at.epoch, self.config.learning_rate());
        self.shared.iter_mut().for_each(|param| param.step(&mut grads, sgd));
        Ok(items)
    }

    fn end_epoch(&mut self, _: Position, _: &Terms, _: &[Epoch]) -> Result<()> {
        self.batches = None;
        Ok(())
    }

    fn learning_rate(&self, epoch: usize) -> f64 {
        f64::from(self.sgd(epoch, self.config.learning_rate()).rate)
    }

    fn flush(&mut self) {
        self.modalities.iter_mut().for_each(|(_, tower)| tower.flush());
    }

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        self.modalities.iter().map(|(data, tower)| (data, tower)).collect()
    }

    fn arrays(&self, full: bool) -> Arrays {
        let mut arrays = Arrays::default();
        for (data, tower) in &self.modalities {
            arrays.push_tower(&data.name, tower, full);
        }
        for (k, param) in self.shared.iter().enumerate() {
            arrays.push_param(&shared_name(k), param, full);
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, full: bool, at: Position) -> Result<()> {
        for m in 0..self.modalities.len() {
            let (data, tower) = &self.modalities[m];
            let [rate, _] = self.config.learning_rates(&data.name, tower.shape().hidden);
            let sgd = self.sgd(at.epoch, rate);
            let (data, tower) = &mut self.modalities[m];
            arrays.take_tower(&data.name, tower, full, sgd)?;
        }
        for (k, param) in self.shared.iter_mut().enumerate() {
            let name = shared_name(k);
            let found = arrays.take_param(&name, param.shape(), full, &self.device)?;
            *param = found.ok_or_else(|| {
                Error::content(format!("{name} differs from the configuration"))
            })?;
        }
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        let modalities = self.modalities.into_iter();
        let modalities = modalities.map(|(data, tower)| ModalityModel::new(data, tower));
        Ok(Model::new(self.config.bits(), labels, modalities.collect(), Vec::new()))
    }
}

fn shared_name(k: usize) -> String {
    format!("shared{k}")
}

/// Which items of two batches share a label: n x m, `yes` or `no`.
pub(super) fn similar(
    own: &Labels,
    other: &Labels,
    [yes, no]: [f32; 2],
    device: &Device,
) -> Tensor<2> {
    let mut values = Vec::with_capacity(own.len() * other.len());
    for i in 0..own.len() {
        let one = |j: usize| if own.shared(i, other, j) > 0 { yes } else { no };
        values.extend((0..other.len()).map(one));
    }
    Tensor::from_data(TensorData::new(values, [own.len(), other.len()]), device)
}

/// The labels of items as rows, n x C: 1 for its labels, or with `shares` 1/|Y_i|.
pub(super) fn label_rows(labels: &Labels, shares: bool, device: &Device) -> Tensor<2> {
    let classes = labels.classes();
    let mut values = vec![0.0_f32; labels.len() * classes];
    for (i, row) in values.chunks_exact_mut(classes.max(1)).enumerate() {
        let share = if shares { 1.0 / labels.count(i).max(1) as f32 } else { 1.0 };
        labels.indices(i).for_each(|label| row[label] = share);
    }
    Tensor::from_data(TensorData::new(values, [labels.len(), classes]), device)
}

/// The value of a term.
pub(super) fn number(term: &Tensor<1>) -> f64 {
    f64::from(term.clone().into_scalar::<f32>())
}

/// The sum of terms, if there are any.
pub(super) fn sum(terms: impl IntoIterator<Item = Tensor<1>>) -> Option<Tensor<1>> {
    terms.into_iter().reduce(|a, b| a + b)
}
