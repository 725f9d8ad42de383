//! Features of data sets by a backbone; the work is done in `crosshash-features`.

pub use crosshash_features::extract::{Bad, Cache, Extracted, Extraction, Inputs, Rows};

use crate::Result;
use crate::data::Features;

/// Extracts the features of all items. `progress` is called with the number of items done.
pub fn extract(
    how: &Extraction<'_>,
    features: &Features,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Extracted> {
    match features {
        Features::Pictures(pictures) => Ok(how.run(Inputs::Pictures(pictures), progress)?),
        Features::Text(texts) => {
            let texts: Vec<&str> = (0..texts.len()).map(|item| texts.get(item)).collect();
            Ok(how.run(Inputs::Texts(&texts), progress)?)
        }
        other => Err(how.unsupported(other.form()).into()),
    }
}
