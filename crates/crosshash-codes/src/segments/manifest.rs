//! `Manifest`: the committed segments and the log that continues them. One line of JSON, then the
//! xxh3-64 of that line in hexadecimal; replaced by a rename.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::write::atomically;
use crate::{Bits, Error, Result};

/// The manifest's name in the folder of an index.
const NAME: &str = "manifest";
const FORMAT: &str = "crosshash index";
const VERSION: u32 = 2;
/// Maximum number of labels without names.
const MAX_LABELS: usize = 1 << 20;
/// Commits and files are counted up to here, so that counting on never overflows.
const MAX_COUNT: u64 = u64::MAX / 2;

/// The kind of ids of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IdKind {
    Numbers,
    Names,
}

/// How the outputs of items are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputKind {
    /// One signed byte per bit.
    Int8,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// The number in its file name; never used twice.
    pub(crate) number: u64,
    pub(crate) rows: u64,
    /// The size of its file.
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    version: u32,
    /// Counts commits; never restarts. The first record of the log is the next one.
    pub(crate) commit: u64,
    pub(crate) bits: usize,
    /// `None` until the first items come.
    pub(crate) ids: Option<IdKind>,
    /// The id of the next item that comes without one.
    pub(crate) next_id: u64,
    /// The number of the next segment or log.
    pub(crate) next_file: u64,
    /// The number of the log.
    pub(crate) log: u64,
    /// Number of labels.
    pub(crate) classes: usize,
    pub(crate) label_names: Vec<String>,
    /// How outputs are stored; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outputs: Option<OutputKind>,
    pub(crate) segments: Vec<Listed>,
}

/// What every version has.
#[derive(Deserialize)]
struct Version {
    format: String,
    version: u32,
}

/// Whether a folder is the folder of an index.
pub fn is_index(folder: &Path) -> bool {
    folder.join(NAME).is_file()
}

impl Manifest {
    pub(crate) fn new(bits: Bits, commit: u64) -> Manifest {
        Manifest {
            format: FORMAT.into(),
            version: VERSION,
            commit,
            bits: bits.get(),
            ids: None,
            next_id: 0,
            next_file: 2,
            log: 1,
            classes: 0,
            label_names: Vec::new(),
            outputs: None,
            segments: Vec::new(),
        }
    }

    pub(crate) fn read(folder: &Path) -> Result<Manifest> {
        let path = folder.join(NAME);
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::content(format!(
                    "{} is not the folder of an index: it has no {NAME} (crosshash index build \
                     makes one)",
                    folder.display()
                )));
            }
            Err(err) => return Err(err.into()),
        };
        Self::parse(&text).map_err(|err| err.at(&path))
    }

    fn parse(text: &str) -> Result<Manifest> {
        let damaged =
            |what: &str| Error::content(format!("damaged: {what}; restore it from a copy"));
        let (line, sum) =
            text.split_once('\n').ok_or_else(|| damaged("it is cut short"))?;
        if sum.strip_suffix('\n') != Some(&checksum(line)) {
            return Err(damaged("its checksum does not match"));
        }
        let Version { format, version } =
            serde_json::from_str(line).map_err(|err| damaged(&err.to_string()))?;
        if format != FORMAT || version != VERSION {
            return Err(Error::content(format!(
                "{format} version {version}; this program reads {FORMAT} version {VERSION}: build \
                 the index again"
            )));
        }
        let manifest: Manifest =
            serde_json::from_str(line).map_err(|err| damaged(&err.to_string()))?;
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    /// What everything else relies on: counters that can go on, files that no new one replaces, and
    /// label counts that fit into memory.
    fn check(&self) -> std::result::Result<(), &'static str> {
        let ascending = self.segments.is_sorted_by(|a, b| a.number < b.number);
        let largest = self.segments.last().map_or(0, |segment| segment.number);
        if !ascending || largest.max(self.log) >= self.next_file {
            return Err("its files are not numbered in order");
        }
        if self.commit.max(self.next_file) > MAX_COUNT {
            return Err("its counters are too large");
        }
        if self.classes > self.max_labels() {
            return Err("it has too many labels");
        }
        Ok(())
    }

    /// Maximum number of labels of items.
    pub(crate) fn max_labels(&self) -> usize {
        self.label_names.len().max(MAX_LABELS)
    }

    /// Commits: readers that open the folder from now on find this.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let line = serde_json::to_string(self).map_err(std::io::Error::from)?;
        atomically(&folder.join(NAME), |out| {
            Ok(writeln!(out, "{line}\n{}", checksum(&line))?)
        })
    }

    /// The file of a segment.
    pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("{number:08}.segment"))
    }
}

fn checksum(line: &str) -> String {
    format!("{:016x}", xxh3_64(line.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_complete_or_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::new(Bits::new(64).unwrap(), 7);
        manifest.label_names = vec!["a \"b\"\n\u{e9}".into()];
        manifest.segments.push(Listed { number: 1, rows: 2, bytes: 3 });
        manifest.write(dir.path()).unwrap();
        assert_eq!(Manifest::read(dir.path()).unwrap(), manifest);
        let text = fs_err::read_to_string(dir.path().join(NAME)).unwrap();
        assert_eq!(text.lines().count(), 2);
        for cut in (0..text.len()).filter(|&cut| text.is_char_boundary(cut)) {
            assert!(Manifest::parse(&text[..cut]).is_err(), "cut at {cut}");
        }
        let other = text.replace("\"rows\":2", "\"rows\":3");
        let err = Manifest::parse(&other).unwrap_err().to_string();
        let old = "{\"format\":\"crosshash index\",\"version\":1,\"commit\":4}";
        let text = format!("{old}\n{}\n", checksum(old));
        assert_eq!(
            Manifest::parse(&text).unwrap_err().to_string(),
            "crosshash index version 1; this program reads crosshash index version 2: build the \
             index again"
        );
        assert_eq!(err, "damaged: its checksum does not match; restore it from a copy");
    }
}
