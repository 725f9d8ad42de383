//! What a method learns from: the training items of each modality as rows, the validation items
//! beside them, and which items of different modalities are pairs.

use std::collections::BTreeMap;

use crosshash_codes::eval::Options;
use crosshash_codes::{Bits, Codes, Labels};

use crate::backbone::Origin;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::evaluate::{Coded, every_direction, mean_map};
use crate::model::outputs;
use crate::prepare::{Normalise, Preparation, Rows};
use crate::tower::Tower;
use crate::{Error, Result};

/// One modality.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) name: String,
    pub(crate) origin: Option<Origin>,
    pub(crate) preparation: Preparation,
    pub(crate) rows: Rows,
    pub(crate) labels: Labels,
    pub(crate) validation: Rows,
    pub(crate) validation_labels: Labels,
    pub(crate) searched: Vec<usize>, // training items that validation searches
}

impl Items {
    /// Fits the preparation on the training items; refuses a modality without any.
    pub(crate) fn new(
        run: &Run,
        training: &Training<'_>,
        name: &str,
        analysis: &Analysis,
    ) -> Result<Items> {
        let view = training.train(name)?;
        if view.is_empty() {
            return Err(Error::content(format!(
                "modality {name} has no training items; give the split some (train)"
            )));
        }
        let own = run.raw.modality.get(name).and_then(|own| own.normalise);
        let normalise = own.unwrap_or(Normalise::Standard);
        let preparation = Preparation::fit(training, name, normalise, analysis)?;
        let rows = preparation.rows(view.features())?;
        let held_out = training.validation(name)?;
        let every = rows.len().div_ceil(run.raw.validation_database.max(1)).max(1);
        Ok(Items {
            name: name.to_owned(),
            origin: view.origin().cloned(),
            labels: view.labels(),
            validation: preparation.rows(held_out.features())?,
            validation_labels: held_out.labels(),
            searched: (0..rows.len()).step_by(every).collect(),
            preparation,
            rows,
        })
    }

    /// Every modality that a run learns.
    pub(crate) fn every(
        run: &Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Vec<Items>> {
        let one = |name: &&str| Items::new(run, training, name, &analysis(name));
        modalities(run, training)?.iter().map(one).collect()
    }
}

/// The modalities that a run learns.
pub(crate) fn modalities<'t>(run: &Run, training: &Training<'t>) -> Result<Vec<&'t str>> {
    let known: Vec<&str> = training.modalities().collect();
    let mut names = Vec::new();
    for name in &run.raw.modalities {
        let found = known.iter().find(|known| *known == name);
        names.push(*found.ok_or_else(|| {
            Error::unknown("modality", name.as_str(), known.iter().copied())
        })?);
    }
    if names.is_empty() {
        names.clone_from(&known);
    }
    if let Some(name) = run.raw.modality.keys().find(|name| !known.contains(&name.as_str()))
    {
        return Err(Error::unknown("modality", name.as_str(), known.iter().copied()));
    }
    let about = run.method.about();
    if about.single && names.len() != 1 {
        return Err(Error::Unsuitable {
            method: about.name.into(),
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
    items: impl IntoIterator<Item = &'i Items>,
) -> Result<Vec<Vec<usize>>> {
    let items: Vec<&Items> = items.into_iter().collect();
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

/// The mean MAP of the validation items over all directions, with these towers; `None` without
/// validation items. A modality without any is still searched by the others.
pub(crate) fn validate<'a>(
    bits: Bits,
    sides: impl Iterator<Item = (&'a Items, &'a Tower)>,
) -> Result<Option<f64>> {
    let sides: Vec<_> = sides.collect();
    if sides.iter().all(|(side, _)| side.validation.is_empty()) {
        return Ok(None);
    }
    let mut coded = Vec::new();
    for (side, tower) in sides {
        let codes = |rows: &Rows, items: &[usize]| -> Result<Codes> {
            Ok(Codes::from_signs(bits, &outputs(tower, rows, items, &|_| {})?)?)
        };
        let held_out: Vec<usize> = (0..side.validation.len()).collect();
        coded.push(Coded {
            name: side.name.clone(),
            queries: codes(&side.validation, &held_out)?,
            query_labels: side.validation_labels.clone(),
            database: codes(&side.rows, &side.searched)?,
            database_labels: side.labels.select(&side.searched),
        });
    }
    Ok(mean_map(&every_direction(&coded, &Options::default(), &|_| {})?))
}
