//! Recognises what a folder or file contains, and proposes a manifest for it.
//!
//! | file | what |
//! |---|---|
//! | `found.rs` | the files of the source |
//! | `folders.rs` | pictures in folders: classes, modalities, splits, or nothing |
//! | `table.rs`, `roles.rs`, `column.rs` | a table: what its columns are, with its pictures |
//! | `arrays.rs` | NumPy arrays and MATLAB files |
//! | `generated.rs` | files that are written beside the manifest: embedded pictures, rearranged rows |
//!
//! Every file and column is in the report: what it was taken for and how sure that is, or why it is not
//! used.

mod arrays;
mod column;
mod folders;
mod found;
mod generated;
mod roles;
mod table;

use std::fmt;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use crosshash_codes::write::atomically;

use super::manifest::{MANIFEST, Manifest, SplitSource};
use super::{Analysis, Language, Selection};
use crate::{Error, Result};
use found::Found;
use generated::Generated;

/// A layout of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pictures in folders.
    Folders,
    /// A table, with or without pictures.
    Table,
    /// Features as NumPy arrays.
    Arrays,
    /// A MATLAB file with features.
    Mat,
}

/// How sure a recognition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// A guess that should be checked.
    Guess,
    /// Recognised by content.
    Likely,
    /// Recognised without doubt, e.g. by name and content.
    Certain,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Certainty::Guess => "a guess",
            Certainty::Likely => "likely",
            Certainty::Certain => "certain",
        })
    }
}

/// What became of a file or column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, column or folder.
    pub subject: String,
    /// What it was taken for, or why it is not used.
    pub role: String,
    /// How sure that is.
    pub certainty: Certainty,
    /// Whether it is used.
    pub used: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = if self.used { "" } else { "not used: " };
        write!(f, "{}: {used}{}", self.subject, self.role)?;
        match self.certainty {
            Certainty::Certain => Ok(()),
            certainty => write!(f, " ({certainty})"),
        }
    }
}

/// A manifest, and what became of every file and column.
#[derive(Debug)]
pub struct Proposal {
    /// The manifest.
    pub manifest: Manifest,
    /// What became what.
    pub findings: Vec<Finding>,
    /// Number of items: rows of the table, or pictures.
    pub items: usize,
    generated: Vec<Generated>,
}

impl Proposal {
    /// Whether something that is used was only guessed.
    pub fn is_doubtful(&self) -> bool {
        self.findings.iter().any(|f| f.used && f.certainty == Certainty::Guess)
    }

    /// Writes the manifest, and what belongs beside it, into a folder. `progress` is called with the number
    /// of embedded pictures written so far.
    pub fn write(&self, out: &Path, progress: &dyn Fn(usize)) -> Result<PathBuf> {
        fs_err::create_dir_all(out)?;
        for file in &self.generated {
            file.write(out, progress)?;
        }
        let text = self.manifest.to_toml()?;
        let target = out.join(MANIFEST);
        atomically(&target, |out| Ok(out.write_all(text.as_bytes())?))?;
        Ok(target)
    }
}

/// Findings under construction.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    generated: Vec<Generated>,
    items: usize,
}

impl Report {
    fn used(&mut self, subject: impl Into<String>, role: impl Into<String>, c: Certainty) {
        let (subject, role) = (subject.into(), role.into());
        self.findings.push(Finding { subject, role, certainty: c, used: true });
    }

    fn unused(&mut self, subject: impl Into<String>, why: impl Into<String>) {
        let (subject, role) = (subject.into(), why.into());
        let certainty = Certainty::Certain;
        self.findings.push(Finding { subject, role, certainty, used: false });
    }
}

/// Proposes a manifest, to be written into `out`, for a folder or file. Nothing is written.
pub fn import(source: &Path, out: &Path, kind: Option<Kind>) -> Result<Proposal> {
    let found = Found::look(source)?;
    let kind = match kind.or_else(|| found.kind()) {
        Some(kind) => kind,
        None => return Err(found.nothing().at(source)),
    };
    let place = Place { out: absolute(out)? };
    let mut report = Report::default();
    let mut manifest = match kind {
        Kind::Folders => folders::propose(&found, &place, &mut report),
        Kind::Table => table::propose(&found, &place, &mut report),
        Kind::Arrays => arrays::propose(&found, &place, &mut report),
        Kind::Mat => arrays::propose_mat(&found, &place, &mut report),
    }
    .map_err(|err| match err {
        Error::File { .. } | Error::Io(_) => err,
        err => err.at(source),
    })?;
    found.report_others(kind, &mut report);
    let name = found.source.file_stem();
    manifest.name = name.map(|name| name.to_string_lossy().into_owned());
    if manifest.split.is_none() {
        let query = Some(Selection::Share(0.1));
        manifest.split = Some(SplitSource { query, ..SplitSource::default() });
        let role = "10 % of the items are held out as queries (seed 0)";
        report.used("split", role, Certainty::Certain);
    }
    let Report { findings, generated, items } = report;
    Ok(Proposal { manifest, findings, items, generated })
}

/// A number that changes when a file of the source is added, removed or written: names, sizes and times of
/// all files in its folder.
pub fn fingerprint(source: &Path) -> Result<u64> {
    found::fingerprint(source)
}

/// Stems the texts of a manifest, if they are in one language: "bricks" then finds "brick".
fn stem_texts(manifest: &mut Manifest, texts: &[impl AsRef<str>], report: &mut Report) {
    let Some(language) = Language::detect(texts.iter().map(AsRef::as_ref)) else { return };
    let sources = manifest.modality.values_mut();
    for source in
        sources.filter(|source| source.text.is_some() || source.captions.is_some())
    {
        source.analysis = Some(Analysis { stem: Some(language), ..Analysis::default() });
    }
    report.used(
        "texts",
        format!("{language:?}; words are compared by their stems"),
        Certainty::Likely,
    );
}

/// The folder of the manifest.
struct Place {
    out: PathBuf,
}

impl Place {
    /// A path as written in the manifest: relative if it is near the folder of the manifest.
    fn name(&self, path: &Path) -> PathBuf {
        const UP: usize = 2;
        let mut up = PathBuf::new();
        for folder in self.out.ancestors().take(1 + UP) {
            if folder.parent().is_none() {
                break; // not relative to the root of the file system
            }
            if let Ok(below) = path.strip_prefix(folder) {
                let name = up.join(below);
                let empty = name.as_os_str().is_empty();
                return if empty { PathBuf::from(".") } else { name };
            }
            up.push("..");
        }
        path.to_owned()
    }
}

/// An absolute path; the folder need not exist.
fn absolute(path: &Path) -> Result<PathBuf> {
    if let Ok(path) = fs_err::canonicalize(path) {
        return Ok(path);
    }
    let path = std::path::absolute(path)?;
    // The part that exists is resolved, so that it has the same form as other paths.
    for folder in path.ancestors().skip(1) {
        if let (Ok(real), Ok(below)) =
            (fs_err::canonicalize(folder), path.strip_prefix(folder))
        {
            let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
            return Ok(if plain { real.join(below) } else { path });
        }
    }
    Ok(path)
}

fn stem(path: &Path) -> String {
    plain(&path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default())
}

/// A name that needs no quotes in TOML.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    name.chars().map(keep).collect()
}

/// A path below the source, for the report.
fn shown(found: &Found, path: &Path) -> String {
    let below = path.strip_prefix(&found.folder).unwrap_or(path);
    if below.as_os_str().is_empty() { ".".into() } else { below.display().to_string() }
}
