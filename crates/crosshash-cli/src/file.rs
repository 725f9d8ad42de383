//! Writes text files atomically.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

/// Writes a text to a temporary file and renames it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    crosshash_codes::write::atomically(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(())
}
