//! Requirements of every method in the table: configured length, one code per row, deterministic for a
//! seed, no empty training set, codes for unseen items without labels, models that can be saved and
//! loaded.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use crosshash::data::{
    Dataset, Dense, Features, Modality, Selection, Split, SplitSpec, Texts,
};
use crosshash::encode::{Encoder as _, encode};
use crosshash::evaluate::{Coded, every_direction};
use crosshash::method::{METHODS, MethodInfo};
use crosshash::{CodedModality, Config, Error, Model, Result};
use crosshash_codes::Labels;
use crosshash_codes::eval::Options;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const CLASSES: usize = 4;
const WIDTH: usize = 10;
const ITEMS: u32 = 160;

/// The form of the second modality.
#[derive(Clone, Copy, PartialEq)]
enum Second {
    /// Words.
    Text,
    /// Dense features in the same space as the first.
    Numbers,
}

/// Dense features (class means plus noise), and texts or further dense features of the same items.
fn dataset(second: Second) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let rows: Vec<Vec<u32>> = (0..ITEMS)
        .map(|i| if i % 3 == 0 { vec![i % 4, (i + 1) % 4] } else { vec![i % 4] })
        .collect();
    let mut pixels = |noise: f32| -> Features {
        let mut values = Vec::new();
        for labels in &rows {
            values.extend((0..WIDTH).map(|k| {
                let hit = labels.iter().any(|&l| k % CLASSES == l as usize);
                3.0 * f32::from(u8::from(hit)) + rng.random_range(-noise..noise)
            }));
        }
        Features::Dense(Dense::from_floats(WIDTH, values).unwrap())
    };
    let image = pixels(1.0);
    let other = match second {
        Second::Numbers => pixels(1.5),
        Second::Text => {
            let mut texts = Texts::default();
            for (i, labels) in rows.iter().enumerate() {
                let words = labels.iter().map(|l| format!("class{l} word{l}x{}", i % 3));
                texts.push(&words.collect::<Vec<_>>().join(" "));
            }
            Features::Text(texts)
        }
    };
    let ids: Vec<String> = (0..ITEMS).map(|i| format!("item{i}")).collect();
    let labels = Labels::from_indices(CLASSES, &rows).unwrap();
    let image = Modality::new("image", ids.clone(), image, labels.clone()).unwrap();
    let other = Modality::new("other", ids, other, labels).unwrap();
    let names = (0..CLASSES).map(|c| format!("class {c}")).collect();
    Dataset::new("synthetic", names, vec![image, other]).unwrap()
}

fn split(dataset: &Dataset) -> Split {
    let share = |share| Some(Selection::Share(share));
    SplitSpec { query: share(0.2), validation: share(0.1), ..SplitSpec::default() }
        .draw(dataset)
        .unwrap()
}

fn run(method: &MethodInfo, bits: usize, seed: u64) -> Config {
    let mut settings = vec![
        format!("method={:?}", method.name),
        format!("bits={bits}"),
        format!("seed={seed}"),
        "dcmh.warmup_epochs=2".into(),
        "seph.centres=30".into(),
        "seph.iterations=20".into(),
    ];
    let small_networks = [
        "dcmh.learning_rate=0.3",
        "prdh.features=16",
        "prdh.learning_rate=0.01",
        "ssah.hidden=16",
        "ssah.features=16",
        "ssah.learning_rate=0.01",
        "adah.features=32",
        "adah.learning_rate=0.01",
        "dsh.features=16",
        "dsh.learning_rate=0.01",
        "gdh.hidden=32",
        "gdh.learning_rate=0.005",
        "acmr.hidden=[16, 16]",
        "acmr.learning_rate=0.01",
        "tuch.hidden=16",
        "tuch.learning_rate=0.01",
        "cyc_dgh.hidden=16",
        "cyc_dgh.learning_rate=0.01",
    ];
    settings.extend(small_networks.map(String::from));
    if method.name == "chn" {
        // Cosines of outputs start close to 1, where their gradient is small.
        settings.extend(["epochs=60", "learning_rate=0.5"].map(String::from));
    }
    if method.single {
        settings.push("modalities=[\"image\"]".into());
    }
    let small = "hidden = 16\nhidden_sparse = 16\nepochs = 15\nbatch_size = 32\nlearning_rate = 0.05\n";
    Config::parse(small, &settings).unwrap()
}

/// Trains a model.
fn fit(config: &Config, dataset: &Dataset, split: &Split) -> Result<Model> {
    let training = dataset.training(split);
    let fitted = config.fit(&training, &mut ())?.expect("nothing stops it");
    assert_eq!(fitted.history.last().unwrap().epoch, fitted.history.len());
    assert!(fitted.best_epoch.is_some(), "{}", config.method().name);
    Ok(fitted.model)
}

/// The real outputs of all queries, which have no labels here.
fn outputs(model: &Model, dataset: &Dataset, split: &Split) -> Vec<Vec<f32>> {
    let of = |name: &str| {
        let queries = dataset.queries(split, name).unwrap();
        let found = model.outputs(name, queries.features(), &|_| {}).unwrap();
        assert_eq!(found.len(), queries.len() * model.bits().get(), "one row per item");
        found
    };
    model.modalities().into_iter().map(of).collect()
}

#[test]
fn codes_have_the_configured_length_and_depend_on_the_seed_only() {
    for second in [Second::Text, Second::Numbers] {
        let dataset = dataset(second);
        let split = split(&dataset);
        for method in METHODS.iter().map(|entry| &entry.info) {
            // fewer and more bits than features
            for bits in [8, 33] {
                let name = format!("{}, {bits} bits", method.name);
                // A few epochs: enough for codes that depend on the seed.
                let short = |seed: u64| {
                    run(method, bits, seed).with(&["epochs=4".to_owned()]).unwrap()
                };
                let found = fit(&short(5), &dataset, &split);
                if let Err(Error::Unsuitable { why, .. }) = &found {
                    assert!(method.name == "cosine" && second == Second::Text, "{why}");
                    continue;
                }
                let model = found.unwrap();
                let info = method;
                assert_eq!(model.modalities().len(), if info.single { 1 } else { 2 });
                let codes = outputs(&model, &dataset, &split);
                if info.codes {
                    assert_eq!(model.bits().get(), bits, "{name}");
                }
                let again = fit(&short(5), &dataset, &split).unwrap();
                assert_eq!(codes, outputs(&again, &dataset, &split), "{name}: one seed");
                let other = fit(&short(6), &dataset, &split).unwrap();
                let same = codes == outputs(&other, &dataset, &split);
                assert_eq!(same, !info.seeded, "{name}: another seed");
                let folder = tempfile::tempdir().unwrap();
                model.save(folder.path()).unwrap();
                let loaded = Model::load(folder.path()).unwrap();
                let again = outputs(&loaded, &dataset, &split);
                for (a, b) in codes.iter().flatten().zip(again.iter().flatten()) {
                    assert!((a - b).abs() < 1e-4 * (1.0 + a.abs()), "{name}: loaded");
                }
            }
        }
    }
}

#[test]
fn empty_training_set_is_rejected() {
    let dataset = dataset(Second::Numbers);
    let parts = split(&dataset);
    let mut parts = parts.parts().to_vec();
    // A split must have training items; here the first modality has none.
    parts[0].train.clear();
    let empty = Split::new(&dataset, parts).unwrap();
    for method in METHODS.iter().map(|entry| &entry.info) {
        let err = fit(&run(method, 8, 0), &dataset, &empty).unwrap_err().to_string();
        assert!(err.contains("no training items"), "{}: {err}", method.name);
    }
}

#[test]
fn directions_differ_and_supervised_methods_beat_chance() {
    let dataset = dataset(Second::Text);
    let split = split(&dataset);
    for method in METHODS.iter().map(|entry| &entry.info).filter(|m| m.codes && !m.single) {
        let model = fit(&run(method, 8, 1), &dataset, &split).unwrap();
        let coded: Vec<Coded> = model
            .modalities()
            .into_iter()
            .map(|name| {
                let queries = dataset.queries(&split, name).unwrap();
                let database = dataset.database(&split, name).unwrap();
                let code = |features| encode(&model, name, features, &|_| {}).unwrap();
                Coded {
                    name: name.to_owned(),
                    queries: code(queries.features()),
                    query_labels: queries.labels(),
                    database: code(database.features()),
                    database_labels: database.labels(),
                }
            })
            .collect();
        let all = every_direction(&coded, &Options::default(), &|_| {}).unwrap();
        let map = |from: &str, to: &str| {
            let found = all.iter().find(|d| d.query == from && d.database == to).unwrap();
            (found.report.map.unwrap().tie_aware, found.report.chance.unwrap())
        };
        let (there, chance) = map("image", "other");
        let (back, _) = map("other", "image");
        assert_ne!(there, back, "{}: I->T and T->I", method.name);
        assert_ne!(there, map("image", "image").0, "{}", method.name);
        if method.pairs || method.labels {
            let (name, mean) = (method.name, (there + back) / 2.0);
            assert!(mean > chance + 0.05, "{name}: MAP {mean:.3}, chance {chance:.3}");
        }
    }
}

#[test]
fn names_are_unique_and_papers_are_cited() {
    for (k, entry) in METHODS.iter().enumerate() {
        let info = &entry.info;
        assert!(!info.paper.is_empty() && !info.title.is_empty() && !info.cost.is_empty());
        assert!(METHODS[..k].iter().all(|other| other.info.name != info.name));
    }
}

/// A unified model codes a database item by the sum of its outputs in all modalities, also after loading.
#[test]
fn unified_codes_are_the_signs_of_the_sum_of_outputs() {
    let dataset = dataset(Second::Numbers);
    let split = split(&dataset);
    let info =
        METHODS.iter().map(|entry| &entry.info).find(|m| m.name == "seph-rnd").unwrap();
    let config = run(info, 8, 1).with(&["seph.unified=true".into()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fit(&config, &dataset, &split).unwrap().save(folder.path()).unwrap();
    let model = Model::load(folder.path()).unwrap();
    let coded = |name: &str| CodedModality::encode(&model, &dataset, &split, name, &|_| {});
    let (image, other) = (coded("image").unwrap(), coded("other").unwrap());
    assert_eq!(image.coded.database, other.coded.database, "one code per item");
    assert_ne!(image.coded.queries, other.coded.queries, "queries have one modality");
    let real = |name: &str| {
        let items = dataset.database(&split, name).unwrap();
        model.outputs(name, items.features(), &|_| {}).unwrap()
    };
    let (a, b) = (real("image"), real("other"));
    let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let wanted = crosshash_codes::Codes::from_signs(model.bits(), &sums).unwrap();
    assert_eq!(image.coded.database, wanted);
}

/// Every declared range is accepted by the configuration of its method.
#[test]
fn searched_settings_are_valid() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for entry in METHODS {
        for range in entry.search {
            for _ in 0..5 {
                let settings =
                    [format!("method={:?}", entry.info.name), range.draw(&mut rng)];
                Config::parse("", &settings).unwrap();
            }
        }
    }
}
