//! `Modality`: items of one kind with ids, features and labels; and `View`, a subset of them.

use std::collections::HashMap;

use crosshash_codes::Labels;
use crosshash_features::backbone::FeatureSource;

use super::{Analysis, Features};
use crate::{Error, Result};

/// The items of one modality. Items of different modalities with the same pair key, by default the id,
/// are pairs.
#[derive(Debug, Clone)]
pub struct Modality {
    name: String,
    ids: Vec<String>, // invariant: no two equal; as many as features and labels
    features: Features,
    labels: Labels,
    pairs: Option<Vec<String>>, // default: the ids
    groups: Option<Vec<String>>,
    marks: Option<Vec<String>>,
    feature_source: Option<FeatureSource>,
    analysis: Analysis, // of texts
}

impl Modality {
    /// Checks that there is one id, one row of features and one of labels per item, and that no
    /// id occurs twice.
    pub fn new(
        name: impl Into<String>,
        ids: Vec<String>,
        features: Features,
        labels: Labels,
    ) -> Result<Modality> {
        let name = name.into();
        for (what, got) in [("features", features.len()), ("labels", labels.len())] {
            if got != ids.len() {
                return Err(Error::content(format!(
                    "modality {name} has {} ids but {got} rows of {what}; there must be one \
                     per item",
                    ids.len()
                )));
            }
        }
        let mut seen = HashMap::with_capacity(ids.len());
        for (second, id) in ids.iter().enumerate() {
            if let Some(first) = seen.insert(id.as_str(), second) {
                let id = id.clone();
                return Err(Error::DuplicateId { modality: name, id, first, second });
            }
        }
        Ok(Modality {
            name,
            ids,
            features,
            labels,
            pairs: None,
            groups: None,
            marks: None,
            feature_source: None,
            analysis: Analysis::default(),
        })
    }

    /// Sets the pair key of each item; an item with an empty key has its id as the key. All items of one key
    /// are pairs of all items of that key in other modalities: five captions of one picture, many sketches
    /// of one photo.
    pub fn with_pairs(mut self, keys: Vec<String>) -> Result<Modality> {
        self.check_one_each("pair keys", keys.len())?;
        self.pairs = Some(keys);
        Ok(self)
    }

    /// Replaces the labels.
    pub fn with_labels(self, labels: Labels) -> Result<Modality> {
        self.check_one_each("rows of labels", labels.len())?;
        Ok(Modality { labels, ..self })
    }

    /// Sets the group of each item. Items of a group, of any modality, are never split between training
    /// and queries.
    pub fn with_groups(mut self, groups: Vec<String>) -> Result<Modality> {
        self.check_one_each("groups", groups.len())?;
        self.groups = Some(groups);
        Ok(self)
    }

    /// Sets the value of the split column ("train", "test", ...) of each item, for
    /// [`Selection::Marked`](super::Selection::Marked).
    pub fn with_marks(mut self, marks: Vec<String>) -> Result<Modality> {
        self.check_one_each("split marks", marks.len())?;
        self.marks = Some(marks);
        Ok(self)
    }

    /// Sets the backbone that extracted the features.
    #[must_use]
    pub fn with_feature_source(mut self, feature_source: FeatureSource) -> Modality {
        self.feature_source = Some(feature_source);
        self
    }

    /// Replaces the features by those of a backbone.
    pub fn with_features(
        self,
        features: Features,
        feature_source: FeatureSource,
    ) -> Result<Modality> {
        self.check_one_each("rows of features", features.len())?;
        Ok(Modality { features, feature_source: Some(feature_source), ..self })
    }

    /// Sets how its texts are analysed.
    #[must_use]
    pub fn with_analysis(mut self, analysis: Analysis) -> Modality {
        self.analysis = analysis;
        self
    }

    /// How its texts are analysed.
    pub fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The backbone that extracted the features, if any.
    pub fn feature_source(&self) -> Option<&FeatureSource> {
        self.feature_source.as_ref()
    }

    /// The items with these numbers, in this order.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Modality {
        let some = |all: &Vec<String>| -> Vec<String> {
            items.iter().map(|&item| all[item].clone()).collect()
        };
        Modality {
            name: self.name.clone(),
            ids: some(&self.ids),
            features: self.features.select(items),
            labels: self.labels.select(items),
            pairs: self.pairs.as_ref().map(some),
            groups: self.groups.as_ref().map(some),
            marks: self.marks.as_ref().map(some),
            feature_source: self.feature_source.clone(),
            analysis: self.analysis.clone(),
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The ids, by item.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The features, by item.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The labels, by item.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The pair key of an item: its id, unless keys are set.
    pub fn pair_key(&self, item: usize) -> &str {
        let own = self.pairs.as_ref().map(|keys| keys[item].as_str());
        own.filter(|key| !key.is_empty()).unwrap_or(&self.ids[item])
    }

    /// Whether pair keys are set.
    pub fn has_pair_keys(&self) -> bool {
        self.pairs.is_some()
    }

    /// The groups, by item, if there are any.
    pub fn groups(&self) -> Option<&[String]> {
        self.groups.as_deref()
    }

    /// The values of the split column, by item, if there is one.
    pub fn marks(&self) -> Option<&[String]> {
        self.marks.as_deref()
    }

    /// The group of an item, if it is not empty.
    pub fn group(&self, item: usize) -> Option<&str> {
        self.groups.as_ref().map(|groups| groups[item].as_str()).filter(|g| !g.is_empty())
    }

    /// The key that keeps items together in a split: the group of an item, or its pair key.
    pub fn unit(&self, item: usize) -> &str {
        self.group(item).unwrap_or_else(|| self.pair_key(item))
    }

    /// A subset of the items.
    pub fn view<'a>(&'a self, items: &'a [usize]) -> View<'a> {
        View { modality: self, items }
    }

    fn check_one_each(&self, what: &str, got: usize) -> Result<()> {
        if got != self.ids.len() {
            return Err(Error::content(format!(
                "modality {} has {} items but {got} {what}; there must be one per item",
                self.name,
                self.ids.len()
            )));
        }
        Ok(())
    }
}

/// A subset of the items of a modality, by position; it gives no access to other items.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    modality: &'a Modality,
    items: &'a [usize],
}

impl<'a> View<'a> {
    /// The name of the modality.
    pub fn name(&self) -> &'a str {
        &self.modality.name
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The backbone that extracted the features, if any.
    pub fn feature_source(&self) -> Option<&'a FeatureSource> {
        self.modality.feature_source()
    }

    /// The form of the features: dense, sparse, text or pictures.
    pub fn form(&self) -> &'static str {
        self.modality.features.form()
    }

    /// Number of features, if they are dense or sparse.
    pub fn width(&self) -> Option<usize> {
        self.modality.features.width()
    }

    /// The id at a position.
    pub fn id(&self, position: usize) -> &'a str {
        &self.modality.ids[self.items[position]]
    }

    /// The pair key at a position: the id, unless the data set has other keys.
    pub fn pair_key(&self, position: usize) -> &'a str {
        self.modality.pair_key(self.items[position])
    }

    /// Whether the data set sets pair keys other than the ids.
    pub fn has_pair_keys(&self) -> bool {
        self.modality.has_pair_keys()
    }

    /// The labels of the items, in order.
    pub fn labels(&self) -> Labels {
        self.modality.labels.select(self.items)
    }

    /// The features of the items, in order; dense features are not copied.
    pub fn features(&self) -> Features {
        self.modality.features.select(self.items)
    }

    /// The text at a position, if this is a text modality.
    pub fn text(&self, position: usize) -> Option<&'a str> {
        match &self.modality.features {
            Features::Text(texts) => Some(texts.get(self.items[position])),
            _ => None,
        }
    }

    /// Columns and values at a position, if the features are sparse.
    pub fn sparse(&self, position: usize) -> Option<(&'a [u32], &'a [f32])> {
        match &self.modality.features {
            Features::Sparse(sparse) => Some(sparse.row(self.items[position])),
            _ => None,
        }
    }

    /// Reads the rows at these positions into `out`, as dense rows.
    pub fn read(&self, positions: &[usize], out: &mut [f32]) -> Result<()> {
        match &self.modality.features {
            Features::Dense(dense) => {
                let items: Vec<usize> =
                    positions.iter().map(|&at| self.items[at]).collect();
                dense.gather(&items, out)
            }
            Features::Sparse(sparse) => {
                let width = sparse.width();
                assert_eq!(
                    out.len(),
                    positions.len() * width,
                    "the buffer has the wrong size"
                );
                for (&at, row) in positions.iter().zip(out.chunks_exact_mut(width)) {
                    sparse.read(self.items[at], row);
                }
                Ok(())
            }
            other => Err(Error::content(format!(
                "modality {} contains {}: extract or fit features first",
                self.modality.name,
                other.form()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dense;

    fn features(rows: usize) -> Features {
        Features::Dense(Dense::from_floats(1, vec![0.0; rows]).unwrap())
    }

    #[test]
    fn counts_and_ids_are_checked() {
        let ids = |names: &[&str]| names.iter().map(|&id| id.to_owned()).collect();
        let labels = Labels::from_indices(2, vec![vec![0_u32]; 2]).unwrap();
        let err = Modality::new("image", ids(&["a", "b"]), features(3), labels.clone());
        assert_eq!(
            err.unwrap_err().to_string(),
            "modality image has 2 ids but 3 rows of features; there must be one per item"
        );
        let image =
            Modality::new("image", ids(&["a", "b"]), features(2), labels.clone()).unwrap();
        assert_eq!((image.pair_key(1), image.has_pair_keys()), ("b", false));
        let image = image.with_pairs(ids(&["k", ""])).unwrap();
        assert_eq!((image.pair_key(0), image.pair_key(1)), ("k", "b"));
        assert_eq!((image.unit(0), image.select(&[1, 0]).pair_key(1)), ("k", "k"));
        assert_eq!(
            image.with_pairs(ids(&["k"])).unwrap_err().to_string(),
            "modality image has 2 items but 1 pair keys; there must be one per item"
        );
        let err = Modality::new("image", ids(&["a", "a"]), features(2), labels);
        assert_eq!(
            err.unwrap_err().to_string(),
            "id \"a\" occurs twice in modality image: items 0 and 1; ids name one item each"
        );
    }
}
