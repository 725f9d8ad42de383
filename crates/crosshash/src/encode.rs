//! Encoding of features to codes, for all methods. Only [`signs`] converts real outputs to bits.

use std::collections::HashMap;

use crosshash_codes::{Bits, Codes};

use crate::Result;
use crate::data::{Dataset, Features, Split};

/// A model that computes real outputs for items of some modalities.
pub trait Encoder: Sync {
    /// The code length.
    fn bits(&self) -> Bits;

    /// The names of its modalities.
    fn modalities(&self) -> Vec<&str>;

    /// Whether a database item that is in several modalities has one code, by the sum of its outputs.
    fn is_unified(&self) -> bool {
        false
    }

    /// Real outputs of items, items x bits, row by row. `progress` is called with the number of
    /// items done.
    fn outputs(
        &self,
        modality: &str,
        features: Features,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<f32>>;
}

/// Items whose real outputs are in memory at the same time; a multiple of the batch size of encoding.
const BLOCK: usize = 1 << 15;

/// The codes of items of one modality. The real outputs are kept for a block of items at a time.
pub fn encode(
    encoder: &dyn Encoder,
    modality: &str,
    features: Features,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Codes> {
    if features.len() <= BLOCK {
        let outputs = encoder.outputs(modality, features, progress)?;
        return signs(encoder.bits(), &outputs);
    }
    let mut codes = Codes::new(encoder.bits());
    for start in (0..features.len()).step_by(BLOCK) {
        let items: Vec<usize> = (start..features.len().min(start + BLOCK)).collect();
        let outputs = encoder
            .outputs(modality, features.select(&items), &|done| progress(start + done))?;
        codes.append(&signs(encoder.bits(), &outputs)?)?;
    }
    Ok(codes)
}

/// Real outputs of the database items of a modality. Those of a unified encoder are the sum over all
/// modalities in which the item has a pair in the database (the mean, if it has several in one).
pub fn database_outputs(
    encoder: &dyn Encoder,
    dataset: &Dataset,
    split: &Split,
    modality: &str,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<f32>> {
    let database = dataset.database(split, modality)?;
    let mut outputs = encoder.outputs(modality, database.features(), progress)?;
    if !encoder.is_unified() {
        return Ok(outputs);
    }
    let width = encoder.bits().get();
    for other in encoder.modalities().into_iter().filter(|other| *other != modality) {
        let view = dataset.database(split, other)?;
        let found = encoder.outputs(other, view.features(), &|_| {})?;
        let mut by_key: HashMap<&str, Vec<usize>> = HashMap::new();
        (0..view.len())
            .for_each(|item| by_key.entry(view.pair_key(item)).or_default().push(item));
        for (item, row) in outputs.chunks_exact_mut(width).enumerate() {
            let Some(pairs) = by_key.get(database.pair_key(item)) else { continue };
            let share = 1.0 / pairs.len() as f32;
            for pair in pairs {
                let own = &found[pair * width..][..width];
                row.iter_mut().zip(own).for_each(|(sum, x)| *sum += share * x);
            }
        }
    }
    Ok(outputs)
}

/// The codes of real outputs, one value per bit: a bit is 1 if its value is at least 0.
pub fn signs(bits: Bits, outputs: &[f32]) -> Result<Codes> {
    Ok(Codes::from_signs(bits, outputs)?)
}
