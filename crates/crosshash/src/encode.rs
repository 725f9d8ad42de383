//! Encoding of features to codes, for all methods. Only [`signs`] converts real outputs to bits.

use crosshash_codes::{Bits, Codes};

use crate::Result;
use crate::data::Features;

/// A model that computes real outputs for items of some modalities.
pub trait Encoder: Sync {
    /// The code length.
    fn bits(&self) -> Bits;

    /// The names of its modalities.
    fn modalities(&self) -> Vec<&str>;

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

/// The codes of real outputs, one value per bit: a bit is 1 if its value is at least 0.
pub fn signs(bits: Bits, outputs: &[f32]) -> Result<Codes> {
    Ok(Codes::from_signs(bits, outputs)?)
}
