//! Fine-tuning of a network, from picture files to codes: it beats the frozen network, resumes exactly,
//! and the saved model accepts pictures.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::ops::ControlFlow;
use std::path::Path;

use crosshash::data::{
    Dataset, Features, Modality, PicturePlace, Pictures, Selection, Split, SplitSpec,
};
use crosshash::encode::{Encoder as _, encode};
use crosshash::evaluate::{Coded, every_direction, mean_map};
use crosshash::train::{Step, TrainingSession};
use crosshash::{Config, Model, Result};
use crosshash_codes::Labels;
use crosshash_codes::eval::Options;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CLASSES: usize = 3;
const SIDE: usize = 32;
const ITEMS: usize = 42;

/// Stripes whose direction is the class, in random colours and phases, so that mean colours are not
/// informative.
fn picture(class: usize, drawn: bool, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let phase: f64 = rng.random_range(0.0..6.0);
    let colour: [f64; 3] =
        [0; 3].map(|_| if drawn { 1.0 } else { rng.random_range(0.3..1.0) });
    let angle = class as f64 * std::f64::consts::PI / CLASSES as f64;
    let mut rgb = Vec::new();
    for y in 0..SIDE {
        for x in 0..SIDE {
            let along = x as f64 * angle.cos() + y as f64 * angle.sin();
            let wave = (along * 0.9 + phase).sin();
            let shade =
                if drawn { f64::from(u8::from(wave > 0.0)) } else { 0.5 + 0.5 * wave };
            for c in colour {
                let noise: f64 = rng.random_range(-20.0..20.0);
                #[expect(clippy::cast_possible_truncation, reason = "a colour")]
                #[expect(clippy::cast_sign_loss, reason = "clamped")]
                rgb.push((shade * c * 220.0 + noise).clamp(0.0, 255.0) as u8);
            }
        }
    }
    rgb
}

fn dataset(folder: &Path) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut modality = |name: &str, drawn: bool| {
        let mut names = Vec::new();
        for item in 0..ITEMS {
            let file = format!("{name}{item}.png");
            let out = fs_err::File::create(folder.join(&file)).unwrap();
            let side = u32::try_from(SIDE).unwrap();
            let mut encoder = png::Encoder::new(out, side, side);
            encoder.set_color(png::ColorType::Rgb);
            let rgb = picture(item % CLASSES, drawn, &mut rng);
            encoder.write_header().unwrap().write_image_data(&rgb).unwrap();
            names.push(file);
        }
        let labels: Vec<[u32; 1]> =
            (0..ITEMS).map(|item| [u32::try_from(item % CLASSES).unwrap()]).collect();
        let pictures =
            Pictures::new(PicturePlace::Folder(folder.to_owned()), names.clone());
        let labels = Labels::from_indices(CLASSES, &labels).unwrap();
        Modality::new(name, names, Features::Pictures(pictures), labels).unwrap()
    };
    let modalities = vec![modality("photo", false), modality("sketch", true)];
    let names = (0..CLASSES).map(|c| format!("class {c}")).collect();
    Dataset::new("stripes", names, modalities).unwrap()
}

fn split(dataset: &Dataset) -> Split {
    let plan = SplitSpec { query: Some(Selection::Share(0.3)), ..SplitSpec::default() };
    plan.draw(dataset).unwrap()
}

fn run(settings: &[&str]) -> Config {
    let small = r#"
        method = "jcch"
        bits = 16
        epochs = 8
        batch_size = 18
        learning_rate = 0.05
        [jcch]
        lambda = 0.001
        [modality.photo]
        network = "conv4"
        weights = "random"
        size = 32
        learning_rate = 0.02
        learning_rate_network = 0.02
        augment = false
        [modality.sketch]
        network = "conv4"
        weights = "random"
        size = 32
        learning_rate = 0.02
        learning_rate_network = 0.02
        augment = false
    "#;
    let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
    Config::parse(small, &settings).unwrap()
}

fn both(setting: &str) -> [String; 2] {
    ["photo", "sketch"].map(|name| format!("modality.{name}.{setting}"))
}

fn map_of(model: &Model, dataset: &Dataset, split: &Split) -> f64 {
    let one = |name: &str| {
        let queries = dataset.queries(split, name).unwrap();
        let database = dataset.database(split, name).unwrap();
        let code = |features| encode(model, name, features, &|_| {}).unwrap();
        Coded {
            name: name.to_owned(),
            queries: code(queries.features()),
            query_labels: queries.labels(),
            database: code(database.features()),
            database_labels: database.labels(),
        }
    };
    let coded: Vec<Coded> = model.modalities().into_iter().map(one).collect();
    mean_map(&every_direction(&coded, &Options::default(), &|_| {}).unwrap()).unwrap()
}

fn trained(run: &Config, dataset: &Dataset, split: &Split) -> Result<TrainingSession> {
    let training = dataset.training(split);
    let mut session = run.begin(&training)?;
    while !session.is_done() {
        session.epoch(&mut ())?;
    }
    Ok(session)
}

#[test]
fn finetuning_lowers_the_loss_and_beats_the_frozen_network() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(folder.path());
    let split = split(&dataset);
    let map = |settings: &[&str]| {
        let run = run(settings);
        let session = trained(&run, &dataset, &split).unwrap();
        let losses: Vec<f64> = session.history().iter().map(|row| row.loss).collect();
        let model = session.finish().unwrap().model;
        (map_of(&model, &dataset, &split), losses, model)
    };
    let freeze = both("freeze=all");
    let (frozen, ..) = map(&[&freeze[0], &freeze[1]]);
    let (tuned, losses, model) = map(&[]);
    assert!(losses[7] < 0.7 * losses[0], "{losses:?}");
    assert!(tuned > frozen + 0.1 && tuned > 0.7, "tuned {tuned}, frozen {frozen}");

    // The saved model accepts picture files and rejects other features.
    let saved = tempfile::tempdir().unwrap();
    model.save(saved.path()).unwrap();
    let loaded = Model::load(saved.path()).unwrap();
    let queries = dataset.queries(&split, "sketch").unwrap();
    let outputs =
        |model: &Model| model.outputs("sketch", queries.features(), &|_| {}).unwrap();
    let (a, b) = (outputs(&model), outputs(&loaded));
    assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-6));
    let file = fs_err::read(folder.path().join("sketch0.png")).unwrap();
    let one = Features::Pictures(Pictures::in_memory(vec![file]));
    assert_eq!(loaded.outputs("sketch", one, &|_| {}).unwrap().len(), 16);
    let texts = Features::Text(["a text"].into_iter().collect());
    let err = loaded.outputs("sketch", texts, &|_| {}).unwrap_err().to_string();
    assert_eq!(err, "the features are text, the model expects pictures");
}

#[test]
fn stopped_training_resumes_with_the_same_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(folder.path());
    let split = split(&dataset);
    let (augment, micro) = (both("augment=true"), both("micro_batch=7"));
    let run = run(&["epochs=2", &augment[0], &augment[1], &micro[0]]);
    let whole = trained(&run, &dataset, &split).unwrap().finish().unwrap().model;

    let training = dataset.training(&split);
    let begin = || run.begin(&training).unwrap();
    let mut first = begin();
    let stopped = first.epoch(&mut |step: &Step<'_>| match step.done {
        1 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(stopped.unwrap().is_none());
    let checkpoint = folder.path().join("checkpoint.safetensors");
    first.save(&checkpoint, "a note").unwrap();
    let mut second = begin();
    assert_eq!(second.resume(&checkpoint).unwrap(), "a note");
    while !second.is_done() {
        second.epoch(&mut ()).unwrap();
    }
    let second = second.finish().unwrap().model;
    let queries = dataset.queries(&split, "photo").unwrap();
    let outputs =
        |model: &Model| model.outputs("photo", queries.features(), &|_| {}).unwrap();
    assert_eq!(outputs(&whole), outputs(&second));
}

#[test]
fn unsuitable_finetuning_is_rejected() {
    let fault = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
        Config::parse("", &settings).unwrap_err().to_string()
    };
    let on = ["modality.image.network=resnet18", "modality.image.weights=random"];
    let with = |more: &'static str| [&on[..], &[more]].concat();
    assert_eq!(
        fault(&with("method=dcmh")),
        "dcmh learns from features, not through a network (modality.image.network); jcch+, jcch, \
         jcch-b, scdh do: choose one of them, or extract features of the pictures first \
         (crosshash features)"
    );
    assert!(fault(&on[..1]).contains("give the file of its weights"));
    assert!(
        fault(&with("modality.image.freeze=half")).contains("none, all, or up to LAYER")
    );
    let err = fault(&with("modality.image.freeze=up to layer9"));
    assert!(
        err.contains("no layer named \"layer9\"; there are: conv1, bn1, layer1.0"),
        "{err}"
    );
    assert!(fault(&["modality.image.crop=0.5"]).contains("name one"));
    assert!(fault(&["modality.image.network=resnet19"]).contains("there are: alexnet"));
    let broken = tempfile::tempdir().unwrap();
    let dataset = dataset(broken.path());
    let split = split(&dataset);
    for item in 0..ITEMS {
        let path = broken.path().join(format!("photo{item}.png"));
        fs_err::write(path, b"\x89PNG\r\n\x1a\nno").unwrap();
    }
    let run = run(&["epochs=1"]);
    let err = trained(&run, &dataset, &split).err().unwrap().to_string();
    assert!(err.contains("/photo") && err.contains(".png: damaged"), "{err}");
}
