//! Preparation: from the features of a modality to the rows that its tower takes; fitted on
//! training items, saved with the model, applied to any item.

use serde::{Deserialize, Serialize};

use crate::data::{
    Dense, Features, Normaliser, Sparse, Standardiser, Training, Vocabulary,
};
use crate::image_rows::{Augment, Look, PixelRows};
use crate::network::{self, Architecture};
use crate::picture::Recipe;
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
        /// What is done to each.
        recipe: Recipe,
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
                match rows.width() == *width {
                    true => Ok(Rows::Dense(rows, normaliser.clone())),
                    false => Err(refused(format!("dense rows of {width} numbers"))),
                }
            }
            (Preparation::Sparse { width }, Features::Sparse(rows)) => {
                match rows.width() == *width {
                    true => Ok(Rows::Sparse(rows)),
                    false => Err(refused(format!("sparse rows of {width} numbers"))),
                }
            }
            (Preparation::Text(vocabulary), Features::Text(texts)) => {
                Ok(Rows::Sparse(vocabulary.rows(&texts)?))
            }
            (Preparation::Pixels { recipe, .. }, Features::Pictures(pictures)) => {
                Ok(Rows::Pixels(PixelRows::new(pictures, recipe.clone())))
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
