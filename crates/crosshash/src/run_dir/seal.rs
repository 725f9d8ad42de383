//! The checksums of a finished run: `checksums.json` lists its files with size and xxh3-128, in one
//! line of JSON followed by the checksum of that line.
//!
//! A run is sealed when its training is complete. Whatever is then read from it is compared with its
//! checksum. Writing a file removes the seal first, so that a run that is trained again is unsealed
//! until it is complete; an unsealed run is read as it is.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use crosshash_codes::write::atomically;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{CODES, CONFIG, CONVERGENCE, HISTORY, LAYOUT, REPORT, RunDir};
use crate::model::{MODEL_JSON, MODEL_WEIGHTS};
use crate::{Error, Result};

pub(super) const SEAL: &str = "checksums.json";

/// Files of a run besides codes.
const FILES: [&str; 7] =
    [LAYOUT, CONFIG, MODEL_JSON, MODEL_WEIGHTS, HISTORY, REPORT, CONVERGENCE];

/// The state of a file of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Its name in the folder of the run.
    pub name: String,
    /// What is wrong with it; `None` if it is as it was written.
    pub fault: Option<String>,
}

/// Size and checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    xxh3: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seal {
    files: BTreeMap<String, Sum>,
}

impl Sum {
    fn of(path: &Path) -> Result<Sum> {
        let mut file = fs_err::File::open(path)?;
        let (mut state, mut buffer, mut bytes) = (Xxh3::new(), vec![0; 1 << 20], 0);
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(Sum { bytes, xxh3: format!("{:032x}", state.digest128()) });
            }
            bytes += read as u64;
            state.update(&buffer[..read]);
        }
    }
}

impl Seal {
    fn parse(text: &str) -> Option<Seal> {
        let (line, sum) = text.split_once('\n')?;
        let valid = sum.strip_suffix('\n') == Some(&checksum(line));
        valid.then(|| serde_json::from_str(line).ok())?
    }
}

fn checksum(line: &str) -> String {
    format!("{:016x}", xxh3_64(line.as_bytes()))
}

impl RunDir {
    /// Records the checksums of all files: the run is complete.
    pub fn seal(&self) -> Result<()> {
        let mut seal = Seal::default();
        for name in self.present()? {
            seal.files.insert(name.clone(), Sum::of(&self.path.join(&name))?);
        }
        let line = serde_json::to_string(&seal).map_err(std::io::Error::from)?;
        atomically(&self.path.join(SEAL), |out| {
            Ok(writeln!(out, "{line}\n{}", checksum(&line))?)
        })?;
        Ok(())
    }

    /// Whether the checksums of the files are recorded.
    pub fn is_sealed(&self) -> bool {
        self.path.join(SEAL).is_file()
    }

    /// Compares all files with their checksums. For a run without checksums, the list is empty.
    pub fn verify(&self) -> Result<Vec<FileState>> {
        let Some(seal) = self.sums()? else { return Ok(Vec::new()) };
        let mut states = Vec::new();
        for name in seal.files.keys() {
            let fault = self.check(name).err().map(|err| err.to_string());
            states.push(FileState { name: name.clone(), fault });
        }
        for name in self.present()? {
            if !seal.files.contains_key(&name) {
                let fault = Some("was not there when the training ended".to_owned());
                states.push(FileState { name, fault });
            }
        }
        Ok(states)
    }

    /// Compares a file with its checksum, if the run is sealed.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        let Some(seal) = self.sums()? else { return Ok(()) };
        let path = self.path.join(name);
        let fault = |what: &str| {
            Err(Error::content(format!("{what}; restore it from a copy, or train again"))
                .at(&path))
        };
        match seal.files.get(name) {
            None => Ok(()),
            Some(_) if !path.is_file() => fault("the file is missing"),
            Some(sum) if Sum::of(&path)? != *sum => {
                fault("damaged or changed: its checksum does not match")
            }
            Some(_) => Ok(()),
        }
    }

    /// The modalities with codes, by the checksums; `None` if the run is not sealed.
    pub(super) fn sealed_modalities(&self) -> Result<Option<Vec<String>>> {
        let Some(seal) = self.sums()? else { return Ok(None) };
        let start = format!("{CODES}/query.");
        let names = seal.files.keys().filter_map(|name| {
            Some(name.strip_prefix(&start)?.strip_suffix(".codes")?.to_owned())
        });
        Ok(Some(names.collect()))
    }

    /// Removes the seal, because a file is about to change.
    pub(super) fn unseal(&self) -> Result<()> {
        match std::fs::remove_file(self.path.join(SEAL)) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => Err(err.into()),
            _ => Ok(()),
        }
    }

    fn sums(&self) -> Result<Option<Seal>> {
        if !self.is_sealed() {
            return Ok(None);
        }
        let path = self.path.join(SEAL);
        let bytes = fs_err::read(&path)?;
        let seal = std::str::from_utf8(&bytes).ok().and_then(Seal::parse);
        let what = "damaged: its own checksum does not match; restore it from a copy, or remove \
                    it to use the run without checksums";
        seal.map(Some).ok_or_else(|| Error::content(what).at(&path))
    }

    /// The names of all files that a training writes and that exist.
    fn present(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = FILES.map(str::to_owned).to_vec();
        if self.has_codes() {
            for entry in fs_err::read_dir(self.path.join(CODES))? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !name.starts_with('.') {
                    names.push(format!("{CODES}/{name}"));
                }
            }
        }
        names.retain(|name| self.path.join(name).is_file());
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every flipped bit of every file is detected.
    #[test]
    fn damaged_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path()).unwrap();
        run.save_config("bits = 8\n").unwrap();
        run.save_history("epoch,loss\n1,0.5\n").unwrap();
        assert!(run.verify().unwrap().is_empty());
        run.seal().unwrap();
        let states = run.verify().unwrap();
        assert_eq!(states.len(), 3);
        assert!(states.iter().all(|state| state.fault.is_none()), "{states:?}");
        for name in [LAYOUT, CONFIG, HISTORY, SEAL] {
            let path = folder.path().join(name);
            let whole = fs_err::read(&path).unwrap();
            for bit in 0..whole.len() * 8 {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                fs_err::write(&path, &bytes).unwrap();
                match run.verify() {
                    Ok(states) => {
                        let bad: Vec<_> =
                            states.iter().filter(|state| state.fault.is_some()).collect();
                        assert_eq!(bad.len(), 1, "{name}, bit {bit}");
                        assert_eq!(bad[0].name, name);
                    }
                    Err(err) => assert!(name == SEAL, "{err}"),
                }
            }
            fs_err::write(&path, &whole).unwrap();
        }
        fs_err::write(folder.path().join(CONFIG), "bits = 9\n").unwrap();
        let err = run.config().unwrap_err().to_string();
        assert!(err.contains("its checksum does not match"), "{err}");
        fs_err::remove_file(folder.path().join(CONFIG)).unwrap();
        assert!(run.config().unwrap_err().to_string().contains("missing"));
        // training again removes the seal
        run.save_config("bits = 9\n").unwrap();
        assert!(!run.is_sealed());
        assert_eq!(run.config().unwrap().bits().get(), 9);
    }
}
