//! What the last start has seen, so that the next one knows whether anything has changed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use crosshash_codes::write::atomically;
use serde::{Deserialize, Serialize};

const FILE: &str = "start.json";

/// The data of the last start.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) source: PathBuf,
    /// Changes when a file of the source does.
    pub(super) fingerprint: u64,
}

impl State {
    /// The state of a folder, if it has one.
    pub(super) fn read(folder: &Path) -> Result<Option<State>> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs_err::read_to_string(&path)?;
        let state =
            serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Some(state))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(atomically(&folder.join(FILE), |out| Ok(out.write_all(text.as_bytes())?))?)
    }
}
