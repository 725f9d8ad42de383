//! The settings of one modality (`[modality.NAME]`), among them the network that it fine-tunes.

use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{MAX_HIDDEN, check};
use crate::image_rows::Augment;
use crate::network::{self, Architecture, Network, Statistics};
use crate::picture::{Preprocessing, Resize};
use crate::prepare::Normalise;
use crate::tower::Depth;
use crate::{Error, Result};

/// Learning rate of a network (paper).
const LEARNING_RATE_NETWORK: f64 = 0.001;
/// Learning rate of the layers after it (paper).
pub(super) const LEARNING_RATE: f64 = 0.01;
/// Smallest share of a picture that a random crop keeps, by default.
const CROP: f64 = 0.5;
/// Names random weights.
const RANDOM: &str = "random";

/// The settings as they are written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// Hidden units.
    hidden: Option<usize>,
    /// Learning rate.
    learning_rate: Option<f64>,
    /// Learning rate of the hidden layer; default `learning_rate`.
    learning_rate_hidden: Option<f64>,
    /// none, standard or unit-length (dense features).
    normalise: Option<Normalise>,
    /// For pictures: one of [`NETWORKS`](crate::network::NETWORKS), trained with the tower. Its
    /// `learning_rate` is then that of the layers after it, default 0.01, and `hidden` is 0.
    network: Option<String>,
    /// The file of its initial weights, or `random`.
    weights: Option<PathBuf>,
    /// Which layers stay fixed: `none` (default), `all`, or `up to LAYER`.
    freeze: Option<String>,
    /// Learning rate of the network; default 0.001.
    learning_rate_network: Option<f64>,
    /// Pixels per side of its pictures; default: the network's.
    size: Option<usize>,
    /// Pictures per forward pass, to bound memory; default: the whole batch.
    micro_batch: Option<usize>,
    /// Statistics of its normalisation layers: `frozen` (default with micro-batches) or `batch`.
    batch_norm: Option<BatchNorm>,
    /// Whether training pictures are augmented (random crops, mirrored); default true.
    augment: Option<bool>,
    /// Smallest share of a picture that a random crop keeps; default 0.5.
    crop: Option<f64>,
}

/// The checked settings of one modality.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModalityConfig {
    pub(crate) hidden: Option<usize>,
    pub(crate) learning_rate: Option<f64>,
    pub(crate) learning_rate_hidden: Option<f64>,
    pub(crate) normalise: Option<Normalise>,
    pub(crate) finetune: Option<Finetune>,
}

impl File {
    pub(super) fn check(&self, name: &str, batch_size: usize) -> Result<ModalityConfig> {
        for (part, rate) in [
            ("learning_rate", self.learning_rate),
            ("learning_rate_hidden", self.learning_rate_hidden),
            ("learning_rate_network", self.learning_rate_network),
        ] {
            if let Some(rate) = rate {
                check::positive(&format!("modality.{name}.{part}"), rate)?;
            }
        }
        let hidden = self.hidden.unwrap_or(0);
        check::at_most(&format!("modality.{name}.hidden"), hidden, MAX_HIDDEN)?;
        Ok(ModalityConfig {
            hidden: self.hidden,
            learning_rate: self.learning_rate,
            learning_rate_hidden: self.learning_rate_hidden,
            normalise: self.normalise,
            finetune: Finetune::new(name, self, batch_size)?,
        })
    }
}

/// Statistics that the normalisation layers of a network use while it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNorm {
    /// Those that came with the weights; they stay fixed.
    Frozen,
    /// Those of the batch; the running statistics are updated.
    Batch,
}

/// A network and how it is fine-tuned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finetune {
    pub(crate) architecture: &'static Architecture,
    weights: Option<PathBuf>, // none: random
    pub(crate) preprocessing: Preprocessing,
    pub(crate) depth: Depth,
    pub(crate) augment: Option<Augment>,
    /// Those of the network and of the layers after it.
    pub(crate) learning_rates: [f64; 2],
}

impl Finetune {
    /// The fine-tuning settings of one modality; `None` if it names no network.
    fn new(name: &str, own: &File, batch_size: usize) -> Result<Option<Finetune>> {
        let key = |part: &str| format!("modality.{name}.{part}");
        let Some(network) = &own.network else {
            let given = [
                ("weights", own.weights.is_some()),
                ("freeze", own.freeze.is_some()),
                ("learning_rate_network", own.learning_rate_network.is_some()),
                ("size", own.size.is_some()),
                ("micro_batch", own.micro_batch.is_some()),
                ("batch_norm", own.batch_norm.is_some()),
                ("augment", own.augment.is_some()),
                ("crop", own.crop.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((part, _)) => Err(Error::content(format!(
                    "{} belongs to a network that is fine-tuned; name one ({} = \"resnet18\")",
                    key(part),
                    key("network")
                ))),
            };
        };
        let in_place = |err: Error| Error::content(format!("{}: {err}", key("network")));
        let architecture = network::named(network).map_err(in_place)?;
        let weights = match own.weights.as_deref() {
            Some(path) if path == Path::new(RANDOM) => None,
            Some(path) => Some(path.to_owned()),
            None => {
                return Err(Error::content(format!(
                    "{}: give the file of its weights ({} = \"FILE.safetensors\" or a .pth file of \
                     torchvision or timm), or \"{RANDOM}\" to train it from random weights",
                    key("network"),
                    key("weights")
                )));
            }
        };
        let bad = |part: &str, value: String, allowed: &str| {
            Err(Error::content(format!("{} = {value}: it must be {allowed}", key(part))))
        };
        let size = own.size.unwrap_or(architecture.size);
        if !(32..=1024).contains(&size) {
            return bad("size", size.to_string(), "32 to 1024 pixels");
        }
        if own.micro_batch == Some(0) {
            return bad("micro_batch", "0".into(), "at least 1");
        }
        let crop = own.crop.unwrap_or(CROP);
        if !(crop > 0.0 && crop <= 1.0) {
            return bad("crop", crop.to_string(), "above 0 and at most 1");
        }
        let frozen = match own.freeze.as_deref().unwrap_or("none") {
            "none" => 0,
            "all" => architecture.depth(),
            other => {
                let layer = other.strip_prefix("backbone ").unwrap_or(other);
                let Some(layer) = layer.strip_prefix("up to ") else {
                    return bad(
                        "freeze",
                        format!("{other:?}"),
                        "none, all, or up to LAYER",
                    );
                };
                let fault =
                    |err: Error| Error::content(format!("{}: {err}", key("freeze")));
                architecture.up_to(layer).map_err(fault)?
            }
        };
        let micro = own.micro_batch.unwrap_or(usize::MAX);
        let default = if micro < batch_size { BatchNorm::Frozen } else { BatchNorm::Batch };
        let statistics = match own.batch_norm.unwrap_or(default) {
            BatchNorm::Frozen => Statistics::Running,
            BatchNorm::Batch => Statistics::Batch,
        };
        Ok(Some(Finetune {
            architecture,
            weights,
            preprocessing: Preprocessing {
                size,
                resize: Resize::Squash,
                ..Preprocessing::imagenet()
            },
            depth: Depth { frozen, micro, statistics },
            augment: own.augment.unwrap_or(true).then_some(Augment { crop, flip: true }),
            learning_rates: [
                own.learning_rate_network.unwrap_or(LEARNING_RATE_NETWORK),
                own.learning_rate.unwrap_or(LEARNING_RATE),
            ],
        }))
    }

    /// The network before the first step.
    pub(crate) fn network(&self, rng: &mut ChaCha8Rng) -> Result<Network> {
        match &self.weights {
            Some(path) => Network::open(self.architecture, path),
            None => Ok(Network::random(self.architecture, rng)),
        }
    }
}
