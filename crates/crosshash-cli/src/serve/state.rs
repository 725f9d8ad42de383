//! `App`: all that handlers share. Models are swapped whole: a request keeps the generation it
//! began with, so none is dropped when a run is reloaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use arc_swap::ArcSwap;

use super::fault::{Answer, Fault};
use super::limits::{Limits, Workers};
use super::map::Maps;
use super::metrics::{Gauge, Metrics, quoted};
use super::pictures::Thumbnails;
use super::run::{self, DataPlace, Generation, Stamp, is_servable};
use super::token::Guard;
use crate::places::Places;

/// How often runs are looked at for changes.
const POLL: Duration = Duration::from_secs(2);

/// All models by name.
pub(crate) struct Models {
    pub(crate) default: String,
    pub(crate) all: BTreeMap<String, Arc<Generation>>,
}

/// What handlers share.
pub(crate) struct App {
    place: PathBuf,
    data: DataPlace,
    pub(crate) weights: Places,
    models: ArcSwap<Models>,
    reloading: Mutex<BTreeMap<String, Stamp>>, // when what is served was written
    pub(crate) limits: Limits,
    pub(crate) guard: Guard,
    pub(crate) workers: Workers,
    pub(crate) metrics: Metrics,
    pub(crate) thumbnails: Thumbnails,
    pub(crate) maps: Maps,
}

/// The folders to serve, by name: the place itself, or those in it.
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

impl App {
    /// Opens everything there is to serve.
    pub(crate) fn open(
        place: &Path,
        data: DataPlace,
        weights: Places,
        default: Option<&str>,
        limits: Limits,
        guard: Guard,
    ) -> Result<App> {
        let folders = folders(place)?;
        if folders.is_empty() {
            bail!(
                "{} is neither a finished run (`crosshash train`), nor an index (`crosshash index \
                 build`), nor a folder of such",
                place.display()
            );
        }
        if data.data.is_some() && folders.len() > 1 {
            bail!("--data is for one run; {} holds {}", place.display(), folders.len());
        }
        let (mut all, mut stamps) = (BTreeMap::new(), BTreeMap::new());
        for (name, folder) in folders {
            let stamp = run::stamp(&folder);
            let generation = run::open(&name, &folder, &data, &weights, None)
                .with_context(|| format!("opening {}", folder.display()))?;
            run::sweep(&generation)?;
            stamps.insert(name.clone(), stamp);
            all.insert(name, Arc::new(generation));
        }
        let first = all.keys().next().cloned().unwrap_or_default();
        let default = match default {
            Some(name) if all.contains_key(name) => name.to_owned(),
            Some(name) => bail!(
                "--default {name}: there is no such model; there are {}",
                all.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
            None => first,
        };
        Ok(App {
            place: place.to_owned(),
            data,
            weights,
            models: ArcSwap::from_pointee(Models { default, all }),
            reloading: Mutex::new(stamps),
            limits,
            guard,
            workers: Workers::new(),
            metrics: Metrics::new(),
            thumbnails: Thumbnails::default(),
            maps: Maps::default(),
        })
    }

    /// All models, as they are now.
    pub(crate) fn models(&self) -> Arc<Models> {
        self.models.load_full()
    }

    /// A model by name, or the default one.
    pub(crate) fn model(&self, name: Option<&str>) -> Answer<Arc<Generation>> {
        let models = self.models.load();
        let name = name.unwrap_or(&models.default);
        models.all.get(name).cloned().ok_or_else(|| {
            let known = models.all.keys().cloned().collect::<Vec<_>>().join(", ");
            Fault::missing(format!("no model named {name:?}; there are {known}"))
                .at("model")
        })
    }

    /// Opens a model anew and swaps it in; the old one serves until then, and goes on if the new
    /// one cannot be opened.
    pub(crate) fn reload(&self, name: &str) -> Result<u64> {
        let mut stamps = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_one(name, &mut stamps)
    }

    fn reload_one(&self, name: &str, stamps: &mut BTreeMap<String, Stamp>) -> Result<u64> {
        let folders = folders(&self.place)?;
        let folder =
            folders.get(name).with_context(|| format!("{name} is not there any more"))?;
        let before = self.models.load().all.get(name).cloned();
        let stamp = run::stamp(folder);
        // What fails is tried again only when it has changed again.
        stamps.insert(name.to_owned(), stamp);
        let next = run::open(name, folder, &self.data, &self.weights, before.as_deref())
            .with_context(|| format!("reloading {name}"))?;
        let next = Arc::new(next);
        let now = self.models.load();
        let mut all = now.all.clone();
        all.insert(name.to_owned(), Arc::clone(&next));
        self.models.store(Arc::new(Models { default: now.default.clone(), all }));
        tracing::info!(
            model = name,
            generation = next.number,
            codes = next.fingerprint,
            "reloaded"
        );
        if let Err(err) = run::sweep(&next) {
            tracing::warn!(model = name, error = %format!("{err:#}"), "old indexes were not removed");
        }
        Ok(next.number)
    }

    /// Opens every model anew, and those that are new.
    pub(crate) fn reload_all(&self) {
        let mut stamps = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        match folders(&self.place) {
            Err(err) => {
                tracing::error!(error = %format!("{err:#}"), "nothing was reloaded")
            }
            Ok(folders) => {
                folders.keys().for_each(|name| self.try_reload(name, &mut stamps))
            }
        }
    }

    fn try_reload(&self, name: &str, stamps: &mut BTreeMap<String, Stamp>) {
        if let Err(err) = self.reload_one(name, stamps) {
            tracing::error!(model = name, error = %format!("{err:#}"), "not reloaded; the old one goes on");
        }
    }

    /// Looks for runs that were written anew, for ever; such a run is reloaded when its files have
    /// not changed between two looks.
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

    /// What the metrics tell of the models.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let models = self.models.load();
        let (mut items, mut generations) = (Vec::new(), Vec::new());
        for (name, generation) in &models.all {
            let name = quoted(name);
            generations.push((format!("{{model={name}}}"), generation.number as f64));
            for shelf in &generation.shelves {
                let modality = quoted(&shelf.modality);
                let count = shelf.view().snapshot.len() as f64;
                items.push((format!("{{model={name},modality={modality}}}"), count));
            }
        }
        vec![
            Gauge {
                name: "crosshash_items",
                help: "Items that can be found.",
                rows: items,
            },
            Gauge {
                name: "crosshash_generation",
                help: "Counts reloads.",
                rows: generations,
            },
        ]
    }
}
