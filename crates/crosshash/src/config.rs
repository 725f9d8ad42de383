//! The configuration of a run: [`RawRun`] is what was typed, [`Run`] what code may trust, and
//! only [`RawRun::check`] makes one.
//!
//! An empty file is valid, a key that does not exist is an error. Defaults are those of the
//! paper where it has them (it does not give batch, epochs or schedule), but for the learning
//! rate: 0.1 where the paper has 0.01 to 0.03, because towers here stand on frozen, standardised
//! features, and validation MAP rises with the rate up to about 0.1 on every data set tried
//! (`docs/training.md`).
//!
//! ```
//! use crosshash::config::RawRun;
//!
//! let raw = RawRun::parse("epochs = 3", &["lambda=0.04".to_owned()])?;
//! assert_eq!((raw.epochs, raw.lambda, raw.bits), (3, 0.04, 64));
//! let run = raw.check()?;
//! assert_eq!(run.method.name(), "jcch");
//! assert!(RawRun::parse("epoch = 3", &[]).is_err());
//! # Ok::<(), crosshash::Error>(())
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use crosshash_codes::Bits;
use serde::{Deserialize, Serialize};

use crate::method::{self, Method, cca, dcmh, itq, jcch::Weights, seph};
use crate::prepare::{Normalise, Preparation};
use crate::supervise::{Kind, Scale};
use crate::tower::Shape;
pub use crate::tune::BatchNorm;
use crate::tune::Tuning;
use crate::{Error, Result};

/// A run as typed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawRun {
    /// One of [`METHODS`](crate::method::METHODS), e.g. jcch.
    pub method: String,
    /// Code length.
    pub bits: usize,
    /// Seed of weights and batches.
    pub seed: u64,
    /// The modalities to learn, in order; none means all.
    pub modalities: Vec<String>,
    /// Passes over the training items.
    pub epochs: usize,
    /// Ids per step (unpaired: items of each modality), evened out over the steps of an epoch:
    /// 10,000 ids in batches of 128 make 78 steps of 129.
    pub batch: usize,
    /// Learning rate; times 0.1 at 60 % and 85 % of the epochs.
    pub rate: f64,
    /// Learning rate of the centres; not given, `rate`.
    pub rate_centres: Option<f64>,
    /// Momentum.
    pub momentum: f64,
    /// Weight decay.
    pub decay: f64,
    /// Weight decay of the centres; not given, `decay`.
    pub decay_centres: Option<f64>,
    /// Weight of the attraction to the centres.
    pub lambda: f64,
    /// Weight of the classifier.
    pub mu: f64,
    /// Weight of the pairs, where there are any.
    pub beta: f64,
    /// Weight of the quantisation loss; not given, it is steered to `quantisation`.
    pub alpha: Option<f64>,
    /// The quantisation loss to settle at.
    pub quantisation: f64,
    /// One weight for all modalities, steered by their mean quantisation loss.
    pub alpha_tied: bool,
    /// Hidden units of towers on dense rows; 0 for linear towers.
    pub hidden: usize,
    /// Hidden units of towers on sparse rows and texts.
    pub hidden_sparse: usize,
    /// auto, exact, anchors, scul, balanced or uniform; not given, as the method says.
    pub coefficients: Option<String>,
    /// How many anchors the coefficients are estimated from; not given, all items if possible.
    pub anchors: Option<usize>,
    /// paper or mean-one (every kind rescaled to mean q = 1).
    pub scale: String,
    /// Share of the items that training draws from, held out for validation, where the data set
    /// names no validation items.
    pub validation: f64,
    /// Training items that validation searches at most.
    pub validation_database: usize,
    /// DCMH's own settings.
    pub dcmh: dcmh::Settings,
    /// Those of CCA and what is built on it.
    pub cca: cca::Settings,
    /// Those of ITQ.
    pub itq: itq::Settings,
    /// Those of SePH.
    pub seph: seph::Settings,
    /// What differs for single modalities.
    pub modality: BTreeMap<String, RawModality>,
}

/// What differs for one modality.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawModality {
    /// Hidden units.
    pub hidden: Option<usize>,
    /// Learning rate.
    pub rate: Option<f64>,
    /// Learning rate of the hidden layer; not given, `rate`.
    pub rate_hidden: Option<f64>,
    /// none, standard or unit-length (dense rows).
    pub normalise: Option<Normalise>,
    /// For pictures: one of [`NETWORKS`](crate::network::NETWORKS), learnt with the tower. Its
    /// `rate` is then that of the layers after it, 0.01 if it is not given, and `hidden` is 0.
    pub network: Option<String>,
    /// The file of its first weights, or `random`.
    pub weights: Option<PathBuf>,
    /// What of it stays as it is: `none` (the default), `all`, or `up to LAYER`.
    pub freeze: Option<String>,
    /// Its learning rate; not given, 0.001.
    pub rate_network: Option<f64>,
    /// Pixels a side of its pictures; not given, the network's.
    pub size: Option<usize>,
    /// Pictures computed at once, to bound memory; not given, the whole batch.
    pub micro_batch: Option<usize>,
    /// What its normalisations take: `frozen` (the default with micro-batches) or `batch`.
    pub batch_norm: Option<BatchNorm>,
    /// Whether training pictures vary: random parts, mirrored. They do if nothing is said.
    pub augment: Option<bool>,
    /// The smallest share of a picture that a random part has; not given, 0.5.
    pub crop: Option<f64>,
}

impl Default for RawRun {
    fn default() -> RawRun {
        RawRun {
            method: "jcch".into(),
            bits: 64,
            seed: 0,
            modalities: Vec::new(),
            epochs: 30,
            batch: 128,
            rate: 0.1,
            rate_centres: None,
            momentum: 0.9,
            decay: 1e-4,
            decay_centres: None,
            lambda: 0.002,
            mu: 0.1,
            beta: 0.1,
            alpha: None,
            quantisation: 0.15,
            alpha_tied: false,
            hidden: 4096,
            hidden_sparse: 8192,
            coefficients: None,
            anchors: None,
            scale: "paper".into(),
            validation: 0.05,
            validation_database: 4000,
            dcmh: dcmh::Settings::default(),
            cca: cca::Settings::default(),
            itq: itq::Settings::default(),
            seph: seph::Settings::default(),
            modality: BTreeMap::new(),
        }
    }
}

/// A run that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The recipe.
    pub method: &'static dyn Method,
    /// Code length.
    pub bits: Bits,
    /// Which coefficients.
    pub coefficients: Kind,
    /// On which scale.
    pub scale: Scale,
    /// Weights of the terms.
    pub weights: Weights,
    /// The run that comes first, for methods that start from another.
    pub first: Option<Box<Run>>,
    /// All the rest, as typed and checked.
    pub raw: RawRun,
}

impl RawRun {
    /// Reads a file's text and then `key=value` settings, each over what was before.
    pub fn parse(text: &str, settings: &[String]) -> Result<RawRun> {
        let fault =
            |err: toml::de::Error| Error::content(err.to_string().trim().to_owned());
        let mut table: toml::Table = toml::from_str(text).map_err(fault)?;
        for setting in settings {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(Error::content(format!(
                    "setting {setting:?} is not key=value, e.g. epochs=20"
                )));
            };
            let (key, value) = (key.trim(), value.trim());
            // What is no TOML value is a string.
            let parsed: Result<toml::Table, _> = toml::from_str(&format!("v = {value}"));
            let parsed = parsed.ok().and_then(|mut t| t.remove("v"));
            let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
            set(&mut table, key, value)?;
        }
        table.try_into().map_err(fault)
    }

    /// The text of a file that says all of it.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|err| Error::content(err.to_string()))
    }

    /// Checks every value.
    pub fn check(&self) -> Result<Run> {
        let method = method::named(&self.method)?;
        for (key, value) in [
            ("epochs", self.epochs),
            ("batch", self.batch),
            ("validation_database", self.validation_database),
        ] {
            if value == 0 {
                return bad(key, value, "at least 1");
            }
        }
        let of = |key: &str, rate: Option<f64>| rate.map(|rate| (key.to_owned(), rate));
        let own = self.modality.iter().flat_map(|(name, own)| {
            [
                of(&format!("modality.{name}.rate"), own.rate),
                of(&format!("modality.{name}.rate_hidden"), own.rate_hidden),
                of(&format!("modality.{name}.rate_network"), own.rate_network),
            ]
        });
        let common = [of("rate", Some(self.rate)), of("rate_centres", self.rate_centres)];
        for (key, rate) in common.into_iter().chain(own).flatten() {
            if !(rate > 0.0 && rate.is_finite()) {
                return bad(&key, rate, "above 0, e.g. 0.1");
            }
        }
        for (key, value) in [("momentum", self.momentum), ("validation", self.validation)] {
            if !(0.0..1.0).contains(&value) {
                return bad(key, value, "0 or more and below 1");
            }
        }
        for (key, value) in [
            ("decay", self.decay),
            ("decay_centres", self.decay_centres.unwrap_or(0.0)),
            ("lambda", self.lambda),
            ("mu", self.mu),
            ("beta", self.beta),
            ("alpha", self.alpha.unwrap_or(0.0)),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return bad(key, value, "0 or more");
            }
        }
        if !(0.0 < self.quantisation && self.quantisation < 0.9) {
            return bad("quantisation", self.quantisation, "between 0 and 0.9, e.g. 0.15");
        }
        let kinds = [
            Kind::Auto,
            Kind::Exact,
            Kind::Anchors,
            Kind::Scul,
            Kind::Balanced,
            Kind::Uniform,
        ];
        let coefficients = match &self.coefficients {
            None => method.coefficients(),
            Some(name) => {
                kinds.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
                    Error::unknown("coefficients", name.as_str(), kinds.map(Kind::name))
                })?
            }
        };
        let scales = [("paper", Scale::Paper), ("mean-one", Scale::MeanOne)];
        let scale =
            scales.iter().find(|(name, _)| *name == self.scale).ok_or_else(|| {
                Error::unknown("scale", self.scale.as_str(), scales.map(|(name, _)| name))
            })?;
        self.dcmh.check()?;
        for (key, value) in
            [("cca.ridge", self.cca.ridge), ("seph.penalty", self.seph.penalty)]
        {
            if !(value > 0.0 && value.is_finite()) {
                return bad(key, value, "above 0, e.g. 0.01");
            }
        }
        let (seph, itq) = (&self.seph, &self.itq);
        for (key, value) in [
            ("seph.items", seph.items),
            ("seph.centres", seph.centres),
            ("seph.rounds", seph.rounds),
            ("itq.rounds", itq.rounds),
        ] {
            if value == 0 {
                return bad(key, value, "at least 1");
            }
        }
        if self.anchors == Some(0) {
            return bad("anchors", 0, "at least 1");
        }
        for (name, own) in &self.modality {
            let tuned = Tuning::new(name, own, self.batch)?.is_some();
            if tuned && !method.tunes() {
                let able = method::METHODS.iter().filter(|m| m.tunes()).map(|m| m.name());
                return Err(Error::Unsuitable {
                    method: method.name().into(),
                    why: format!(
                        "learns from features, not through a network (modality.{name}.network); \
                         {} do: take one of them, or make features of the pictures first \
                         (crosshash features)",
                        able.collect::<Vec<_>>().join(", ")
                    ),
                });
            }
        }
        let weights = Weights { lambda: self.lambda, mu: self.mu, beta: self.beta };
        let bits = Bits::new(self.bits)?;
        let first = match method.first(self) {
            Some(first) => Some(Box::new(first.check()?)),
            None => None,
        };
        let (scale, raw) = (scale.1, self.clone());
        Ok(Run { method, bits, coefficients, scale, weights, first, raw })
    }
}

impl Run {
    /// The sizes of a modality's tower.
    pub(crate) fn shape(
        &self,
        modality: &str,
        preparation: &Preparation,
        classes: usize,
    ) -> Shape {
        let RawRun { hidden, hidden_sparse, .. } = self.raw;
        let default = match preparation {
            Preparation::Pixels { .. } => 0,
            _ if preparation.is_sparse() => hidden_sparse,
            _ => hidden,
        };
        let own = self.raw.modality.get(modality).and_then(|own| own.hidden);
        Shape {
            width: preparation.width(),
            sparse: preparation.is_sparse(),
            hidden: own.unwrap_or(default),
            bits: self.bits.get(),
            classes,
            network: preparation.network(),
        }
    }

    /// The network that a modality tunes, if it does.
    pub(crate) fn tuning(&self, modality: &str) -> Result<Option<Tuning>> {
        match self.raw.modality.get(modality) {
            None => Ok(None),
            Some(own) => Tuning::new(modality, own, self.raw.batch),
        }
    }

    /// The learning rates of a modality's first layer and heads, where nothing else is said.
    pub(crate) fn rates(&self, modality: &str, hidden: usize, default: f64) -> [f64; 2] {
        let own = self.raw.modality.get(modality);
        let rate = own.and_then(|own| own.rate).unwrap_or(default);
        match own.and_then(|own| own.rate_hidden).filter(|_| hidden > 0) {
            Some(first) => [first, rate],
            None => [rate, rate],
        }
    }
}

fn set(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<()> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((head, rest)) => {
            let empty = || toml::Value::Table(toml::Table::new());
            match table.entry(head).or_insert_with(empty) {
                toml::Value::Table(inner) => set(inner, rest, value),
                _ => Err(Error::content(format!("{head} is a value, it has no {rest}"))),
            }
        }
    }
}

fn bad<T>(key: &str, value: impl std::fmt::Display, wanted: &str) -> Result<T> {
    Err(Error::content(format!("{key} = {value}: it must be {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, settings: &[&str]) -> Result<RawRun> {
        let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
        RawRun::parse(text, &settings)
    }

    #[test]
    fn settings_go_over_the_file_and_the_file_over_defaults() {
        let raw = typed(
            "epochs = 3\nbatch = 64\n[modality.image]\nhidden = 9\n",
            &[
                "epochs=5",
                "method=jcch-b",
                "modality.image.rate=0.5",
                "modalities=[\"image\"]",
            ],
        )
        .unwrap();
        assert_eq!((raw.epochs, raw.batch, raw.bits), (5, 64, 64));
        assert_eq!(raw.modality["image"].hidden, Some(9));
        assert_eq!(raw.modality["image"].rate, Some(0.5));
        assert_eq!(raw.modalities, ["image"]);
        let run = raw.check().unwrap();
        assert_eq!((run.method.name(), run.coefficients), ("jcch-b", Kind::Scul));
        assert_eq!(
            typed(&raw.to_toml().unwrap(), &[]).unwrap(),
            raw,
            "it reads what it wrote"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fault = |text: &str, settings: &[&str]| {
            typed(text, settings).and_then(|raw| raw.check()).unwrap_err().to_string()
        };
        let err = fault("epoch = 3", &[]);
        assert!(err.contains("unknown field `epoch`") && err.contains("`epochs`"), "{err}");
        assert_eq!(
            fault("", &["epochs"]),
            "setting \"epochs\" is not key=value, e.g. epochs=20"
        );
        assert_eq!(fault("", &["epochs=0"]), "epochs = 0: it must be at least 1");
        assert_eq!(fault("", &["rate=-1"]), "rate = -1: it must be above 0, e.g. 0.1");
        let err = fault("", &["method=magic"]);
        let start = "no method named \"magic\"; there are: jcch, jcch-b, scdh, dcmh,";
        assert!(err.starts_with(start), "{err}");
        assert_eq!(
            fault("", &["epochs.x=1", "epochs=2", "epochs.x=3"]),
            "epochs is a value, it has no x"
        );
    }
}
