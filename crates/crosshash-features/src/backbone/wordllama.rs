//! WordLlama (Miller, 2024): static vectors of 32,000 tokens, 256 values each, distilled from
//! the embeddings of large language models; a text is the mean of its tokens. No network: a
//! table look-up, thousands of texts per second.

use std::path::Path;

use half::f16;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::tokenizer::Tokenizer;
use super::{Backbone, BackboneInfo, InputKind, Package, Source, WeightFile};
use crate::{Error, Result};

const PACKAGE: Package = Package::Pip { name: "wordllama", version: "0.3.9" };

pub(super) static INFO: BackboneInfo = BackboneInfo {
    name: "wordllama",
    input_kind: InputKind::Texts,
    drawings: false,
    width: 256,
    what: "WordLlama, static token vectors: texts, fast",
    licence: "MIT",
    files: &[
        WeightFile {
            names: &["l2_supercat_256.safetensors"],
            sha256: Some("64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "wordllama/weights/l2_supercat_256.safetensors",
            }),
        },
        WeightFile {
            names: &["l2_supercat_tokenizer_config.json"],
            sha256: Some("bf467c9e0f536bda271283c6ef85eb1a943e3196b621c8a912d64953b205df83"),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
            }),
        },
    ],
    get: "  crosshash backbones fetch wordllama
  or manually, with pip:
  pip download --no-deps wordllama==0.3.9
  unzip -j wordllama-0.3.9-*.whl 'wordllama/weights/*' 'wordllama/tokenizers/*' -d FOLDER/wordllama
  then pass FOLDER with --weights or $CROSSHASH_WEIGHTS",
    revision: 1,
    open: |files, _| Ok(Box::new(Static::open(&files[0], &files[1])?)),
};

/// One vector per token.
struct Static {
    tokenizer: Tokenizer,
    table: Vec<f32>,
    width: usize,
}

impl Static {
    fn open(table: &Path, tokens: &Path) -> Result<Static> {
        let bytes = fs_err::read(table)?;
        let (width, table) = read(&bytes).map_err(|err| err.at(table))?;
        Ok(Static { tokenizer: Tokenizer::open(tokens)?, table, width })
    }
}

/// Reads the only matrix of a file (f16 or f32).
fn read(bytes: &[u8]) -> Result<(usize, Vec<f32>)> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|err| Error::content(format!("not a safetensors file: {err}")))?;
    let [(_, view)] = &file.tensors()[..] else {
        return Err(Error::content(
            "expected one matrix of token vectors, found several tensors",
        ));
    };
    let &[rows, width] = view.shape() else {
        return Err(Error::content(format!(
            "expected a matrix, found shape {:?}",
            view.shape()
        )));
    };
    let values: Vec<f32> = match view.dtype() {
        Dtype::F16 => view
            .data()
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
            .collect(),
        Dtype::F32 => view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        other => {
            return Err(Error::content(format!(
                "unsupported dtype {other:?}; use f16 or f32"
            )));
        }
    };
    if rows > 0 && width > 0 && values.len() == rows * width {
        Ok((width, values))
    } else {
        Err(Error::content("the matrix of token vectors is empty"))
    }
}

impl Backbone for Static {
    fn input_kind(&self) -> InputKind {
        InputKind::Texts
    }

    fn width(&self) -> usize {
        self.width
    }

    fn texts(&self, batch: &[&str]) -> Result<Vec<f32>> {
        let last = self.table.len() / self.width - 1;
        let mut out = Vec::with_capacity(batch.len() * self.width);
        for text in batch {
            let ids = self.tokenizer.tokens(text, false)?;
            let mut row = vec![0.0; self.width];
            for &id in &ids {
                let start = (id as usize).min(last) * self.width;
                let vector = &self.table[start..start + self.width];
                row.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
            }
            row.iter_mut().for_each(|sum| *sum /= ids.len().max(1) as f32);
            out.extend(row);
        }
        Ok(out)
    }
}
