//! Features for a data set: extracts them for every modality of pictures or texts that has a
//! backbone.

use std::path::PathBuf;

use crate::backbone::{self, Loaded, Weights};
use crate::data::{Features, LoadedDataset};
use crate::encode::Encoder as _;
use crate::extract::{Extracted, Extraction, extract};
use crate::isolate::Decoder;
use crate::picture::Limits;
use crate::{Error, Model, Result};

/// Extracts features with backbones.
#[derive(Clone)]
pub struct FeatureExtractor<'a> {
    /// The locations of the weights of backbones.
    pub weights: Weights,
    /// The folder of the feature cache, if features are cached.
    pub cache: Option<PathBuf>,
    /// Skip unreadable pictures instead of failing.
    pub skip_bad: bool,
    /// Limits for the size of pictures.
    pub limits: Limits,
    /// How pictures are decoded.
    pub decoder: Decoder,
    /// A clock in seconds from any origin, because the library does not read the system clock.
    pub now: &'a (dyn Fn() -> f64 + Sync),
    /// Receives the progress.
    pub callback: &'a dyn FeatureCallback,
}

impl Default for FeatureExtractor<'_> {
    /// No weights, no cache, default limits, no progress; unreadable pictures are an error.
    fn default() -> Self {
        FeatureExtractor {
            weights: Weights::default(),
            cache: None,
            skip_bad: false,
            limits: Limits::default(),
            decoder: Decoder::default(),
            now: &|| 0.0,
            callback: &(),
        }
    }
}

/// One extraction: the features of one modality.
#[derive(Debug, Clone, Copy)]
pub struct FeatureJob<'a> {
    /// The modality.
    pub modality: &'a str,
    /// The name of the backbone.
    pub backbone: &'a str,
    /// Number of items.
    pub items: usize,
}

/// Receives the progress of feature extraction. All methods are optional; `()` ignores everything.
pub trait FeatureCallback: Sync {
    /// An extraction starts.
    fn started(&self, _job: FeatureJob<'_>) {}

    /// The number of items done; called from any thread.
    fn progress(&self, _done: usize) {}

    /// An extraction is complete.
    fn finished(&self, _job: FeatureJob<'_>, _extracted: &Extracted) {}
}

impl FeatureCallback for () {}

impl FeatureExtractor<'_> {
    /// The features of pictures or texts.
    pub fn extract(
        &self,
        loaded: &Loaded,
        items: &Features,
        modality: &str,
    ) -> Result<Extracted> {
        let job = FeatureJob {
            modality,
            backbone: &loaded.feature_source().backbone,
            items: items.len(),
        };
        self.callback.started(job);
        let extraction = Extraction {
            loaded,
            cache: self.cache.as_deref(),
            skip_bad: self.skip_bad,
            limits: self.limits,
            decoder: self.decoder.clone(),
            now: self.now,
        };
        let extracted = extract(&extraction, items, &|done| self.callback.progress(done))?;
        self.callback.finished(job, &extracted);
        Ok(extracted)
    }
}

impl LoadedDataset {
    /// Selects the backbone of a modality, or none.
    pub fn set_backbone(&mut self, modality: &str, backbone: Option<&str>) -> Result<()> {
        let features = self.dataset.modality(modality)?.features();
        match backbone {
            None => {
                self.backbones.remove(modality);
            }
            Some(_) if !is_raw(features) => {
                return Err(Error::content(format!(
                    "modality {modality} already has {} features",
                    features.form()
                )));
            }
            Some(name) => {
                self.backbones.insert(modality.to_owned(), name.to_owned());
            }
        }
        Ok(())
    }

    /// Selects the backbones that a model was trained with.
    fn set_backbones_of(&mut self, model: &Model) {
        for name in model.modalities() {
            match model.feature_source(name) {
                Some(feature_source) => {
                    self.backbones.insert(name.to_owned(), feature_source.backbone.clone());
                }
                None => {
                    self.backbones.remove(name);
                }
            }
        }
    }

    /// Extracts the features that a model takes.
    pub fn with_features_of(
        mut self,
        model: &Model,
        extractor: &FeatureExtractor<'_>,
    ) -> Result<LoadedDataset> {
        self.set_backbones_of(model);
        let names: Vec<String> =
            model.modalities().iter().map(|&name| name.to_owned()).collect();
        self.with_features(&names, extractor)
    }

    /// Extracts the features of all modalities of pictures or texts that have a backbone; only
    /// those in `modalities`, unless it is empty.
    pub fn with_features(
        mut self,
        modalities: &[String],
        extractor: &FeatureExtractor<'_>,
    ) -> Result<LoadedDataset> {
        for (modality, name) in self.backbones.clone() {
            if !modalities.is_empty() && !modalities.contains(&modality) {
                continue;
            }
            let features = self.dataset.modality(&modality)?.features().clone();
            if !is_raw(&features) {
                continue;
            }
            let context = |err: Error| match err {
                Error::File { .. } | Error::Io(_) => err,
                err => Error::content(format!("modality {modality}: {err}")),
            };
            let kind = match &features {
                Features::Text(_) => backbone::InputKind::Texts,
                _ => backbone::InputKind::Pictures,
            };
            let name = backbone::side(&name, kind);
            let loaded = backbone::open(&name, &extractor.weights).map_err(context)?;
            let extracted =
                extractor.extract(&loaded, &features, &modality).map_err(context)?;
            self = self.with_rows(&modality, extracted, loaded.feature_source().clone())?;
        }
        Ok(self)
    }
}

/// Whether features are pictures or texts, from which a backbone extracts features.
fn is_raw(features: &Features) -> bool {
    matches!(features, Features::Pictures(_) | Features::Text(_))
}
