//! What inserted items show, and what they were made of: a log that only grows.
//!
//! The index holds codes, ids and labels; this file beside it holds the rest. One batch is
//!
//! ```text
//! "XHRECS\0\x01"  8 bytes
//! length          u64, of the payload
//! xxh3-64         u64, of the payload
//! payload         u32 length of JSON, the JSON, then the pictures one after the other
//! ```
//!
//! A batch is written and synced before the index commits what it belongs to, and names that
//! commit. So a hit of an inserted item always finds its record, and an answer is given only when
//! both are on disk. A batch whose commit never came (the power went in between) was never
//! acknowledged: it is cut off at the next start, as is a batch that is cut short itself.

use std::collections::HashMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"XHRECS\0\x01";
const HEAD: u64 = 24;

/// An inserted item, as it was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) features: Option<Vec<f32>>,
    /// The code, if it was given instead of something to encode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    #[serde(default)]
    pub(crate) meta: Map<String, Value>,
    /// Where its picture is among the pictures of the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) picture: Option<(u64, u64)>,
}

/// What a batch says.
#[derive(Serialize, Deserialize)]
struct Batch {
    /// Which index, and the commit of it.
    index: String,
    commit: u64,
    puts: Vec<Record>,
    gone: Vec<String>,
}

/// An inserted item as it is shown.
#[derive(Debug)]
pub(crate) struct DatasetContent {
    pub(crate) text: Option<String>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) picture: Option<Piece>,
}

/// A place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// The opened log.
pub(crate) struct Records {
    path: PathBuf,
    file: Mutex<std::fs::File>, // locked against other processes
    end: Mutex<u64>,
    known: RwLock<HashMap<String, Arc<DatasetContent>>>,
}

/// What became of an id, in the order of the log.
pub(crate) enum Change {
    /// It was put; its picture, if it has one.
    Put(Box<Record>, Option<Vec<u8>>),
    /// It was deleted.
    Gone(String),
}

impl Records {
    /// Opens or makes the log. `committed` tells the last commit of an index by its name; a
    /// batch at the end that it does not reach is cut off.
    pub(crate) fn open(
        path: &Path,
        committed: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Records> {
        let file = fs_err::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)?
            .into_file();
        file.try_lock().with_context(|| {
            format!("{} is in use: another server has this run open", path.display())
        })?;
        let records = Records {
            path: path.to_owned(),
            file: Mutex::new(file),
            end: Mutex::new(0),
            known: RwLock::default(),
        };
        let mut end = 0;
        let length = records.with_file(|file| Ok(file.metadata()?.len()))?;
        while end < length {
            let Some((batch, next, pictures)) = records.batch(end, length)? else { break };
            // Only the last one can be without its commit.
            if next == length
                && committed(&batch.index).is_some_and(|last| last < batch.commit)
            {
                break;
            }
            records.learn(batch.puts, pictures);
            end = next;
        }
        if end < length {
            tracing::warn!(file = %path.display(), bytes = length - end, "cut off a batch that was never acknowledged");
            records.with_file(|file| {
                file.set_len(end)?;
                file.sync_all()
            })?;
        }
        *records.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        Ok(records)
    }

    fn with_file<T>(
        &self,
        work: impl FnOnce(&mut std::fs::File) -> std::io::Result<T>,
    ) -> Result<T> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut file).with_context(|| self.path.display().to_string())
    }

    /// The batch at a place, where the next one begins, and where its pictures do; none if it is
    /// cut short, which only the end of the file may be.
    fn batch(&self, start: u64, length: u64) -> Result<Option<(Batch, u64, u64)>> {
        let damaged = || {
            format!(
                "{}: damaged at byte {start}; restore it from a copy, or remove it to lose what \
                 inserted items show",
                self.path.display()
            )
        };
        if length - start < HEAD {
            return Ok(None);
        }
        let head = self.piece(Piece { start, length: HEAD })?;
        let word = |at: usize| head[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let (size, sum) = (word(8), word(16));
        if &head[..8] != MAGIC {
            // A cut may leave zeros where bytes were still on their way.
            if head.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            bail!(damaged());
        }
        let next = (start + HEAD).checked_add(size).filter(|&next| next <= length);
        let Some(next) = next else { return Ok(None) };
        let payload = self.piece(Piece { start: start + HEAD, length: size })?;
        if xxh3_64(&payload) != sum {
            if next == length {
                return Ok(None);
            }
            bail!(damaged());
        }
        let json = payload.get(..4).and_then(|four| four.try_into().ok());
        let json = json.map_or(0, u32::from_le_bytes) as usize;
        let text = payload.get(4..4 + json).with_context(damaged)?;
        let batch = serde_json::from_slice(text).with_context(damaged)?;
        Ok(Some((batch, next, start + HEAD + 4 + json as u64)))
    }

    fn learn(&self, puts: Vec<Record>, pictures: u64) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for Record { id, text, meta, picture, .. } in puts {
            let picture =
                picture.map(|(at, length)| Piece { start: pictures + at, length });
            known.insert(id, Arc::new(DatasetContent { text, meta, picture }));
        }
    }

    /// Writes and syncs a batch that belongs to a commit of an index.
    pub(crate) fn append(
        &self,
        index: &str,
        commit: u64,
        puts: Vec<(Record, Option<Vec<u8>>)>,
        gone: Vec<String>,
    ) -> Result<()> {
        let mut pictures = Vec::new();
        let mut placed = Vec::with_capacity(puts.len());
        for (mut record, picture) in puts {
            record.picture = picture.map(|bytes| {
                let at = pictures.len() as u64;
                pictures.extend_from_slice(&bytes);
                (at, bytes.len() as u64)
            });
            placed.push(record);
        }
        let batch = Batch { index: index.to_owned(), commit, puts: placed, gone };
        let json = serde_json::to_vec(&batch)?;
        let mut payload = u32::try_from(json.len())?.to_le_bytes().to_vec();
        payload.extend_from_slice(&json);
        let before = payload.len() as u64;
        payload.extend_from_slice(&pictures);
        let mut bytes = MAGIC.to_vec();
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(xxh3_64(&payload).to_le_bytes());
        bytes.extend_from_slice(&payload);
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let start = *end;
        let written = self.with_file(|file| {
            let written = file
                .seek(SeekFrom::Start(start))
                .and_then(|_| file.write_all(&bytes))
                .and_then(|()| file.sync_data());
            if written.is_err() {
                // What is half there would hide what comes after it.
                file.set_len(start)?;
            }
            written
        });
        written?;
        *end = start + bytes.len() as u64;
        self.learn(batch.puts, start + HEAD + before);
        Ok(())
    }

    /// Takes the last batch back, because its commit failed.
    pub(crate) fn take_back(&self, end: u64) -> Result<()> {
        let mut now = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.with_file(|file| {
            file.set_len(end)?;
            file.sync_all()
        })?;
        *now = end;
        Ok(())
    }

    /// Where the next batch will begin.
    pub(crate) fn end(&self) -> u64 {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an inserted item shows.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<DatasetContent>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The bytes at a place.
    pub(crate) fn piece(&self, piece: Piece) -> Result<Vec<u8>> {
        self.with_file(|file| {
            let left = file.metadata()?.len().saturating_sub(piece.start);
            if left < piece.length {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            file.seek(SeekFrom::Start(piece.start))?;
            let mut bytes = Vec::new();
            file.take(piece.length).read_to_end(&mut bytes)?;
            Ok(bytes)
        })
    }

    /// Hands on everything that ever happened, in order.
    pub(crate) fn replay(&self, mut take: impl FnMut(Change) -> Result<()>) -> Result<()> {
        let (mut at, length) = (0, self.end());
        while at < length {
            let Some((batch, next, pictures)) = self.batch(at, length)? else { break };
            for record in batch.puts {
                let picture = match record.picture {
                    Some((start, length)) => {
                        Some(self.piece(Piece { start: pictures + start, length })?)
                    }
                    None => None,
                };
                take(Change::Put(Box::new(record), picture))?;
            }
            batch.gone.into_iter().try_for_each(|id| take(Change::Gone(id)))?;
            at = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, text: &str) -> Record {
        Record { id: id.into(), text: Some(text.into()), ..Record::default() }
    }

    fn text(records: &Records, id: &str) -> Option<String> {
        records.get(id)?.text.clone()
    }

    #[test]
    fn what_was_synced_is_there_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let records = Records::open(&path, &|_| None).unwrap();
        let picture = Some(vec![1, 2, 3]);
        records.append("i", 1, vec![(record("a", "one"), picture)], vec![]).unwrap();
        records.append("i", 2, vec![(record("b", "two"), None)], vec!["a".into()]).unwrap();
        let piece = records.get("a").unwrap().picture.unwrap();
        assert_eq!(records.piece(piece).unwrap(), [1, 2, 3]);
        let second = records.end();
        records.append("i", 3, vec![(record("c", "three"), None)], vec![]).unwrap();
        drop(records);
        let whole = fs_err::read(&path).unwrap();
        // the commit of the last batch never came
        let again = Records::open(&path, &|_| Some(2)).unwrap();
        assert_eq!(again.end(), second);
        assert_eq!(text(&again, "b").unwrap(), "two");
        assert_eq!(text(&again, "c"), None);
        assert_eq!(
            again.piece(again.get("a").unwrap().picture.unwrap()).unwrap(),
            [1, 2, 3]
        );
        drop(again);
        // cut at any byte of the last batch: those before are there
        for cut in usize::try_from(second).unwrap()..whole.len() {
            fs_err::write(&path, &whole[..cut]).unwrap();
            let again = Records::open(&path, &|_| None).unwrap();
            assert_eq!((again.end(), text(&again, "c")), (second, None), "cut at {cut}");
        }
        // damage before the end is no cut
        let mut other = whole.clone();
        other[40] ^= 1;
        fs_err::write(&path, &other).unwrap();
        let err = Records::open(&path, &|_| None).err().unwrap().to_string();
        assert!(err.contains("damaged at byte 0"), "{err}");
        fs_err::write(&path, &whole).unwrap();
        let again = Records::open(&path, &|_| Some(3)).unwrap();
        let mut seen = Vec::new();
        let note = |change| {
            seen.push(match change {
                Change::Put(record, picture) => (record.id, picture.is_some()),
                Change::Gone(id) => (format!("-{id}"), false),
            });
            Ok(())
        };
        again.replay(note).unwrap();
        let wanted = [("a", true), ("b", false), ("-a", false), ("c", false)];
        assert_eq!(seen, wanted.map(|(id, picture)| (id.to_owned(), picture)));
        assert!(Records::open(&path, &|_| None).is_err(), "one process at a time");
    }
}
