//! The data of one modality as methods use it: training and validation items as rows, and which items
//! of different modalities are pairs.

use std::collections::BTreeMap;

use crosshash_codes::Labels;

use crate::backbone::FeatureSource;
use crate::config::Config;
use crate::data::{Analysis, NGrams, Training, Vocabulary, Weights};
use crate::model::ModalityModel;
use crate::prepare::{Normalise, Preparation, Rows};
use crate::tower::Tower;
use crate::{Error, Result};

/// The data of one modality.
#[derive(Debug)]
pub(crate) struct ModalityData {
    pub(crate) name: String,
    pub(crate) feature_source: Option<FeatureSource>,
    pub(crate) preparation: Preparation,
    pub(crate) rows: Rows,
    pub(crate) labels: Labels,
    pub(crate) validation: Rows,
    pub(crate) validation_labels: Labels,
}

impl ModalityData {
    /// Fits the preparation on the training items; rejects a modality without training items.
    pub(crate) fn new(
        config: &Config,
        training: &Training<'_>,
        name: &str,
    ) -> Result<ModalityData> {
        ModalityData::with_text(config, training, name, None)
    }

    /// Like [`ModalityData::new`], with other options for texts than those of the data set.
    pub(crate) fn with_text(
        config: &Config,
        training: &Training<'_>,
        name: &str,
        text: Option<&TextOptions>,
    ) -> Result<ModalityData> {
        let view = training.train(name)?;
        if view.is_empty() {
            return Err(Error::content(format!(
                "modality {name} has no training items; add some to the split (train)"
            )));
        }
        let own = config.modality(name).and_then(|own| own.normalise);
        let normalise = own.unwrap_or(Normalise::Standard);
        let preparation = match config.finetune(name) {
            None => match text.filter(|_| view.form() == "text") {
                None => Preparation::fit(training, name, normalise)?,
                Some(text) => text.fit(config, training, name)?,
            },
            Some(_) if view.form() != "pictures" => {
                return Err(Error::content(format!(
                    "modality {name} is {}: a network takes pictures; leave modality.{name}.network \
                     out, or give the data set pictures (--backbone {name}=none, if its manifest \
                     names a backbone)",
                    view.form()
                )));
            }
            Some(finetune) => Preparation::Pixels {
                preprocessing: finetune.preprocessing.clone(),
                network: finetune.architecture,
            },
        };
        let rows = preparation.rows(view.features())?;
        let held_out = training.validation(name)?;
        Ok(ModalityData {
            name: name.to_owned(),
            feature_source: view.feature_source().cloned(),
            labels: view.labels(),
            validation: preparation.rows(held_out.features())?,
            validation_labels: held_out.labels(),
            preparation,
            rows,
        })
    }

    /// Every modality that is trained.
    pub(crate) fn every(
        config: &Config,
        training: &Training<'_>,
    ) -> Result<Vec<ModalityData>> {
        let one = |name: &&str| ModalityData::new(config, training, name);
        modalities(config, training)?.iter().map(one).collect()
    }
}

impl ModalityModel {
    /// The model of a modality with a trained tower.
    pub(crate) fn new(data: ModalityData, tower: Tower) -> ModalityModel {
        let ModalityData { name, feature_source, preparation, .. } = data;
        ModalityModel { name, feature_source, preparation, tower }
    }
}

/// Options for texts that differ from those of the data set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextOptions {
    /// Weights words by tf-idf, unless the data set specifies other weights.
    pub(crate) tf_idf: bool,
    /// Adds character n-grams.
    pub(crate) ngrams: bool,
    /// Scales rows to the norm of dense features.
    pub(crate) scale: bool,
}

/// The norm of text rows if no modality has dense features.
const TEXT_NORM: f64 = 20.0;
/// Maximum number of texts from which their norm is computed.
const TEXTS: usize = 10_000;

impl TextOptions {
    fn fit(
        &self,
        config: &Config,
        training: &Training<'_>,
        name: &str,
    ) -> Result<Preparation> {
        let mut analysis = training.analysis(name)?.clone();
        if self.tf_idf && analysis.weights == Analysis::default().weights {
            analysis.weights = Weights::TfIdf;
        }
        if self.ngrams && analysis.ngrams.is_none() {
            analysis.ngrams = Some(NGrams::default());
        }
        let vocabulary = Vocabulary::fit(training, name, &analysis)?;
        if !self.scale {
            return Ok(Preparation::Text(vocabulary));
        }
        // Standardised features of width d have norm sqrt(d).
        let mut squares = Vec::new();
        for other in modalities(config, training)? {
            let view = training.train(other)?;
            if let ("dense", Some(width)) = (view.form(), view.width()) {
                squares.push(width as f64);
            }
        }
        let norm = if squares.is_empty() {
            TEXT_NORM
        } else {
            (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
        };
        let texts = training.train(name)?.features();
        let rows = Preparation::Text(vocabulary.clone()).rows(texts)?;
        let own = rows.typical_length(TEXTS)?;
        if own <= 0.0 {
            return Ok(Preparation::Text(vocabulary));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "features are single precision"
        )]
        let scale = (norm / own) as f32;
        Ok(Preparation::Text(vocabulary.with_scale(scale)))
    }
}

/// The modalities that are trained.
pub(crate) fn modalities<'t>(
    config: &Config,
    training: &Training<'t>,
) -> Result<Vec<&'t str>> {
    let known: Vec<&str> = training.modalities().collect();
    let mut names = Vec::new();
    for name in config.modalities() {
        let found = known.iter().find(|known| *known == name);
        names.push(*found.ok_or_else(|| {
            Error::unknown("modality", name.as_str(), known.iter().copied())
        })?);
    }
    if names.is_empty() {
        names.clone_from(&known);
    }
    if let Some(name) = config.configured_modalities().find(|name| !known.contains(name)) {
        return Err(Error::unknown("modality", name, known.iter().copied()));
    }
    let info = config.method();
    if info.single && names.len() != 1 {
        return Err(Error::Unsuitable {
            method: info.name.into(),
            why: format!(
                "learns one modality; choose one of {}, e.g. modalities = [\"{}\"]",
                names.join(", "),
                names[0]
            ),
        });
    }
    Ok(names)
}

/// The items of every pair key that all modalities have: one list per modality, in the same order. A key has
/// as many rows as its largest modality has items; smaller modalities repeat theirs, so that every item
/// occurs. If there are labels, items without labels are excluded.
pub(crate) fn pairs<'i>(
    method: &str,
    training: &Training<'_>,
    items: impl IntoIterator<Item = &'i ModalityData>,
) -> Result<Vec<Vec<usize>>> {
    let items: Vec<&ModalityData> = items.into_iter().collect();
    let mut found: BTreeMap<&str, Vec<Vec<usize>>> = BTreeMap::new();
    for (m, data) in items.iter().enumerate() {
        let view = training.train(&data.name)?;
        let used = |item: &usize| !training.has_labels() || data.labels.count(*item) > 0;
        for item in (0..view.len()).filter(used) {
            let unit = found.entry(view.pair_key(item)).or_default();
            if unit.len() == m {
                unit.push(Vec::new());
            }
            if let Some(own) = unit.get_mut(m) {
                own.push(item);
            }
        }
    }
    found.retain(|_, unit| unit.len() == items.len());
    if items.len() < 2 || found.is_empty() {
        let names: Vec<&str> = items.iter().map(|data| data.name.as_str()).collect();
        let labelled = if training.has_labels() { "labelled " } else { "" };
        return Err(Error::Unsuitable {
            method: method.to_owned(),
            why: format!(
                "learns from pairs, and no {labelled}training item is in more than one of {}",
                names.join(", ")
            ),
        });
    }
    let of = |m: usize| {
        let rows = found.values().flat_map(|unit| {
            let most = unit.iter().map(Vec::len).max().unwrap_or(0);
            unit[m].iter().cycle().take(most)
        });
        rows.copied().collect()
    };
    Ok((0..items.len()).map(of).collect())
}
