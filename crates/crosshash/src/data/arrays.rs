//! Data sets from arrays: features of every modality by row, and labels by row.

use std::path::Path;

use crosshash_codes::Labels;

use super::{Dataset, Features, Modality};
use crate::Result;

impl Features {
    /// Reads an array of features (.npy, .npz, .mat, .csv, .parquet, ...), one row per item.
    pub fn read(path: impl AsRef<Path>) -> Result<Features> {
        super::items(path.as_ref(), false)
    }
}

impl Dataset {
    /// A data set of paired items: row `i` of every modality is item `i`, with row `i` of the
    /// labels. Ids and label names are numbers.
    pub fn from_arrays<'a>(
        labels: &Labels,
        modalities: impl IntoIterator<Item = (&'a str, Features)>,
    ) -> Result<Dataset> {
        let ids: Vec<String> = (0..labels.len()).map(|item| item.to_string()).collect();
        let names = (0..labels.classes()).map(|label| label.to_string()).collect();
        let modalities = modalities
            .into_iter()
            .map(|(name, features)| {
                Modality::new(name, ids.clone(), features, labels.clone())
            })
            .collect::<Result<Vec<_>>>()?;
        Dataset::new("arrays", names, modalities)
    }
}
