//! Encoding: from features to codes, for every method. Real numbers end here: the sign is taken
//! once, by [`Codes::from_signs`].

use crosshash_codes::{Bits, Codes};

use crate::Result;
use crate::data::Features;

/// Anything that gives real outputs for items of some modalities.
pub trait Encoder: Sync {
    /// The code length.
    fn bits(&self) -> Bits;

    /// The modalities it knows.
    fn modalities(&self) -> Vec<&str>;

    /// Real outputs of items, by rows of as many numbers as bits; `progress` hears how many
    /// items are done.
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
    Ok(Codes::from_signs(encoder.bits(), &outputs)?)
}
