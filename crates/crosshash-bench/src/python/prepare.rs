//! The files that all programs read: image.npy, texts.txt and labels.npy.
//!
//! Rows are ordered: queries, training items, the rest of the database. Texts contain the terms of the
//! vocabulary only, so that every program has the same one.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Result, bail};
use crosshash::data::{
    self, Analyser, Dataset, Features, LoadedDataset, Part, Split, Vocabulary,
};
use crosshash_codes::npy;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::Args;

/// The sizes of what was written.
pub(super) struct Prepared {
    pub(super) items: usize,
    pub(super) queries: usize,
    pub(super) train: usize,
}

/// Writes the files.
pub(super) fn prepare(args: &Args, folder: &Path) -> Result<Prepared> {
    match &args.data {
        None => synthetic(folder),
        Some(path) => real(args, &data::open(path, args.root.as_deref())?, folder),
    }
}

fn real(args: &Args, loaded: &LoadedDataset, folder: &Path) -> Result<Prepared> {
    let (dataset, split) = (&loaded.dataset, loaded.split()?);
    let (image, text) = (dataset.modality(&args.image)?, dataset.modality(&args.text)?);
    let (Features::Dense(rows), Features::Text(texts)) =
        (image.features(), text.features())
    else {
        bail!("--image and --text: dense features and texts are needed");
    };
    let training = dataset.training(&split);
    let vocabulary =
        Vocabulary::fit(&training, &args.text, training.analysis(&args.text)?)?;
    let analyser = Analyser::new(vocabulary.analysis());
    let at: HashMap<&str, usize> =
        text.ids().iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    let parts = ordered(dataset, &split, &args.image)?;
    let (mut values, mut labels, mut lines) = (Vec::new(), Vec::new(), String::new());
    let mut row = vec![0.0; rows.width()];
    let mut sizes = [0; 3];
    for (size, items) in sizes.iter_mut().zip(parts) {
        for item in items {
            let Some(&other) = at.get(image.ids()[item].as_str()) else { continue };
            rows.read(item..item + 1, &mut row)?;
            values.extend_from_slice(&row);
            analyser.terms(texts.get(other), |term| {
                if vocabulary.contains(term) {
                    lines.push_str(term);
                    lines.push(' ');
                }
            });
            lines.push('\n');
            let mut dense = vec![0_u8; image.labels().classes()];
            image.labels().indices(item).for_each(|label| dense[label] = 1);
            labels.extend(dense);
            *size += 1;
        }
    }
    let items = sizes.iter().sum();
    npy::write_matrix(&folder.join("image.npy"), items, rows.width(), values)?;
    npy::write_matrix(&folder.join("labels.npy"), items, image.labels().classes(), labels)?;
    fs_err::write(folder.join("texts.txt"), lines)?;
    Ok(Prepared { items, queries: sizes[0], train: sizes[1] })
}

/// The queries, the training items, and the other items of the database.
fn ordered(dataset: &Dataset, split: &Split, modality: &str) -> Result<[Vec<usize>; 3]> {
    let of = dataset.modality_idx(modality)?;
    let part = |part| split.items(of, part).to_vec();
    let (queries, train) = (part(Part::Query), part(Part::Train));
    let mut is_used = vec![false; dataset.modality(modality)?.len()];
    queries.iter().chain(&train).for_each(|&item| is_used[item] = true);
    let rest = part(Part::Database).into_iter().filter(|&item| !is_used[item]).collect();
    Ok([queries, train, rest])
}

fn synthetic(folder: &Path) -> Result<Prepared> {
    let (items, width, classes) = (10_000, 256, 20);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut values, mut labels, mut lines) = (Vec::new(), Vec::new(), String::new());
    for item in 0..items {
        let label = item % classes;
        for at in 0..width {
            let shift = if at % classes == label { 2.0 } else { 0.0 };
            values.push(shift + rng.random_range(-1.0_f32..1.0));
        }
        labels.extend((0..classes).map(|one| u8::from(one == label)));
        for _ in 0..8 {
            lines += &format!("word{} ", label * 50 + rng.random_range(0..100_usize));
        }
        lines.push('\n');
    }
    npy::write_matrix(&folder.join("image.npy"), items, width, values)?;
    npy::write_matrix(&folder.join("labels.npy"), items, classes, labels)?;
    fs_err::write(folder.join("texts.txt"), lines)?;
    Ok(Prepared { items, queries: items / 10, train: items / 2 })
}
