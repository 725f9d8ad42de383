//! Example 0: from two `.npy` files and labels to search results.
//!
//! ```text
//! cargo run --release --example 00_quickstart [FOLDER]
//! ```
//!
//! FOLDER contains `image.npy`, `text.npy` (one row per item) and `labels.txt` (the label numbers of one
//! item per line). Without FOLDER the example creates one.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::{Path, PathBuf};

use crosshash::codes::index::{Index as _, Query, Scan};
use crosshash::codes::{npy, read};
use crosshash::data::{Selection, SplitSpec};
use crosshash::{Config, Dataset, Features, encode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.map_or_else(|| example_data(temporary.path()), Ok)?;

    // Read the data and hold out 10 % of the items as queries.
    let labels = read::labels(&folder.join("labels.txt"))?;
    let image = Features::read(folder.join("image.npy"))?;
    let text = Features::read(folder.join("text.npy"))?;
    let dataset = Dataset::from_arrays(&labels, [("image", image), ("text", text)])?;
    let split = SplitSpec { query: Some(Selection::Share(0.1)), ..SplitSpec::default() }
        .draw(&dataset)?;

    // Train 32-bit codes.
    let config = Config::parse("bits = 32\nhidden = 64\nepochs = 10", &[])?;
    let fitted = config.fit(&dataset.training(&split), &mut ())?;
    let model = fitted.ok_or("the training was stopped")?.model;

    // Encode: images are the database, texts are the queries.
    let (queries, database) =
        (dataset.queries(&split, "text")?, dataset.database(&split, "image")?);
    let index = Scan::new(encode(&model, "image", database.features(), &|_| ())?)?;
    let codes = encode(&model, "text", queries.features(), &|_| ())?;

    // Search: the five nearest images of every text.
    let results = index.search(&codes, &Query::nearest(5), &|_| ())?;
    for (query, hits) in results.iter().enumerate().take(3) {
        for hit in hits {
            let image = database.id(hit.item as usize);
            println!(
                "text {} -> image {image}, distance {}",
                queries.id(query),
                hit.distance
            );
        }
    }
    Ok(())
}

/// Writes features of 500 items with 5 labels: each label shifts some of the values.
fn example_data(folder: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let (items, width) = (500, 20);
    let noise = |item: usize, k: usize| ((item * 37 + k * 101) as f32 * 12.9898).sin();
    for (file, phase) in [("image.npy", 0), ("text.npy", 7)] {
        let value = |i: usize| {
            let (item, k) = (i / width, i % width);
            let shift = if k % 5 == item % 5 { 1.5 } else { 0.0 };
            shift + noise(item + phase, k)
        };
        let values: Vec<f32> = (0..items * width).map(value).collect();
        npy::write_matrix(&folder.join(file), items, width, values)?;
    }
    let labels: String = (0..items).map(|item| format!("{}\n", item % 5)).collect();
    fs_err::write(folder.join("labels.txt"), labels)?;
    Ok(folder.to_owned())
}
