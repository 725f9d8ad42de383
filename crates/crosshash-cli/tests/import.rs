//! `crosshash data import` on layouts that people have: nothing is dropped silently.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::{Path, PathBuf};

use crosshash::data::{Features, Manifest};
use serde_json::Value;

use driver::{done, ends, refused};

fn write(dir: &Path, files: &[(&str, &[u8])]) {
    for (name, content) in files {
        let path = dir.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
}

fn pictures(dir: &Path, names: &[&str]) {
    for name in names {
        write(dir, &[(name, name.as_bytes())]);
    }
}

/// Imports into a folder of its own; gives that folder and the report.
fn import(source: &Path) -> (PathBuf, String) {
    let out = source.with_file_name("imported");
    let (source, to) = (source.to_str().unwrap(), out.to_str().unwrap());
    let (_, said) = ends(0, &["data", "import", source, "--out", to, "--force"]);
    (out, said)
}

fn inspect(path: &Path) -> Value {
    let json = done(&["data", "inspect", path.to_str().unwrap(), "--json"]);
    serde_json::from_str(&json).unwrap()
}

fn texts(folder: &Path, modality: &str) -> Vec<String> {
    let opened = crosshash::data::open(folder, None).unwrap();
    let Features::Text(texts) = opened.dataset.modality(modality).unwrap().features()
    else {
        panic!("{modality} is no text");
    };
    (0..texts.len()).map(|k| texts.get(k).to_owned()).collect()
}

#[test]
fn a_csv_in_windows_1252_with_semicolons_and_photos_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("shop");
    let table = b"sku;image_path;bezeichnung;kategorie;preis;bild_url\n\
        1;fotos/K\xfcche.jpg;K\xfcchentisch aus hellem Holz;M\xf6bel;199,90;https://example.org/1\n\
        2;fotos/b.jpg;blaues Sofa mit zwei Kissen;M\xf6bel;89,00;https://example.org/2\n\
        3;fotos/c.jpg;rote Lampe f\xfcr den Tisch;Licht;12,50;https://example.org/3\n\
        4;fotos/d.jpg;gelbe Lampe an der Wand;Licht;15,00;https://example.org/4\n\
        5;fotos/missing.jpg;ein kleiner runder Teppich;M\xf6bel;20,00;https://example.org/5\n";
    write(&source, &[("items.csv", table), ("fotos/notes.pdf", b"x")]);
    pictures(&source, &["fotos/Küche.jpg", "fotos/b.jpg", "fotos/c.jpg", "fotos/d.jpg"]);
    let (out, said) = import(&source.join("items.csv"));
    for part in [
        "table items.csv: Windows-1252, separated by semicolons (likely)",
        "image_path: names the pictures: 4 of 5 rows have one",
        "sku: id of the item",
        "bezeichnung: text (likely)",
        "preis: field for filters and results (number)",
        "bild_url: addresses, shown with results; they are not downloaded",
        "rows: not used: 1 rows name no picture",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(texts(&out, "text")[0], "Küchentisch aus hellem Holz");
    let report = inspect(&out);
    assert_eq!(report["modalities"][0]["items"], 4, "{report}");
}

#[test]
fn tables_without_labels_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("set");
    let table = b"file_name,caption,caption_lower,empty\n\
        img/1.png,A cat on a mat,a cat on a mat,\nimg/2.png,Two dogs run fast,two dogs run fast,\n\
        img/3.png,The sea at night,the sea at night,\n";
    write(&source, &[("metadata.csv", table), ("movie.mp4", b"x")]);
    pictures(&source, &["img/1.png", "img/2.png", "img/3.png", "img/4.png"]);
    let (out, said) = import(&source);
    for part in [
        "caption: text",
        "caption_lower: not used: nearly the same as caption",
        "empty: not used: all its cells are empty",
        "1 .mp4 file: not used: of no known format",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (manifest, _) = Manifest::read(&out).unwrap();
    assert!(manifest.labels.is_none());
    let ids = crosshash::data::open(&out, None).unwrap();
    assert_eq!(ids.dataset.modality("image").unwrap().ids()[0], "img/1.png");
    // The picture without a row is counted by the inspector.
    let shown = done(&["data", "inspect", out.to_str().unwrap()]);
    assert!(shown.contains("pictures without a row in the table"), "{shown}");
}

#[test]
fn embedded_pictures_of_a_zstd_parquet_are_imported_with_class_names() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crosshash/tests/fixtures/pictures.parquet");
    // Two shards in the folder of a Hugging Face data set.
    let source = dir.path().join("hub");
    fs_err::create_dir_all(source.join("data")).unwrap();
    for shard in ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"] {
        fs_err::copy(&fixture, source.join("data").join(shard)).unwrap();
    }
    write(&source, &[("README.md", b"card")]);
    let (out, said) = import(&source);
    for part in [
        "2 tables data/train-00000-of-00002.parquet ...: one row per item",
        "image: embedded pictures",
        "label: labels: 2 different ones",
        "crosshash-pictures.zip: written: the pictures of column image",
        "the names of the classes, as labels and as texts",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let opened = crosshash::data::open(&out, None).unwrap();
    let image = opened.dataset.modality("image").unwrap();
    assert_eq!(image.len(), 46, "one picture is missing in each shard");
    assert_eq!(opened.dataset.label_names(), ["cold_colour", "warm_colour"]);
    assert_eq!(texts(&out, "text")[1], "cold colour");
    let features = dir.path().join("f.npy");
    let features = features.to_str().unwrap();
    let zip = out.join("crosshash-pictures.zip");
    done(&[
        "features",
        zip.to_str().unwrap(),
        "--backbone",
        "descriptor",
        "--out",
        features,
    ]);
}

#[test]
fn class_folders_are_labels_and_texts() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("pets");
    // A folder above the classes does not matter.
    pictures(
        &source,
        &["all/tabby_cat/1.jpg", "all/tabby_cat/2.jpg", "all/dog/1.jpg", "all/dog/2.jpg"],
    );
    let (out, said) = import(&source);
    assert!(
        said.contains("folder names: labels and texts: 2 classes (dog, tabby_cat)"),
        "{said}"
    );
    let opened = crosshash::data::open(&out, None).unwrap();
    assert_eq!(opened.dataset.label_names(), ["dog", "tabby_cat"]);
    assert_eq!(texts(&out, "text"), ["dog", "dog", "tabby cat", "tabby cat"]);
    assert_eq!(inspect(&out)["pairs"][0]["both"], 4);
}

#[test]
fn split_folders_dates_captions_and_loose_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("split");
    let names = [
        "train/cat/1.jpg",
        "train/cat/2.jpg",
        "train/dog/3.jpg",
        "test/cat/4.jpg",
        "test/dog/5.jpg",
    ];
    pictures(&source, &names);
    let (out, said) = import(&source);
    assert!(said.contains("folders test, train: parts of the split"), "{said}");
    let report = inspect(&out);
    assert_eq!(report["labels"]["count"], 2);
    assert_eq!(report["split"]["parts"][0]["query"], 2);

    let source = dir.path().join("dates");
    pictures(
        &source,
        &["2023-05/a.jpg", "2023-05/b.jpg", "2024-01/c.jpg", "2024-01/d.jpg"],
    );
    let (out, said) = import(&source);
    assert!(said.contains("numbers or dates, so they are no classes"), "{said}");
    assert!(Manifest::read(&out).unwrap().0.labels.is_none());

    let source = dir.path().join("captioned");
    pictures(&source, &["a.jpg", "b.jpg"]);
    write(&source, &[("a.txt", b"a red car"), ("b.txt", "zwei Bäume".as_bytes())]);
    let (out, said) = import(&source);
    assert!(said.contains("captions of 2 of 2 pictures"), "{said}");
    assert_eq!(texts(&out, "text"), ["a red car", "zwei Bäume"]);

    let source = dir.path().join("loose");
    pictures(&source, &["a.jpg", "b.jpg", "c.jpg"]);
    let (out, _) = import(&source);
    assert_eq!(crosshash::data::open(&out, None).unwrap().dataset.modalities().len(), 1);
}

/// One row per caption becomes one item per picture.
#[test]
fn captions_on_rows_of_their_own_are_grouped() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("flickr");
    let table = b"image,caption\na.jpg,a child climbs stairs\na.jpg,a girl goes in\n\
        a.jpg,the little girl\nb.jpg,two dogs play\nb.jpg,a black dog and a white one\nb.jpg,dogs\n";
    write(&source, &[("captions.txt", table)]);
    pictures(&source, &["Images/a.jpg", "Images/b.jpg"]);
    let (out, said) = import(&source);
    assert!(said.contains("written: 2 pictures with their captions"), "{said}");
    let opened = crosshash::data::open(&out, None).unwrap();
    assert_eq!(opened.dataset.modality("image").unwrap().len(), 2);
    assert_eq!(opened.dataset.modality("text").unwrap().len(), 6);
    assert_eq!(inspect(&out)["pairs"][0]["both"], 2);
}

#[test]
fn sources_without_data_are_rejected_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("papers"), dir.path().join("out"));
    write(&source, &[("a.pdf", b"x"), ("b.pdf", b"x"), ("read.docx", b"x")]);
    let (source, out) = (source.to_str().unwrap(), out.to_str().unwrap());
    let said = refused(&["data", "import", source, "--out", out]);
    assert!(said.contains("there are only 1 .docx file, 2 .pdf files"), "{said}");
    assert!(!Path::new(out).exists());
}
