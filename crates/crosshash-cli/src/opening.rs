//! Opening a data set, raw or not: the one place where pictures and texts become rows on the way
//! to any command.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use crosshash::Model;
use crosshash::backbone::{self, Loaded};
use crosshash::data::{self, Features, OpenOptions, Opened};
use crosshash::extract::{Extracted, Extraction, extract};
use crosshash::picture::Limits;

use crate::places::{self, Places};
use crate::progress::{Progress, say};

/// How raw data become rows.
#[derive(clap::Args, Clone, Default)]
pub struct Raw {
    /// Where weights are.
    #[command(flatten)]
    pub places: Places,

    /// The backbone of a modality of pictures or texts, over what the manifest says; `none` for
    /// texts leaves them to their words.
    #[arg(long, value_name = "MODALITY=NAME", help_heading = "Backbones")]
    pub backbone: Vec<String>,

    /// How features are extracted.
    #[command(flatten)]
    pub extracting: Extracting,
}

/// How pictures are read and rows kept.
#[derive(clap::Args, Clone, Default)]
pub struct Extracting {
    /// Leave out pictures that cannot be read, and say which.
    #[arg(long, help_heading = "Backbones")]
    pub skip_bad: bool,

    /// The folder in which rows are kept, or `none` (default: $CROSSHASH_CACHE, or the user's
    /// cache folder).
    #[arg(long, value_name = "DIR", help_heading = "Backbones")]
    pub cache: Option<PathBuf>,
}

/// Opens a data set; `$CROSSHASH_MAX_SPOOL_GIB` limits what its files may unpack to.
pub(crate) fn open_within_limits(data: &Path, root: Option<&Path>) -> Result<Opened> {
    const VARIABLE: &str = "CROSSHASH_MAX_SPOOL_GIB";
    let mut options = OpenOptions { root: root.map(Path::to_owned), ..Default::default() };
    if let Some(text) = std::env::var_os(VARIABLE) {
        let gib = text.to_str().and_then(|text| text.trim().parse::<u32>().ok());
        let gib = gib.with_context(|| {
            format!("{VARIABLE}={}: must be a whole number of GiB", text.display())
        })?;
        options.limits.max_spooled = u64::from(gib) << 30;
    }
    Ok(data::open_with(data, &options)?)
}

impl Raw {
    /// Opens a data set; modalities that have a backbone get their rows. Only those of `wanted`,
    /// if it names any.
    pub fn open(
        &self,
        data: &Path,
        root: Option<&Path>,
        wanted: &[String],
    ) -> Result<Opened> {
        let mut opened = open_within_limits(data, root)?;
        for choice in &self.backbone {
            let (modality, name) = choice.split_once('=').with_context(|| {
                format!(
                    "--backbone {choice}: say MODALITY=NAME, e.g. image=efficientnet-lite0"
                )
            })?;
            opened.dataset.modality(modality).context("--backbone")?;
            match name {
                "none" => opened.backbones.remove(modality),
                name => opened.backbones.insert(modality.to_owned(), name.to_owned()),
            };
        }
        self.fill(opened, wanted)
    }

    /// Opens the data set that a model was trained on, with the backbones of the model.
    pub fn open_as(
        &self,
        data: &Path,
        root: Option<&Path>,
        model: &Model,
    ) -> Result<Opened> {
        use crosshash::encode::Encoder as _;
        let mut opened = open_within_limits(data, root)?;
        let names: Vec<String> =
            model.modalities().iter().map(|&name| name.to_owned()).collect();
        for name in &names {
            match model.origin(name) {
                Some(origin) => {
                    opened.backbones.insert(name.clone(), origin.backbone.clone());
                }
                None => {
                    opened.backbones.remove(name);
                }
            }
        }
        self.fill(opened, &names)
    }

    fn fill(&self, mut opened: Opened, wanted: &[String]) -> Result<Opened> {
        let weights = self.places.weights();
        for (modality, name) in opened.backbones.clone() {
            if !wanted.is_empty() && !wanted.contains(&modality) {
                continue;
            }
            let features = opened.dataset.modality(&modality)?.features().clone();
            if !matches!(features, Features::Pictures(_) | Features::Text(_)) {
                if self.backbone.iter().any(|own| own.split('=').next() == Some(&modality))
                {
                    bail!(
                        "--backbone: modality {modality} has {} features already",
                        features.form()
                    );
                }
                continue;
            }
            let loaded = backbone::open(&name, &weights)
                .with_context(|| format!("modality {modality}"))?;
            let given = self
                .extracting
                .extract(&loaded, &features, &modality)
                .with_context(|| format!("modality {modality}"))?;
            opened = opened.with_rows(&modality, given, loaded.origin().clone())?;
        }
        Ok(opened)
    }

    /// As arguments for another process of this program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut push = |flag: &str, value: &OsString| {
            all.extend([OsString::from(flag), value.clone()]);
        };
        for folder in &self.places.weights {
            push("--weights", &folder.into());
        }
        if let Some(library) = &self.places.onnxruntime {
            push("--onnxruntime", &library.into());
        }
        for choice in &self.backbone {
            push("--backbone", &choice.into());
        }
        if let Some(cache) = &self.extracting.cache {
            push("--cache", &cache.into());
        }
        if self.extracting.skip_bad {
            all.push("--skip-bad".into());
        }
        all
    }
}

impl Extracting {
    /// The folder in which rows are kept, if they are.
    pub fn folder(&self) -> Option<PathBuf> {
        match &self.cache {
            Some(folder) if folder.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => Some(places::cache()?.join("features")),
        }
    }

    /// Rows of pictures or texts by a backbone, with progress and a line about it.
    pub fn extract(
        &self,
        loaded: &Loaded,
        features: &Features,
        what: &str,
    ) -> Result<Extracted> {
        let started = Instant::now();
        let folder = self.folder();
        let extraction = Extraction {
            loaded,
            cache: folder.as_deref(),
            skip_bad: self.skip_bad,
            limits: Limits::default(),
            now: &|| started.elapsed().as_secs_f64(),
        };
        let name = &loaded.origin().backbone;
        let progress = Progress::new(format!("{what} by {name}"), features.len());
        let given = extract(&extraction, features, &|done| progress.set(done))?;
        drop(progress);
        let seconds = started.elapsed().as_secs_f64();
        let (all, cached) = (given.kept.len(), given.cached);
        say(format!(
            "{what}: {all} rows of {} numbers by {name}, {cached} of them kept from before; \
             {seconds:.1} s, {:.0} items/s",
            given.rows.width(),
            features.len() as f64 / seconds.max(1e-9)
        ));
        given.notes.iter().for_each(say);
        if !given.bad.is_empty() {
            say(format!("{what}: {} pictures left out by --skip-bad:", given.bad.len()));
            for bad in &given.bad {
                say(format!("  {}: {}", bad.path.display(), bad.why));
            }
        }
        Ok(given)
    }
}
