//! Arguments that several commands share: how a data set is opened and its features extracted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::Model;
use crosshash::backbone::Weights;
use crosshash::data::{self, ItemMeta, LoadedDataset, OpenOptions};
use crosshash::extract::Extracted;
use crosshash::featurize::{FeatureCallback, FeatureExtractor, FeatureJob};

use crate::progress::{Progress, say};
use crate::weight_paths::{self, WeightPaths};

/// How features are extracted from raw pictures and texts.
#[derive(clap::Args, Clone, Default)]
pub struct DataArgs {
    /// Where weights are.
    #[command(flatten)]
    pub weight_paths: WeightPaths,

    /// Backbone for a modality of pictures or texts; overrides the manifest. `none` encodes texts
    /// as bags of words.
    #[arg(long, value_name = "MODALITY=NAME", help_heading = "Backbones")]
    pub backbone: Vec<String>,

    /// How features are extracted.
    #[command(flatten)]
    pub extract_args: ExtractArgs,
}

/// Options of feature extraction.
#[derive(clap::Args, Clone, Default)]
pub struct ExtractArgs {
    /// Skip unreadable pictures and list them, instead of failing.
    #[arg(long, help_heading = "Backbones")]
    pub skip_bad: bool,

    /// Folder of the feature cache, or `none` [default: $CROSSHASH_CACHE or the user's cache
    /// folder].
    #[arg(long, value_name = "DIR", help_heading = "Backbones")]
    pub cache: Option<PathBuf>,
}

/// Opens a data set; `$CROSSHASH_MAX_SPOOL_GIB` limits the unpacked size of its files.
pub(crate) fn open_within_limits(
    data: &Path,
    root: Option<&Path>,
) -> Result<LoadedDataset> {
    Ok(data::open_with(data, &open_options(root)?)?)
}

/// Reads the other columns of the item tables of a data set, within the same limits.
pub(crate) fn meta_within_limits(
    data: &Path,
    root: Option<&Path>,
) -> Result<Vec<(String, ItemMeta)>> {
    Ok(data::read_meta(data, &open_options(root)?)?)
}

fn open_options(root: Option<&Path>) -> Result<OpenOptions> {
    const VARIABLE: &str = "CROSSHASH_MAX_SPOOL_GIB";
    let mut options = OpenOptions { root: root.map(Path::to_owned), ..Default::default() };
    if let Some(text) = std::env::var_os(VARIABLE) {
        let gib = text.to_str().and_then(|text| text.trim().parse::<u32>().ok());
        let gib = gib.with_context(|| {
            format!("{VARIABLE}={}: must be a whole number of GiB", text.display())
        })?;
        options.limits.max_spooled = u64::from(gib) << 30;
    }
    Ok(options)
}

impl DataArgs {
    /// Opens a data set and extracts the features of modalities that have a backbone; only of
    /// those in `modalities`, unless it is empty.
    pub fn open(
        &self,
        data: &Path,
        root: Option<&Path>,
        modalities: &[String],
    ) -> Result<LoadedDataset> {
        let mut opened = open_within_limits(data, root)?;
        for choice in &self.backbone {
            let (modality, name) = choice.split_once('=').with_context(|| {
                format!(
                    "--backbone {choice}: expected MODALITY=NAME, e.g. image=efficientnet-lite0"
                )
            })?;
            let name = Some(name).filter(|name| *name != "none");
            opened.set_backbone(modality, name).context("--backbone")?;
        }
        let weights = self.weight_paths.weights();
        self.extract_args
            .with_extractor(weights, |extractor| {
                opened.with_features(modalities, extractor)
            })
            .map_err(Into::into)
    }

    /// Opens the data set that a model was trained on, with the features that it takes.
    pub fn open_for_model(
        &self,
        data: &Path,
        root: Option<&Path>,
        model: &Model,
    ) -> Result<LoadedDataset> {
        let opened = open_within_limits(data, root)?;
        let weights = self.weight_paths.weights();
        self.extract_args
            .with_extractor(weights, |extractor| opened.with_features_of(model, extractor))
            .map_err(Into::into)
    }

    /// As arguments for another process of this program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut push = |flag: &str, value: &OsString| {
            all.extend([OsString::from(flag), value.clone()]);
        };
        for folder in &self.weight_paths.weights {
            push("--weights", &folder.into());
        }
        if let Some(library) = &self.weight_paths.onnxruntime {
            push("--onnxruntime", &library.into());
        }
        for choice in &self.backbone {
            push("--backbone", &choice.into());
        }
        if let Some(cache) = &self.extract_args.cache {
            push("--cache", &cache.into());
        }
        if self.extract_args.skip_bad {
            all.push("--skip-bad".into());
        }
        all
    }
}

impl ExtractArgs {
    /// The folder of the feature cache, if features are cached.
    pub fn cache_folder(&self) -> Option<PathBuf> {
        match &self.cache {
            Some(folder) if folder.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => Some(weight_paths::cache()?.join("features")),
        }
    }

    /// Calls `work` with an extractor that reports its progress on stderr.
    pub fn with_extractor<T>(
        &self,
        weights: Weights,
        work: impl FnOnce(&FeatureExtractor<'_>) -> T,
    ) -> T {
        let started = Instant::now();
        work(&FeatureExtractor {
            weights,
            cache: self.cache_folder(),
            skip_bad: self.skip_bad,
            now: &|| started.elapsed().as_secs_f64(),
            callback: &Report::default(),
            ..FeatureExtractor::default()
        })
    }
}

/// Reports extractions on stderr: live progress, a summary, skipped pictures.
#[derive(Default)]
struct Report(Mutex<Option<(Progress, Instant)>>);

impl FeatureCallback for Report {
    fn started(&self, job: FeatureJob<'_>) {
        let title = format!("{}: {}", job.modality, job.backbone);
        let progress = Progress::new(title, job.items);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((progress, Instant::now()));
    }

    fn progress(&self, done: usize) {
        if let Some((progress, _)) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner)
        {
            progress.set(done);
        }
    }

    fn finished(&self, job: FeatureJob<'_>, extracted: &Extracted) {
        let FeatureJob { modality, backbone, items } = job;
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let seconds = ended.map_or(0.0, |(_, started)| started.elapsed().as_secs_f64());
        say(format!(
            "{modality}: {} feature vectors of {backbone} ({} values each), {} from cache; \
             {seconds:.1} s, {:.0} items/s",
            extracted.kept.len(),
            extracted.rows.width(),
            extracted.cached,
            items as f64 / seconds.max(1e-9)
        ));
        extracted.notes.iter().for_each(say);
        if !extracted.bad.is_empty() {
            let skipped = extracted.bad.len();
            say(format!("{modality}: {skipped} unreadable pictures skipped (--skip-bad):"));
            for bad in &extracted.bad {
                say(format!("  {}: {}", bad.path.display(), bad.why));
            }
        }
    }
}
