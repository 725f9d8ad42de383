//! Arrays of numbers in a safetensors file, written whole or not at all, checked when read; and
//! the checkpoint of a training in progress: every matrix with its velocity, the best matrices
//! so far, and the state as TOML in the file's metadata, so that one file is one moment.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crosshash_codes::write::atomically_at;
use rayon::prelude::*;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{Error, Result};

/// Numbers a thread takes at a time.
const BLOCK: usize = 1 << 15;

/// A matrix by rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    /// Columns.
    pub(crate) columns: usize,
    /// Values.
    pub(crate) values: Vec<f32>,
}

/// Named matrices.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Arrays(BTreeMap<String, Array>);

impl Arrays {
    /// Adds one.
    pub(crate) fn push(&mut self, name: String, columns: usize, values: Vec<f32>) {
        self.0.insert(name, Array { columns, values });
    }

    /// Takes one out by name.
    pub(crate) fn take(&mut self, name: &str) -> Result<Array> {
        match self.0.remove(name) {
            Some(array) => Ok(array),
            None => Err(Error::unknown("array", name, self.0.keys().map(String::as_str))),
        }
    }

    /// Whether there is one of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether every value is finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.0.values().all(|array| array.values.iter().all(|x| x.is_finite()))
    }

    /// Adds copies of others, their names after a prefix.
    pub(crate) fn extend(&mut self, prefix: &str, others: &Arrays) {
        let named = others.0.iter().map(|(name, a)| (format!("{prefix}{name}"), a.clone()));
        self.0.extend(named);
    }

    /// Takes out those whose names begin with a prefix, which is cut off; `None` if there are
    /// none.
    pub(crate) fn split(&mut self, prefix: &str) -> Option<Arrays> {
        let (inside, outside): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.0)
                .into_iter()
                .partition(|(k, _)| k.starts_with(prefix));
        self.0 = outside;
        let cut = inside.into_iter().map(|(k, a)| (k[prefix.len()..].to_owned(), a));
        Some(Arrays(cut.collect())).filter(|arrays| !arrays.0.is_empty())
    }

    /// Moves every value by this share of its difference to another's; refuses other names or
    /// sizes.
    pub(crate) fn approach(&mut self, other: &Arrays, share: f32) -> Result<()> {
        let alike = |(a, b): (&Array, &Array)| a.values.len() == b.values.len();
        let same = self.0.keys().eq(other.0.keys())
            && self.0.values().zip(other.0.values()).all(alike);
        if !same {
            return Err(Error::content(
                "arrays of other names or sizes cannot be averaged",
            ));
        }
        for (own, other) in self.0.values_mut().zip(other.0.values()) {
            let cells =
                own.values.par_chunks_mut(BLOCK).zip(other.values.par_chunks(BLOCK));
            cells.for_each(|(own, other)| {
                own.iter_mut().zip(other).for_each(|(a, b)| *a += share * (b - *a));
            });
        }
        Ok(())
    }

    /// Writes all, with a text.
    pub(crate) fn write(&self, path: &Path, note: &str) -> Result<()> {
        let fault = |err: SafeTensorError| {
            Error::content(format!("cannot be written: {err}")).at(path)
        };
        let bytes: Vec<Cow<'_, [u8]>> =
            self.0.values().map(|a| little(&a.values)).collect();
        let mut views = Vec::new();
        for ((name, array), bytes) in self.0.iter().zip(&bytes) {
            let shape = vec![array.values.len() / array.columns.max(1), array.columns];
            let view = TensorView::new(Dtype::F32, shape, bytes).map_err(fault)?;
            views.push((name.as_str(), view));
        }
        let about = HashMap::from([("crosshash".to_owned(), note.to_owned())]);
        let mut failed = None;
        atomically_at(path, |aside| {
            match safetensors::serialize_to_file(views, Some(about), aside) {
                Ok(()) => {}
                Err(SafeTensorError::IoError(err)) => return Err(err.into()),
                Err(err) => failed = Some(err),
            }
            Ok(())
        })?;
        failed.map_or(Ok(()), |err| Err(fault(err)))
    }

    /// Reads all, and the text.
    pub(crate) fn read(path: &Path) -> Result<(Arrays, String)> {
        let bytes = fs_err::read(path)?;
        Arrays::from_bytes(&bytes).map_err(|err| err.at(path))
    }

    /// Reads from bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<(Arrays, String)> {
        let fault = |err: SafeTensorError| {
            Error::content(format!("damaged or not a safetensors file: {err}"))
        };
        let file = SafeTensors::deserialize(bytes).map_err(fault)?;
        let (_, about) = SafeTensors::read_metadata(bytes).map_err(fault)?;
        let note =
            about.metadata().as_ref().and_then(|about| about.get("crosshash").cloned());
        let mut arrays = Arrays::default();
        for (name, view) in file.tensors() {
            let (Dtype::F32, &[_, columns]) = (view.dtype(), view.shape()) else {
                return Err(Error::content(format!(
                    "{name} is no matrix of 32-bit floats"
                )));
            };
            let four = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            let values: Vec<f32> = view.data().chunks_exact(4).map(four).collect();
            if let Some(value) = values.iter().find(|x| !x.is_finite()) {
                return Err(Error::content(format!("{name} holds {value}: it is damaged")));
            }
            arrays.push(name, columns, values);
        }
        Ok((arrays, note.unwrap_or_default()))
    }
}

/// The bytes of numbers, lowest first, as the format wants them; a copy only where the machine
/// keeps them otherwise.
fn little(values: &[f32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(values))
    } else {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    fn some() -> Arrays {
        let mut arrays = Arrays::default();
        arrays.push("b".into(), 3, vec![1.0, -2.5, 0.0, 4.0, 5.0, 6.0]);
        arrays.push("a".into(), 1, vec![f32::MIN_POSITIVE]);
        arrays
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        some().write(&path, "a note").unwrap();
        let (mut arrays, note) = Arrays::read(&path).unwrap();
        assert_eq!((&arrays, note.as_str()), (&some(), "a note"));
        let err = arrays.take("c").unwrap_err().to_string();
        assert_eq!(err, "no array named \"c\"; there are: a, b");
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn damaged_bytes_never_panic(at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x.safetensors");
            some().write(&path, "a note").unwrap();
            let mut bytes = fs_err::read(&path).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Arrays::from_bytes(&bytes);
            bytes.truncate(cut % bytes.len());
            prop_assert!(Arrays::from_bytes(&bytes).is_err());
        }
    }
}
