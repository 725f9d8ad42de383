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

/// The codes of items of one modality.
pub fn encode(
    encoder: &dyn Encoder,
    modality: &str,
    features: Features,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Codes> {
    let outputs = encoder.outputs(modality, features, progress)?;
    signs(encoder.bits(), &outputs)
}

/// The codes of real outputs, one value per bit: a bit is 1 if its value is at least 0.
pub fn signs(bits: Bits, outputs: &[f32]) -> Result<Codes> {
    Ok(Codes::from_signs(bits, outputs)?)
}
