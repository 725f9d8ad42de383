//! `RunDir`: the folder of a training run. The only type that knows the names of its files.
//!
//! | file | contents |
//! |---|---|
//! | `run.json` | version of the layout |
//! | `config.toml` | the complete configuration |
//! | `model.json`, `model.safetensors` | the model: sizes, vocabularies and normalisers; weights |
//! | `codes/PART.MODALITY.codes` | codes, ids and labels of queries and database |
//! | `history.csv` | one line per epoch |
//! | `report.json` | [`RunReport`]: data, split, evaluation |
//! | `convergence.svg` | plot of the history |
//! | `checkpoint.safetensors` | state of an unfinished training |
//! | `checksums.json` | checksums of the files above, of a finished run (`seal.rs`) |
//! | `serve/` | files of the HTTP service |
//!
//! Every file is written atomically: it is complete or absent. Files of a finished run are compared
//! with their checksums when they are read.

mod codes;
mod history;
mod items;
mod report;
mod seal;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crosshash_codes::write::atomically;
use serde::{Deserialize, Serialize};

pub use codes::{CodedModality, Subset};
pub use history::HistoryTable;
pub use report::{DirectionReport, RunReport, Suggestion};
pub use seal::FileState;

use crate::model::{MODEL_JSON, MODEL_WEIGHTS};
use crate::{Config, Error, Model, Result};

const LAYOUT: &str = "run.json";
const CONFIG: &str = "config.toml";
const REPORT: &str = "report.json";
const HISTORY: &str = "history.csv";
const CHECKPOINT: &str = "checkpoint.safetensors";
const CONVERGENCE: &str = "convergence.svg";
const CODES: &str = "codes";
const SERVICE: &str = "serve";

/// The folder of a training run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

/// The content of `run.json`.
#[derive(Serialize, Deserialize)]
struct Layout {
    version: u32,
    crosshash: String,
}

/// A file of a run with its modification time and size, to detect changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileStamp {
    /// The file.
    pub path: PathBuf,
    /// Modification time, if the system reports it.
    pub modified: Option<SystemTime>,
    /// Its size in bytes.
    pub bytes: u64,
}

impl RunDir {
    /// Version of the layout that this library reads and writes.
    pub const VERSION: u32 = 2;

    /// Opens the folder of a run. Rejects other versions of the layout.
    pub fn open(path: impl Into<PathBuf>) -> Result<RunDir> {
        let run = RunDir { path: path.into() };
        if !RunDir::is_run(&run.path) {
            return Err(Error::content(format!(
                "{} is not the folder of a run (`crosshash train` creates one)",
                run.path.display()
            )));
        }
        run.check_version()?;
        Ok(run)
    }

    /// Creates the folder of a run, or opens one of the same version.
    pub fn create(path: impl Into<PathBuf>) -> Result<RunDir> {
        let run = RunDir { path: path.into() };
        if RunDir::is_run(&run.path) {
            run.check_version()?;
            return Ok(run);
        }
        fs_err::create_dir_all(&run.path)?;
        let layout = Layout {
            version: RunDir::VERSION,
            crosshash: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let json = serde_json::to_string(&layout).map_err(std::io::Error::from)?;
        run.write(LAYOUT, &(json + "\n"))?;
        Ok(run)
    }

    /// A run that is created later ([`RunDir::create`]); nothing is written.
    pub fn planned(path: impl Into<PathBuf>) -> RunDir {
        RunDir { path: path.into() }
    }

    /// Whether a folder contains a run of any version, finished or not.
    pub fn is_run(path: &Path) -> bool {
        [LAYOUT, CONFIG, MODEL_JSON].iter().any(|name| path.join(name).is_file())
    }

    fn check_version(&self) -> Result<()> {
        self.check(LAYOUT)?;
        let path = self.path.join(LAYOUT);
        if !path.is_file() {
            return Err(Error::content(format!(
                "{} was created by an older version of crosshash (layout 1, this version reads \
                 layout {}): train again",
                self.path.display(),
                RunDir::VERSION
            )));
        }
        let layout: Layout = serde_json::from_slice(&fs_err::read(&path)?)
            .map_err(|err| Error::content(format!("invalid: {err}")).at(&path))?;
        let relation = match layout.version.cmp(&RunDir::VERSION) {
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Less => "an older",
            std::cmp::Ordering::Greater => "a newer",
        };
        Err(Error::content(format!(
            "{} was created by {relation} version of crosshash ({}; layout {}, this version \
             reads layout {}): use that version, or train again",
            self.path.display(),
            layout.crosshash,
            layout.version,
            RunDir::VERSION
        )))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a training was started: there is a configuration.
    pub fn is_started(&self) -> bool {
        self.path.join(CONFIG).is_file()
    }

    /// Whether there is a model.
    pub fn has_model(&self) -> bool {
        self.path.join(MODEL_JSON).is_file()
    }

    /// Whether the training is complete: there are a model, codes and a report.
    pub fn is_finished(&self) -> bool {
        self.has_model() && self.has_codes() && self.path.join(REPORT).is_file()
    }

    /// The configuration.
    pub fn config(&self) -> Result<Config> {
        Config::parse(&self.config_text()?, &[])
            .map_err(|err| err.at(&self.path.join(CONFIG)))
    }

    /// The configuration as TOML.
    pub fn config_text(&self) -> Result<String> {
        self.check(CONFIG)?;
        Ok(fs_err::read_to_string(self.path.join(CONFIG))?)
    }

    /// Saves the configuration, as TOML.
    pub fn save_config(&self, toml: &str) -> Result<()> {
        self.write(CONFIG, toml)
    }

    /// Loads the model.
    pub fn model(&self) -> Result<Model> {
        if !self.has_model() {
            return Err(Error::content(format!(
                "{} has no model: the training is not complete; continue it with `crosshash \
                 train --resume`",
                self.path.display()
            )));
        }
        self.check(MODEL_JSON)?;
        self.check(MODEL_WEIGHTS)?;
        Model::load(&self.path)
    }

    /// Saves the model.
    pub fn save_model(&self, model: &Model) -> Result<()> {
        self.unseal()?;
        model.save(&self.path)
    }

    /// Loads the report.
    pub fn report(&self) -> Result<RunReport> {
        self.check(REPORT)?;
        let path = self.path.join(REPORT);
        serde_json::from_slice(&fs_err::read(&path)?)
            .map_err(|err| Error::content(format!("not a report: {err}")).at(&path))
    }

    /// Loads the report of a run that may have none; a damaged report is an error.
    pub fn report_if_any(&self) -> Result<Option<RunReport>> {
        self.check(REPORT)?;
        self.path.join(REPORT).exists().then(|| self.report()).transpose()
    }

    /// Saves the report; returns its text.
    pub fn save_report(&self, report: &RunReport) -> Result<String> {
        let text =
            serde_json::to_string_pretty(report).map_err(std::io::Error::from)? + "\n";
        self.write(REPORT, &text)?;
        Ok(text)
    }

    /// Loads the history of the epochs.
    pub fn history(&self) -> Result<HistoryTable> {
        self.check(HISTORY)?;
        let path = self.path.join(HISTORY);
        HistoryTable::parse(&fs_err::read_to_string(&path)?).map_err(|err| err.at(&path))
    }

    /// Saves the history of the epochs, as CSV.
    pub fn save_history(&self, csv: &str) -> Result<()> {
        self.write(HISTORY, csv)
    }

    /// Where the state of an unfinished training is saved.
    pub fn checkpoint_path(&self) -> PathBuf {
        self.path.join(CHECKPOINT)
    }

    /// Whether there is a checkpoint.
    pub fn has_checkpoint(&self) -> bool {
        self.checkpoint_path().is_file()
    }

    /// Removes the checkpoint, if there is one.
    pub fn remove_checkpoint(&self) -> Result<()> {
        if self.has_checkpoint() {
            fs_err::remove_file(self.checkpoint_path())?;
        }
        Ok(())
    }

    /// Where the plot of the history is saved.
    pub fn convergence_plot_path(&self) -> PathBuf {
        self.path.join(CONVERGENCE)
    }

    /// The folder in which the HTTP service keeps its files.
    pub fn service_path(&self) -> PathBuf {
        self.path.join(SERVICE)
    }

    /// The files that change when the run is trained again: model and codes, and report and
    /// checksums if `with_report`; sorted by path.
    pub fn stamps(&self, with_report: bool) -> Vec<FileStamp> {
        let mut files = vec![self.path.join(MODEL_JSON), self.path.join(MODEL_WEIGHTS)];
        if with_report {
            files.extend([self.path.join(REPORT), self.path.join(seal::SEAL)]);
        }
        if let Ok(listing) = fs_err::read_dir(self.path.join(CODES)) {
            files.extend(listing.filter_map(|entry| Some(entry.ok()?.path())));
        }
        let stamp = |path: PathBuf| {
            let meta = fs_err::metadata(&path).ok()?;
            Some(FileStamp { path, modified: meta.modified().ok(), bytes: meta.len() })
        };
        let mut stamps: Vec<FileStamp> = files.into_iter().filter_map(stamp).collect();
        stamps.sort();
        stamps
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        self.unseal()?;
        let path = self.path.join(name);
        atomically(&path, |out| Ok(out.write_all(text.as_bytes())?))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let err = RunDir::open(&path).unwrap_err().to_string();
        assert!(err.contains("is not the folder of a run"), "{err}");
        let run = RunDir::create(&path).unwrap();
        run.save_config("bits = 8\n").unwrap();
        assert_eq!(RunDir::open(&path).unwrap(), run);
        assert_eq!(run.config().unwrap().bits().get(), 8);

        fs_err::write(path.join(LAYOUT), r#"{"version":3,"crosshash":"9.0.0"}"#).unwrap();
        let err = RunDir::open(&path).unwrap_err().to_string();
        assert!(err.contains("by a newer version of crosshash (9.0.0; layout 3"), "{err}");
        fs_err::remove_file(path.join(LAYOUT)).unwrap();
        for result in [RunDir::open(&path), RunDir::create(&path)] {
            let err = result.unwrap_err().to_string();
            assert!(err.contains("by an older version of crosshash"), "{err}");
        }
    }

    #[test]
    fn unfinished_runs_have_no_model() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        run.save_config("").unwrap();
        assert!(run.is_started() && !run.has_model() && !run.is_finished());
        let err = run.model().unwrap_err().to_string();
        assert!(err.contains("the training is not complete"), "{err}");
        run.remove_checkpoint().unwrap();
    }
}
