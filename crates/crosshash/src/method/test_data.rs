//! A small data set and trainings on it, for the tests of methods.

use crosshash_codes::Labels;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Config;
use crate::data::{Dataset, Dense, Features, Modality, SplitSpec};
use crate::encode::Encoder as _;
use crate::model::Model;
use crate::train::Epoch;

const ITEMS: u32 = 60;
const CLASSES: u32 = 3;
const WIDTH: usize = 6;

/// Two modalities, a and b, of dense features around three class means; items are pairs.
pub(super) fn small() -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let labels = Labels::from_indices(3, (0..ITEMS).map(|i| vec![i % CLASSES])).unwrap();
    let mut modality = |name: &str| {
        let mut values = Vec::new();
        for i in 0..ITEMS {
            let hit = |k: usize| f32::from(u8::from(k % 3 == (i % CLASSES) as usize));
            values
                .extend((0..WIDTH).map(|k| 2.0 * hit(k) + rng.random_range(-0.5..0.5_f32)));
        }
        let ids = (0..ITEMS).map(|i| format!("item{i}")).collect();
        let rows = Features::Dense(Dense::from_floats(WIDTH, values).unwrap());
        Modality::new(name, ids, rows, labels.clone()).unwrap()
    };
    let (a, b) = (modality("a"), modality("b"));
    let names = ["x", "y", "z"].map(String::from).to_vec();
    Dataset::new("small", names, vec![a, b]).unwrap()
}

/// The result of a training.
pub(super) struct Trained {
    pub(super) history: Vec<Epoch>,
    pub(super) model: Model,
    /// The outputs of all items, by modality.
    pub(super) outputs: Vec<Vec<f32>>,
}

/// Trains 8 bits for some epochs, without validation: the model is that of the last epoch.
pub(super) fn train(
    method: &str,
    data: &Dataset,
    epochs: usize,
    settings: &[String],
) -> Trained {
    let text = format!(
        "method = \"{method}\"\nbits = 8\nepochs = {epochs}\nbatch_size = 20\nhidden = 16\n\
         validation = 0.0\nseed = 3\n"
    );
    let config = Config::parse(&text, settings).unwrap();
    let split = SplitSpec { validation: None, ..SplitSpec::default() }.draw(data).unwrap();
    let fitted = config.fit(&data.training(&split), &mut ()).unwrap().unwrap();
    let outputs = |name: &str| {
        let view = data.training(&split).train(name).unwrap();
        fitted.model.outputs(name, view.features(), &|_| {}).unwrap()
    };
    let outputs = vec![outputs("a"), outputs("b")];
    Trained { history: fitted.history, model: fitted.model, outputs }
}
