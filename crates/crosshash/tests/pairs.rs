//! Pairs by key, many to many, and data sets without labels: manifests, splits, methods, metrics.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::{BTreeMap, BTreeSet};

use crosshash::data::{
    Dataset, Dense, Features, FromText, LoadedDataset, Modality, Part, Selection, Split,
    SplitSpec, Texts, inspect, open,
};
use crosshash::encode::Encoder as _;
use crosshash::evaluate::{Coded, every_direction, mean_map};
use crosshash::method::METHODS;
use crosshash::suggest::suggest;
use crosshash::{CodedModality, Config, Error, Model, Suggestion, add_user_metrics};
use crosshash_codes::Labels;
use crosshash_codes::eval::Options;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const TABLE: &str = "id\tsplit\tcaption_1\tcaption_2\tcaption_3\tsource\ttags
p1\ttrain\tA red dog\tThe dog runs\tred\tx\tdog
p2\ttrain\tA blue cat\t\tcat sleeps\tx\tcat
p3\ttest\tOne red cat\t \tA cat\ty\tcat
p4\ttest\t\t\t\ty\tdog
p5\tnone\tA dog\t\t\tz\tdog
";

/// A folder with the table, five pictures of one feature, and a manifest.
fn folder(manifest: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 1), }";
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(format!("{header:<117}\n").bytes());
    npy.extend((0..5_u8).flat_map(|k| f32::from(k).to_le_bytes()));
    for (name, bytes) in [
        ("dataset.toml", manifest.as_bytes()),
        ("t.tsv", TABLE.as_bytes()),
        ("x.npy", &npy),
    ] {
        fs_err::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn opened(manifest: &str) -> LoadedDataset {
    open(folder(manifest).path(), None).unwrap()
}

fn fault(manifest: &str) -> String {
    open(folder(manifest).path(), None).map(|_| ()).unwrap_err().to_string()
}

const CAPTIONS: &str = "
items = { table = \"t.tsv\", id = \"id\", leave_out = { split = \"none\" } }
modality.image = { features = \"x.npy\" }
modality.text = { captions = [\"caption_1\", \"caption_2\", \"caption_3\"] }
split = { column = \"split\", query = \"test\", train = \"train\", group = \"source\" }
";

#[test]
fn every_caption_is_an_item_with_the_key_of_its_row() {
    let opened = opened(CAPTIONS);
    let dataset = &opened.dataset;
    assert!(!dataset.has_labels());
    let text = dataset.modality("text").unwrap();
    assert_eq!(text.ids(), ["p1#1", "p1#2", "p1#3", "p2#1", "p2#3", "p3#1", "p3#3"]);
    let keys: Vec<&str> = (0..text.len()).map(|item| text.pair_key(item)).collect();
    assert_eq!(keys, ["p1", "p1", "p1", "p2", "p2", "p3", "p3"]);
    assert_eq!(text.marks().unwrap()[5], "test");
    assert_eq!(text.group(5), Some("y"));
    let Features::Text(texts) = text.features() else { panic!("texts") };
    assert_eq!((texts.get(1), texts.get(4)), ("The dog runs", "cat sleeps"));
    let dropped: Vec<(&str, usize)> =
        dataset.dropped().iter().map(|left| (left.reason.as_str(), left.items)).collect();
    assert!(dropped.contains(&("rows of the table without a caption", 1)), "{dropped:?}");
    let split = opened.split().unwrap();
    assert_eq!(
        (split.items(1, Part::Train), split.items(1, Part::Query)),
        (&[0, 1, 2, 3, 4][..], &[5, 6][..])
    );
    let report = inspect::inspect(&opened, &|_| {}).unwrap();
    let pairs = &report.pairs[0];
    assert_eq!((pairs.both, pairs.item_pairs), (3, 7));
    assert_eq!((pairs.left_only, pairs.right_only), (1, 0));
    assert_eq!(report.modalities[1].pair_keys, Some(3));
    assert_eq!(report.labels.count, 0);
    assert!(
        !report.warnings.iter().any(|w| w.contains("no label")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn captions_share_the_labels_of_their_row() {
    let opened = opened(&format!("{CAPTIONS}labels = {{ column = \"tags\" }}\n"));
    let text = opened.dataset.modality("text").unwrap();
    let own: Vec<Vec<usize>> =
        (0..text.len()).map(|item| text.labels().indices(item).collect()).collect();
    assert_eq!(opened.dataset.label_names(), ["cat", "dog"]);
    assert_eq!(own, [[1], [1], [1], [0], [0], [0], [0]]);
}

#[test]
fn a_column_gives_the_pair_keys() {
    let manifest = "
        modality.sketch = { text = \"caption_1\", pair = \"source\", items = { table = \"t.tsv\", id = \"id\" } }
        modality.photo = { features = \"x.npy\", items = { table = \"t.tsv\", id = \"id\", pair = \"tags\" } }
        split = { query = 1 }";
    let opened = opened(manifest);
    let keys = |name: &str| -> Vec<String> {
        let modality = opened.dataset.modality(name).unwrap();
        (0..modality.len()).map(|item| modality.pair_key(item).to_owned()).collect()
    };
    assert_eq!(keys("sketch"), ["x", "x", "y", "y", "z"]);
    assert_eq!(keys("photo"), ["dog", "cat", "cat", "dog", "dog"]);
    assert_eq!(opened.dataset.modality("photo").unwrap().ids()[1], "p2");
}

#[test]
fn contradictions_are_errors() {
    let text = fault(&format!(
        "{CAPTIONS}labels = {{ from_text = {{ modality = \"text\" }}, column = \"tags\", folder = true }}"
    ));
    assert!(text.contains("exactly one of column, matrix and folder"), "{text}");
    let text = fault(&format!(
        "{CAPTIONS}labels = {{ from_text = {{ modality = \"text\" }}, separator = \";\" }}"
    ));
    assert!(text.contains("exactly one of column, matrix and folder"), "{text}");
    let text = fault("modality.t = { captions = [\"a\"], text = \"b\" }");
    assert!(text.contains("exactly one of features, text, captions"), "{text}");
    let text = fault("modality.t = { captions = [\"a\"] }");
    assert!(text.contains("column \"a\" needs a table"), "{text}");
    let text = fault("modality.t = { features = \"x.npy\", pair = \"source\" }");
    assert!(text.contains("column \"source\" needs a table"), "{text}");
    let text = fault(
        "items = { table = \"t.tsv\", id = \"id\" }
         modality.a = { text = \"caption_1\", labels = { column = \"tags\" } }
         modality.b = { text = \"caption_2\" }",
    );
    assert!(text.contains("modality b: no labels, but modality a has some"), "{text}");
    let text = fault(
        "items = { table = \"t.tsv\", id = \"id\" }
         labels = { from_text = { modality = \"a\" } }
         modality.a = { text = \"caption_1\" }
         split = { query = 1, stratify = true }",
    );
    assert!(text.contains("stratify needs labels"), "{text}");
}

/// Pictures and captions of the same scenes: a scene is a random vector, a caption names the scene by
/// some of its words. Every picture has `captions` captions; the pair key is the scene.
fn scenes(n: usize, captions: usize) -> Dataset {
    const WIDTH: usize = 24;
    const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut pixels, mut texts) = (Vec::new(), Texts::default());
    let (mut ids, mut keys) = (Vec::new(), Vec::new());
    for scene in 0..n {
        let own: Vec<usize> = (0..4).map(|_| rng.random_range(0..WIDTH)).collect();
        for k in 0..WIDTH {
            let there = if own.contains(&k) { 2.0 } else { 0.0 };
            pixels.push(there + rng.random_range(-0.4..0.4));
        }
        for k in 0..captions {
            let words = own.iter().enumerate().filter(|(at, _)| at % captions != k % 4);
            let words: Vec<String> =
                words.map(|(_, w)| format!("thing{}", &LETTERS[*w..=*w])).collect();
            texts.push(&words.join(" "));
            ids.push(format!("s{scene}#{k}"));
            keys.push(format!("s{scene}"));
        }
    }
    let none = |n: usize| Labels::from_indices(0, vec![Vec::<u32>::new(); n]).unwrap();
    let pixels = Features::Dense(Dense::from_floats(WIDTH, pixels).unwrap());
    let own = (0..n).map(|scene| format!("s{scene}")).collect();
    let image = Modality::new("image", own, pixels, none(n)).unwrap();
    let n = ids.len();
    let text = Modality::new("text", ids, Features::Text(texts), none(n)).unwrap();
    let text = text.with_pairs(keys).unwrap();
    Dataset::new("scenes", Vec::new(), vec![image, text]).unwrap()
}

fn split(dataset: &Dataset) -> Split {
    let (query, validation) = (Some(Selection::Count(60)), Some(Selection::Count(30)));
    SplitSpec { query, validation, ..SplitSpec::default() }.draw(dataset).unwrap()
}

#[test]
fn splits_keep_pair_keys_together_and_count_them() {
    let dataset = scenes(300, 5);
    let split = split(&dataset);
    let keys = |part: Part| -> Vec<BTreeMap<&str, usize>> {
        let count = |(m, modality): (usize, &Modality)| {
            let mut counts = BTreeMap::new();
            let items = split.items(m, part).iter();
            items.for_each(|&i| {
                let key: &str = dataset.modalities()[m].pair_key(i);
                *counts.entry(key).or_default() += 1;
            });
            assert_eq!(modality.name(), dataset.modalities()[m].name());
            counts
        };
        dataset.modalities().iter().enumerate().map(count).collect()
    };
    let mut seen = BTreeSet::new();
    for (part, wanted) in [(Part::Query, 60), (Part::Validation, 30), (Part::Train, 210)] {
        let [images, texts] = &keys(part)[..] else { panic!("two modalities") };
        assert_eq!((images.len(), texts.len()), (wanted, wanted));
        assert!(texts.values().all(|&n| n == 5) && images.keys().eq(texts.keys()));
        assert!(images.keys().all(|key| seen.insert((*key).to_owned())), "in one part");
    }
    // A caption of a query in training is rejected.
    let mut parts = split.parts().to_vec();
    let moved = parts[1].query.remove(0);
    parts[1].train.push(moved);
    parts[1].train.sort_unstable();
    let text = Split::new(&dataset, parts).unwrap_err().to_string();
    assert!(text.contains("queries must not be used for training"), "{text}");
}

fn config(method: &str, more: &[&str]) -> Config {
    let small = "bits = 32\nhidden = 64\nhidden_sparse = 64\nepochs = 12\nbatch_size = 32\nlearning_rate = 0.05\n";
    let mut settings = vec![format!("method={method:?}")];
    settings.extend(more.iter().map(|&s| s.to_owned()));
    Config::parse(small, &settings).unwrap()
}

fn fit(config: &Config, dataset: &Dataset, split: &Split) -> crosshash::Result<Model> {
    let training = dataset.training(split);
    let fitted = config.fit(&training, &mut ())?.expect("nothing stops it");
    for epoch in &fitted.history {
        // A reference without codes is not validated.
        assert_eq!(epoch.validation.is_some(), config.method().codes);
        assert!(epoch.validation.is_none_or(|v| v.map.is_none() && v.score.is_finite()));
        assert!(epoch.terms.iter().all(|term| !term.name.contains("classifi")));
    }
    Ok(fitted.model)
}

#[test]
fn jcch_plus_learns_from_pairs_alone() {
    let dataset = scenes(300, 5);
    let split = split(&dataset);
    let model = fit(&config("jcch+", &[]), &dataset, &split).unwrap();
    assert!(model.labels().is_empty() && model.centres().is_empty());
    let dir = tempfile::tempdir().unwrap();
    model.save(dir.path()).unwrap();
    let model = Model::load(dir.path()).unwrap();
    let encode =
        |name| CodedModality::encode(&model, &dataset, &split, name, &|_| {}).unwrap();
    let coded: Vec<CodedModality> = model.modalities().into_iter().map(encode).collect();
    suggestions_work(&model, &dataset, &split, &coded);
    let coded: Vec<Coded> = coded.into_iter().map(|modality| modality.coded).collect();
    let mut directions = every_direction(&coded, &Options::default(), &|_| {}).unwrap();
    assert_eq!(mean_map(&directions), None);
    add_user_metrics(&model, &dataset, &split, &mut directions, &|_| {}).unwrap();
    for direction in directions.iter().filter(|d| d.query != d.database) {
        let user = &direction.report.user;
        let names: Vec<&str> = user.rankings.iter().map(|r| r.ranking.as_str()).collect();
        assert_eq!(names, ["hamming", "asymmetric", "cosine", "reranked"]);
        assert!(
            user.notes.iter().any(|note| note.contains("no labels")),
            "{:?}",
            user.notes
        );
        for ranking in &user.rankings {
            let found = ranking.known_item.as_ref().unwrap();
            let captions = direction.query == "text";
            assert_eq!(found.queries, if captions { 300 } else { 60 });
            assert_eq!(found.database, if captions { 60 } else { 300 });
            // Chance is 10 of 60 pictures; for captions, 1 - C(295, 10) / C(300, 10), below 0.16.
            assert!(found.r10 > 0.6, "{} {}: {found:?}", direction.query, ranking.ranking);
        }
        if direction.query == "text" {
            assert!(user.words_unseen.is_some());
        }
    }
}

/// Every suggested word finds five pictures of scenes with this word, by a plain loop over all pictures.
fn suggestions_work(
    model: &Model,
    dataset: &Dataset,
    split: &Split,
    coded: &[CodedModality],
) {
    let found = suggest(model, dataset, split, coded).unwrap();
    assert!(found.len() >= 3, "{found:?}");
    let text = dataset.modality("text").unwrap();
    let Features::Text(texts) = text.features() else { panic!("texts") };
    let images = coded.iter().find(|modality| modality.coded.name == "image").unwrap();
    let parts = [
        (dataset.database(split, "image").unwrap(), &images.database_outputs),
        (dataset.queries(split, "image").unwrap(), &images.query_outputs),
    ];
    for Suggestion { modality, text: word } in found {
        assert_eq!(modality, "text");
        let typed = Features::Text([&word].into_iter().collect());
        let query = model.outputs("text", typed, &|_| {}).unwrap();
        let mut scored: Vec<(f64, &str)> = Vec::new();
        for (view, outputs) in &parts {
            for at in 0..view.len() {
                let row = outputs.row(at).iter().map(|&v| f64::from(v));
                let dot: f64 =
                    row.clone().zip(&query).map(|(a, &b)| a * f64::from(b)).sum();
                scored.push((dot / row.map(|v| v * v).sum::<f64>().sqrt(), view.id(at)));
            }
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, id) in &scored[..5] {
            let captions = (0..text.len()).filter(|&item| text.pair_key(item) == *id);
            let has_word = captions
                .into_iter()
                .any(|item| texts.get(item).split(' ').any(|w| w == word));
            assert!(has_word, "{word} finds {id}");
        }
    }
}

#[test]
fn methods_without_labels_run_and_the_others_name_them() {
    let dataset = scenes(150, 3);
    let split = split(&dataset);
    for info in METHODS.iter().map(|entry| entry.info) {
        let mut more = vec!["epochs=2", "bits=12"];
        if info.single {
            more.push("modalities=[\"image\"]");
        }
        let found = fit(&config(info.name, &more), &dataset, &split);
        match found {
            Ok(model) => {
                assert!(!info.labels, "{} needs labels", info.name);
                let queries = dataset.queries(&split, "image").unwrap();
                let outputs = model.outputs("image", queries.features(), &|_| {}).unwrap();
                assert!(outputs.iter().all(|x| x.is_finite()), "{}", info.name);
            }
            Err(Error::Unsuitable { why, .. }) if info.labels => {
                assert!(why.contains("the data set has none"), "{why}");
                for method in ["jcch+", "cca", "cvh"] {
                    let named = why.contains(&format!(" {method},"));
                    assert!(named, "{method}: {why}");
                }
            }
            // Features of different widths have no cosine.
            Err(Error::Unsuitable { why, .. }) => assert_eq!(info.name, "cosine", "{why}"),
            Err(err) => panic!("{}: {err}", info.name),
        }
    }
}

#[test]
fn neither_labels_nor_pairs_is_an_error() {
    let dense = |n: usize| Features::Dense(Dense::from_floats(1, vec![0.5; n]).unwrap());
    let none = |n: usize| Labels::from_indices(0, vec![Vec::<u32>::new(); n]).unwrap();
    let one = |name: &str| {
        let ids = (0..20).map(|k| format!("{name}{k}")).collect();
        Modality::new(name, ids, dense(20), none(20)).unwrap()
    };
    let dataset = Dataset::new("apart", Vec::new(), vec![one("a"), one("b")]).unwrap();
    let split = SplitSpec::default().draw(&dataset).unwrap();
    let found = config("jcch+", &[]).fit(&dataset.training(&split), &mut ());
    let Err(Error::Unsuitable { why, .. }) = found else { panic!("{found:?}") };
    assert!(why.contains("no labels and no pairs between a, b"), "{why}");
    let paired = Dataset::from_pairs([("a", dense(4)), ("b", dense(4))]).unwrap();
    assert!(!paired.has_labels());
    assert_eq!(paired.modality("b").unwrap().pair_key(3), "3");
}

#[test]
fn labels_are_frequent_words_of_training_texts() {
    let manifest = "
        items = { table = \"t.tsv\", id = \"id\" }
        labels = { from_text = { modality = \"text\", min_items = 1, max_share = 0.5 } }
        modality.image = { features = \"x.npy\" }
        modality.text = { captions = [\"caption_1\", \"caption_2\", \"caption_3\"], analysis = { stop_words = \"english\" } }
        split = { column = \"split\", query = [\"test\", \"none\"], train = \"train\" }";
    let mut opened = opened(manifest);
    assert!(!opened.dataset.has_labels() && opened.takes_labels_from_text());
    let split = opened.split().unwrap();
    opened.label_from_text(&split).unwrap();
    let dataset = &opened.dataset;
    // Each of the two training keys contains them; \"one\" occurs in queries only; \"the\" is a stop word.
    assert_eq!(dataset.label_names(), ["blue", "cat", "dog", "red", "runs", "sleeps"]);
    let labels = |name: &str, item: usize| -> Vec<&str> {
        let own = dataset.modality(name).unwrap().labels().indices(item);
        own.map(|label| dataset.label_names()[label].as_str()).collect()
    };
    assert_eq!(labels("text", 1), ["dog", "red", "runs"], "all texts of the key");
    assert_eq!(labels("image", 0), ["dog", "red", "runs"]);
    assert_eq!(
        labels("image", 2),
        ["cat", "red"],
        "a query has the words of its own texts"
    );
    assert_eq!(labels("image", 3), [""; 0]);
    assert!(dataset.label_note().unwrap().contains("derived from texts"));
    let report = inspect::inspect(&opened, &|_| {}).unwrap();
    assert_eq!(report.labels.derived.as_deref(), dataset.label_note());

    let source = FromText { max_labels: 2, ..FromText::new("text") };
    let text = dataset.with_labels_from_text(&split, &source).unwrap_err().to_string();
    assert!(text.contains("at least 20 and at most 0 of 2 pair keys"), "{text}");
    let source = FromText { min_items: 1, max_share: 1.0, ..source };
    let most = dataset.with_labels_from_text(&split, &source).unwrap();
    assert_eq!(most.label_names(), ["blue", "cat"], "equal frequencies: alphabetical");
    let source = FromText { modality: "image".into(), ..source };
    let text = dataset.with_labels_from_text(&split, &source).unwrap_err().to_string();
    assert!(text.contains("modality image has dense features, not texts"), "{text}");
}

#[test]
fn words_are_labels_in_addition_to_those_of_a_column() {
    let manifest = "
        items = { table = \"t.tsv\", id = \"id\" }
        labels = { column = \"tags\", separator = \";\", from_text = { modality = \"text\", min_items = 1, max_share = 0.5 } }
        modality.image = { features = \"x.npy\" }
        modality.text = { captions = [\"caption_1\", \"caption_2\", \"caption_3\"], analysis = { stop_words = \"english\" } }
        split = { column = \"split\", query = [\"test\", \"none\"], train = \"train\" }";
    let mut opened = opened(manifest);
    let given = opened.dataset.label_names().to_vec();
    assert!(!given.is_empty());
    let of_column: Vec<Vec<usize>> = {
        let image = opened.dataset.modality("image").unwrap();
        (0..image.len()).map(|item| image.labels().indices(item).collect()).collect()
    };
    let split = opened.split().unwrap();
    for _ in 0..2 {
        // Twice: derived labels are replaced, given ones are kept.
        opened.label_from_text(&split).unwrap();
        let dataset = &opened.dataset;
        assert_eq!(dataset.label_names()[..given.len()], given);
        let words = ["blue", "cat", "dog", "red", "runs", "sleeps"].map(|word| {
            let taken = given.iter().any(|name| name == word);
            if taken { format!("{word} (word)") } else { word.to_owned() }
        });
        assert_eq!(dataset.label_names()[given.len()..], words);
        let image = dataset.modality("image").unwrap();
        for (item, column) in of_column.iter().enumerate() {
            let (kept, derived): (Vec<usize>, Vec<usize>) =
                image.labels().indices(item).partition(|&label| label < given.len());
            assert_eq!(&kept, column);
            if item == 0 {
                let names: Vec<&str> =
                    derived.iter().map(|&l| dataset.label_names()[l].as_str()).collect();
                assert_eq!(names.len(), 3, "{names:?}");
                assert!(names.iter().all(|name| {
                    ["dog", "red", "runs"].iter().any(|w| name.starts_with(w))
                }));
            }
        }
        let note = dataset.label_note().unwrap();
        assert!(
            note.contains(&format!("{} labels of the data, and 6", given.len())),
            "{note}"
        );
    }
}

#[test]
fn words_of_queries_do_not_influence_the_labels() {
    let dataset = scenes(120, 2);
    let split = split(&dataset);
    let source = FromText { min_items: 5, max_share: 1.0, ..FromText::new("text") };
    let labelled = dataset.with_labels_from_text(&split, &source).unwrap();
    // Other words in all texts that are not used for training.
    let text = dataset.modality("text").unwrap();
    let Features::Text(texts) = text.features() else { panic!("texts") };
    let train: BTreeSet<usize> = split.items(1, Part::Train).iter().copied().collect();
    let changed: Texts = (0..text.len())
        .map(|item| if train.contains(&item) { texts.get(item) } else { "other words" })
        .collect();
    let keys = (0..text.len()).map(|item| text.pair_key(item).to_owned()).collect();
    let new = Modality::new(
        "text",
        text.ids().to_vec(),
        Features::Text(changed),
        text.labels().clone(),
    );
    let new = new.unwrap().with_pairs(keys).unwrap();
    let image = dataset.modality("image").unwrap().clone();
    let other = Dataset::new("scenes", Vec::new(), vec![image, new]).unwrap();
    let other = other.with_labels_from_text(&split, &source).unwrap();
    assert_eq!(labelled.label_names(), other.label_names());
}
