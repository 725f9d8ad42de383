//! `Brain`: what turns a query into real outputs, one per bit: a run's model and what it needs to
//! make features of texts and pictures.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use crosshash::Model;
use crosshash::data::{Dense, Features, Sparse};
use crosshash::encode::Encoder as _;
use crosshash_codes::{Bits, Codes};

use super::fault::{Answer, Fault};
use super::thumbnail;
use crate::asking::{Asker, Form};
use crate::places::Places;

/// What is given to be encoded.
pub(crate) enum Given {
    Text(String),
    /// The file of a picture.
    Picture(Vec<u8>),
    Features(Vec<f32>),
}

impl Given {
    /// What kinds of modality must ask for.
    pub(crate) fn form(&self) -> &'static str {
        match self {
            Given::Text(_) => "text",
            Given::Picture(_) => "picture",
            Given::Features(_) => "features",
        }
    }
}

/// An encoded query.
pub(crate) struct Thought {
    pub(crate) outputs: Vec<f32>,
    /// Microseconds for features and for the model.
    pub(crate) features_us: u64,
    pub(crate) encode_us: u64,
}

/// A model and how it is asked.
pub(crate) struct Brain {
    asker: Asker,
    centres: Option<Codes>,
}

impl Brain {
    pub(crate) fn open(run: &Path, places: &Places) -> Result<Brain> {
        let asker = Asker::open(run, places)?;
        let model = asker.model();
        let centres = match model.centres() {
            [] => None,
            values => Some(Codes::from_signs(model.bits(), values)?),
        };
        Ok(Brain { asker, centres })
    }

    pub(crate) fn model(&self) -> &Model {
        self.asker.model()
    }

    pub(crate) fn bits(&self) -> Bits {
        self.model().bits()
    }

    /// What a modality can be asked by: text, picture, drawing, features.
    pub(crate) fn asks(&self, modality: &str) -> Vec<&'static str> {
        let forms = self.asker.asks_by(modality).iter();
        let names = forms.flat_map(|form| match form {
            Form::Text => &["text"][..],
            Form::Picture => &["picture"],
            Form::Drawing => &["drawing", "picture"], // a photographed sketch is one too
            Form::Features => &["features"],
        });
        names.copied().collect()
    }

    /// The modality that a query is of: the one it names, or the first that asks for its form.
    pub(crate) fn modality<'a>(
        &'a self,
        named: Option<&str>,
        form: &str,
    ) -> Answer<&'a str> {
        let all = self.model().modalities();
        let asks = |name: &&str| self.asks(name).contains(&form);
        let Some(named) = named else {
            // a picture is taken for one of a modality of pictures rather than of drawings
            let fits = |name: &&str| self.asks(name).first() == Some(&form);
            let found = all.iter().copied().find(fits);
            return found.or_else(|| all.iter().copied().find(asks)).ok_or_else(|| {
                let able: Vec<String> = all
                    .iter()
                    .map(|m| format!("{m} ({})", self.asks(m).join(", ")))
                    .collect();
                Fault::bad(format!(
                    "no modality of this model can be asked by {form}; there are {}",
                    able.join("; ")
                ))
                .at("query")
            });
        };
        match all.iter().copied().find(|name| *name == named) {
            Some(name) if asks(&name) => Ok(name),
            Some(name) => Err(Fault::bad(format!(
                "modality {name} cannot be asked by {form}, only by {}",
                self.asks(name).join(", ")
            ))
            .at("query.modality")),
            None => Err(Fault::bad(format!(
                "no modality named {named:?}; there are {}",
                all.join(", ")
            ))
            .at("query.modality")),
        }
    }

    /// Real outputs.
    pub(crate) fn think(&self, modality: &str, given: Given) -> Answer<Thought> {
        let form = given.form();
        let place = move |err: String| Fault::bad(err).at(format!("query.{form}"));
        let started = Instant::now();
        let features =
            self.features(modality, given).map_err(|err| place(format!("{err:#}")))?;
        let features_us = micros(started);
        let started = Instant::now();
        let outputs = self.model().outputs(modality, features, &|_| ());
        let outputs = outputs.map_err(|err| place(err.to_string()))?;
        if outputs.iter().any(|value| value.is_nan()) {
            return Err(place("the model gives no numbers for this".into()));
        }
        Ok(Thought { outputs, features_us, encode_us: micros(started) })
    }

    fn features(&self, modality: &str, given: Given) -> Result<Features> {
        match given {
            Given::Text(text) => self.asker.text(modality, &[text]),
            Given::Features(values) => {
                if self.model().preparation(modality)?.is_sparse() {
                    let mut cells: Vec<(u32, f32)> = (0..)
                        .zip(values.iter().copied())
                        .filter(|cell| cell.1 != 0.0)
                        .collect();
                    let mut rows = Sparse::new(values.len());
                    rows.push(&mut cells)?;
                    return Ok(Features::Sparse(rows));
                }
                Ok(Features::Dense(Dense::from_floats(values.len().max(1), values)?))
            }
            Given::Picture(file) => {
                thumbnail::check_size(&file)?;
                self.asker.pictures(modality, vec![file])
            }
        }
    }

    /// The nearest centres of a code by Hamming distance, ties by the real outputs where there
    /// are some: label and distance.
    pub(crate) fn centres(
        &self,
        code: &[u64],
        outputs: Option<&[f32]>,
        most: usize,
    ) -> Vec<(usize, u32)> {
        let Some(centres) = &self.centres else { return Vec::new() };
        let bits = self.bits().get();
        let nearness = |label: usize| {
            let centre = &self.model().centres()[label * bits..(label + 1) * bits];
            outputs
                .map_or(0.0, |out| out.iter().zip(centre).map(|(a, b)| a * b).sum::<f32>())
        };
        let far = |centre: &[u64]| {
            code.iter().zip(centre).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
        };
        let mut all: Vec<(u32, f32, usize)> = centres
            .iter()
            .enumerate()
            .map(|(label, centre)| (far(centre), -nearness(label), label))
            .collect();
        all.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        all.truncate(most);
        all.into_iter().map(|(far, _, label)| (label, far)).collect()
    }
}

pub(crate) fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}
