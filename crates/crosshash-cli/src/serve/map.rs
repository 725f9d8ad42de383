//! The map of a run's outputs (t-SNE): made in the background when somebody looks, kept in the
//! run's folder.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use crosshash::Config;
use crosshash::embed::{Options, embed};
use serde_json::{Value, json};

use super::run::{FOLDER, Generation};
use crate::file;
use crate::fit::{CONFIG, split};
use crate::opening::Raw;
use crate::places::Places;

/// Items of each modality, at most: a page draws and hovers over them at once.
const ITEMS: usize = 400;
/// Labels, the most frequent ones.
const LABELS: usize = 12;
const ITERATIONS: usize = 500;

/// Maps by model.
#[derive(Default)]
pub(crate) struct Maps(Arc<Mutex<HashMap<String, (String, Progress)>>>);

/// How far a map is.
#[derive(Clone)]
pub(crate) enum Progress {
    Computing,
    Done(Arc<Value>),
    /// There is none, and why.
    None(String),
}

impl Maps {
    /// The map of a model, or how far it is; begins it if nobody has.
    pub(crate) fn get(&self, model: &Arc<Generation>, weights: &Places) -> Progress {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, progress)) = maps.get(&model.name)
            && *of == model.fingerprint
        {
            return progress.clone();
        }
        if let Some(kept) = kept(model) {
            let done = Progress::Done(Arc::new(kept));
            maps.insert(model.name.clone(), (model.fingerprint.clone(), done.clone()));
            return done;
        }
        let now = (model.fingerprint.clone(), Progress::Computing);
        maps.insert(model.name.clone(), now);
        let (model, all) = (Arc::clone(model), Arc::clone(&self.0));
        let raw = Raw { places: weights.clone(), ..Raw::default() };
        let work = move || {
            let made = match made(&model, &raw) {
                Ok(map) => Progress::Done(Arc::new(map)),
                Err(err) => {
                    let why = format!("{err:#}");
                    tracing::warn!(model = model.name, error = why, "no map was made");
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

fn path(model: &Generation) -> PathBuf {
    model.folder.join(FOLDER).join("map.json")
}

/// What an earlier server made of the same model.
fn kept(model: &Generation) -> Option<Value> {
    let mut map: Value = serde_json::from_slice(&fs_err::read(path(model)).ok()?).ok()?;
    let same = map["of"].as_str() == Some(&model.fingerprint);
    map.as_object_mut()?.remove("of");
    same.then_some(map)
}

fn made(model: &Generation, raw: &Raw) -> Result<Value> {
    let (Some(brain), Some((data, root))) = (&model.brain, &model.data) else {
        bail!("a map needs a model and the data it learnt from");
    };
    let config = Config::parse(&fs_err::read_to_string(model.folder.join(CONFIG))?, &[])
        .context(CONFIG)?;
    let opened = raw.open_as(data, root.as_deref(), brain.model())?;
    let split = split(&opened, config.validation())?;
    let training = opened.dataset.training(&split);
    if brain.model().labels() != training.label_names() {
        bail!("the data are not those that the run was trained on");
    }
    let options = Options {
        n_labels: LABELS,
        items: ITEMS,
        iterations: ITERATIONS,
        fewer: true,
        ..Options::default()
    };
    let points: Vec<Value> = embed(brain.model(), &training, &options, &|_| ())?
        .into_iter()
        .map(|spot| {
            let [x, y] = spot.at;
            let modality = spot.modality.unwrap_or("centre".into());
            json!({ "x": x, "y": y, "modality": modality, "id": spot.id, "label": spot.label })
        })
        .collect();
    let map = json!({ "points": points });
    let mut noted = map.clone();
    noted["of"] = json!(model.fingerprint);
    file::write(&path(model), &serde_json::to_string(&noted)?)?;
    Ok(map)
}
