//! Preparation: converts the features of a modality to the inputs of its tower. Fitted on training
//! items, saved with the model, applied to any item.

use serde::{Deserialize, Serialize};

use crate::data::{
    Dense, Features, Normaliser, Sparse, Standardiser, Training, Vocabulary,
};
use crate::image_rows::{Augment, AugmentSeed, PixelRows};
use crate::network::{self, Architecture};
use crate::picture::Preprocessing;
use crate::rbf::Kernel;
use crate::tower::Batch;
use crate::{Error, Result};

/// Rows per block of kernel features.
const BLOCK: usize = 1024;

/// How features of one modality are converted to tower inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preparation {
    /// Dense rows, normalised.
    Dense {
        /// Numbers per item.
        width: usize,
        /// Normalisation of each row.
        normaliser: Normaliser,
    },
    /// Sparse rows, unchanged.
    Sparse {
        /// Numbers per item.
        width: usize,
    },
    /// Texts as bags of words.
    Text(Vocabulary),
    /// RBF kernel features of prepared rows.
    Kernel {
        /// Preparation before the kernel.
        rows: Box<Preparation>,
        /// The kernel.
        kernel: Kernel,
    },
    /// Pictures for a fine-tuned network.
    Pixels {
        /// How each picture is preprocessed.
        #[serde(rename = "recipe")]
        preprocessing: Preprocessing,
        /// The network.
        #[serde(with = "by_name")]
        network: &'static Architecture,
    },
}

/// Serialises a network by its name.
mod by_name {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::{Architecture, network};

    pub(super) fn serialize<S: Serializer>(
        network: &&'static Architecture,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        network.name.serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<&'static Architecture, D::Error> {
        network::named(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// Normalisation of dense rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// No normalisation.
    None,
    /// Standardise each feature to mean 0 and standard deviation 1 over the training items.
    Standard,
    /// Scale each row to length 1.
    UnitLength,
}

impl Preparation {
    /// Fits a preparation on the training items of a modality.
    pub(crate) fn fit(
        training: &Training<'_>,
        modality: &str,
        normalise: Normalise,
    ) -> Result<Preparation> {
        let view = training.train(modality)?;
        match (view.form(), view.width()) {
            ("text", _) => Ok(Preparation::Text(Vocabulary::fit(
                training,
                modality,
                training.analysis(modality)?,
            )?)),
            ("dense", Some(width)) => {
                let normaliser = match normalise {
                    Normalise::None => Normaliser::None,
                    Normalise::UnitLength => Normaliser::UnitLength,
                    Normalise::Standard => {
                        Normaliser::Standard(Standardiser::fit(training, modality)?)
                    }
                };
                Ok(Preparation::Dense { width, normaliser })
            }
            ("sparse", Some(width)) => Ok(Preparation::Sparse { width }),
            (form, _) => Err(Error::content(format!(
                "modality {modality} contains raw {form}; choose a backbone to extract features: \
                 backbone = \"efficientnet-lite0\" under [modality.{modality}] in the manifest, or \
                 --backbone {modality}=efficientnet-lite0 (`crosshash backbones` lists them); or \
                 fine-tune a network (modality.{modality}.network)"
            ))),
        }
    }

    /// Scales texts so that rows of length `now` get length `wanted`: the first layers of texts and
    /// pictures then learn equally fast. Other preparations are unchanged.
    #[must_use]
    pub fn scale_texts(self, now: f64, wanted: f64) -> Preparation {
        match self {
            Preparation::Text(vocabulary) if now > 0.0 => {
                #[expect(clippy::cast_possible_truncation, reason = "features are single")]
                let factor = (wanted / now) as f32;
                let scale = vocabulary.scale() * factor;
                Preparation::Text(vocabulary.with_scale(scale))
            }
            other => other,
        }
    }

    /// Number of input values per item.
    pub fn width(&self) -> usize {
        match self {
            Preparation::Dense { width, .. } | Preparation::Sparse { width } => *width,
            Preparation::Text(vocabulary) => vocabulary.len(),
            Preparation::Kernel { kernel, .. } => kernel.len(),
            Preparation::Pixels { network, .. } => network.width,
        }
    }

    /// The fine-tuned network, for pictures.
    pub fn network(&self) -> Option<&'static Architecture> {
        match self {
            Preparation::Pixels { network, .. } => Some(network),
            _ => None,
        }
    }

    /// Whether rows are sparse.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Preparation::Sparse { .. } | Preparation::Text(_))
    }

    /// Whether the features are texts.
    pub fn is_text(&self) -> bool {
        match self {
            Preparation::Kernel { rows, .. } => rows.is_text(),
            other => matches!(other, Preparation::Text(_)),
        }
    }

    /// Prepares items; fails if the features have another form or width.
    pub(crate) fn rows(&self, features: Features) -> Result<Rows> {
        if let Preparation::Kernel { rows, kernel } = self {
            return rows.rows(features)?.rbf_features(kernel);
        }
        let (form, width) = (features.form(), features.width());
        let given = match width {
            Some(width) => format!("{form} rows with {width} features"),
            None => form.to_owned(),
        };
        let refused = |wanted: String| {
            Error::content(format!("the features are {given}, the model expects {wanted}"))
        };
        match (self, features) {
            (Preparation::Dense { width, normaliser }, Features::Dense(rows)) => {
                if rows.width() == *width {
                    Ok(Rows::Dense(rows, normaliser.clone()))
                } else {
                    Err(refused(format!("dense rows with {width} features")))
                }
            }
            (Preparation::Sparse { width }, Features::Sparse(rows)) => {
                if rows.width() == *width {
                    Ok(Rows::Sparse(rows))
                } else {
                    Err(refused(format!("sparse rows with {width} features")))
                }
            }
            (Preparation::Text(vocabulary), Features::Text(texts)) => {
                Ok(Rows::Sparse(vocabulary.rows(&texts)?))
            }
            (Preparation::Pixels { preprocessing, .. }, Features::Pictures(pictures)) => {
                Ok(Rows::Pixels(PixelRows::new(pictures, preprocessing.clone())))
            }
            (Preparation::Pixels { .. }, _) => Err(refused("pictures".into())),
            (Preparation::Text(_) | Preparation::Kernel { .. }, _) => {
                Err(refused("text".into()))
            }
            (Preparation::Dense { width, .. }, _) => {
                Err(refused(format!("dense rows with {width} features")))
            }
            (Preparation::Sparse { width }, _) => {
                Err(refused(format!("sparse rows with {width} features")))
            }
        }
    }
}

/// Prepared items; dense ones may stay on disk.
#[derive(Debug, Clone)]
pub(crate) enum Rows {
    /// Dense, normalised when read.
    Dense(Dense, Normaliser),
    /// Sparse.
    Sparse(Sparse),
    /// Pictures, decoded when read.
    Pixels(PixelRows),
}

impl Rows {
    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Dense(rows, _) => rows.len(),
            Rows::Sparse(rows) => rows.len(),
            Rows::Pixels(rows) => rows.len(),
        }
    }

    /// Whether there are no items.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// RBF kernel features, as dense rows.
    pub(crate) fn rbf_features(&self, kernel: &Kernel) -> Result<Rows> {
        let all: Vec<usize> = (0..self.len()).collect();
        let mut out = Vec::with_capacity(all.len() * kernel.len());
        for block in all.chunks(BLOCK) {
            out.extend(kernel.apply(&self.batch(block)?));
        }
        Ok(Rows::Dense(Dense::from_floats(kernel.len(), out)?, Normaliser::None))
    }

    /// Root mean square length of at most `most` evenly spaced rows.
    pub(crate) fn typical_length(&self, most: usize) -> Result<f64> {
        let every = self.len().div_ceil(most.max(1)).max(1);
        let items: Vec<usize> = (0..self.len()).step_by(every).collect();
        let mut sum = 0.0;
        for block in items.chunks(BLOCK) {
            let square = |x: &f32| f64::from(*x) * f64::from(*x);
            sum += match self.batch(block)? {
                Batch::Dense(rows) => rows.iter().map(square).sum::<f64>(),
                Batch::Sparse(rows) => {
                    let row = |item| rows.row(item).1.iter().map(square).sum::<f64>();
                    (0..rows.len()).map(row).sum::<f64>()
                }
                Batch::Pixels(_) => {
                    return Err(Error::content("the length of pictures is undefined"));
                }
            };
        }
        Ok((sum / items.len().max(1) as f64).sqrt())
    }

    /// The rows of the given items.
    pub(crate) fn batch(&self, items: &[usize]) -> Result<Batch> {
        match self {
            Rows::Dense(rows, normaliser) => {
                let mut out = vec![0.0; items.len() * rows.width()];
                rows.gather(items, &mut out)?;
                out.chunks_exact_mut(rows.width()).for_each(|row| normaliser.apply(row));
                Ok(Batch::Dense(out))
            }
            Rows::Sparse(rows) => Ok(Batch::Sparse(rows.select(items))),
            Rows::Pixels(rows) => Ok(Batch::Pixels(rows.batch(items, None)?)),
        }
    }

    /// The rows of the given items for training; pictures are augmented.
    pub(crate) fn training_batch(
        &self,
        items: &[usize],
        look: AugmentSeed,
        augment: Option<Augment>,
    ) -> Result<Batch> {
        match (self, augment) {
            (Rows::Pixels(rows), Some(augment)) => {
                Ok(Batch::Pixels(rows.batch(items, Some((look, augment)))?))
            }
            _ => self.batch(items),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Analysis, Texts};

    #[test]
    fn scaled_texts_are_as_long_as_dense_rows() {
        let dense = Dense::from_floats(2, vec![3.0, 4.0, 0.0, 1.0]).unwrap();
        let dense = Rows::Dense(dense, Normaliser::None);
        let wanted = dense.typical_length(100).unwrap();
        assert!((wanted - 13.0_f64.sqrt()).abs() < 1e-12);
        let texts: Texts =
            ["a cat", "a dog and a cat", "rain"].iter().map(ToString::to_string).collect();
        let vocabulary = Vocabulary::of_texts(&texts, &Analysis::default());
        let preparation = Preparation::Text(vocabulary);
        let rows = |p: &Preparation| p.rows(Features::Text(texts.clone())).unwrap();
        let now = rows(&preparation).typical_length(100).unwrap();
        let scaled = preparation.scale_texts(now, wanted);
        let length = rows(&scaled).typical_length(100).unwrap();
        assert!((length - wanted).abs() < 1e-5, "{length} for {wanted}");
        // Saved with the model.
        let saved = serde_json::to_string(&scaled).unwrap();
        assert_eq!(serde_json::from_str::<Preparation>(&saved).unwrap(), scaled);
    }

    #[test]
    fn typical_length_reads_evenly_spaced_rows() {
        let dense = Dense::from_floats(1, vec![1.0, 9.0, 1.0, 9.0]).unwrap();
        let rows = Rows::Dense(dense, Normaliser::None);
        assert!((rows.typical_length(2).unwrap() - 1.0).abs() < 1e-12);
    }
}
