//! NumPy `.npz`: named arrays in a zip archive, and sparse matrices of SciPy.
//!
//! An uncompressed entry is mapped; a compressed one is spooled. A file with the entries
//! `data`, `indices`, `indptr` and `shape` is a CSR matrix (`scipy.sparse.save_npz`).

use std::io::Cursor;
use std::path::Path;

use zip::{CompressionMethod, ZipArchive};

use super::npy::{self, Head};
use crate::data::bytes::Bytes;
use crate::data::limits::Budget;
use crate::data::spool::Spool;
use crate::data::{Dense, Features, Sparse};
use crate::{Error, Result};

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

pub(super) fn array(
    path: &Path,
    key: Option<&str>,
    vectors: bool,
    budget: &Budget,
) -> Result<Features> {
    let bytes = Bytes::open(path)?;
    let mut archive = ZipArchive::new(Cursor::new(&bytes[..])).map_err(not_a_zip)?;
    let names: Vec<String> = archive
        .file_names()
        .map(|name| Ok(name?.trim_end_matches(".npy").to_owned()))
        .collect::<Result<_, zip::result::ZipError>>()
        .map_err(not_a_zip)?;
    let has = |name: &str| names.iter().any(|other| other == name);
    if key.is_none() && ["data", "indices", "indptr", "shape"].iter().all(|name| has(name))
    {
        if has("format") {
            check_format(&mut archive, &bytes, budget)?;
        }
        return csr(&mut archive, &bytes, budget).map(Features::Sparse);
    }
    let name = match (key, names.as_slice()) {
        (Some(key), _) if has(key) => key,
        (Some(key), _) => {
            return Err(Error::unknown("array", key, names.iter().map(String::as_str)));
        }
        (None, [only]) => only,
        (None, _) => {
            return Err(Error::content(format!(
                "the archive contains several arrays; select one with key = \"...\": {}",
                names.join(", ")
            )));
        }
    };
    let (bytes, start) = entry(&mut archive, &bytes, name, budget)?;
    let layout = npy::layout(&bytes, start, vectors)?;
    Ok(Features::Dense(Dense::raw(bytes, layout, path)?))
}

/// The bytes that contain an entry, and its offset.
fn entry(
    archive: &mut Archive<'_>,
    bytes: &Bytes,
    name: &str,
    budget: &Budget,
) -> Result<(Bytes, usize)> {
    let file = format!("{name}.npy");
    let file = if archive.index_for_name(&file).is_some() { file } else { name.to_owned() };
    let mut entry = archive.by_name(&file).map_err(not_a_zip)?;
    let start = entry.data_start().and_then(|start| usize::try_from(start).ok());
    if let (CompressionMethod::Stored, Some(start)) = (entry.compression(), start) {
        return Ok((bytes.clone(), start));
    }
    let what = format!("array {name}");
    let declared = budget.check(&what, Some(entry.size()), entry.compressed_size())?;
    let mut spool = Spool::with_size(budget, &what, declared)?;
    spool
        .copy(&mut entry, declared)
        .map_err(|err| Error::content(format!("{what}: {err}")))?;
    Ok((spool.finish()?, 0))
}

/// SciPy saves CSC and BSR with the same names as CSR; the entry `format` distinguishes them. It is a
/// string of bytes (`|S3`) or of UTF-32 characters (`<U3`).
fn check_format(archive: &mut Archive<'_>, bytes: &Bytes, budget: &Budget) -> Result<()> {
    let (bytes, start) = entry(archive, bytes, "format", budget)?;
    let mut all = bytes.get(start..).unwrap_or_default();
    crosshash_codes::npy::Header::read(&mut all)?;
    // Bytes after a stored entry do not belong to it: a format has three letters.
    let format: String = all
        .iter()
        .take(12)
        .filter(|&&byte| byte != 0)
        .take(3)
        .map(|&byte| char::from(byte))
        .collect();
    match format.as_str() {
        "csr" => Ok(()),
        other => Err(Error::content(format!(
            "sparse matrices of format {other:?} are not supported; save it with \
             scipy.sparse.save_npz(file, matrix.tocsr())"
        ))),
    }
}

fn csr(archive: &mut Archive<'_>, bytes: &Bytes, budget: &Budget) -> Result<Sparse> {
    let file_size = bytes.len() as u64;
    let mut numbers = |name: &str| -> Result<Vec<f64>> {
        let (bytes, start) = entry(archive, bytes, name, budget)?;
        Ok(Head::read(&bytes, start)?.numbers(&bytes)?.collect())
    };
    let shape: Vec<usize> = whole("shape", &numbers("shape")?)?;
    let [rows, width] = shape[..] else {
        return Err(Error::content("a sparse matrix has a shape of two numbers"));
    };
    // Methods may expand a row to a dense one.
    let row_bytes = (width as u64).checked_mul(4);
    budget.check("a row of the sparse matrix", row_bytes, file_size)?;
    let starts: Vec<usize> = whole("indptr", &numbers("indptr")?)?;
    if rows.checked_add(1) != Some(starts.len()) {
        return Err(Error::content(format!(
            "not a CSR matrix: {rows} rows but {} pointers; convert with .tocsr()",
            starts.len()
        )));
    }
    let columns: Vec<u32> = whole("indices", &numbers("indices")?)?;
    #[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
    let values: Vec<f32> = numbers("data")?.into_iter().map(|value| value as f32).collect();
    Sparse::from_csr(width, &starts, &columns, &values)
}

/// Converts to integers; fractions and negative numbers are errors.
fn whole<T: TryFrom<u64>>(what: &str, numbers: &[f64]) -> Result<Vec<T>> {
    let each = numbers.iter().enumerate().map(|(at, &number)| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        let whole = (number >= 0.0 && number.fract() == 0.0 && number < 1e15)
            .then_some(number as u64);
        whole.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
            Error::content(format!("{what}[{at}] is {number}, not a whole number in range"))
        })
    });
    each.collect()
}

fn not_a_zip(err: zip::result::ZipError) -> Error {
    Error::content(format!("not a readable .npz archive: {err}"))
}
