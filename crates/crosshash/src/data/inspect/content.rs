//! Statistics of the items of a modality, row by row; features are not loaded as a whole.

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::repeated;
use crate::Result;
use crate::data::{
    Analysis, Dataset, Dense, Features, Modality, Part, Sparse, Split, Vocabulary,
};
use crate::picture::Limits;

/// Values read at a time, at least one row.
const BLOCK: usize = 1 << 20;

/// Statistics of the items of a modality.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Content {
    /// Empty items: texts without words, rows of zeros, empty files.
    pub empty: usize,
    /// Items with exactly the content of an earlier item.
    pub duplicates: usize,
    /// Features with the same value in all items.
    pub constant: usize,
    /// Values that are NaN or infinite.
    pub non_finite: usize,
    /// Item and column of the first of them.
    pub first_non_finite: Option<(usize, usize)>,
    /// Its location: file, if there is one, row and column.
    pub first_non_finite_place: Option<String>,
    /// Non-zero values per item, for sparse features.
    pub cells_per_item: Option<f64>,
    /// The terms of a text modality.
    pub terms: Option<Terms>,
}

/// The vocabulary of a text modality, fitted on its training items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Terms {
    /// Number of terms in the vocabulary.
    pub count: usize,
    /// Terms per training text.
    pub per_text: f64,
    /// Items of any part without a term of the vocabulary.
    pub without: usize,
}

/// Inspects every item; returns a hash of the content of each.
pub(super) fn look(
    modality: &Modality,
    progress: &dyn Fn(usize),
) -> Result<(Content, Vec<u64>)> {
    let (mut content, hashes) = match modality.features() {
        Features::Dense(dense) => dense_rows(dense, progress),
        Features::Sparse(sparse) => sparse_rows(sparse),
        Features::Text(texts) => {
            let text = |item| texts.get(item).trim();
            let hashes =
                (0..texts.len()).map(|item| xxh3_64(text(item).as_bytes())).collect();
            let empty = (0..texts.len()).filter(|&item| text(item).is_empty()).count();
            (Content { empty, ..Content::default() }, hashes)
        }
        Features::Pictures(pictures) => {
            let mut hashes = vec![0; pictures.len()];
            let (mut empty, mut done) = (0, 0);
            pictures.visit(Limits::default().bytes, |item, bytes| {
                let bytes = bytes.map_err(|err| err.at(&pictures.path(item)))?;
                empty += usize::from(bytes.is_empty());
                hashes[item] = xxh3_64(&bytes);
                done += 1;
                progress(done);
                Ok::<(), crate::Error>(())
            })?;
            (Content { empty, ..Content::default() }, hashes)
        }
    };
    content.duplicates = repeated(&hashes);
    Ok((content, hashes))
}

/// The vocabulary of the training texts, if this is a text modality.
pub(super) fn terms(
    dataset: &Dataset,
    split: &Split,
    modality: &Modality,
    analysis: &Analysis,
) -> Result<Option<Terms>> {
    let at = dataset.modality_idx(modality.name())?;
    let n_train = split.items(at, Part::Train).len();
    if !matches!(modality.features(), Features::Text(_)) || n_train == 0 {
        return Ok(None);
    }
    let training = dataset.training(split);
    let vocabulary = Vocabulary::fit(&training, modality.name(), analysis)?;
    let cells = vocabulary.encode(&training.train(modality.name())?)?.cells();
    let all: Vec<usize> = (0..modality.len()).collect();
    let rows = vocabulary.encode(&modality.view(&all))?;
    let without = all.iter().filter(|&&item| rows.row(item).0.is_empty()).count();
    let per_text = cells as f64 / n_train as f64;
    Ok(Some(Terms { count: vocabulary.len(), per_text, without }))
}

fn dense_rows(dense: &Dense, progress: &dyn Fn(usize)) -> (Content, Vec<u64>) {
    let width = dense.width();
    let mut content = Content::default();
    let mut hashes = Vec::with_capacity(dense.len());
    let mut first: Option<Vec<f32>> = None;
    let mut varies = vec![false; width];
    let block = (BLOCK / width).clamp(1, dense.len().max(1));
    let mut buffer = vec![0.0; block * width];
    let mut bytes = Vec::with_capacity(4 * width);
    for start in (0..dense.len()).step_by(block) {
        let end = dense.len().min(start + block);
        let rows = &mut buffer[..(end - start) * width];
        dense.read_unchecked(start..end, rows);
        for (row, item) in rows.chunks_exact(width).zip(start..) {
            let first = first.get_or_insert_with(|| row.to_vec());
            bytes.clear();
            let mut zero = true;
            for (column, &x) in row.iter().enumerate() {
                varies[column] |= x != first[column];
                zero &= x == 0.0;
                if !x.is_finite() {
                    content.non_finite += 1;
                    content.first_non_finite.get_or_insert((item, column));
                }
                bytes.extend(x.to_le_bytes());
            }
            content.empty += usize::from(zero);
            hashes.push(xxh3_64(&bytes));
        }
        progress(end);
    }
    content.first_non_finite_place = content.first_non_finite.map(|(item, column)| {
        let (path, row) = dense.place(item);
        let file = path.map_or(String::new(), |path| format!("{}: ", path.display()));
        format!("{file}row {row}, column {column}")
    });
    content.constant = match dense.len() {
        0 | 1 => 0,
        _ => varies.iter().filter(|&&varies| !varies).count(),
    };
    (content, hashes)
}

fn sparse_rows(sparse: &Sparse) -> (Content, Vec<u64>) {
    let mut content = Content::default();
    let mut hashes = Vec::with_capacity(sparse.len());
    let mut used = vec![0_usize; sparse.width()];
    let mut first = vec![0.0; sparse.width()];
    let mut differs = vec![false; sparse.width()];
    let mut bytes = Vec::new();
    for item in 0..sparse.len() {
        let (columns, values) = sparse.row(item);
        content.empty += usize::from(columns.is_empty());
        bytes.clear();
        for (&column, &value) in columns.iter().zip(values) {
            let column = column as usize;
            if used[column] == 0 {
                first[column] = value;
            }
            differs[column] |= first[column] != value;
            used[column] += 1;
            bytes.extend((column as u64).to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        hashes.push(xxh3_64(&bytes));
    }
    let constant = |k: &usize| used[*k] == 0 || (used[*k] == sparse.len() && !differs[*k]);
    content.constant = (0..sparse.width()).filter(constant).count();
    content.cells_per_item = Some(sparse.cells() as f64 / sparse.len().max(1) as f64);
    (content, hashes)
}
