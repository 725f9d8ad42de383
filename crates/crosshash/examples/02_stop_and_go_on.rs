//! Lesson 2: a training that is stopped within an epoch and goes on to the same bits.
//!
//! ```text
//! cargo run --release --example 02_stop_and_go_on
//! ```
//!
//! It learns the emoji data set that comes with the library: colour pictures, drawings in
//! another hand, and words. Three modalities share one set of centres; some drawings have no
//! picture, which is fine.

#![expect(clippy::print_stdout, reason = "a lesson talks")]

use std::ops::ControlFlow;

use crosshash::config::RawRun;
use crosshash::data::{self, Choice};
use crosshash::train::{Trainer, unwatched};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `open` takes a folder with a manifest, a manifest, or this name.
    let opened = data::open("emoji".as_ref(), None)?;
    let mut plan = opened.plan.clone().unwrap_or_default();
    plan.validation = Some(Choice::Share(0.05));
    let split = plan.draw(&opened.dataset)?;
    let training = opened.dataset.training(&split);
    let run = RawRun {
        bits: 32,
        hidden: 128,
        hidden_sparse: 128,
        epochs: 3,
        rate: 0.02,
        ..RawRun::default()
    };
    let run = run.check()?;
    let analysis = |name: &str| opened.analysis.get(name).cloned().unwrap_or_default();

    // A watcher hears every step and may ask to stop. This one stops in the second epoch.
    let mut trainer = Trainer::new(&run, &training, &analysis)?;
    trainer.epoch(&mut unwatched)?;
    let stopped = trainer.epoch(&mut |step| match step.done < 5 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    })?;
    println!("stopped within the second epoch: {}", stopped.is_none());

    // One file holds the moment: weights, velocities, what sparse rows still owe, the best epoch
    // so far, and a note of ours. It is written aside and renamed: there is no half of it.
    let folder = tempfile::tempdir()?;
    let checkpoint = folder.path().join("checkpoint.safetensors");
    trainer.save(&checkpoint, "five steps in")?;

    // Tomorrow, in another process: the same configuration and data, and on it goes.
    let mut resumed = Trainer::new(&run, &training, &analysis)?;
    let note = resumed.resume(&checkpoint)?;
    println!("going on, {note}");
    for trainer in [&mut trainer, &mut resumed] {
        while !trainer.is_done() {
            trainer.epoch(&mut unwatched)?;
        }
    }
    let (straight, resumed) = (trainer.finish()?, resumed.finish()?);
    println!("the same centres, to the bit: {}", straight.centres() == resumed.centres());

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
