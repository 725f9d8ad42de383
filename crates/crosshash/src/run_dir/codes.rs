//! The codes of a run: queries and database of every modality, with ids and labels; and the outputs
//! of the model, one signed byte per bit (`.outputs.npy`).

use std::path::PathBuf;

use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{Outputs, npy, read};

use super::{CODES, RunDir};
use crate::data::{Dataset, Split, View, no_labels};
use crate::encode::{Encoder, database_outputs, signs};
use crate::evaluate::Coded;
use crate::{Error, Result};

/// The ending of a file of outputs.
const OUTPUTS: &str = "outputs.npy";

/// A part of the items that is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subset {
    /// Query items.
    Query,
    /// Database items.
    Database,
}

/// The codes of one modality, with the ids of its items.
#[derive(Debug, Clone)]
pub struct CodedModality {
    /// Codes and labels.
    pub coded: Coded,
    /// Ids of the queries.
    pub query_ids: Ids,
    /// Ids of the database items.
    pub database_ids: Ids,
    /// Outputs of the queries.
    pub query_outputs: Outputs,
    /// Outputs of the database items.
    pub database_outputs: Outputs,
}

impl Subset {
    /// Its name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Subset::Query => "query",
            Subset::Database => "database",
        }
    }
}

impl CodedModality {
    /// Encodes queries and database of one modality. `progress` is called with the number of
    /// items done.
    pub fn encode(
        encoder: &dyn Encoder,
        dataset: &Dataset,
        split: &Split,
        modality: &str,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<CodedModality> {
        let (queries, database) =
            (dataset.queries(split, modality)?, dataset.database(split, modality)?);
        let ids = |view: &View<'_>| {
            Ids::Names((0..view.len()).map(|at| view.id(at).to_owned()).collect())
        };
        let offset = queries.len();
        let bits = encoder.bits();
        let query_reals = encoder.outputs(modality, queries.features(), progress)?;
        let done = |done: usize| progress(offset + done);
        let database_reals = database_outputs(encoder, dataset, split, modality, &done)?;
        Ok(CodedModality {
            query_ids: ids(&queries),
            database_ids: ids(&database),
            coded: Coded {
                name: modality.to_owned(),
                queries: signs(bits, &query_reals)?,
                query_labels: queries.labels(),
                database: signs(bits, &database_reals)?,
                database_labels: database.labels(),
            },
            query_outputs: Outputs::from_reals(bits, &query_reals)?,
            database_outputs: Outputs::from_reals(bits, &database_reals)?,
        })
    }

    fn file(&self, subset: Subset) -> CodeFile {
        let coded = &self.coded;
        let (codes, labels, ids) = match subset {
            Subset::Query => (&coded.queries, &coded.query_labels, &self.query_ids),
            Subset::Database => {
                (&coded.database, &coded.database_labels, &self.database_ids)
            }
        };
        CodeFile {
            codes: codes.clone(),
            ids: Some(ids.clone()),
            labels: (labels.classes() > 0).then(|| labels.clone()),
        }
    }
}

impl RunDir {
    /// Whether there are codes.
    pub fn has_codes(&self) -> bool {
        self.path.join(CODES).is_dir()
    }

    /// The file of the codes of a modality.
    pub fn codes_path(&self, subset: Subset, modality: &str) -> PathBuf {
        self.path.join(CODES).join(format!("{}.{modality}.codes", subset.name()))
    }

    /// The file of the outputs of a modality: `int8`, items x bits, in the order of the codes.
    pub fn outputs_path(&self, subset: Subset, modality: &str) -> PathBuf {
        self.codes_path(subset, modality).with_extension(OUTPUTS)
    }

    /// Saves the codes and outputs of a modality.
    pub fn save_codes(&self, coded: &CodedModality) -> Result<()> {
        self.unseal()?;
        fs_err::create_dir_all(self.path.join(CODES))?;
        for subset in [Subset::Query, Subset::Database] {
            coded.file(subset).write(&self.codes_path(subset, &coded.coded.name))?;
            let outputs = match subset {
                Subset::Query => &coded.query_outputs,
                Subset::Database => &coded.database_outputs,
            };
            let path = self.outputs_path(subset, &coded.coded.name);
            let (rows, columns) = (outputs.len(), outputs.bits().get());
            npy::write_matrix(&path, rows, columns, outputs.values().iter().copied())?;
        }
        Ok(())
    }

    /// Loads the codes of a modality.
    pub fn codes(&self, subset: Subset, modality: &str) -> Result<CodeFile> {
        self.check(&format!("{CODES}/{}.{modality}.codes", subset.name()))?;
        Ok(CodeFile::read(&self.codes_path(subset, modality))?)
    }

    /// Loads the outputs of a modality; `None` for a run of an earlier version, which has none.
    pub fn outputs(&self, subset: Subset, modality: &str) -> Result<Option<Outputs>> {
        self.check(&format!("{CODES}/{}.{modality}.{OUTPUTS}", subset.name()))?;
        let path = self.outputs_path(subset, modality);
        if !path.exists() {
            return Ok(None);
        }
        let codes = self.codes(subset, modality)?.codes;
        let outputs =
            Outputs::from_reals(codes.bits(), &read::reals(&path, codes.bits())?)?;
        if outputs.len() != codes.len() {
            let (rows, items) = (outputs.len(), codes.len());
            return Err(Error::content(format!(
                "{rows} rows of outputs for {items} codes: train again"
            ))
            .at(&path));
        }
        Ok(Some(outputs))
    }

    /// Loads the codes and labels of every modality, sorted by name; labels of 0 classes if there are none.
    pub fn all_codes(&self) -> Result<Vec<Coded>> {
        let folder = self.path.join(CODES);
        if !folder.is_dir() {
            return Err(Error::content(format!(
                "{} has no codes: the training is not complete",
                self.path.display()
            )));
        }
        let mut names = Vec::new();
        for entry in fs_err::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let name = ["query.", "database."].iter().find_map(|start| {
                name.strip_prefix(start)?.strip_suffix(".codes").map(str::to_owned)
            });
            names.extend(name);
        }
        // A modality whose files are missing is an error, not a shorter list.
        names.extend(self.sealed_modalities()?.into_iter().flatten());
        if names.is_empty() {
            return Err(Error::content(format!(
                "{} contains no codes: train again",
                folder.display()
            )));
        }
        names.sort_unstable();
        names.dedup();
        let load = |subset: Subset, name: &str| -> Result<_> {
            let file = self.codes(subset, name)?;
            let labels = match file.labels {
                Some(labels) => labels,
                None => no_labels(file.codes.len())?,
            };
            Ok((file.codes, labels))
        };
        let coded = |name: String| -> Result<Coded> {
            let (queries, query_labels) = load(Subset::Query, &name)?;
            let (database, database_labels) = load(Subset::Database, &name)?;
            Ok(Coded { name, queries, query_labels, database, database_labels })
        };
        names.into_iter().map(coded).collect()
    }
}
