//! Training end to end on small synthetic data: accuracy, seeds, exact resume, unpaired and partly paired
//! modalities, and errors.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::ops::ControlFlow;

use crosshash::data::{
    Dataset, Dense, Features, Modality, Selection, Split, SplitSpec, Texts,
};
use crosshash::encode::{Encoder as _, encode};
use crosshash::evaluate::{Coded, every_direction, mean_map};
use crosshash::train::{Step, TrainingSession};
use crosshash::{Config, Error, Model, Result};
use crosshash_codes::eval::Options;
use crosshash_codes::{Codes, Labels};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CLASSES: usize = 4;
const WIDTH: usize = 12;

/// The ids of the second modality.
#[derive(Clone, Copy, PartialEq)]
enum Pairing {
    Full,
    Half,
    None,
}

/// Pictures (class mean plus noise) and texts (words of their classes), some with two classes.
fn dataset(pairing: Pairing) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let n = 240;
    let rows: Vec<Vec<u32>> = (0..240_u32)
        .map(|i| match i % 3 {
            0 => vec![i % 4, (i + 1) % 4],
            _ => vec![i % 4],
        })
        .collect();
    let mut pixels = Vec::new();
    let mut texts = Texts::default();
    for labels in &rows {
        for k in 0..WIDTH {
            let mean: f32 = labels
                .iter()
                .map(|&l| f32::from(u8::from(k % CLASSES == l as usize)))
                .sum();
            pixels.push(3.0 * mean + rng.random_range(-1.0..1.0));
        }
        let words =
            labels.iter().map(|l| format!("class{l} word{}", rng.random_range(0..9)));
        texts.push(&words.collect::<Vec<_>>().join(" "));
    }
    let ids = |other: bool| -> Vec<String> {
        let name = |i: usize| match pairing {
            Pairing::Half if other && i.is_multiple_of(2) => format!("other{i}"),
            Pairing::None if other => format!("other{i}"),
            _ => format!("item{i}"),
        };
        (0..n).map(name).collect()
    };
    let labels = Labels::from_indices(CLASSES, &rows).unwrap();
    let pixels = Features::Dense(Dense::from_floats(WIDTH, pixels).unwrap());
    let image = Modality::new("image", ids(false), pixels, labels.clone()).unwrap();
    let text = Modality::new("text", ids(true), Features::Text(texts), labels).unwrap();
    let names = (0..CLASSES).map(|c| format!("class {c}")).collect();
    Dataset::new("synthetic", names, vec![image, text]).unwrap()
}

fn split(dataset: &Dataset) -> Split {
    let share = |share| Some(Selection::Share(share));
    let plan =
        SplitSpec { query: share(0.2), validation: share(0.1), ..SplitSpec::default() };
    plan.draw(dataset).unwrap()
}

fn run(settings: &[&str]) -> Config {
    let small = "method = \"jcch\"\nbits = 16\nhidden = 24\nhidden_sparse = 24\nepochs = 15\nbatch_size = 32\nlearning_rate = 0.05\n";
    let settings: Vec<String> = settings.iter().map(|&s| s.to_owned()).collect();
    Config::parse(small, &settings).unwrap()
}

fn fit(run: &Config, dataset: &Dataset, split: &Split) -> Result<Model> {
    let training = dataset.training(split);
    Ok(run.fit(&training, &mut ())?.expect("nothing stops it").model)
}

fn codes(model: &Model, dataset: &Dataset, split: &Split) -> Vec<Coded> {
    let one = |name: &str| {
        let (queries, database) =
            (dataset.queries(split, name).unwrap(), dataset.database(split, name).unwrap());
        let code = |features| -> Codes { encode(model, name, features, &|_| {}).unwrap() };
        Coded {
            name: name.to_owned(),
            queries: code(queries.features()),
            query_labels: queries.labels(),
            database: code(database.features()),
            database_labels: database.labels(),
        }
    };
    model.modalities().into_iter().map(one).collect()
}

fn map(coded: &[Coded]) -> (f64, f64) {
    let directions = every_direction(coded, &Options::default(), &|_| {}).unwrap();
    (mean_map(&directions).unwrap(), directions[0].report.chance.unwrap())
}

#[test]
fn codes_of_two_modalities_align_with_and_without_pairs() {
    for pairing in [Pairing::Full, Pairing::Half, Pairing::None] {
        let dataset = dataset(pairing);
        let split = split(&dataset);
        let model = fit(&run(&[]), &dataset, &split).unwrap();
        let (map, chance) = map(&codes(&model, &dataset, &split));
        assert!(map > chance + 0.3, "MAP {map}, chance {chance}");
    }
}

#[test]
fn single_modality_and_linear_towers_learn() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let settings = ["method=scdh", "modalities=[\"image\"]", "hidden=0"];
    let model = fit(&run(&settings), &dataset, &split).unwrap();
    assert_eq!(model.modalities(), ["image"]);
    let (map, chance) = map(&codes(&model, &dataset, &split));
    assert!(map > chance + 0.3, "MAP {map}, chance {chance}");
    let err = fit(&run(&["method=scdh"]), &dataset, &split).unwrap_err().to_string();
    assert_eq!(
        err,
        "scdh learns one modality; choose one of image, text, e.g. modalities = [\"image\"]"
    );
}

#[test]
fn results_depend_on_the_seed() {
    let dataset = dataset(Pairing::Half);
    let split = split(&dataset);
    let made = |seed: &str| {
        let model = fit(&run(&[seed, "epochs=2"]), &dataset, &split).unwrap();
        let coded = codes(&model, &dataset, &split);
        coded.into_iter().flat_map(|c| [c.queries, c.database]).collect::<Vec<_>>()
    };
    assert_eq!(made("seed=1"), made("seed=1"));
    assert_ne!(made("seed=1"), made("seed=2"));
}

#[test]
fn checkpoint_resumes_exactly_and_model_can_be_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let run = run(&[]);
    let training = dataset.training(&split);
    let fresh = || run.begin(&training).unwrap();
    let mut whole = fresh();
    while !whole.is_done() {
        whole.epoch(&mut ()).unwrap();
        if whole.history().len() == 3 {
            whole.save(&path, "a note").unwrap();
        }
    }
    let mut resumed = fresh();
    assert_eq!(resumed.resume(&path).unwrap(), "a note");
    assert_eq!(resumed.history().len(), 3);
    while !resumed.is_done() {
        resumed.epoch(&mut ()).unwrap();
    }
    assert_eq!(whole.history(), resumed.history());
    assert_eq!(whole.best_epoch(), resumed.best_epoch());
    let (whole, resumed) = (whole.finish().unwrap().model, resumed.finish().unwrap().model);
    assert_eq!(whole.centres(), resumed.centres());
    whole.save(folder.path()).unwrap();
    let loaded = Model::load(folder.path()).unwrap();
    let all = |model: &Model| {
        let coded = codes(model, &dataset, &split);
        coded.into_iter().flat_map(|c| [c.queries, c.database]).collect::<Vec<_>>()
    };
    assert_eq!(all(&whole), all(&resumed));
    assert_eq!(all(&whole), all(&loaded));

    let other = run.with_seed(9);
    let mut session = other.begin(&training).unwrap();
    let err = session.resume(&path).unwrap_err().to_string();
    assert!(err.contains("belongs to another configuration or data set"), "{err}");
}

/// A training stopped at any step of an epoch resumes with bit-identical results, with every gradient
/// method.
#[test]
fn training_stopped_within_an_epoch_resumes_exactly() {
    let dataset = dataset(Pairing::Half);
    let split = split(&dataset);
    for settings in [
        &["epochs=4"][..],
        &[
            "epochs=4",
            "method=jcch+",
            "plus.average=0.9",
            "plus.dropout=0.2",
            "plus.queue=64",
        ],
        &[
            "epochs=4",
            "method=jcch+",
            "rotation=half-mean+itq",
            "plus.average=0.9",
            "plus.queue=64",
            "plus.binarise_epochs=0.5",
        ],
        &["epochs=4", "method=dcmh"],
        &["epochs=4", "method=jcch+dcmh", "dcmh.warmup_epochs=2"],
    ] {
        resumes_exactly(&run(settings), &dataset, &split);
    }
}

fn resumes_exactly(run: &Config, dataset: &Dataset, split: &Split) {
    let name = run.method().name;
    let folder = tempfile::tempdir().unwrap();
    let training = dataset.training(split);
    let fresh = || run.begin(&training).unwrap();
    let mut whole = fresh();
    while !whole.is_done() {
        whole
            .epoch(&mut |step: &Step<'_>| {
                assert!((step.so_far)().loss.is_finite());
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    for (stop_in, stop_at) in [(0, 1), (1, 3), (3, 2)] {
        let path = folder.path().join(format!("{stop_in}.safetensors"));
        let mut first = fresh();
        let stopped = loop {
            let epoch = first.history().len();
            let row = first
                .epoch(&mut |step: &Step<'_>| {
                    if (epoch, step.done) == (stop_in, stop_at) {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })
                .unwrap();
            if row.is_none() {
                break epoch;
            }
        };
        assert_eq!(stopped, stop_in, "{name}");
        first.save(&path, "").unwrap();
        let mut resumed = fresh();
        resumed.resume(&path).unwrap();
        let mut steps = Vec::new();
        while !resumed.is_done() {
            resumed
                .epoch(&mut |step: &Step<'_>| {
                    steps.push(step.done);
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
        assert_eq!(steps[0], stop_at + 1, "it continues with the next step");
        assert_eq!(resumed.history(), whole.history(), "{name}");
        let bytes = |session: &TrainingSession| {
            let path = folder.path().join("compared.safetensors");
            session.save(&path, "").unwrap();
            fs_err::read(&path).unwrap()
        };
        assert!(
            bytes(&resumed) == bytes(&whole),
            "{name}: stopped in {stop_in} at {stop_at}"
        );
    }
}

#[test]
fn modalities_have_learning_rates_and_alphas_can_be_tied() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let training = dataset.training(&split);
    let trained = |settings: &[&str]| {
        let run = run(settings);
        let mut session = run.begin(&training).unwrap();
        let row = session.epoch(&mut ()).unwrap().unwrap().clone();
        (row, session.finish().unwrap().model.centres().to_vec())
    };
    let (row, centres) = trained(&["epochs=1"]);
    let (_, still) = trained(&[
        "epochs=1",
        "jcch.learning_rate_centres=1e-30",
        "jcch.weight_decay_centres=0",
    ]);
    let (_, first) = trained(&["epochs=1", "learning_rate=1e-30"]);
    assert_ne!(centres, still, "the centres' own rate counts");
    assert_eq!(still, first, "centres that do not move are the first ones");
    assert_ne!(row.term("image.alpha"), row.term("text.alpha"));
    let (row, _) = trained(&["epochs=1", "jcch.alpha_tied=true"]);
    assert!(row.term("image.alpha").is_some());
    assert_eq!(row.term("image.alpha"), row.term("text.alpha"));
    let (a, _) = trained(&["epochs=1", "modality.image.learning_rate_hidden=0.001"]);
    let (b, _) = trained(&["epochs=1"]);
    assert_ne!(a.loss, b.loss, "the hidden layer's own rate counts");
}

#[test]
fn best_epoch_by_validation_is_kept() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let run = run(&[]);
    let training = dataset.training(&split);
    let mut session = run.begin(&training).unwrap();
    while !session.is_done() {
        session.epoch(&mut ()).unwrap();
    }
    let scores: Vec<f64> =
        session.history().iter().map(|row| row.score().unwrap()).collect();
    let best = session.best_epoch().unwrap();
    assert!(scores.iter().all(|&score| score <= scores[best - 1]), "{best} of {scores:?}");
}

#[test]
fn the_returned_weights_are_those_of_the_best_epoch() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let run = run(&["epochs=12", "learning_rate=0.4"]);
    let training = dataset.training(&split);
    let whole = run.fit(&training, &mut ()).unwrap().unwrap();
    let best = whole.best_epoch.unwrap();
    assert!(best < 12, "the best epoch is not the last, or this shows nothing");
    let mut part = run.begin(&training).unwrap();
    for _ in 0..best {
        part.epoch(&mut ()).unwrap();
    }
    assert_eq!(part.best_epoch(), Some(best));
    assert_eq!(part.finish().unwrap().model.centres(), whole.model.centres());
}

#[test]
fn quantisation_reaches_its_target() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let last = |settings: &[&str]| {
        let run = run(settings);
        let training = dataset.training(&split);
        let mut session = run.begin(&training).unwrap();
        while !session.is_done() {
            session.epoch(&mut ()).unwrap();
        }
        session.history().last().unwrap().term("image.quantisation").unwrap()
    };
    let (free, steered) = (last(&["jcch.alpha=0", "epochs=30"]), last(&["epochs=30"]));
    assert!(steered < free && (steered - 0.15).abs() < 0.05, "{free} to {steered}");
}

#[test]
fn divergence_and_collapse_are_errors() {
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let err = fit(&run(&["learning_rate=1e30"]), &dataset, &split).unwrap_err();
    let Error::Diverged { epoch: 1, step, .. } = &err else { panic!("{err}") };
    assert!(*step > 1, "the first step sees the first weights");
    let text = err.to_string();
    assert!(
        text.contains(" became ") && text.contains("lower the learning rate"),
        "{text}"
    );
    let err = fit(
        &run(&["weight_decay=0.9", "learning_rate=0.1", "epochs=30"]),
        &dataset,
        &split,
    );
    let text = err.unwrap_err().to_string();
    assert!(text.starts_with("training collapsed in epoch"), "{text}");
    assert!(text.contains("the shortest centre has length"), "{text}");
}

#[test]
fn model_rejects_other_features() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let model = fit(&run(&["epochs=1"]), &dataset, &split).unwrap();
    let rows =
        |width| Features::Dense(Dense::from_floats(width, vec![0.0; width]).unwrap());
    let fault = |modality: &str, features: Features| {
        encode(&model, modality, features, &|_| {}).unwrap_err().to_string()
    };
    assert_eq!(
        fault("sound", rows(3)),
        "no modality named \"sound\"; there are: image, text"
    );
    assert_eq!(
        fault("image", rows(3)),
        "the features are dense rows with 3 features, the model expects dense rows with 12 features"
    );
    assert_eq!(
        fault("text", rows(3)),
        "the features are dense rows with 3 features, the model expects text"
    );
    model.save(folder.path()).unwrap();
    let path = folder.path().join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    fs_err::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let err = Model::load(folder.path()).unwrap_err().to_string();
    assert!(err.contains("damaged or not a safetensors file"), "{err}");
}

#[test]
fn invalid_names_are_rejected() {
    for name in ["", "a/b", "a,b", "a\\b", "a\"b"] {
        let rows = Features::Dense(Dense::from_floats(1, vec![0.0]).unwrap());
        let labels = Labels::from_indices(1, [[0]]).unwrap();
        let modality = Modality::new(name, vec!["x".into()], rows, labels).unwrap();
        let err =
            Dataset::new("d", vec!["l".into()], vec![modality]).unwrap_err().to_string();
        assert!(err.contains("names are used in file names"), "{err}");
    }
}

#[test]
fn failed_training_cannot_be_saved() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = dataset(Pairing::Full);
    let split = split(&dataset);
    let run = run(&["learning_rate=1e30"]);
    let training = dataset.training(&split);
    let mut session = run.begin(&training).unwrap();
    assert!(session.epoch(&mut ()).is_err());
    let path = folder.path().join("checkpoint.safetensors");
    let err = session.save(&path, "").unwrap_err().to_string();
    assert!(err.contains("has failed and cannot be saved"), "{err}");
    assert!(!path.exists());
}
