//! The t-SNE map of the outputs of a run: computed in the background at the first request, saved in
//! the folder of the run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail};
use crosshash::RunDir;
use crosshash::embed::{Options, embed};
use serde_json::{Value, json};

use super::run::ServedModel;
use crate::data_args::DataArgs;
use crate::file;
use crate::fit::split;
use crate::weight_paths::WeightPaths;

/// Maximum items per modality: the page draws all of them at once.
const ITEMS: usize = 400;
/// Number of labels, the most frequent ones.
const LABELS: usize = 12;
const ITERATIONS: usize = 500;
/// Version of the computation; saved maps of other versions are computed again.
const VERSION: u32 = 2;

/// Maps by model.
#[derive(Default)]
pub(crate) struct Maps(Arc<Mutex<HashMap<String, (String, Progress)>>>);

/// The state of a map.
#[derive(Clone)]
pub(crate) enum Progress {
    Computing,
    Done(Arc<Value>),
    /// There is none, for this reason.
    None(String),
}

impl Maps {
    /// The map of a model, or its state; starts the computation if necessary.
    pub(crate) fn get(&self, model: &Arc<ServedModel>, weights: &WeightPaths) -> Progress {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, progress)) = maps.get(&model.name)
            && *of == model.fingerprint
        {
            return progress.clone();
        }
        if let Some(saved) = saved(model) {
            let done = Progress::Done(Arc::new(saved));
            maps.insert(model.name.clone(), (model.fingerprint.clone(), done.clone()));
            return done;
        }
        let now = (model.fingerprint.clone(), Progress::Computing);
        maps.insert(model.name.clone(), now);
        let (model, all) = (Arc::clone(model), Arc::clone(&self.0));
        let data_args = DataArgs { weight_paths: weights.clone(), ..DataArgs::default() };
        let work = move || {
            let made = match compute(&model, &data_args) {
                Ok(map) => Progress::Done(Arc::new(map)),
                Err(err) => {
                    let why = format!("{err:#}");
                    tracing::warn!(
                        model = model.name,
                        error = why,
                        "the map could not be computed"
                    );
                    Progress::None(why)
                }
            };
            let mut maps = all.lock().unwrap_or_else(PoisonError::into_inner);
            maps.insert(model.name.clone(), (model.fingerprint.clone(), made));
        };
        match std::thread::Builder::new().name("map".into()).spawn(work) {
            Ok(_) => Progress::Computing,
            Err(err) => Progress::None(err.to_string()),
        }
    }
}

fn path(model: &ServedModel) -> Result<PathBuf> {
    Ok(RunDir::open(&model.folder)?.service_path().join("map.json"))
}

/// The saved map of the same model.
fn saved(model: &ServedModel) -> Option<Value> {
    let mut map: Value =
        serde_json::from_slice(&fs_err::read(path(model).ok()?).ok()?).ok()?;
    let same = map["of"] == model.fingerprint && map["version"] == VERSION;
    map.as_object_mut()?.remove("version");
    map.as_object_mut()?.remove("of");
    same.then_some(map)
}

fn compute(model: &ServedModel, data_args: &DataArgs) -> Result<Value> {
    let (Some(encoder), Some((data, root))) = (&model.encoder, &model.data) else {
        bail!("a map requires a model and its training data");
    };
    let config = RunDir::open(&model.folder)?.config()?;
    let mut opened = data_args.open_for_model(data, root.as_deref(), encoder.model())?;
    let split = split(&mut opened, config.validation())?;
    let training = opened.dataset.training(&split);
    if encoder.model().labels() != training.label_names() {
        bail!("the run was trained on other data");
    }
    let options = Options {
        n_labels: LABELS,
        items: ITEMS,
        every_label: true,
        iterations: ITERATIONS,
        fewer: true,
        ..Options::default()
    };
    let points: Vec<Value> = embed(encoder.model(), &training, &options, &|_| ())?
        .into_iter()
        .map(|spot| {
            let [x, y] = spot.at;
            let modality = spot.modality.unwrap_or("centre".into());
            json!({ "x": x, "y": y, "modality": modality, "id": spot.id, "label": spot.label })
        })
        .collect();
    let map = json!({ "points": points });
    let mut saved = map.clone();
    saved["of"] = json!(model.fingerprint);
    saved["version"] = json!(VERSION);
    file::write(&path(model)?, &serde_json::to_string(&saved)?)?;
    Ok(map)
}
