//! Sentence encoders in ONNX: a tokenizer (`tokenizer.json`), a transformer, and pooling of its
//! outputs into one vector.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::onnx::{self, Input, Network, Values};
use super::tokenizer::Tokenizer;
use super::{Backbone, InputKind, Weights};
use crate::{Error, Result};

/// How token outputs are pooled into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pooling {
    /// Mean over tokens.
    #[default]
    Mean,
    /// Output of the first token.
    First,
}

/// Fills every text up to a number of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Padding {
    pub(super) length: usize,
    pub(super) token: u32,
}

/// A tokenizer and a network.
pub(super) struct Sentence {
    tokenizer: Tokenizer,
    network: Box<dyn Network>,
    width: usize,
    pub(super) pooling: Pooling,
    pub(super) unit_length: bool,
    pub(super) max_tokens: usize,
    padding: Option<Padding>,
}

impl Sentence {
    /// Opens both files and encodes one text, so that incompatible files fail immediately.
    pub(super) fn open(
        path: &Path,
        tokens: &Path,
        output: Option<&str>,
        padding: Option<Padding>,
        weights: &Weights,
    ) -> Result<Sentence> {
        let tokenizer = Tokenizer::open(tokens)?;
        let network = onnx::open(path, output, weights)?;
        let mut sentence = Sentence {
            tokenizer,
            network,
            width: 0,
            pooling: Pooling::Mean,
            unit_length: true,
            max_tokens: padding.map_or(256, |padding| padding.length.max(1)),
            padding,
        };
        sentence.width = sentence.one("a text").map_err(|err| err.at(path))?.len();
        Ok(sentence)
    }

    /// Encodes one text. Batches would need padding to the longest text, which costs more than it
    /// saves.
    fn one(&self, text: &str) -> Result<Vec<f32>> {
        let mut ids = self.tokenizer.tokens(text, true)?;
        if ids.len() > self.max_tokens {
            // Keep the last token, which marks the end of the sequence.
            let last = ids[ids.len() - 1];
            ids.truncate(self.max_tokens);
            ids[self.max_tokens - 1] = last;
        }
        let own = ids.len().max(1);
        if ids.is_empty() {
            ids.push(self.padding.map_or(0, |padding| padding.token));
        }
        if let Some(Padding { length, token }) = self.padding {
            ids.resize(length.max(ids.len()), token);
        }
        let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
        let count = ids.len();
        let (mut mask, zeros) = (vec![1; own], vec![0; count]);
        mask.resize(count, 0);
        let mut inputs = Vec::new();
        for name in self.network.names() {
            let values = match name.as_str() {
                "input_ids" => &ids,
                "attention_mask" => &mask,
                "token_type_ids" => &zeros,
                other => {
                    return Err(Error::content(format!(
                        "unsupported network input {other:?}; expected input_ids, attention_mask or \
                         token_type_ids"
                    )));
                }
            };
            inputs.push(Input { shape: vec![1, count], values: Values::Integers(values) });
        }
        let (shape, values) = self.network.run(&inputs)?;
        let mut row = match shape[..] {
            [1, n_tokens, width] if n_tokens > 0 => {
                let rows = values.chunks_exact(width.max(1));
                let used = match self.pooling {
                    Pooling::First => 1,
                    Pooling::Mean => n_tokens.min(own),
                };
                let mut sum = vec![0.0; width];
                for row in rows.take(used) {
                    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / used as f32);
                }
                sum
            }
            [1, _] => values,
            _ => {
                return Err(Error::content(format!(
                    "unsupported output shape {shape:?}; expected one row per token or one per text"
                )));
            }
        };
        if self.unit_length {
            to_unit_length(&mut row);
        }
        Ok(row)
    }
}

/// Scales to Euclidean norm 1; zero vectors are unchanged.
pub(super) fn to_unit_length(row: &mut [f32]) {
    let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        row.iter_mut().for_each(|x| *x /= length);
    }
}

impl Backbone for Sentence {
    fn input_kind(&self) -> InputKind {
        InputKind::Texts
    }

    fn width(&self) -> usize {
        self.width
    }

    fn is_single_threaded(&self) -> bool {
        self.network.is_single_threaded()
    }

    fn texts(&self, batch: &[&str]) -> Result<Vec<f32>> {
        let mut rows = Vec::with_capacity(batch.len() * self.width);
        for text in batch {
            rows.extend(self.one(text)?);
        }
        Ok(rows)
    }
}
