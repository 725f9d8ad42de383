//! Example 2: a training that is stopped within an epoch and resumes bit-identically.
//!
//! ```text
//! cargo run --release --example 02_stop_and_resume
//! ```
//!
//! It uses the emoji data set that comes with the library: colour pictures, drawings in another
//! style, and words. Three modalities share one set of centres; some drawings have no
//! picture, which is fine.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::ops::ControlFlow;

use crosshash::Config;
use crosshash::data::{self, Selection};
use crosshash::train::Step;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `open` accepts a folder with a manifest, a manifest, or this name.
    let opened = data::open("emoji".as_ref(), None)?;
    let mut spec = opened.split_spec.clone().unwrap_or_default();
    spec.validation = Some(Selection::Share(0.05));
    let split = spec.draw(&opened.dataset)?;
    let training = opened.dataset.training(&split);
    let config = Config::parse(
        "bits = 32\nhidden = 128\nhidden_sparse = 128\nepochs = 3\nlearning_rate = 0.02",
        &[],
    )?;

    // A callback is called after every step and can stop the training. This one stops it in the
    // second epoch.
    let mut session = config.begin(&training)?;
    session.epoch(&mut ())?;
    let stopped = session.epoch(&mut |step: &Step<'_>| {
        if step.done < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    println!("stopped within the second epoch: {}", stopped.is_none());

    // One file contains the complete state: weights, velocities, pending updates of sparse rows, the best
    // epoch so far, and a note of ours. It is written atomically.
    let folder = tempfile::tempdir()?;
    let checkpoint = folder.path().join("checkpoint.safetensors");
    session.save(&checkpoint, "five steps in")?;

    // It can be resumed in another process with the same configuration and data.
    let mut resumed = config.begin(&training)?;
    let note = resumed.resume(&checkpoint)?;
    println!("resumed, {note}");
    for session in [&mut session, &mut resumed] {
        while !session.is_done() {
            session.epoch(&mut ())?;
        }
    }
    let (straight, resumed) = (session.finish()?.model, resumed.finish()?.model);
    println!("bit-identical centres: {}", straight.centres() == resumed.centres());

    // A model is two files, and is all that is needed to encode.
    straight.save(folder.path())?;
    let model = crosshash::Model::load(folder.path())?;
    let words = ["a cat with hearts".to_owned(), "clock".to_owned()];
    let texts = data::Features::Text(words.iter().map(String::as_str).collect());
    let codes = crosshash::encode::encode(&model, "words", texts, &|_| {})?;
    println!(
        "\"{}\" and \"{}\" are {} bits apart",
        words[0],
        words[1],
        codes.distance(0, &codes, 1)
    );
    Ok(())
}
