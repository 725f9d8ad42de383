//! `App`: the state shared by handlers. A reload replaces a model as a whole: a request keeps the
//! model it started with, so none fails when a run is reloaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use arc_swap::ArcSwap;
use crosshash::{Encoder as _, RunDir};

use super::auth::Guard;
use super::error::{ApiError, ApiResult};
use super::fair::Workers;
use super::limits::Limits;
use super::map::Maps;
use super::metrics::{Gauge, Metrics, quoted};
use super::pictures::Thumbnails;
use super::replaced::Replaced;
use super::run::{self, DataLocation, ServedModel, Stamp, is_servable};
use super::store_health;
use super::store_items::{StoreItems, StoreOptions};
use crate::weight_paths::WeightPaths;

/// How often runs are checked for changes.
const POLL: Duration = Duration::from_secs(2);

/// All models by name.
pub(crate) struct Models {
    pub(crate) default: String,
    pub(crate) all: BTreeMap<String, Arc<ServedModel>>,
}

/// The shared state.
pub(crate) struct App {
    place: PathBuf,
    data: DataLocation,
    pub(crate) weights: WeightPaths,
    /// The stores of the only model.
    pub(crate) stores: Vec<Arc<StoreItems>>,
    models: ArcSwap<Models>,
    reloading: Mutex<BTreeMap<String, Stamp>>, // of the loaded models
    /// Held by the request that reloads a model.
    pub(crate) reload_turn: Arc<tokio::sync::Mutex<()>>,
    /// The versions that were replaced and are still in use.
    pub(crate) replaced: Replaced<ServedModel>,
    pub(crate) limits: Limits,
    pub(crate) guard: Guard,
    pub(crate) workers: Workers,
    pub(crate) metrics: Metrics,
    pub(crate) thumbnails: Thumbnails,
    pub(crate) maps: Maps,
}

/// The folders to serve, by name: the folder itself, or its subfolders.
fn folders(place: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let named = |path: &Path| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        absolute
            .file_name()
            .map_or("model".into(), |name| name.to_string_lossy().into_owned())
    };
    if is_servable(place) {
        return Ok([(named(place), place.to_owned())].into());
    }
    let mut all = BTreeMap::new();
    for entry in fs_err::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() && is_servable(&path) {
            all.insert(named(&path), path);
        }
    }
    Ok(all)
}

/// Connects to the stores of the only run.
fn open_stores(
    options: &StoreOptions,
    place: &Path,
    folders: &BTreeMap<String, PathBuf>,
) -> Result<Vec<Arc<StoreItems>>> {
    if options.places.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = folders.values();
    let (Some(folder), None) = (all.next(), all.next()) else {
        bail!(
            "--store requires a single run; {} contains {}",
            place.display(),
            folders.len()
        );
    };
    if !RunDir::is_run(folder) {
        bail!(
            "--store requires a run, whose model encodes the queries; {} is an index",
            folder.display()
        );
    }
    let model = RunDir::open(folder)?.model()?;
    let names: Vec<String> = model.modalities().into_iter().map(str::to_owned).collect();
    options.open(&names)
}

impl App {
    /// Loads all models.
    pub(crate) fn open(
        place: &Path,
        data: DataLocation,
        weights: WeightPaths,
        stores: &StoreOptions,
        default: Option<&str>,
        limits: Limits,
        guard: Guard,
    ) -> Result<App> {
        let folders = folders(place)?;
        if folders.is_empty() {
            bail!(
                "{} is neither a finished run (`crosshash train`), nor an index (`crosshash index \
                 build`), nor a folder of them",
                place.display()
            );
        }
        if data.data.is_some() && folders.len() > 1 {
            bail!(
                "--data requires a single run; {} contains {}",
                place.display(),
                folders.len()
            );
        }
        let stores = open_stores(stores, place, &folders)?;
        let (mut all, mut stamps) = (BTreeMap::new(), BTreeMap::new());
        for (name, folder) in folders {
            let stamp = run::stamp(&folder);
            let generation = run::open(&name, &folder, &data, &weights, &stores, None)
                .with_context(|| format!("loading {}", folder.display()))?;
            run::sweep(&generation)?;
            stamps.insert(name.clone(), stamp);
            all.insert(name, Arc::new(generation));
        }
        let first = all.keys().next().cloned().unwrap_or_default();
        let default = match default {
            Some(name) if all.contains_key(name) => name.to_owned(),
            Some(name) => bail!(
                "--default {name}: no such model; the models are {}",
                all.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
            None => first,
        };
        Ok(App {
            place: place.to_owned(),
            data,
            weights,
            stores,
            models: ArcSwap::from_pointee(Models { default, all }),
            reloading: Mutex::new(stamps),
            reload_turn: Arc::default(),
            replaced: Replaced::default(),
            limits,
            guard,
            workers: Workers::new(),
            metrics: Metrics::new(),
            thumbnails: Thumbnails::default(),
            maps: Maps::default(),
        })
    }

    /// All models.
    pub(crate) fn models(&self) -> Arc<Models> {
        self.models.load_full()
    }

    /// A model by name, or the default one.
    pub(crate) fn model(&self, name: Option<&str>) -> ApiResult<Arc<ServedModel>> {
        let models = self.models.load();
        let name = name.unwrap_or(&models.default);
        models.all.get(name).cloned().ok_or_else(|| {
            let known = models.all.keys().cloned().collect::<Vec<_>>().join(", ");
            ApiError::not_found(format!("no model named {name:?}; the models are {known}"))
                .at("model")
        })
    }

    /// Reloads a model. The old one serves until the new one is loaded, and stays if that fails.
    pub(crate) fn reload(&self, name: &str) -> Result<u64> {
        let mut stamps = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_one(name, &mut stamps)
    }

    fn reload_one(&self, name: &str, stamps: &mut BTreeMap<String, Stamp>) -> Result<u64> {
        let folders = folders(&self.place)?;
        let folder =
            folders.get(name).with_context(|| format!("{name} does not exist any more"))?;
        let before = self.models.load().all.get(name).cloned();
        let stamp = run::stamp(folder);
        // After a failure, retry only when the files have changed again.
        stamps.insert(name.to_owned(), stamp);
        let (data, weights, stores) = (&self.data, &self.weights, &self.stores);
        let next = run::open(name, folder, data, weights, stores, before.as_deref())
            .with_context(|| format!("reloading {name}"))?;
        let next = Arc::new(next);
        let now = self.models.load();
        let mut all = now.all.clone();
        all.insert(name.to_owned(), Arc::clone(&next));
        self.models.store(Arc::new(Models { default: now.default.clone(), all }));
        before.iter().for_each(|before| self.replaced.add(before));
        tracing::info!(
            model = name,
            generation = next.number,
            codes = next.fingerprint,
            "reloaded"
        );
        if let Err(err) = run::sweep(&next) {
            tracing::warn!(model = name, error = %format!("{err:#}"), "old indexes could not be removed");
        }
        Ok(next.number)
    }

    /// Reloads all models and loads new ones.
    pub(crate) fn reload_all(&self) {
        let mut stamps = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        match folders(&self.place) {
            Err(err) => {
                tracing::error!(error = %format!("{err:#}"), "reload failed")
            }
            Ok(folders) => {
                folders.keys().for_each(|name| self.try_reload(name, &mut stamps))
            }
        }
    }

    fn try_reload(&self, name: &str, stamps: &mut BTreeMap<String, Stamp>) {
        if let Err(err) = self.reload_one(name, stamps) {
            tracing::error!(model = name, error = %format!("{err:#}"), "reload failed; the old model stays in use");
        }
    }

    /// Checks for retrained runs, forever. A run is reloaded when its files have not changed between
    /// two checks.
    pub(crate) async fn poll(self: Arc<App>) {
        let mut last: BTreeMap<String, Stamp> = BTreeMap::new();
        loop {
            tokio::time::sleep(POLL).await;
            let app = Arc::clone(&self);
            let before = std::mem::take(&mut last);
            let looked = tokio::task::spawn_blocking(move || app.look(&before)).await;
            last = looked.unwrap_or_default();
        }
    }

    fn look(&self, before: &BTreeMap<String, Stamp>) -> BTreeMap<String, Stamp> {
        let Ok(folders) = folders(&self.place) else { return BTreeMap::new() };
        let now: BTreeMap<String, Stamp> = folders
            .iter()
            .map(|(name, folder)| (name.clone(), run::stamp(folder)))
            .collect();
        let mut stamps = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, stamp) in &now {
            if stamps.get(name) != Some(stamp) && before.get(name) == Some(stamp) {
                self.try_reload(name, &mut stamps);
            }
        }
        now
    }

    /// Metrics of the models.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let models = self.models.load();
        let (mut items, mut generations) = (Vec::new(), Vec::new());
        for (name, generation) in &models.all {
            let name = quoted(name);
            generations.push((format!("{{model={name}}}"), generation.number as f64));
            for own in &generation.items {
                let modality = quoted(own.modality());
                let count = own.len() as f64;
                items.push((format!("{{model={name},modality={modality}}}"), count));
            }
        }
        let gauge = |name, help, rows| Gauge { name, kind: "gauge", help, rows };
        let mut gauges = vec![
            gauge("crosshash_items", "Number of items.", items),
            gauge("crosshash_generation", "Number of reloads, from 1.", generations),
        ];
        gauges.extend(store_health::gauges(&self.stores));
        gauges
    }
}
