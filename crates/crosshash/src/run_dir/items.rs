//! All items of a modality, as a service or a search shows them: database and queries together.

use std::collections::HashSet;

use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{Codes, Labels, Outputs};

use super::RunDir;
use super::codes::Subset;
use crate::{Error, Result};

/// An item of a code file.
struct Row<'a> {
    file: &'a CodeFile,
    /// Database (0) or queries (1).
    nth: usize,
    row: usize,
    id: String,
}

impl RunDir {
    /// The codes of all items of a modality, the database first, each id once; and their outputs if the run
    /// has them.
    pub fn items(&self, modality: &str) -> Result<(CodeFile, Option<Outputs>)> {
        let database = self.codes(Subset::Database, modality)?;
        let queries = self.codes(Subset::Query, modality)?;
        let bits = database.codes.bits();
        let outputs = match (
            self.outputs(Subset::Database, modality)?,
            self.outputs(Subset::Query, modality)?,
        ) {
            (Some(database), Some(queries)) => Some([database, queries]),
            _ => None,
        };
        let mut rows = Vec::new();
        let mut seen = HashSet::new();
        for (nth, file) in [&database, &queries].into_iter().enumerate() {
            let Some(Ids::Names(ids)) = &file.ids else {
                return Err(Error::content(format!(
                    "{}: the codes have no ids; train again",
                    self.path().display()
                )));
            };
            let fresh = ids.iter().enumerate().filter(|(_, id)| seen.insert(id.as_str()));
            let fresh = fresh.map(|(row, id)| Row { file, nth, row, id: id.clone() });
            rows.extend(fresh);
        }
        let classes = database.labels.as_ref().map_or(0, Labels::classes);
        let labels = |row: &Row<'_>| -> Vec<u32> {
            let labels = row.file.labels.as_ref();
            let own = labels.map(|l| {
                l.indices(row.row).filter_map(|l| u32::try_from(l).ok()).collect()
            });
            own.unwrap_or_default()
        };
        let outputs = outputs.map(|both| {
            let values = rows.iter().flat_map(|row| both[row.nth].row(row.row)).copied();
            Outputs::from_bytes(bits, values.collect())
        });
        let words = rows.iter().flat_map(|row| row.file.codes.code(row.row)).copied();
        let file = CodeFile {
            codes: Codes::from_words(bits, words.collect())?,
            labels: Some(Labels::from_indices(classes, rows.iter().map(labels))?),
            ids: Some(Ids::Names(rows.into_iter().map(|row| row.id).collect())),
        };
        Ok((file, outputs.transpose()?))
    }
}
