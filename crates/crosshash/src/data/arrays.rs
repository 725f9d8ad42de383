//! Data sets from arrays: features of every modality by row, and labels by row, if there are any.

use std::path::Path;

use crosshash_codes::Labels;

use super::{Dataset, Features, Modality};
use crate::Result;

/// The labels of items of a data set without labels.
pub(crate) fn no_labels(items: usize) -> Result<Labels> {
    Ok(Labels::from_indices(0, std::iter::repeat_n([0_u32; 0], items))?)
}

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

    /// A data set of paired items without labels: row `i` of every modality is item `i`. Ids are numbers.
    pub fn from_pairs<'a>(
        modalities: impl IntoIterator<Item = (&'a str, Features)>,
    ) -> Result<Dataset> {
        let one = |(name, features): (&'a str, Features)| {
            let ids = (0..features.len()).map(|item| item.to_string()).collect();
            let labels = no_labels(features.len())?;
            Modality::new(name, ids, features, labels)
        };
        let modalities = modalities.into_iter().map(one).collect::<Result<Vec<_>>>()?;
        Dataset::new("arrays", Vec::new(), modalities)
    }
}
