//! Preparation: from the features of a modality to the rows that its tower takes; fitted on
//! training items, saved with the model, applied to any item.

use serde::{Deserialize, Serialize};

use crate::data::{
    Dense, Features, Normaliser, Sparse, Standardiser, Training, Vocabulary,
};
use crate::image_rows::{Augment, Look, PixelRows};
use crate::network::{self, Architecture};
use crate::picture::Preprocessing;
use crate::rbf::Kernel;
use crate::tower::Batch;
use crate::{Error, Result};

/// Rows that a kernel takes at a time.
const BLOCK: usize = 1024;

/// How items of one modality become numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preparation {
    /// Dense rows, normalised.
    Dense {
        /// Numbers per item.
        width: usize,
        /// What is done to each row.
        normaliser: Normaliser,
    },
    /// Sparse rows as they are.
    Sparse {
        /// Numbers per item.
        width: usize,
    },
    /// Texts as terms of a vocabulary.
    Text(Vocabulary),
    /// Nearness of prepared rows to some centres.
    Kernel {
        /// How rows are prepared before.
        rows: Box<Preparation>,
        /// The centres.
        kernel: Kernel,
    },
    /// Pictures, for the network of a tower.
    Pixels {
        /// How each picture is preprocessed.
        #[serde(rename = "recipe")]
        preprocessing: Preprocessing,
        /// The network.
        #[serde(with = "by_name")]
        network: &'static Architecture,
    },
}

/// A network stands in files by its name.
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

/// What to do with dense rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// Nothing.
    None,
    /// Every feature to mean 0 and deviation 1 over the training items.
    Standard,
    /// Every row to length 1.
    UnitLength,
}

impl Preparation {
    /// Learns from the training items of a modality.
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
                "modality {modality} is {form}: a tower takes rows of numbers or texts. Name the \
                 backbone that makes rows of them: backbone = \"efficientnet-lite0\" under \
                 [modality.{modality}] in the manifest, or --backbone \
                 {modality}=efficientnet-lite0 (`crosshash backbones` lists them); or let a \
                 network learn from them (modality.{modality}.network)"
            ))),
        }
    }

    /// The same, texts scaled so that rows as long as `now` become as long as `wanted`: a text
    /// and a picture then start with first layers that learn equally fast. Other preparations
    /// stay as they are.
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

    /// Numbers per row.
    pub fn width(&self) -> usize {
        match self {
            Preparation::Dense { width, .. } | Preparation::Sparse { width } => *width,
            Preparation::Text(vocabulary) => vocabulary.len(),
            Preparation::Kernel { kernel, .. } => kernel.len(),
            Preparation::Pixels { network, .. } => network.width,
        }
    }

    /// The network that takes the pictures, if this is of pictures.
    pub fn network(&self) -> Option<&'static Architecture> {
        match self {
            Preparation::Pixels { network, .. } => Some(network),
            _ => None,
        }
    }

    /// Whether rows come sparse.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Preparation::Sparse { .. } | Preparation::Text(_))
    }

    /// Whether it takes texts.
    pub fn is_text(&self) -> bool {
        match self {
            Preparation::Kernel { rows, .. } => rows.is_text(),
            other => matches!(other, Preparation::Text(_)),
        }
    }

    /// Items as rows; refuses features of another form or width.
    pub(crate) fn rows(&self, features: Features) -> Result<Rows> {
        if let Preparation::Kernel { rows, kernel } = self {
            return rows.rows(features)?.rbf_features(kernel);
        }
        let (form, width) = (features.form(), features.width());
        let given = match width {
            Some(width) => format!("{form} rows of {width} numbers"),
            None => form.to_owned(),
        };
        let refused = |wanted: String| {
            Error::content(format!("the features are {given}, the model takes {wanted}"))
        };
        match (self, features) {
            (Preparation::Dense { width, normaliser }, Features::Dense(rows)) => {
                if rows.width() == *width {
                    Ok(Rows::Dense(rows, normaliser.clone()))
                } else {
                    Err(refused(format!("dense rows of {width} numbers")))
                }
            }
            (Preparation::Sparse { width }, Features::Sparse(rows)) => {
                if rows.width() == *width {
                    Ok(Rows::Sparse(rows))
                } else {
                    Err(refused(format!("sparse rows of {width} numbers")))
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
                Err(refused(format!("dense rows of {width} numbers")))
            }
            (Preparation::Sparse { width }, _) => {
                Err(refused(format!("sparse rows of {width} numbers")))
            }
        }
    }
}

/// Items ready for a tower; dense ones may stay on disk.
#[derive(Debug, Clone)]
pub(crate) enum Rows {
    /// Dense, normalised as they are read.
    Dense(Dense, Normaliser),
    /// Sparse.
    Sparse(Sparse),
    /// Pictures, decoded as they are read.
    Pixels(PixelRows),
}

impl Rows {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Rows::Dense(rows, _) => rows.len(),
            Rows::Sparse(rows) => rows.len(),
            Rows::Pixels(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their nearness to the centres of a kernel, as dense rows.
    pub(crate) fn rbf_features(&self, kernel: &Kernel) -> Result<Rows> {
        let all: Vec<usize> = (0..self.len()).collect();
        let mut out = Vec::with_capacity(all.len() * kernel.len());
        for block in all.chunks(BLOCK) {
            out.extend(kernel.apply(&self.batch(block)?));
        }
        Ok(Rows::Dense(Dense::from_floats(kernel.len(), out)?, Normaliser::None))
    }

    /// The root of the mean squared length of rows; of at most `most` of them, evenly spaced.
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
                    return Err(Error::content("pictures have no length before a network"));
                }
            };
        }
        Ok((sum / items.len().max(1) as f64).sqrt())
    }

    /// The rows with these numbers.
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

    /// The same to learn from: pictures may vary.
    pub(crate) fn training_batch(
        &self,
        items: &[usize],
        look: Look,
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
    fn only_every_so_many_rows_are_read() {
        let dense = Dense::from_floats(1, vec![1.0, 9.0, 1.0, 9.0]).unwrap();
        let rows = Rows::Dense(dense, Normaliser::None);
        assert!((rows.typical_length(2).unwrap() - 1.0).abs() < 1e-12);
    }
}
