//! The files of the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::folders::SIDECARS;
use super::generated::{ITEMS, PICTURES};
use super::{Kind, Report, shown};
use crate::data::manifest::MANIFEST;
use crate::data::read::{self, Listing, is_picture};
use crate::{Error, Result};

const TABLES: [&str; 7] = ["tsv", "tab", "csv", "jsonl", "ndjson", "parquet", "txt"];
const ARRAYS: [&str; 2] = ["npy", "npz"];
const ARCHIVES: [&str; 4] = ["zip", "tar", "tgz", "gz"];
/// Files that describe a data set; nobody expects them to become items.
const DESCRIPTIONS: [&str; 5] = ["md", "toml", "yaml", "yml", "rst"];

/// The files of a folder, or a file with those beside it.
pub(super) struct Found {
    /// The source.
    pub(super) source: PathBuf,
    /// The source, or the folder of a single file.
    pub(super) folder: PathBuf,
    pub(super) tables: Vec<PathBuf>,
    pub(super) arrays: Vec<PathBuf>,
    pub(super) mats: Vec<PathBuf>,
    /// Folders and archives with pictures.
    pub(super) pictures: Vec<PictureSource>,
    /// Numbers of other files by extension.
    others: BTreeMap<String, usize>,
    /// Why a folder or an archive cannot be listed.
    unreadable: Vec<(PathBuf, Error)>,
}

/// Pictures in one folder or archive.
pub(super) struct PictureSource {
    pub(super) path: PathBuf,
    pub(super) listing: Listing,
}

impl Found {
    pub(super) fn look(source: &Path) -> Result<Found> {
        let source = fs_err::canonicalize(source)?;
        let is_folder = source.is_dir();
        let folder = match source.parent() {
            Some(parent) if !is_folder => parent.to_owned(),
            _ => source.clone(),
        };
        let mut found = Found {
            folder: folder.clone(),
            tables: Vec::new(),
            arrays: Vec::new(),
            mats: Vec::new(),
            pictures: Vec::new(),
            others: BTreeMap::new(),
            unreadable: Vec::new(),
            source: source.clone(),
        };
        if !is_folder {
            found.sort_in(&source, true);
            if !found.tables.is_empty() {
                // The pictures of a table are beside it.
                found.list_folder(&folder);
                for path in files_of(&folder)? {
                    if ARCHIVES.contains(&ending(&path).as_str()) {
                        found.list_archive(&path);
                    }
                }
            }
            return Ok(found);
        }
        let mut open = vec![source.clone()];
        while let Some(folder) = open.pop() {
            for path in files_of(&folder)? {
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.sort_in(&path, folder == source);
                }
            }
        }
        found.list_folder(&source);
        for files in [&mut found.tables, &mut found.arrays, &mut found.mats] {
            files.sort_unstable();
        }
        Ok(found)
    }

    fn list_folder(&mut self, folder: &Path) {
        match read::pictures(folder, "") {
            Ok(listing) => {
                let path = folder.to_owned();
                self.pictures.insert(0, PictureSource { path, listing });
            }
            // A folder without pictures is not an error.
            Err(err) if !err.to_string().contains("no pictures here") => {
                self.unreadable.push((folder.to_owned(), err));
            }
            Err(_) => {}
        }
    }

    fn list_archive(&mut self, path: &Path) {
        match read::pictures(path, "") {
            Ok(listing) => {
                self.pictures.push(PictureSource { path: path.to_owned(), listing });
            }
            Err(err) => self.unreadable.push((path.to_owned(), err)),
        }
    }

    /// `top`: the file is in the source itself, not in a folder below it.
    fn sort_in(&mut self, path: &Path, top: bool) {
        let ending = ending(path);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let near =
            path.strip_prefix(&self.folder).map_or(0, |p| p.components().count()) <= 2;
        match ending.as_str() {
            "txt" if !is_text_table(path) => self.other(&ending),
            ending if TABLES.contains(&ending) && near => self.tables.push(path.to_owned()),
            ending if ARRAYS.contains(&ending) && top => self.arrays.push(path.to_owned()),
            "mat" if top => self.mats.push(path.to_owned()),
            ending if ARCHIVES.contains(&ending) && top => self.list_archive(path),
            _ if is_picture(&name) => {}
            ending if DESCRIPTIONS.contains(&ending) => {}
            ending => self.other(ending),
        }
    }

    fn other(&mut self, ending: &str) {
        *self.others.entry(ending.to_owned()).or_default() += 1;
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        if !self.tables.is_empty() {
            Some(Kind::Table)
        } else if !self.mats.is_empty() {
            Some(Kind::Mat)
        } else if !self.pictures.is_empty() {
            Some(Kind::Folders)
        } else if !self.arrays.is_empty() {
            Some(Kind::Arrays)
        } else {
            None
        }
    }

    /// The error for a source without anything that can be imported.
    pub(super) fn nothing(&self) -> Error {
        if let Some((path, err)) = self.unreadable.first() {
            return Error::content(format!("{}: {err}", shown(self, path)));
        }
        let there = match counted(&self.others) {
            text if text.is_empty() && self.source.is_dir() => {
                "the folder is empty".to_owned()
            }
            text if text.is_empty() => "the file is of no known format".to_owned(),
            text => format!("there are only {text}"),
        };
        Error::content(format!(
            "unknown layout: {there}; expected pictures (jpg, png, webp, gif, bmp, tiff, svg), also \
             in a zip or tar, a table (CSV, TSV, JSONL, Parquet), .npy features or a .mat file"
        ))
    }

    /// Reports the files that no layout uses.
    pub(super) fn report_others(&self, kind: Kind, report: &mut Report) {
        for (path, err) in &self.unreadable {
            report.unused(shown(self, path), err.to_string());
        }
        let mut files = |what: &[PathBuf], why: &str| {
            for path in what {
                report.unused(shown(self, path), why);
            }
        };
        if kind != Kind::Mat {
            files(&self.mats, "a MATLAB file beside other data; import it by itself");
        }
        if kind == Kind::Folders {
            files(&self.arrays, "the rows of an array need a table that names the items");
        }
        let mut others = self.others.clone();
        if report.findings.iter().any(|finding| finding.subject == SIDECARS) {
            others.remove("txt");
        }
        if !others.is_empty() {
            report.unused(counted(&others), "of no known format");
        }
    }
}

/// A number that changes when a file below the folder of a source is added, removed or written. Hidden
/// files do not count.
pub(super) fn fingerprint(source: &Path) -> Result<u64> {
    let source = fs_err::canonicalize(source)?;
    let folder = match source.parent() {
        Some(parent) if !source.is_dir() => parent.to_owned(),
        _ => source,
    };
    let mut state = xxhash_rust::xxh3::Xxh3::new();
    let mut open = vec![folder];
    while let Some(folder) = open.pop() {
        for path in files_of(&folder)? {
            let meta = fs_err::metadata(&path)?;
            if meta.is_dir() {
                open.push(path);
                continue;
            }
            let since = meta.modified()?.duration_since(std::time::UNIX_EPOCH);
            let time = since.map_or(0, |time| time.as_nanos());
            let text = format!("{}\0{}\0{time}\n", path.display(), meta.len());
            state.update(text.as_bytes());
        }
    }
    Ok(state.digest())
}

/// The files and folders of a folder, sorted, without hidden ones and those that an import wrote.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let own = [ITEMS, PICTURES, MANIFEST].contains(&name.as_ref());
        // Links are not followed into folders: they may be circular.
        let linked = entry.file_type()?.is_symlink() && entry.path().is_dir();
        if !own && !linked && !name.starts_with('.') && name != "__MACOSX" {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn ending(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Number of files by extension, e.g. "3 .pdf files".
fn counted(files: &BTreeMap<String, usize>) -> String {
    let each = files.iter().map(|(ending, count)| {
        let files = if *count == 1 { "file" } else { "files" };
        match ending.as_str() {
            "" => format!("{count} {files} without an extension"),
            ending => format!("{count} .{ending} {files}"),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Whether a .txt file is a table: a header of several columns, some with a known name, and a row.
fn is_text_table(path: &Path) -> bool {
    let mut start = String::new();
    let read = fs_err::File::open(path).and_then(|file| {
        std::io::Read::read_to_string(&mut std::io::Read::take(file, 1 << 16), &mut start)
    });
    if read.is_ok() && start.lines().take(2).count() < 2 {
        return false;
    }
    let names = read::names(path).unwrap_or_default();
    names.len() > 1 && names.iter().any(|name| super::roles::is_known(name))
}
