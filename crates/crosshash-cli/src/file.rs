//! Text files of the program's own, whole or not there.

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

/// Writes a text aside and renames it into place.
pub fn write(path: &Path, text: &str) -> Result<()> {
    crosshash_codes::write::atomically(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(())
}
