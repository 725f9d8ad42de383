//! What a run says of a network that is tuned: the settings of `[modality.NAME]` that begin with
//! `network`, checked.

use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::config::RawModality;
use crate::network::{self, Architecture, Network, Statistics};
use crate::picture::{Recipe, Resize};
use crate::pixels::Augment;
use crate::tower::Depth;
use crate::{Error, Result};

/// The learning rate of a network (paper).
const RATE_NETWORK: f64 = 0.001;
/// The learning rate of the layers after it (paper).
const RATE: f64 = 0.01;
/// The smallest share of a picture that training sees, where nothing is said.
const CROP: f64 = 0.5;
/// Weights that are drawn.
const RANDOM: &str = "random";

/// What normalisations of a network take while it learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNorm {
    /// The statistics that came with the weights, and stay as they are.
    Frozen,
    /// Those of the batch; the running ones follow.
    Batch,
}

/// A network and how it is tuned.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tuning {
    pub(crate) architecture: &'static Architecture,
    weights: Option<PathBuf>, // none: random
    pub(crate) recipe: Recipe,
    pub(crate) depth: Depth,
    pub(crate) augment: Option<Augment>,
    /// Of the network and of the layers after it.
    pub(crate) rates: [f64; 2],
}

impl Tuning {
    /// What one modality says; `None` if it names no network.
    pub(crate) fn new(
        name: &str,
        own: &RawModality,
        batch: usize,
    ) -> Result<Option<Tuning>> {
        let key = |part: &str| format!("modality.{name}.{part}");
        let Some(network) = &own.network else {
            let given = [
                ("weights", own.weights.is_some()),
                ("freeze", own.freeze.is_some()),
                ("rate_network", own.rate_network.is_some()),
                ("size", own.size.is_some()),
                ("micro_batch", own.micro_batch.is_some()),
                ("batch_norm", own.batch_norm.is_some()),
                ("augment", own.augment.is_some()),
                ("crop", own.crop.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((part, _)) => Err(Error::content(format!(
                    "{} is of a network that is tuned: name one ({} = \"resnet18\")",
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
                    "{}: say where its weights are ({} = \"FILE.safetensors\" or a .pth file of \
                     torchvision or timm), or \"{RANDOM}\" to train it from the first picture on",
                    key("network"),
                    key("weights")
                )));
            }
        };
        let bad = |part: &str, value: String, wanted: &str| {
            Err(Error::content(format!("{} = {value}: it must be {wanted}", key(part))))
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
        let default = if micro < batch { BatchNorm::Frozen } else { BatchNorm::Batch };
        let statistics = match own.batch_norm.unwrap_or(default) {
            BatchNorm::Frozen => Statistics::Running,
            BatchNorm::Batch => Statistics::Batch,
        };
        Ok(Some(Tuning {
            architecture,
            weights,
            recipe: Recipe { size, resize: Resize::Squash, ..Recipe::imagenet() },
            depth: Depth { frozen, micro, statistics },
            augment: own.augment.unwrap_or(true).then_some(Augment { crop, flip: true }),
            rates: [own.rate_network.unwrap_or(RATE_NETWORK), own.rate.unwrap_or(RATE)],
        }))
    }

    /// The network as it is before the first step.
    pub(crate) fn network(&self, rng: &mut ChaCha8Rng) -> Result<Network> {
        match &self.weights {
            Some(path) => Network::open(self.architecture, path),
            None => Ok(Network::random(self.architecture, rng)),
        }
    }
}
