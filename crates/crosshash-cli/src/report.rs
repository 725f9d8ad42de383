//! `report.json`: what a finished run tells of itself, and where the data are that it learnt.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use crosshash::data::emoji;
use serde_json::Value;

/// Its name in the folder of a run.
pub(crate) const REPORT: &str = "report.json";

/// Reads the report of a run.
pub(crate) fn read(run: &Path) -> Result<Value> {
    let path = run.join(REPORT);
    serde_json::from_slice(&fs_err::read(&path)?)
        .with_context(|| path.display().to_string())
}

/// The data set and the root that a report names.
pub(crate) fn learnt(report: &Value) -> Option<(PathBuf, Option<PathBuf>)> {
    let text = |key: &str| report[key].as_str().map(PathBuf::from);
    Some((text("data")?, text("root")))
}

/// Whether a data set that a report names can be opened here.
pub(crate) fn is_there(data: &Path) -> bool {
    data == Path::new(emoji::NAME) || data.exists()
}
