//! The configuration of a training run.
//!
//! [`Config`] is parsed once, from a TOML text and `key=value` settings, into checked values. An empty
//! text is valid; an unknown key is an error. Keys that every method shares are at the top level; a method
//! parses its own section (`[jcch]`, `[dcmh]`, ...), so that a new method adds no line here.
//!
//! Defaults are those of the paper where it states them (it does not state batch size, epochs or
//! schedule), except the learning rate: 0.1 where the paper has 0.01 to 0.03, because towers here are
//! trained on frozen, standardised features (`docs/training.md`). Beside a network that is fine-tuned,
//! it is the paper's 0.01 for all new layers. The number of epochs depends on the data, unless it is
//! given: small data sets need more of them for the same number of steps.
//!
//! ```
//! use crosshash::Config;
//!
//! let config = Config::parse("epochs = 3", &["jcch.lambda=0.04".to_owned(), "method=jcch".to_owned()])?;
//! assert_eq!((config.epochs(), config.bits().get(), config.method().name), (3, 64, "jcch"));
//! assert!(Config::parse("epoch = 3", &[]).is_err());
//! # Ok::<(), crosshash::Error>(())
//! ```

mod modality;
mod section;

use std::collections::BTreeMap;
use std::sync::Arc;

use crosshash_codes::Bits;
use serde::{Deserialize, Serialize};

use crate::data::Training;
use crate::method::{self, Method, MethodInfo};
use crate::prepare::Preparation;
use crate::tower::Shape;
use crate::train::{Callback, Fitted, RotationChoice, Select, TrainingSession};
use crate::{Error, Result};
pub use modality::BatchNorm;
pub(crate) use modality::{Finetune, ModalityConfig};
pub(crate) use section::{Sections, Settings, check};

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    method: Arc<dyn Method>,
    info: MethodInfo,
    bits: Bits,
    file: File,
    modality: BTreeMap<String, ModalityConfig>,
    sections: toml::Table, // of all methods: those of this method complete, others as given
}

/// The top-level keys, as they are written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    /// One of [`METHODS`](crate::method::METHODS), e.g. jcch.
    method: String,
    /// Code length.
    bits: usize,
    /// Seed of weights and batches.
    seed: u64,
    /// The modalities to train, in order; none means all.
    modalities: Vec<String>,
    /// Passes over the training items; default: 30, or as many as make 3,000 steps, at most 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<usize>,
    /// Ids per step (unpaired: items of each modality), evened out over the steps of an epoch:
    /// 10,000 ids in batches of 128 make 78 steps of 129.
    batch_size: usize,
    /// Learning rate; multiplied by 0.1 at 60 % and 85 % of the epochs (jcch+: a cosine). Default: 0.1,
    /// or 0.01 if a network is fine-tuned.
    #[serde(skip_serializing_if = "Option::is_none")]
    learning_rate: Option<f64>,
    /// Momentum.
    momentum: f64,
    /// Weight decay.
    weight_decay: f64,
    /// Hidden units of towers on dense features; 0 for linear towers.
    hidden: usize,
    /// Hidden units of towers on sparse features and texts.
    hidden_sparse: usize,
    /// Share of the training items that is held out for validation, where the data set names no
    /// validation items.
    validation: f64,
    /// Number of training items in the validation database, at most.
    validation_database: usize,
    /// The validation metric that chooses the best epoch: map, recall, words or balanced.
    select: Select,
    /// The rotation of outputs after a gradient training: auto (validation decides), none, mean, itq
    /// or mean+itq; default: auto for jcch+, none for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    rotation: Option<RotationChoice>,
    /// Settings of single modalities.
    modality: BTreeMap<String, modality::File>,
}

impl Default for File {
    fn default() -> File {
        File {
            method: "jcch+".into(),
            bits: 64,
            seed: 0,
            modalities: Vec::new(),
            epochs: None,
            batch_size: 128,
            learning_rate: None,
            momentum: 0.9,
            weight_decay: 1e-4,
            hidden: 4096,
            hidden_sparse: 8192,
            validation: 0.05,
            validation_database: 4000,
            select: Select::default(),
            rotation: None,
            modality: BTreeMap::new(),
        }
    }
}

/// Epochs of a training, at least and at most, if they are not given.
const EPOCHS: [usize; 2] = [30, 300];
/// Learning rate of towers on fixed features.
const LEARNING_RATE: f64 = 0.1;
/// Largest accepted number of hidden units.
const MAX_HIDDEN: usize = 1 << 20;

impl File {
    fn check(&self) -> Result<()> {
        check::at_least_one("epochs", self.epochs.unwrap_or(1))?;
        check::at_least_one("batch_size", self.batch_size)?;
        check::at_least_one("validation_database", self.validation_database)?;
        check::positive("learning_rate", self.learning_rate.unwrap_or(LEARNING_RATE))?;
        check::share("momentum", self.momentum)?;
        check::share("validation", self.validation)?;
        check::not_negative("weight_decay", self.weight_decay)?;
        check::at_most("hidden", self.hidden, MAX_HIDDEN)?;
        check::at_most("hidden_sparse", self.hidden_sparse, MAX_HIDDEN)
    }
}

impl Default for Config {
    fn default() -> Config {
        Config::parse("", &[]).expect("the defaults are valid")
    }
}

impl Config {
    /// Parses a TOML text and then `key=value` settings, which override it, and checks every value.
    pub fn parse(text: &str, settings: &[String]) -> Result<Config> {
        let mut table: toml::Table = toml::from_str(text).map_err(syntax)?;
        for setting in settings {
            set_pair(&mut table, setting)?;
        }
        Config::from_table(table)
    }

    fn from_table(mut table: toml::Table) -> Result<Config> {
        let mut given = toml::Table::new();
        for name in method::METHODS.iter().flat_map(|entry| entry.sections) {
            if let Some(section) = table.remove(*name) {
                given.insert((*name).to_owned(), section);
            }
        }
        let file: File = table.try_into().map_err(syntax)?;
        file.check()?;
        let entry = method::find(&file.method)?;
        let mut sections = Sections::new(given);
        let method = (entry.build)(&mut sections)?;
        let mut modality = BTreeMap::new();
        for (name, own) in &file.modality {
            let own = own.check(name, file.batch_size)?;
            if own.finetune.is_some() && !entry.info.networks {
                return Err(Error::Unsuitable {
                    method: file.method,
                    why: format!(
                        "learns from features, not through a network (modality.{name}.network); \
                         {} do: choose one of them, or extract features of the pictures first \
                         (crosshash features)",
                        method::names(|info| info.networks)
                    ),
                });
            }
            modality.insert(name.clone(), own);
        }
        Ok(Config {
            method: Arc::from(method),
            info: entry.info,
            bits: Bits::new(file.bits)?,
            sections: sections.into_table(),
            modality,
            file,
        })
    }

    /// This configuration with other settings (`key=value`).
    pub fn with(&self, settings: &[String]) -> Result<Config> {
        let mut table = self.to_table()?;
        for setting in settings {
            set_pair(&mut table, setting)?;
        }
        Config::from_table(table)
    }

    /// This configuration with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Config {
        let mut config = self.clone();
        config.file.seed = seed;
        config
    }

    /// This configuration with another number of epochs, for a phase of a training.
    pub(crate) fn with_epochs(&self, epochs: usize) -> Config {
        let mut config = self.clone();
        config.file.epochs = Some(epochs);
        config
    }

    /// This configuration with the number of epochs for these data, if it is not given.
    fn with_budget(&self, training: &Training<'_>) -> Result<Config> {
        if self.file.epochs.is_some() {
            return Ok(self.clone());
        }
        let mut items = 0;
        for name in training.modalities() {
            items = items.max(training.train(name)?.len());
        }
        let steps = items.div_ceil(self.file.batch_size).max(1);
        let [least, most] = EPOCHS;
        Ok(self.with_epochs(self.info.steps.div_ceil(steps).clamp(least, most)))
    }

    /// Every setting as a TOML text, which [`Config::parse`] reads back.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(&self.to_table()?).map_err(|err| Error::content(err.to_string()))
    }

    /// Every setting as JSON.
    pub fn to_json(&self) -> Result<serde_json::Value> {
        serde_json::to_value(self.to_table()?)
            .map_err(|err| Error::content(err.to_string()))
    }

    fn to_table(&self) -> Result<toml::Table> {
        let mut table = toml::Table::try_from(&self.file)
            .map_err(|err| Error::content(err.to_string()))?;
        table.extend(self.sections.clone());
        Ok(table)
    }

    /// Starts a training, which can be driven epoch by epoch, saved and resumed.
    pub fn begin(&self, training: &Training<'_>) -> Result<TrainingSession> {
        let config = self.with_budget(training)?;
        TrainingSession::new(&config, &*config.method, training)
    }

    /// Trains to the end and returns the model of the best epoch; `None` if the callback stopped it.
    pub fn fit(
        &self,
        training: &Training<'_>,
        callback: &mut dyn Callback,
    ) -> Result<Option<Fitted>> {
        self.begin(training)?.fit(callback)
    }

    /// The method.
    pub fn method(&self) -> &MethodInfo {
        &self.info
    }

    /// Code length.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.file.seed
    }

    /// The modalities to train; none means all.
    pub fn modalities(&self) -> &[String] {
        &self.file.modalities
    }

    /// Number of epochs of a gradient method; before a training begins, at least this many if they are
    /// not given.
    pub fn epochs(&self) -> usize {
        self.file.epochs.unwrap_or(EPOCHS[0])
    }

    /// Share of the training items that is held out where the data set names no validation items.
    pub fn validation(&self) -> f64 {
        self.file.validation
    }

    pub(crate) fn batch_size(&self) -> usize {
        self.file.batch_size
    }

    pub(crate) fn learning_rate(&self) -> f64 {
        let finetunes = self.modality.values().any(|own| own.finetune.is_some());
        let default = if finetunes { modality::LEARNING_RATE } else { LEARNING_RATE };
        self.file.learning_rate.unwrap_or(default)
    }

    pub(crate) fn momentum(&self) -> f64 {
        self.file.momentum
    }

    pub(crate) fn weight_decay(&self) -> f64 {
        self.file.weight_decay
    }

    pub(crate) fn validation_database(&self) -> usize {
        self.file.validation_database
    }

    pub(crate) fn rotation(&self) -> RotationChoice {
        let default =
            if self.info.rotates { RotationChoice::Auto } else { RotationChoice::None };
        self.file.rotation.unwrap_or(default)
    }

    pub(crate) fn select(&self) -> Select {
        self.file.select
    }

    /// The settings of one modality, if it has any.
    pub(crate) fn modality(&self, name: &str) -> Option<&ModalityConfig> {
        self.modality.get(name)
    }

    /// The modalities that have settings of their own.
    pub(crate) fn configured_modalities(&self) -> impl Iterator<Item = &str> {
        self.modality.keys().map(String::as_str)
    }

    /// The network that a modality fine-tunes, if it does.
    pub(crate) fn finetune(&self, modality: &str) -> Option<&Finetune> {
        self.modality(modality).and_then(|own| own.finetune.as_ref())
    }

    /// The sizes of a modality's tower.
    pub(crate) fn shape(
        &self,
        modality: &str,
        preparation: &Preparation,
        classes: usize,
    ) -> Shape {
        let default = match preparation {
            Preparation::Pixels { .. } => 0,
            _ if preparation.is_sparse() => self.file.hidden_sparse,
            _ => self.file.hidden,
        };
        let own = self.modality(modality).and_then(|own| own.hidden);
        Shape {
            width: preparation.width(),
            sparse: preparation.is_sparse(),
            hidden: own.unwrap_or(default),
            bits: self.bits.get(),
            classes,
            network: preparation.network(),
            ..Shape::default()
        }
    }

    /// The learning rates of a modality's first layer and heads.
    pub(crate) fn learning_rates(&self, modality: &str, hidden: usize) -> [f64; 2] {
        let own = self.modality(modality);
        let rate = own.and_then(|own| own.learning_rate).unwrap_or(self.learning_rate());
        match own.and_then(|own| own.learning_rate_hidden).filter(|_| hidden > 0) {
            Some(first) => [first, rate],
            None => [rate, rate],
        }
    }
}

fn syntax(err: toml::de::Error) -> Error {
    Error::content(err.to_string().trim().to_owned())
}

/// Sets one `key=value` pair in a table; `a.b=1` sets key b of table a.
fn set_pair(table: &mut toml::Table, setting: &str) -> Result<()> {
    let Some((key, value)) = setting.split_once('=') else {
        return Err(Error::content(format!(
            "setting {setting:?} is not key=value, e.g. epochs=20"
        )));
    };
    let (key, value) = (key.trim(), value.trim());
    // Text that is not a TOML value is a string.
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("v = {value}"));
    let parsed = parsed.ok().and_then(|mut t| t.remove("v"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()));
    set(table, key, value)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, settings: &[&str]) -> Result<Config> {
        let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
        Config::parse(text, &settings)
    }

    #[test]
    fn settings_override_the_file_and_the_file_overrides_defaults() {
        let config = parse(
            "epochs = 3\nbatch_size = 64\n[modality.image]\nhidden = 9\n[dcmh]\neta = 0.5\n",
            &[
                "epochs=5",
                "method=jcch-b",
                "modality.image.learning_rate=0.5",
                "modalities=[\"image\"]",
            ],
        )
        .unwrap();
        assert_eq!(
            (config.epochs(), config.batch_size(), config.bits().get()),
            (5, 64, 64)
        );
        let own = config.modality("image").unwrap();
        assert_eq!((own.hidden, own.learning_rate), (Some(9), Some(0.5)));
        assert_eq!(config.modalities(), ["image"]);
        assert_eq!(config.method().name, "jcch-b");
        let text = config.to_toml().unwrap();
        assert!(text.contains("lambda") && text.contains("eta = 0.5"), "{text}");
        let again = parse(&text, &[]).unwrap();
        assert_eq!(again.to_toml().unwrap(), text, "it reads what it wrote");
        assert_eq!(config.with_seed(7).seed(), 7);
    }

    #[test]
    fn errors_name_the_key_and_the_allowed_range() {
        let fault = |text: &str, settings: &[&str]| {
            parse(text, settings).map(|_| ()).unwrap_err().to_string()
        };
        let err = fault("epoch = 3", &[]);
        assert!(err.contains("unknown field `epoch`") && err.contains("`epochs`"), "{err}");
        assert_eq!(
            fault("", &["epochs"]),
            "setting \"epochs\" is not key=value, e.g. epochs=20"
        );
        assert_eq!(fault("", &["epochs=0"]), "epochs = 0: it must be at least 1");
        assert_eq!(
            fault("", &["learning_rate=-1"]),
            "learning_rate = -1: it must be above 0"
        );
        assert_eq!(
            fault("", &["hidden=1000000000"]),
            "hidden = 1000000000: it must be at most 1048576"
        );
        assert_eq!(
            fault("", &["jcch.lambda=-1"]),
            "jcch.lambda = -1: it must be 0 or more"
        );
        let err = fault("", &["jcch.lamda=1"]);
        assert!(err.starts_with("[jcch]: unknown field `lamda`"), "{err}");
        let err = fault("", &["method=magic"]);
        let start = "no method named \"magic\"; there are: jcch+, jcch, jcch-b, scdh,";
        assert!(err.starts_with(start), "{err}");
        assert_eq!(
            fault("", &["epochs.x=1", "epochs=2", "epochs.x=3"]),
            "epochs is a value, it has no x"
        );
    }
}
