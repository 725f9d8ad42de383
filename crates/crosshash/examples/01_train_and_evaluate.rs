//! Example 1: trains codes of two modalities and evaluates them.
//!
//! ```text
//! cargo run --release --example 01_train_and_evaluate
//! ```
//!
//! The data are synthetic: 600 "photos" (16 features each) and their captions. In practice, the features
//! come from a backbone and the captions from a table.

#![expect(clippy::print_stdout, reason = "an example prints")]

use crosshash::Config;
use crosshash::data::{Dataset, Dense, Features, Modality, Selection, SplitSpec, Texts};
use crosshash::encode::encode;
use crosshash::evaluate::{Coded, every_direction};
use crosshash_codes::Labels;
use crosshash_codes::eval::Options;

const LABELS: [&str; 4] = ["sea", "mountain", "city", "people"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A data set has modalities with a common label vocabulary. Items with the same id are pairs; items
    // without a pair are allowed.
    let dataset = dataset()?;

    // 20 % of the items are queries. Training code cannot access them: it receives a `Training`, which
    // contains only training and validation items. 10 % are held out to choose the best epoch.
    let spec = SplitSpec {
        query: Some(Selection::Share(0.2)),
        validation: Some(Selection::Share(0.1)),
        ..SplitSpec::default()
    };
    let split = spec.draw(&dataset)?;
    let training = dataset.training(&split);

    // The configuration is parsed and checked once; an empty text means the defaults. The keys are
    // those of `crosshash train --set`.
    let settings =
        "bits = 32\nhidden = 64\nhidden_sparse = 64\nepochs = 15\nlearning_rate = 0.05";
    let config = Config::parse(settings, &[])?;

    // Train. `config.fit(&training, &mut ())` does the same in one call.
    let mut session = config.begin(&training)?;
    while !session.is_done() {
        if let Some(row) = session.epoch(&mut ())? {
            let map = row.map().unwrap_or(f64::NAN);
            println!(
                "epoch {:>2}: loss {:.3}, validation MAP {map:.3}",
                row.epoch, row.loss
            );
        }
    }
    let model = session.finish()?.model;

    // Encode queries and database.
    let mut coded = Vec::new();
    for name in ["photo", "caption"] {
        let (queries, database) =
            (dataset.queries(&split, name)?, dataset.database(&split, name)?);
        coded.push(Coded {
            name: name.to_owned(),
            queries: encode(&model, name, queries.features(), &|_| {})?,
            query_labels: queries.labels(),
            database: encode(&model, name, database.features(), &|_| {})?,
            database_labels: database.labels(),
        });
    }

    // Evaluate every direction with tie-aware metrics.
    for direction in every_direction(&coded, &Options::default(), &|_| {})? {
        let report = &direction.report; // without labels there is no MAP
        let (Some(map), Some(chance)) = (report.mean_average_precision(), report.chance)
        else {
            continue;
        };
        println!(
            "{} -> {}: MAP {map:.3}, chance {chance:.3}",
            direction.query, direction.database
        );
    }
    Ok(())
}

/// Photos whose features depend on their labels, and captions that contain the label names.
fn dataset() -> crosshash::Result<Dataset> {
    let n = 600;
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|i| if i % 3 == 0 { vec![i % 4, (i + 1) % 4] } else { vec![i % 4] })
        .collect();
    // Deterministic noise.
    let noise = |i: usize, k: usize| ((i * 37 + k * 101) as f32 * 12.9898).sin();
    let (mut pixels, mut captions) = (Vec::new(), Texts::default());
    for (i, labels) in rows.iter().enumerate() {
        for k in 0..16 {
            let on = labels.iter().any(|&label| k % 4 == label as usize);
            pixels.push(f32::from(u8::from(on)) * 1.5 + noise(i, k));
        }
        let words: Vec<&str> = labels.iter().map(|&label| LABELS[label as usize]).collect();
        captions.push(&format!("{} number {}", words.join(" and "), i % 50));
    }
    let labels = Labels::from_indices(LABELS.len(), &rows)?;
    let ids: Vec<String> = (0..n).map(|i| format!("item {i}")).collect();
    let photos = Features::Dense(Dense::from_floats(16, pixels)?);
    let modalities = vec![
        Modality::new("photo", ids.clone(), photos, labels.clone())?,
        Modality::new("caption", ids, Features::Text(captions), labels)?,
    ];
    Dataset::new("example", LABELS.map(str::to_owned).to_vec(), modalities)
}
