//! The data of one modality as methods use it: training and validation items as rows, and which items
//! of different modalities are pairs.

use std::collections::BTreeMap;

use crosshash_codes::Labels;

use crate::backbone::Origin;
use crate::config::Config;
use crate::data::Training;
use crate::prepare::{Normalise, Preparation, Rows};
use crate::{Error, Result};

/// The data of one modality.
#[derive(Debug)]
pub(crate) struct ModalityData {
    pub(crate) name: String,
    pub(crate) origin: Option<Origin>,
    pub(crate) preparation: Preparation,
    pub(crate) rows: Rows,
    pub(crate) labels: Labels,
    pub(crate) validation: Rows,
    pub(crate) validation_labels: Labels,
    pub(crate) validation_database: Vec<usize>, // training items
}

impl ModalityData {
    /// Fits the preparation on the training items; refuses a modality without any.
    pub(crate) fn new(
        config: &Config,
        training: &Training<'_>,
        name: &str,
    ) -> Result<ModalityData> {
        let view = training.train(name)?;
        if view.is_empty() {
            return Err(Error::content(format!(
                "modality {name} has no training items; give the split some (train)"
            )));
        }
        let own = config.modality(name).and_then(|own| own.normalise);
        let normalise = own.unwrap_or(Normalise::Standard);
        let preparation = match config.finetune(name) {
            None => Preparation::fit(training, name, normalise)?,
            Some(_) if view.form() != "pictures" => {
                return Err(Error::content(format!(
                    "modality {name} is {}: a network takes pictures; leave modality.{name}.network \
                     out, or give the data set pictures (--backbone {name}=none, if its manifest \
                     names a backbone)",
                    view.form()
                )));
            }
            Some(finetune) => Preparation::Pixels {
                recipe: finetune.recipe.clone(),
                network: finetune.architecture,
            },
        };
        let rows = preparation.rows(view.features())?;
        let held_out = training.validation(name)?;
        let every = rows.len().div_ceil(config.validation_database()).max(1);
        Ok(ModalityData {
            name: name.to_owned(),
            origin: view.origin().cloned(),
            labels: view.labels(),
            validation: preparation.rows(held_out.features())?,
            validation_labels: held_out.labels(),
            validation_database: (0..rows.len()).step_by(every).collect(),
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

/// For every id that all modalities have, and that is labelled, its item in each: one list of
/// items per modality, in one order.
pub(crate) fn pairs<'i>(
    method: &str,
    training: &Training<'_>,
    items: impl IntoIterator<Item = &'i ModalityData>,
) -> Result<Vec<Vec<usize>>> {
    let items: Vec<&ModalityData> = items.into_iter().collect();
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (m, side) in items.iter().enumerate() {
        let view = training.train(&side.name)?;
        for item in (0..view.len()).filter(|&item| side.labels.count(item) > 0) {
            let unit = found.entry(view.id(item)).or_default();
            if unit.len() == m {
                unit.push(item);
            }
        }
    }
    found.retain(|_, unit| unit.len() == items.len());
    if items.len() < 2 || found.is_empty() {
        let names: Vec<&str> = items.iter().map(|side| side.name.as_str()).collect();
        return Err(Error::Unsuitable {
            method: method.to_owned(),
            why: format!(
                "learns from pairs, and no labelled training item is in more than one of {}",
                names.join(", ")
            ),
        });
    }
    let of = |m: usize| found.values().map(|unit| unit[m]).collect();
    Ok((0..items.len()).map(of).collect())
}
