//! Codes that a model learned: the search benchmark's realistic data.
//!
//! A model is trained on 20,000 items of the synthetic set of `crosshash data synth` (correlated,
//! unbalanced labels; pictures as dense features, texts as word counts); it encodes the
//! pictures of further items of the same set as the database and the texts of others as queries. The items
//! are made and encoded in pieces. Codes are kept in a folder, because making them takes longer
//! than the measurement.

use std::path::Path;

use anyhow::{Context as _, Result};
use crosshash::data::synth::{SynthForm, SynthModality, SynthSpec, synth};
use crosshash::data::{self, Selection, SplitSpec};
use crosshash::{Config, Model, encode};
use crosshash_cli::progress::{Progress, say};
use crosshash_codes::{BitOrder, Bits, Codes, npy, read};

/// Items of the training set.
const TRAINING: usize = 20_000;
/// Items held out of it, which the training requires.
const HELD_OUT: usize = 1_000;
/// Epochs of the training.
const EPOCHS: usize = 10;
/// Items made and encoded together.
const PIECE: usize = 100_000;

/// Database and queries of a method. They are read from `cache` if they are there.
pub(super) fn learned(
    method: &str,
    bits: Bits,
    n: usize,
    n_queries: usize,
    seed: u64,
    cache: &Path,
) -> Result<(Codes, Codes)> {
    fs_err::create_dir_all(cache)?;
    let path = |what: &str, n: usize| {
        cache.join(format!("{}-{bits}-{seed}-{what}-{n}.npy", method.replace('+', "-plus")))
    };
    let (items, queries) = (path("items", n), path("queries", n_queries));
    if !items.exists() || !queries.exists() {
        let model = train(method, bits, seed)?;
        // items behind those of the training, queries first
        let first = TRAINING + HELD_OUT;
        if !queries.exists() {
            let codes = encoded(&model, bits, "text", first, n_queries, seed)?;
            npy::write_packed(&queries, &codes, BitOrder::Lsb)?;
        }
        if !items.exists() {
            // behind the queries of any other run, too
            let codes = encoded(&model, bits, "image", first + PIECE, n, seed)?;
            npy::write_packed(&items, &codes, BitOrder::Lsb)?;
        }
    }
    Ok((open(&items, bits)?, open(&queries, bits)?))
}

/// The codes of a file.
pub(super) fn open(path: &Path, bits: Bits) -> Result<Codes> {
    let order = Some(BitOrder::Lsb);
    let options = read::CodeOptions { bits: Some(bits), layout: read::Layout::Auto, order };
    Ok(read::codes(path, &options)?.shared())
}

fn spec(first: usize, items: usize, seed: u64) -> SynthSpec {
    let modality =
        |name: &str, width, form| SynthModality { name: name.into(), width, form };
    SynthSpec {
        items,
        first,
        labels: 24,
        per_item: 3.0,
        noise: 1.0,
        seed,
        modalities: vec![
            modality("image", 128, SynthForm::Dense),
            modality("text", 500, SynthForm::Sparse),
        ],
    }
}

fn train(method: &str, bits: Bits, seed: u64) -> Result<Model> {
    say(format_args!("training {method}, {bits} bits, on {TRAINING} items"));
    let folder = tempfile::tempdir()?;
    synth(&spec(0, TRAINING + HELD_OUT, seed), folder.path(), &|_| ())?;
    let dataset = data::open(folder.path(), None)?.dataset;
    let plan = SplitSpec {
        query: Some(Selection::Count(HELD_OUT)),
        train: Some(Selection::Count(TRAINING)),
        ..SplitSpec::default()
    };
    let split = plan.draw(&dataset)?;
    let settings = format!("method = \"{method}\"\nbits = {bits}\nepochs = {EPOCHS}\n");
    let fitted = Config::parse(&settings, &[])?.fit(&dataset.training(&split), &mut ())?;
    Ok(fitted.context("the training was stopped")?.model)
}

/// The codes of items of one modality.
fn encoded(
    model: &Model,
    bits: Bits,
    modality: &str,
    first: usize,
    n: usize,
    seed: u64,
) -> Result<Codes> {
    let mut codes = Codes::new(bits);
    let progress = Progress::new(format!("encoding {n} items of {modality}"), n);
    for start in (0..n).step_by(PIECE) {
        let mut spec = spec(first + start, PIECE.min(n - start), seed);
        if modality == "image" {
            spec.modalities.truncate(1);
        }
        let folder = tempfile::tempdir()?;
        let files = synth(&spec, folder.path(), &|_| ())?;
        let named = |file: &&std::path::PathBuf| {
            file.file_stem().is_some_and(|stem| stem == modality)
        };
        let file = files.iter().find(named).context("a file per modality")?;
        let features = data::items(file, false)?;
        codes.append(&encode(model, modality, features, &|_| ())?)?;
        progress.set(start);
    }
    Ok(codes)
}
