//! Checks of one modality of a manifest: fields that have no effect, sources of labels, lengths.

use std::path::Path;

use super::super::Features;
use super::super::manifest::LabelSource;
use super::super::read::Table;
use super::lines;
use super::part::PartOf;
use crate::{Error, Result};

impl PartOf<'_> {
    /// Where the labels are read from; `None` if the data set has none, or takes all of them from texts.
    pub(super) fn label_source(&self) -> Result<Option<&LabelSource>> {
        let (own, common) = (self.source.labels.as_ref(), self.manifest.labels.as_ref());
        let from_text = |labels: &LabelSource| labels.from_text.is_some();
        if own.is_some_and(from_text) {
            return Err(Error::content(
                "labels: from_text belongs to the [labels] of all modalities",
            ));
        }
        match (own, common) {
            (Some(_), Some(common)) if from_text(common) => Err(Error::content(
                "labels: from_text gives labels to all modalities; remove those of this one",
            )),
            (None, Some(common)) if from_text(common) => {
                let alone = LabelSource {
                    from_text: common.from_text.clone(),
                    ..Default::default()
                };
                Ok((*common != alone).then_some(common))
            }
            (Some(labels), _) | (None, Some(labels)) => Ok(Some(labels)),
            (None, None) => {
                let mut all = self.manifest.modality.iter();
                match all.find(|(_, source)| source.labels.is_some()) {
                    None => Ok(None),
                    Some((other, _)) => Err(Error::content(format!(
                        "no labels, but modality {other} has some; add [labels] with column, \
                         matrix or folder"
                    ))),
                }
            }
        }
    }

    /// Rejects fields that have no effect.
    pub(super) fn check_effects(&self, table: bool) -> Result<()> {
        let source = self.source;
        let pictures = source.pictures.is_some();
        let classes = source.class_names.is_some();
        let text = source.text.is_some() || source.captions.is_some() || classes;
        let idle = [
            (source.under.is_some() && !pictures && !classes, "under", "pictures"),
            (source.path.is_some() && !pictures, "path", "pictures"),
            (source.path.is_some() && !table, "path", "a table"),
            (source.analysis.is_some() && !text, "analysis", "text"),
            (
                source.analysis.is_some() && source.backbone.is_some(),
                "analysis",
                "texts without a backbone",
            ),
            (
                source.backbone.is_some() && !pictures && !text,
                "backbone",
                "pictures and text",
            ),
            (source.ids.is_some() && pictures, "ids", "features without a table"),
            (source.ids.is_some() && table, "ids", "features without a table"),
        ];
        if let Some((_, field, of)) = idle.iter().find(|(idle, ..)| *idle) {
            return Err(Error::content(format!(
                "{field} has no effect here: it applies to {of}; remove it"
            )));
        }
        match source.analysis.as_ref().map(|analysis| analysis.max_share) {
            Some(share) if !(0.0..=1.0).contains(&share) => Err(Error::content(format!(
                "analysis: max_share must be between 0 and 1, not {share}"
            ))),
            _ => Ok(()),
        }
    }

    /// The ids of a file with one id per line.
    pub(super) fn listed_ids(&self, file: &Path) -> Result<Vec<String>> {
        let path = self.root.join(file);
        let ids = lines(&path)?;
        match ids.iter().zip(1..).find(|(id, _)| id.is_empty()) {
            Some((_, line)) => {
                let what = "the id is empty; every item needs an id";
                Err(Error::row(crate::Place::Line(line), what).at(&path))
            }
            None => Ok(ids),
        }
    }

    pub(super) fn check_lengths(
        &self,
        features: &Features,
        ids: usize,
        table: Option<&Table>,
    ) -> Result<()> {
        let rows = features.len();
        let expected = table.map_or(ids, Table::len);
        if rows != expected || ids != expected {
            let what = if table.is_some() { "the item table" } else { "the file of ids" };
            return Err(Error::content(format!(
                "{} rows of features, but {what} has {}",
                rows,
                if ids == expected { expected } else { ids }
            )));
        }
        Ok(())
    }
}
