//! Tokenizes texts with a `tokenizer.json` (crate `tokenizers`, cargo feature `text`).

use std::path::Path;

use crate::{Error, Result};

/// Tokenizer without padding and truncation.
pub(super) struct Tokenizer {
    #[cfg(feature = "text")]
    inner: tokenizers::Tokenizer,
}

#[cfg(feature = "text")]
impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub(super) fn open(path: &Path) -> Result<Tokenizer> {
        let bytes = fs_err::read(path)?;
        let fault = |err: tokenizers::Error| {
            Error::content(format!("invalid tokenizer.json: {err}")).at(path)
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(fault)?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(fault)?;
        Ok(Tokenizer { inner })
    }

    /// Token ids of a text.
    pub(super) fn tokens(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoding = self
            .inner
            .encode_fast(text, special)
            .map_err(|err| Error::content(format!("failed to tokenize a text: {err}")))?;
        Ok(encoding.get_ids().to_vec())
    }
}

#[cfg(not(feature = "text"))]
impl Tokenizer {
    pub(super) fn open(path: &Path) -> Result<Tokenizer> {
        Err(Error::disabled("tokenizers are not available", "text").at(path))
    }

    pub(super) fn tokens(&self, _: &str, _: bool) -> Result<Vec<u32>> {
        Err(Error::disabled("tokenizers are not available", "text"))
    }
}
