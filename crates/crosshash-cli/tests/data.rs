//! `crosshash data` end to end: make data, inspect it, import common layouts, reject bad input.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::Path;

use serde_json::Value;

use driver::{done, refused};

fn inspect(path: &Path) -> Value {
    let json = done(&["data", "inspect", path.to_str().unwrap(), "--json"]);
    serde_json::from_str(&json).unwrap()
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = dir.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
}

#[test]
fn synthetic_data_depend_on_the_seed_and_match_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: &str| {
        let out = dir.path().join(name);
        let modalities = "photo:16,tags:50:sparse,words:40:text";
        done(&[
            "data",
            "synth",
            "--out",
            out.to_str().unwrap(),
            "--items",
            "600",
            "--labels",
            "12",
            "--modalities",
            modalities,
            "--seed",
            seed,
        ]);
        out
    };
    let (a, b, c) = (make("a", "5"), make("b", "5"), make("c", "6"));
    for file in ["items.tsv", "photo.npy", "tags.npz", "words.jsonl", "dataset.toml"] {
        let read = |folder: &Path| fs_err::read(folder.join(file)).unwrap();
        assert_eq!(read(&a), read(&b), "{file}");
        assert_ne!(read(&a), read(&c), "{file}");
    }
    let report = inspect(&a);
    let modalities = report["modalities"].as_array().unwrap();
    let shape =
        |k: usize| (modalities[k]["form"].as_str(), modalities[k]["width"].as_u64());
    assert_eq!(shape(0), (Some("dense"), Some(16)));
    assert_eq!(shape(1), (Some("sparse"), Some(50)));
    assert_eq!(shape(2), (Some("text"), None));
    assert_eq!(report["labels"]["count"], 12);
    assert_eq!(report["pairs"][0]["both"], 600);
    assert_eq!(report["split"]["parts"][0]["query"], 60);
    assert_eq!(report["split"]["parts"][0]["train"], 270);
    // Unbalanced, and some pair of labels well above chance.
    let histogram = report["labels"]["histogram"].as_array().unwrap();
    let count = |label: &Value| label["items"].as_u64().unwrap();
    assert!(count(&histogram[0]) > 5 * count(&histogram[11]), "{histogram:?}");
    let together = report["labels"]["together"].as_array().unwrap();
    assert!(together.iter().any(|pair| pair["lift"].as_f64() > Some(1.2)), "{together:?}");
    let again = refused(&["data", "synth", "--out", a.to_str().unwrap()]);
    assert!(again.contains("already exists; use --force"), "{again}");
}

/// Rows with a common label are closer than rows without, in every modality.
#[test]
fn the_labels_can_be_predicted_from_every_modality() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    done(&[
        "data",
        "synth",
        "--out",
        out,
        "--items",
        "200",
        "--noise",
        "0.5",
        "--modalities",
        "a:32,b:64:sparse",
    ]);
    let opened = crosshash::data::open(dir.path(), None).unwrap();
    for modality in opened.dataset.modalities() {
        let all: Vec<usize> = (0..200).collect();
        let width = modality.features().width().unwrap();
        let mut rows = vec![0.0; 200 * width];
        modality.view(&all).read(&all, &mut rows).unwrap();
        let cosine = |i: usize, j: usize| {
            let (x, y) = (&rows[i * width..][..width], &rows[j * width..][..width]);
            let dot =
                |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(p, q)| p * q).sum::<f32>();
            f64::from(dot(x, y) / (dot(x, x) * dot(y, y)).sqrt())
        };
        let mut means = [(0.0, 0.0); 2];
        for (i, j) in (0..200).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let shared = modality.labels().shared(i, modality.labels(), j) > 0;
            let mean = &mut means[usize::from(shared)];
            *mean = (mean.0 + cosine(i, j), mean.1 + 1.0);
        }
        let [far, near] = means.map(|(sum, count)| sum / count);
        assert!(near > far + 0.03, "{}: {near} and {far}", modality.name());
    }
}

#[test]
fn the_report_lists_warnings_first_and_dropped_items() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "items = { table = \"t.tsv\", id = \"id\" }\nlabels.column = \"label\"\n\
        modality.text.text = \"text\"\n\
        split = { column = \"part\", query = \"q\", database = \"d\" }\n";
    let table = "id\ttext\tlabel\tpart\n1\tsame words\tcat\td\n2\tsame words\tcat\tq\n\
        3\t\tdog\td\n4\tother words\t\td\n5\tmore\tcat\tx\n";
    write(dir.path(), &[("dataset.toml", manifest), ("t.tsv", table)]);
    let plot = dir.path().join("labels.svg");
    let path = dir.path().to_str().unwrap();
    let shown = done(&["data", "inspect", path, "--plot", plot.to_str().unwrap()]);
    let warnings: Vec<&str> = shown.lines().filter(|l| l.contains("warning:")).collect();
    assert_eq!(
        warnings,
        [
            "  warning: text: 1 of 5 items have no label; they are relevant to no query",
            "  warning: text: 1 of 5 items are empty",
            "  warning: text: 1 of 5 items have the same content as another item",
            "  warning: text: 1 of 1 queries have exactly the content of a training item",
        ]
    );
    assert!(
        shown.contains("value \"x\" of the split column belongs to no part"),
        "{shown}"
    );
    assert!(shown.lines().nth(1).is_some_and(|line| line.contains("warning")), "{shown}");
    assert!(fs_err::read_to_string(plot).unwrap().contains("<svg"));
}

#[test]
fn class_folders_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    let names =
        ["photo/cat/1.jpg", "photo/dog/2.jpg", "sketch/cat/3.png", "sketch/dog/4.png"];
    write(dir.path(), &names.map(|name| (name, name)));
    let path = dir.path().to_str().unwrap();
    done(&["data", "import", path, "--out", path]);
    let report = inspect(dir.path());
    assert_eq!(report["modalities"][0]["name"], "photo");
    assert_eq!(report["modalities"][1]["name"], "sketch");
    assert_eq!(report["labels"]["count"], 2);
}

#[test]
fn a_table_with_pictures_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let table = "id,file_name,caption,label,split\n\
        1,im/a.png,\"a cat, asleep\",cat;animal,train\n2,im/b.png,a dog,dog;animal,train\n\
        3,im/c.png,a cat,cat;animal,test\n";
    let pictures = ["im/a.png", "im/b.png", "im/c.png"].map(|name| (name, name));
    write(dir.path(), &pictures);
    write(dir.path(), &[("t.csv", table)]);
    let (source, out) = (dir.path().to_str().unwrap(), dir.path().join("set"));
    done(&["data", "import", source, "--out", out.to_str().unwrap()]);
    let report = inspect(&out);
    assert_eq!(report["labels"]["count"], 3);
    assert_eq!(report["pairs"][0]["both"], 3);
    assert_eq!(report["split"]["parts"][0]["query"], 1);
    assert_eq!(report["split"]["parts"][0]["train"], 2);
}

#[test]
fn files_of_other_programs_are_imported() {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crosshash/tests/fixtures");
    let dir = tempfile::tempdir().unwrap();
    let import = |file: &str| {
        let out = dir.path().join(file);
        let from = fixtures.join(file);
        done(&["data", "import", from.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        out
    };
    let report = inspect(&import("table.parquet"));
    assert_eq!(report["modalities"][0]["name"], "embedding");
    assert_eq!(report["modalities"][1]["name"], "text");
    assert_eq!(report["split"]["parts"][0]["query"], 2);
    for file in ["packed5.mat", "v73.mat"] {
        let report = inspect(&import(file));
        assert_eq!(report["modalities"][0]["width"], 3, "{file}");
        assert_eq!(report["labels"]["histogram"][0]["items"], 2, "{file}");
    }
    let arrays = dir.path().join("arrays");
    fs_err::create_dir(&arrays).unwrap();
    let copies =
        [("x_f4.npy", "image.npy"), ("csr.npz", "text.npz"), ("labels.npy", "labels.npy")];
    for (from, to) in copies {
        fs_err::copy(fixtures.join(from), arrays.join(to)).unwrap();
    }
    let path = arrays.to_str().unwrap();
    done(&["data", "import", path, "--out", path]);
    assert_eq!(inspect(&arrays)["modalities"][1]["form"], "sparse");
}

#[test]
fn failures_leave_no_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("src/notes.txt", "nothing to import")]);
    let (source, out) = (dir.path().join("src"), dir.path().join("out"));
    let (source, out) = (source.to_str().unwrap(), out.to_str().unwrap());
    refused(&["data", "import", source, "--out", out]);
    assert!(!Path::new(out).exists());
    refused(&["data", "synth", "--out", out, "--items", "10", "--labels", "0"]);
    assert!(!Path::new(out).exists());
}

#[test]
fn bad_input_exits_with_2_and_names_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "items = { table = \"t.csv\", id = \"id\" }\nlabels.column = \"label\"\n\
        modality.text.text = \"text\"\n";
    write(
        dir.path(),
        &[("dataset.toml", manifest), ("t.csv", "id,text,label\n1,a,b\n2,c\n")],
    );
    let said = refused(&["data", "inspect", dir.path().to_str().unwrap()]);
    assert!(said.starts_with("crosshash: "), "{said}");
    assert!(said.ends_with("t.csv: line 3: 2 cells, but the header has 3\n"), "{said}");
    let said = refused(&["data", "inspect", "/no/such/folder"]);
    assert!(said.contains("/no/such/folder"), "{said}");
    let empty = dir.path().join("empty");
    fs_err::create_dir(&empty).unwrap();
    let path = empty.to_str().unwrap();
    let said = refused(&["data", "import", path, "--out", path]);
    assert!(said.contains("unknown layout"), "{said}");
    assert!(!empty.join("dataset.toml").exists());
    let said = refused(&["data", "synth", "--out", path, "--modalities", "image:x"]);
    assert!(said.contains("expected NAME:WIDTH"), "{said}");
}
