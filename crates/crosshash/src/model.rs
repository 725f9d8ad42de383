//! `Model`: the result of training: a preparation and a tower per modality, and the centres.
//!
//! Stored as two files: `model.json` (sizes, label names, vocabularies, normalisers) and
//! `model.safetensors` (weights, `<modality>.hidden.weight` etc. as inputs x outputs, and `centres`,
//! labels x bits, for methods with centres).

use std::path::Path;

use crosshash_codes::Bits;
use crosshash_codes::write::atomically;
use serde::{Deserialize, Serialize};

use crate::backbone::FeatureSource;
use crate::checkpoint::{Array, Arrays};
use crate::data::Features;
use crate::encode::Encoder;
use crate::prepare::{Preparation, Rows};
use crate::rotation::Rotation;
use crate::tower::{Matrix, Shape, Tower};
use crate::{Error, Result};

/// File with sizes, vocabularies and normalisers.
pub(crate) const MODEL_JSON: &str = "model.json";
/// File with weights.
pub(crate) const MODEL_WEIGHTS: &str = "model.safetensors";
/// Batch size of encoding.
const BLOCK: usize = 256;

/// A trained model.
#[derive(Debug)]
pub struct Model {
    bits: Bits,
    labels: Vec<String>,
    modalities: Vec<ModalityModel>,
    centres: Vec<f32>,
    unified: bool,
}

/// One modality of a model.
#[derive(Debug)]
pub(crate) struct ModalityModel {
    pub(crate) name: String,
    pub(crate) feature_source: Option<FeatureSource>,
    pub(crate) preparation: Preparation,
    pub(crate) tower: Tower,
}

#[derive(Serialize, Deserialize)]
struct Description {
    crosshash: String,
    bits: usize,
    labels: Vec<String>,
    modalities: Vec<Described>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unified: bool,
}

#[derive(Serialize, Deserialize)]
struct Described {
    name: String,
    #[serde(rename = "origin", default, skip_serializing_if = "Option::is_none")]
    feature_source: Option<FeatureSource>, // unknown for models before 0.2
    tower: Shape,
    preparation: Preparation,
}

impl Model {
    pub(crate) fn new(
        bits: Bits,
        labels: Vec<String>,
        modalities: Vec<ModalityModel>,
        centres: Vec<f32>,
    ) -> Model {
        Model { bits, labels, modalities, centres, unified: false }
    }

    /// This model, with one code per database item by the sum of its outputs in all modalities, or not.
    pub(crate) fn unified(mut self, unified: bool) -> Model {
        self.unified = unified;
        self
    }

    /// Rotates the outputs of every modality, and the centres with them.
    pub(crate) fn rotate(&mut self, rotation: &Rotation) {
        for (m, one) in self.modalities.iter_mut().enumerate() {
            if let Some(tower) = rotation.folded(m, &one.tower) {
                one.tower = tower;
            }
        }
        rotation.apply_to_centres(&mut self.centres);
    }

    /// The tower of a modality.
    #[cfg(test)]
    pub(crate) fn tower(&self, modality: &str) -> Result<&Tower> {
        Ok(&self.modality(modality)?.tower)
    }

    /// Names of the training labels.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Centres, labels x bits; empty for methods without centres.
    pub fn centres(&self) -> &[f32] {
        &self.centres
    }

    /// Preparation of a modality.
    pub fn preparation(&self, modality: &str) -> Result<&Preparation> {
        Ok(&self.modality(modality)?.preparation)
    }

    /// Backbone of the features of a modality, if they were extracted.
    pub fn feature_source(&self, modality: &str) -> Option<&FeatureSource> {
        self.modality(modality).ok().and_then(|one| one.feature_source.as_ref())
    }

    /// Writes both files, each atomically.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let described = |one: &ModalityModel| Described {
            name: one.name.clone(),
            feature_source: one.feature_source.clone(),
            tower: one.tower.shape(),
            preparation: one.preparation.clone(),
        };
        let description = Description {
            crosshash: env!("CARGO_PKG_VERSION").into(),
            bits: self.bits.get(),
            labels: self.labels.clone(),
            modalities: self.modalities.iter().map(described).collect(),
            unified: self.unified,
        };
        let mut arrays = Arrays::default();
        if !self.centres.is_empty() {
            arrays.push("centres".into(), self.bits.get(), self.centres.clone());
        }
        for one in &self.modalities {
            for matrix in one.tower.matrices(false) {
                let name = format!("{}.{}", one.name, matrix.name);
                arrays.push(name, matrix.columns, matrix.values);
            }
        }
        arrays.write(&folder.join(MODEL_WEIGHTS), "")?;
        let json = serde_json::to_vec(&description).map_err(std::io::Error::from)?;
        atomically(&folder.join(MODEL_JSON), |out| {
            std::io::Write::write_all(out, &json)?;
            Ok(())
        })?;
        Ok(())
    }

    /// Reads both files.
    pub fn load(folder: &Path) -> Result<Model> {
        let path = folder.join(MODEL_JSON);
        let text = fs_err::read(&path)?;
        let found: Description = serde_json::from_slice(&text).map_err(|err| {
            Error::content(format!("invalid model description: {err}")).at(&path)
        })?;
        let bits = Bits::new(found.bits)?;
        let path = folder.join(MODEL_WEIGHTS);
        let (mut arrays, _) = Arrays::read(&path)?;
        let device = crate::device::learning();
        let mut modalities = Vec::new();
        for Described { name, feature_source, mut tower, preparation } in found.modalities {
            tower.network = preparation.network();
            let misfit = |what: &str| {
                Error::content(format!("the {what} of modality {name} do not match {MODEL_JSON}: the model is damaged, copy or train it again")).at(&path)
            };
            let sizes = tower.bits == bits.get()
                && (tower.classes == found.labels.len() || tower.classes == 0)
                && tower.width == preparation.width()
                && tower.sparse == preparation.is_sparse();
            if !sizes {
                return Err(misfit("sizes"));
            }
            let mut matrices = Vec::new();
            for part in tower.names() {
                let Array { columns, values } = arrays.take(&format!("{name}.{part}"))?;
                let velocity = vec![0.0; values.len()];
                matrices.push(Matrix { name: part, columns, values, velocity });
            }
            let tower = Tower::from_matrices(tower, matrices, &device)
                .ok_or_else(|| misfit("weights"))?;
            modalities.push(ModalityModel { name, feature_source, preparation, tower });
        }
        // Methods with a classifier also have centres.
        let centres = if modalities.iter().any(|one| one.tower.shape().classes > 0) {
            arrays.take("centres")?.values
        } else {
            Vec::new()
        };
        if !centres.is_empty() && centres.len() != bits.get() * found.labels.len() {
            return Err(Error::content("the centres do not match the labels").at(&path));
        }
        let unified = found.unified;
        Ok(Model { bits, labels: found.labels, modalities, centres, unified })
    }

    fn modality(&self, modality: &str) -> Result<&ModalityModel> {
        let known = || self.modalities.iter().map(|one| one.name.as_str());
        let found = self.modalities.iter().find(|one| one.name == modality);
        found.ok_or_else(|| Error::unknown("modality", modality, known()))
    }
}

impl Encoder for Model {
    fn bits(&self) -> Bits {
        self.bits
    }

    fn modalities(&self) -> Vec<&str> {
        self.modalities.iter().map(|one| one.name.as_str()).collect()
    }

    fn is_unified(&self) -> bool {
        self.unified
    }

    fn outputs(
        &self,
        modality: &str,
        features: Features,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<f32>> {
        let one = self.modality(modality)?;
        let rows = one.preparation.rows(features)?;
        let all: Vec<usize> = (0..rows.len()).collect();
        outputs(&one.tower, &rows, &all, progress)
    }
}

/// Outputs of a tower for the given items, block by block.
pub(crate) fn outputs(
    tower: &Tower,
    rows: &Rows,
    items: &[usize],
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<f32>> {
    let mut out = Vec::with_capacity(items.len() * tower.shape().bits);
    for block in items.chunks(BLOCK) {
        out.extend(tower.hash(&rows.batch(block)?));
        progress(out.len() / tower.shape().bits);
    }
    Ok(out)
}
