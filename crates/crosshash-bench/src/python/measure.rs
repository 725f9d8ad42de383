//! The stages in Rust, through the facade of the library.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use crosshash::data::{Dataset, Dense, Features, Selection, SplitSpec, Texts};
use crosshash::{Config, Modality, encode};
use crosshash_cli::memory::{reset_peak, resident_bytes_of};
use crosshash_codes::eval::{Options, evaluate};
use crosshash_codes::index::{Index as _, Query, Scan};
use crosshash_codes::segments::{ItemBatch, MemoryIndex, NewIndex};
use crosshash_codes::{Bits, Codes, Labels, read};

use super::{LargeFigures, Task, Trained};
use crate::peer;

/// The first part.
pub(super) fn train(task: &Task) -> Result<Trained> {
    let labels = read::labels(&task.folder.join("labels.npy"))?;
    let image = Features::read(task.folder.join("image.npy"))?;
    let text = fs_err::read_to_string(task.folder.join("texts.txt"))?;
    let lines: Vec<&str> = text.lines().collect();
    let settings = format!(
        "method = \"jcch-b\"\nbits = {}\nepochs = {}\nbatch_size = {}\nhidden = {}\n\
         hidden_sparse = {}\nlearning_rate = {}\nvalidation = 0.0\n\
         [jcch]\nlambda = {}\nmu = {}\nalpha = {}\nbeta = {}\n",
        task.bits,
        task.epochs,
        task.batch,
        task.hidden,
        task.hidden,
        task.rate,
        task.lambda,
        task.mu,
        task.alpha,
        task.beta
    );
    let started = Instant::now();
    let texts = Features::Text(lines.into_iter().collect::<Texts>());
    let dataset = Dataset::from_arrays(&labels, [("image", image), ("text", texts)])?;
    let spec = SplitSpec {
        query: Some(Selection::Rows(0, task.queries)),
        train: Some(Selection::Rows(task.queries, task.queries + task.train)),
        ..SplitSpec::default()
    };
    let split = spec.draw(&dataset)?;
    let fitted = Config::parse(&settings, &[])?.fit(&dataset.training(&split), &mut ())?;
    let model = fitted.context("the training was stopped")?.model;
    let fit = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let part = |name: &str| -> Result<Codes> {
        let features = dataset.modality(name).map(Modality::features)?.clone();
        Ok(encode(&model, name, features, &|_| ())?)
    };
    let (image, text) = (part("image")?, part("text")?);
    let encoding = started.elapsed().as_secs_f64();
    let (first, rest): (Vec<usize>, Vec<usize>) =
        ((0..task.queries).collect(), (task.queries..labels.len()).collect());
    let (asked, database) = (text.select(&first), image.select(&rest));
    let started = Instant::now();
    let found =
        Scan::new(database.clone())?.search(&asked, &Query::nearest(task.k), &|_| ())?;
    let search = started.elapsed().as_secs_f64();
    ensure!(found.len() == task.queries, "one result per query");
    let (asked_labels, database_labels) = (labels.select(&first), labels.select(&rest));
    let started = Instant::now();
    let options = Options::default();
    let report =
        evaluate(&asked, &database, &asked_labels, &database_labels, &options, &|_| ())?;
    Ok(Trained {
        who: "Rust".into(),
        fit,
        encode: encoding,
        search,
        evaluate: started.elapsed().as_secs_f64(),
        map: report.map.map_or(f64::NAN, |map| map.stable),
        peak_mib: peer::peak_mib().unwrap_or(f64::NAN),
    })
}

/// The second part: encoding first, in a process that has not allocated much before.
pub(super) fn large(task: &Task) -> Result<LargeFigures> {
    let labels = Labels::from_indices(2, (0..400_u32).map(|k| [k % 2]))?;
    let rows = |items: usize| {
        let value = |k: usize| {
            let label = (k / task.width) % 2;
            if k % 2 == label { 1.0_f32 } else { 0.0 }
        };
        Dense::from_floats(task.width, (0..items * task.width).map(value).collect())
    };
    let dataset = Dataset::from_arrays(&labels, [("x", Features::Dense(rows(400)?))])?;
    let split = SplitSpec::default().draw(&dataset)?;
    let config = Config::parse("method = \"pca-sign\"\nbits = 64", &[])?;
    let fitted = config.fit(&dataset.training(&split), &mut ())?;
    let model = fitted.context("the training was stopped")?.model;
    let all = Features::Dense(rows(task.items)?);
    reset_peak();
    let before = resident_bytes_of("self").unwrap_or_default() as f64 / f64::from(1 << 20);
    let started = Instant::now();
    let codes = encode(&model, "x", all.clone(), &|_| ())?;
    let encoding = started.elapsed().as_secs_f64();
    let extra_mib = peer::peak_mib().unwrap_or(f64::NAN) - before;
    ensure!(codes.len() == task.items, "one code per row");
    drop(all);

    let bits = Bits::new(64)?;
    let codes = |from: u64, count: usize| {
        Codes::from_words(bits, (from..).take(count).map(mixed).collect())
    };
    let settings = NewIndex { bits, label_names: &[], outputs: false, after_commit: 0 };
    let index = MemoryIndex::new(settings, "scan")?;
    index.insert(ItemBatch::new(codes(0, task.items)?))?;
    let snapshot = index.snapshot();
    let batches = (0..task.batches as u64)
        .map(|batch| codes((1 << 40) + batch * 1000, 1000))
        .collect::<Result<Vec<_>, _>>()?;
    let mut search = f64::INFINITY;
    for _ in 0..task.passes {
        let started = Instant::now();
        for batch in &batches {
            let found = snapshot.search(batch, &Query::nearest(10), &|_| ())?;
            ensure!(found.len() == batch.len(), "one result per query");
        }
        search = search.min(started.elapsed().as_secs_f64());
    }
    Ok(LargeFigures {
        who: "Rust".into(),
        search,
        encode: encoding,
        rows_mib: (task.items * task.width * size_of::<f32>()) as f64 / f64::from(1 << 20),
        extra_mib,
    })
}

/// A number of a sequence that both programs compute (splitmix64).
fn mixed(at: u64) -> u64 {
    let mut x = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
