//! Data without labels, with several captions per picture, through every command.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
mod serving;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use driver::{done, ends, path, refused};
use serving::{Server, json};

const SCENES: usize = 160;
const WORDS: usize = 20;
const SMALL: [&str; 12] = [
    "--set",
    "hidden=64",
    "--set",
    "hidden_sparse=64",
    "--set",
    "epochs=12",
    "--set",
    "learning_rate=0.05",
    "--set",
    "batch_size=32",
    "--bits",
    "32",
];

/// Pictures as features and three captions each; a caption has two of the three words of its picture.
fn made(folder: &Path) -> String {
    let data = path(folder, "data");
    fs_err::create_dir(&data).unwrap();
    let mut table = "id\tsplit\tcaption_1\tcaption_2\tcaption_3\n".to_owned();
    let shape = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({SCENES}, {WORDS}), }}"
    );
    let mut features = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    features.extend(format!("{shape:<117}\n").bytes());
    for scene in 0..SCENES {
        let own =
            [scene % WORDS, (scene / WORDS * 3 + scene * 7) % WORDS, scene * 11 % WORDS];
        let word = |k: usize| format!("thing{}", own[k]);
        let split = ["test", "dev", "train", "train"][scene % 4];
        // The last caption of some pictures is missing.
        let last =
            if scene % 5 == 0 { String::new() } else { format!("{} {}", word(0), word(2)) };
        let (first, second) =
            (format!("a {} {}", word(0), word(1)), format!("{} {}", word(1), word(2)));
        writeln!(table, "s{scene}\t{split}\t{first}\t{second}\t{last}").unwrap();
        let value = |k: usize| {
            let noise = u8::try_from((scene * 13 + k * 5) % 7).unwrap();
            if own.contains(&k) { 2.0 } else { 0.1 * f32::from(noise) }
        };
        features.extend((0..WORDS).flat_map(|k| value(k).to_le_bytes()));
    }
    let file = |name: &str| Path::new(&data).join(name);
    fs_err::write(file("items.tsv"), table).unwrap();
    fs_err::write(file("image.npy"), features).unwrap();
    fs_err::write(file("dataset.toml"), MANIFEST).unwrap();
    data
}

const MANIFEST: &str = "name = \"scenes\"
[items]
table = \"items.tsv\"
id = \"id\"
[modality.image]
features = \"image.npy\"
[modality.text]
captions = [\"caption_1\", \"caption_2\", \"caption_3\"]
[split]
column = \"split\"
query = \"test\"
validation = \"dev\"
train = \"train\"
";

/// No value is NaN: JSON would have null, a table the text.
fn without_nan(text: &str) {
    assert!(!text.contains("NaN") && !text.contains("null"), "{text}");
}

fn trained(folder: &Path) -> (String, String) {
    let (data, run) = (made(folder), path(folder, "run"));
    let mut args = vec!["train", &data, "--out", &run];
    args.extend(SMALL);
    let (table, said) = ends(0, &args);
    without_nan(&table);
    assert!(said.contains("the data set has no labels: training uses pairs"), "{said}");
    assert!(!said.contains("MAP"), "{said}");
    assert!(table.contains("the data set has no labels: MAP and"), "{table}");
    for ranking in ["hamming", "asymmetric", "cosine", "reranked"] {
        let lines =
            table.lines().filter(|line| line.contains(ranking) && line.contains(" -> "));
        assert_eq!(lines.count(), 2, "{ranking}: {table}");
    }
    (data, run)
}

#[test]
fn a_run_without_labels_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (data, run) = trained(dir.path());

    let report: Value =
        serde_json::from_slice(&fs_err::read(Path::new(&run).join("report.json")).unwrap())
            .unwrap();
    for direction in report["directions"].as_array().unwrap() {
        let found = &direction["report"];
        assert!(found.get("map").is_none() && found.get("curves").is_none(), "{found}");
        assert!(found["notes"].to_string().contains("no labels"), "{found}");
        if direction["query"] == direction["database"] {
            continue;
        }
        // 40 keys; captions of 8 of them lack the last one.
        let captions = 40 * 3 - 8;
        let (from, to) =
            if direction["query"] == "text" { (captions, 40) } else { (40, captions) };
        assert_eq!(found["known_item"]["queries"], from);
        assert_eq!(found["known_item"]["database"], to);
        assert!(found["known_item"]["r10"].as_f64().unwrap() > 0.6, "{found}");
        assert_eq!(found["rankings"].as_array().unwrap().len(), 4);
    }
    let history = fs_err::read_to_string(Path::new(&run).join("history.csv")).unwrap();
    assert!(!history.contains("NaN"), "{history}");
    assert!(Path::new(&run).join("convergence.svg").exists());

    let table = done(&["eval", &run, "--at", "5"]);
    without_nan(&table);
    assert!(table.contains("the data set has no labels"), "{table}");
    let all: Vec<Value> = serde_json::from_str(&done(&["eval", &run, "--json"])).unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|one| one["report"].get("map").is_none()));

    let found = done(&["search", &run, "--text", "thing3", "--target", "image"]);
    assert!(found.lines().count() > 5, "{found}");
    let texts = path(dir.path(), "texts.txt");
    fs_err::write(&texts, "thing1 thing2\nthing3\n").unwrap();
    let (codes, index) = (path(dir.path(), "q.codes"), path(dir.path(), "x.index"));
    done(&["encode", &run, "--modality", "text", "--input", &texts, "--out", &codes]);
    let database = format!("{run}/codes/database.image.codes");
    done(&["index", "build", &index, "--codes", &database]);
    let found = done(&["search", &index, "--codes", &codes, "-k", "3"]);
    assert!(found.contains("s"), "{found}");
    let err = refused(&["eval", "--query", &codes, "--database", &database]);
    assert!(err.contains("no labels"), "{err}");

    let figure = path(dir.path(), "map.svg");
    done(&[
        "embed-plot",
        &run,
        "--out",
        &figure,
        "--perplexity",
        "5",
        "--iterations",
        "20",
    ]);
    let text = done(&["data", "inspect", &data]);
    assert!(
        text.contains("no labels; 160 ids")
            && text.contains("160 keys, 448 pairs of items"),
        "{text}"
    );
    without_nan(&text);
    let err = refused(&["data", "inspect", &data, "--plot", &figure]);
    assert!(err.contains("the data set has no labels"), "{err}");
}

#[test]
fn a_run_without_labels_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let (_, run) = trained(dir.path());
    let server = Server::start(Path::new(&run), &[]);
    let mut client = server.client();
    let models = json(200, client.get("/v1/models"));
    assert_eq!(models["models"][0]["labels"], serde_json::json!([]));
    let name = models["default"].as_str().unwrap().to_owned();
    let model = json(200, client.get(&format!("/v1/models/{name}")));
    let directions = model["report"]["directions"].as_array().unwrap();
    let across = directions.iter().filter(|d| d["query"] != d["database"]);
    for direction in across {
        assert!(
            direction["map"].is_null()
                && direction["recall"].is_number()
                && direction["recall"] == direction["metrics"]["recall_at_10"]
                && direction["metrics"]["bit_entropy"].is_number(),
            "{direction}"
        );
    }
    let query =
        serde_json::json!({ "query": { "text": "thing3" }, "target": "image", "k": 3 });
    let found = json(200, client.json("POST", "/v1/search", &query.to_string()));
    assert_eq!(found["hits"].as_array().unwrap().len(), 3, "{found}");
}

#[test]
fn sweeps_and_comparisons_omit_metrics_of_labels() {
    let dir = tempfile::tempdir().unwrap();
    let (data, out) = (made(dir.path()), path(dir.path(), "sweep"));
    let mut args =
        vec!["sweep", &data, "--out", &out, "--vary", "plus.temperature=0.1,0.2"];
    args.extend(&SMALL[..10]);
    let (table, said) = ends(0, &args);
    assert!(!table.contains("NaN") && said.contains("best by validation"), "{table}{said}");
    assert!(table.contains("R@10 image -> text"), "{table}");
    let out = path(dir.path(), "compare");
    let mut args =
        vec!["compare", &data, "--out", &out, "--methods", "jcch+,cca,cvh,itq,jcch,dcmh"];
    args.extend([
        "--bits",
        "16",
        "--seeds",
        "1",
        "--set",
        "epochs=2",
        "--set",
        "hidden=16",
        "--set",
        "hidden_sparse=16",
    ]);
    let table = done(&args);
    assert!(!table.contains("NaN"), "{table}");
    assert!(table.contains("R@10 image -> text") && table.contains("by codes"), "{table}");
    assert!(
        table.contains("skipped: jcch learns from labels, and the data set has none"),
        "{table}"
    );
    assert!(
        table
            .lines()
            .any(|line| line.trim_start().starts_with("cvh") && line.contains(" - ")),
        "{table}"
    );
    let mut args = vec!["train", &data, "--out", &out, "--method", "jcch"];
    args.extend(SMALL);
    let err = refused(&args);
    assert!(err.contains("jcch learns from labels") && err.contains("jcch+"), "{err}");
}

#[test]
fn labels_from_text_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let manifest = format!(
        "{MANIFEST}[labels]\nfrom_text = {{ modality = \"text\", min_items = 5, max_share = 0.5 }}\n"
    );
    fs_err::write(Path::new(&data).join("dataset.toml"), manifest).unwrap();
    let text = done(&["data", "inspect", &data]);
    assert!(
        text.contains("frequent words of the training texts of modality text"),
        "{text}"
    );
    let run = path(dir.path(), "run");
    let mut args = vec!["train", &data, "--out", &run, "--method", "jcch", "--json"];
    args.extend(SMALL);
    let report: Value = serde_json::from_str(&done(&args)).unwrap();
    assert!(
        report["notes"][0].as_str().unwrap().contains("derived from texts"),
        "{report}"
    );
    assert!(report["directions"][0]["report"]["map"]["tie_aware"].is_number());
    done(&["eval", &run]);
}
