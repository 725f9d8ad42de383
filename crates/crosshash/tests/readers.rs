//! Every reader on files of other programs, on bad input (with error messages), and on damaged files
//! (no panic).

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};

use crosshash::data::{
    Dataset, Features, LoadedDataset, OpenOptions, ReadLimits, inspect, open, open_with,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptests::{fixed, fuzz};

#[path = "../src/proptests.rs"]
mod proptests;

const ROWS: [f32; 12] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A folder with a manifest and other files.
fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }
    dir
}

fn with_fixtures(manifest: &str) -> LoadedDataset {
    let dir = folder(&[("dataset.toml", manifest.as_bytes())]);
    open(dir.path(), Some(&fixtures())).unwrap()
}

fn rows(dataset: &Dataset, name: &str) -> Vec<f32> {
    let modality = dataset.modality(name).unwrap();
    let width = modality.features().width().unwrap();
    let all: Vec<usize> = (0..modality.len()).collect();
    let mut out = vec![0.0; all.len() * width];
    modality.view(&all).read(&all, &mut out).unwrap();
    out
}

fn fault(files: &[(&str, &[u8])]) -> String {
    let dir = folder(files);
    let text = open(dir.path(), None).map(|_| ()).unwrap_err().to_string();
    text.replace(&format!("{}/", dir.path().display()), "")
}

#[test]
fn numpy_arrays_of_every_type() {
    for file in ["x_f2.npy", "x_f4.npy", "x_f8.npy", "x_u1.npy", "x_fortran.npy"] {
        let opened = with_fixtures(&format!(
            "modality.m.features = {file:?}\nlabels.matrix = \"labels.npy\""
        ));
        assert_eq!(rows(&opened.dataset, "m"), ROWS, "{file}");
        assert_eq!(opened.dataset.label_names(), ["0", "1"]);
        let labels = opened.dataset.modalities()[0].labels().clone();
        assert_eq!(labels.indices(2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(labels.unlabelled(), 1);
    }
}

#[test]
fn archives_and_matlab_files_are_equivalent() {
    let quarter: Vec<f32> = ROWS.iter().map(|x| x / 4.0).collect();
    for (file, x, l) in [
        ("plain.npz", "x", "labels"),
        ("packed.npz", "x", "labels"),
        ("plain5.mat", "X", "L"),
        ("packed5.mat", "X", "L"),
        ("v73.mat", "X", "L"),
    ] {
        let opened = with_fixtures(&format!(
            "[modality.m]\nfeatures = {{ file = {file:?}, key = {x:?} }}\n\
             [labels]\nmatrix = {{ file = {file:?}, key = {l:?} }}\nnames = [\"cat\", \"dog\"]"
        ));
        assert_eq!(rows(&opened.dataset, "m"), quarter, "{file}");
        assert_eq!(opened.dataset.modalities()[0].labels().histogram(), [2, 2], "{file}");
    }
}

#[test]
fn sparse_matrices_of_scipy_and_matlab() {
    let dense = [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0, 0.0, 0.0, 4.0];
    for features in [
        "\"csr.npz\"",
        "{ file = \"plain5.mat\", key = \"S\" }",
        "{ file = \"packed5.mat\", key = \"S\" }",
        "{ file = \"v73.mat\", key = \"S\" }",
    ] {
        let opened = with_fixtures(&format!(
            "modality.m.features = {features}\nlabels.matrix = \"labels.npy\""
        ));
        let modality = &opened.dataset.modalities()[0];
        assert!(matches!(modality.features(), Features::Sparse(_)), "{features}");
        assert_eq!(rows(&opened.dataset, "m"), dense, "{features}");
    }
}

#[test]
fn stacked_pictures_have_items_last() {
    // P is 2 x 3 x 4 in MATLAB's axes: four items of six values.
    for file in ["plain5.mat", "packed5.mat", "v73.mat"] {
        let opened = with_fixtures(&format!(
            "modality.m.features = {{ file = {file:?}, key = \"P\" }}\n\
             labels.matrix = \"labels.npy\""
        ));
        let got = rows(&opened.dataset, "m");
        assert_eq!(&got[..6], [0.0, 12.0, 4.0, 16.0, 8.0, 20.0], "{file}");
    }
}

#[test]
fn transposed_arrays_have_items_in_columns() {
    let text = "modality.m.features = { file = \"x_f4.npy\", transpose = true }\n\
                [labels]\nmatrix = { file = \"x_f4.npy\", transpose = true }\nnumbers = true";
    let opened = with_fixtures(text);
    assert_eq!(rows(&opened.dataset, "m")[..4], [0.0, 3.0, 6.0, 9.0]);
}

#[test]
fn parquet_with_lists() {
    let opened = with_fixtures(
        "items = { table = \"table.parquet\", id = \"id\" }\nlabels.column = \"labels\"\n\
         modality.image.column = \"embedding\"\nmodality.text.text = \"caption\"\n\
         split = { column = \"split\", query = \"test\" }",
    );
    let quarter: Vec<f32> = ROWS.iter().map(|x| x / 4.0).collect();
    assert_eq!(rows(&opened.dataset, "image"), quarter);
    assert_eq!(opened.dataset.label_names(), ["cat", "dog"]);
    let text = opened.dataset.modality("text").unwrap();
    assert_eq!(text.view(&[0, 2]).text(1), Some(""));
    assert_eq!(text.labels().unlabelled(), 1);
    assert_eq!(opened.split().unwrap().parts()[0].query, [2, 3]);
}

#[test]
fn tables_and_pictures_are_joined_by_id() {
    let dir = folder(&[
        (
            "t.csv",
            b"id,text,class,fold\n\"a/1\",\"x, y\",cat;dog,1\nb/2,z,dog,2\nc/3,,cat,9\n",
        ),
        ("pics/a/1.png", b"one"),
        ("pics/b/2.JPG", b"two"),
        ("pics/d/4.jpg", b"four"),
        ("pics/notes.txt", b"no picture"),
        (
            "dataset.toml",
            b"items = { table = \"t.csv\", id = \"id\", leave_out = { fold = \"9\" } }\n\
              labels = { column = \"class\", separator = \";\" }\n\
              modality.image.pictures = \"pics\"\nmodality.text.text = \"text\"\n",
        ),
    ]);
    let opened = open(dir.path(), None).unwrap();
    let image = opened.dataset.modality("image").unwrap();
    assert_eq!(image.ids(), ["a/1", "b/2"]);
    assert_eq!(image.labels().histogram(), [1, 2]);
    let left: Vec<String> = opened
        .dataset
        .dropped()
        .iter()
        .map(|left| format!("{}: {} {}", left.modality, left.items, left.reason))
        .collect();
    assert_eq!(
        left,
        [
            "image: 1 files that are not pictures",
            "image: 1 leave_out: fold is \"9\"",
            "image: 1 pictures without a row in the table",
            "text: 1 leave_out: fold is \"9\"",
        ]
    );
    let report = inspect::inspect(&opened, &|_| {}).unwrap();
    assert_eq!(report.pairs[0].both, 2);
}

const TABLE: &str = "items = { table = \"t.tsv\", id = \"id\" }\n\
    labels = { column = \"label\" }\nmodality.text.text = \"text\"\n";

#[test]
fn bad_tables_are_rejected_with_file_line_and_column() {
    let with = |table: &str| {
        fault(&[("dataset.toml", TABLE.as_bytes()), ("t.tsv", table.as_bytes())])
    };
    assert_eq!(
        with("id\ttext\tlabel\na\tx\tl\nb\ty\n"),
        "t.tsv: line 3: 2 cells, but the header has 3"
    );
    assert_eq!(
        with("id\ttekst\tlabel\na\tx\tl\n"),
        "t.tsv: no column named \"text\"; there are: id, tekst, label"
    );
    assert_eq!(
        with("id\ttext\tlabel\na\tx\tl\nb\ty\tl\na\tz\tl\n"),
        "t.tsv: line 4, column id: \"a\" occurs twice, first on line 2"
    );
    // Damaged UTF-8, not Windows-1252: most of its characters are valid.
    let bad = b"id\ttext\tlabel\na\t\xff\t\xc3\xa9\xc3\xa9\n";
    assert_eq!(
        fault(&[("dataset.toml", TABLE.as_bytes()), ("t.tsv", bad)]),
        "t.tsv: line 2: cell 2 is not UTF-8"
    );
    assert_eq!(
        fault(&[("dataset.toml", TABLE.as_bytes())]),
        "t.tsv: there is no such file or folder"
    );
}

#[test]
fn bad_labels_are_rejected_with_file_line_and_column() {
    let table = b"id\ttext\tlabel\na\tx\t0 1\nb\ty\t2\n";
    let with = |labels: &str| {
        let manifest = TABLE.replace("{ column = \"label\" }", labels);
        fault(&[("dataset.toml", manifest.as_bytes()), ("t.tsv", table)])
    };
    let numbers = "column = \"label\", separator = \" \", numbers = true";
    assert_eq!(
        with(&format!("{{ {numbers}, names = [\"p\", \"q\"] }}")),
        "t.tsv: line 3, column labels: label 2 is out of range, there are 2 labels (0 to 1)"
    );
    assert_eq!(
        with("{ column = \"label\", names = [\"0 1\", \"3\"] }"),
        "t.tsv: line 3, column label: label \"2\" is not among the 2 names"
    );
    assert_eq!(
        with("{ column = \"label\", numbers = true }"),
        "t.tsv: line 2, column label: \"0 1\" is not a label number"
    );
    let three = fs_err::read(fixtures().join("x_f4.npy")).unwrap();
    assert_eq!(
        fault(&[
            ("dataset.toml", b"modality.m.features = \"x.npy\"\nlabels.matrix = \"x.npy\""),
            ("x.npy", &three),
        ]),
        "x.npy: labels: row 0, column 2: 2 is neither 0 nor 1"
    );
}

#[test]
fn non_finite_features_are_rejected_with_location() {
    let mut bytes = fs_err::read(fixtures().join("x_f4.npy")).unwrap();
    let at = bytes.len() - 4 * 4;
    bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let labels = fs_err::read(fixtures().join("labels.npy")).unwrap();
    let dir = folder(&[
        ("dataset.toml", b"modality.m.features = \"x.npy\"\nlabels.matrix = \"l.npy\""),
        ("x.npy", &bytes),
        ("l.npy", &labels),
    ]);
    let opened = open(dir.path(), None).unwrap();
    let all = [0, 1, 2, 3];
    let mut out = [0.0; 12];
    let err = opened.dataset.modalities()[0].view(&all).read(&all, &mut out).unwrap_err();
    let text = err.to_string();
    assert!(
        text.ends_with(
            "x.npy: row 2, column 2: NaN is not a valid feature: every value must be finite"
        ),
        "{text}"
    );
    let report = inspect::inspect(&opened, &|_| {}).unwrap();
    assert_eq!(report.modalities[0].content.non_finite, 1);
    assert_eq!(report.modalities[0].content.first_non_finite, Some((2, 2)));
    let place = format!("({}: row 2, column 2)", dir.path().join("x.npy").display());
    assert!(report.warnings[0].contains("item 2, column 2"), "{:?}", report.warnings);
    assert!(report.warnings[0].contains(&place), "{:?}", report.warnings);
    let json =
        "{\"id\": 1, \"e\": [1, 2], \"l\": \"a\"}\n{\"id\": 2, \"e\": [1], \"l\": \"a\"}\n";
    let manifest = b"items = { table = \"t.jsonl\", id = \"id\" }\nlabels.column = \"l\"\nmodality.m.column = \"e\"";
    assert_eq!(
        fault(&[("dataset.toml", manifest), ("t.jsonl", json.as_bytes())]),
        "t.jsonl: line 2, column e: 1 values, but earlier rows have 2"
    );
}

#[test]
fn bad_manifests_are_rejected_with_file_and_line() {
    let text =
        fault(&[("dataset.toml", b"name = \"x\"\n[modality.m]\nfeature = \"x.npy\"\n")]);
    assert!(
        text.starts_with("dataset.toml: TOML parse error at line 3, column 1"),
        "{text}"
    );
    assert!(text.contains("unknown field `feature`"), "{text}");
    let text = fault(&[("dataset.toml", b"[split]\nquery = -1\n")]);
    assert!(
        text.contains("line 2") && text.contains("a size must not be negative"),
        "{text}"
    );
    let text = fault(&[("dataset.toml", b"name = \"x\"\n")]);
    assert!(text.contains("no modality; add e.g. [modality.image]"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let text = open(dir.path(), None).map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("there is no manifest"), "{text}");
}

#[test]
fn modalities_without_a_common_label_are_rejected() {
    let manifest = b"[modality.image]\npictures = \"p\"\nunder = \"a\"\n\
        [modality.sketch]\npictures = \"p\"\nunder = \"b\"\n[labels]\nfolder = true\n";
    let text = fault(&[
        ("dataset.toml", manifest),
        ("p/a/cat/1.png", b"1"),
        ("p/b/dog/1.png", b"2"),
    ]);
    assert_eq!(
        text,
        "dataset.toml: modalities image and sketch share no label; image has e.g. cat, sketch \
         has e.g. dog: give both the same label names"
    );
}

#[test]
fn zip_entries_outside_the_archive_are_rejected() {
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["cat/1.png", "../../dog/2.png"] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"x").unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    let text = fault(&[
        ("dataset.toml", b"modality.m.pictures = \"p.zip\"\nlabels.folder = true"),
        ("p.zip", &bytes),
    ]);
    assert!(text.contains("points outside the archive"), "{text}");
}

/// A `.npy` file of bytes.
fn npy(shape: &str, values: &[u8]) -> Vec<u8> {
    npy_of("|u1", shape, values)
}

/// A `.npy` file of values of a type.
fn npy_of(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn label_numbers_can_be_a_vector() {
    let manifest = b"modality.m.features = \"x.npy\"\n\
        labels = { matrix = \"l.npy\", numbers = true }";
    let vector = npy("(3,)", &[2, 0, 2]);
    let dir = folder(&[
        ("dataset.toml", manifest),
        ("x.npy", &npy("(3, 1)", &[7, 8, 9])),
        ("l.npy", &vector),
    ]);
    let opened = open(dir.path(), None).unwrap();
    assert_eq!(opened.dataset.modalities()[0].labels().histogram(), [1, 0, 2]);
    let text = fault(&[("dataset.toml", manifest), ("x.npy", &vector)]);
    assert!(
        text.contains(
            "x.npy: features must be rows x columns, not an array of one axis (3 values)"
        ),
        "{text}"
    );
    let text = fault(&[("dataset.toml", manifest), ("x.npy", &npy("(3, 0)", &[]))]);
    assert_eq!(text, "x.npy: an array of 3 x 0: features need at least one column");
}

#[test]
fn empty_names_are_neither_labels_nor_ids() {
    let opened = with_fixtures(
        "items = { table = \"nulls.parquet\", id = \"id\", leave_out = { caption = \"none\" } }\n\
         labels.column = \"labels\"\nmodality.text.text = \"caption\"",
    );
    assert_eq!(opened.dataset.label_names(), ["cat", "dog"]);
    let report = inspect::inspect(&opened, &|_| {}).unwrap();
    let warned = "text: leave_out: caption is \"none\", which never occurs".to_owned();
    assert!(report.warnings.contains(&warned), "{:?}", report.warnings);
    let table = b"id\ttext\tlabel\na\tx\tl\n\ty\tl\n";
    assert_eq!(
        fault(&[("dataset.toml", TABLE.as_bytes()), ("t.tsv", table)]),
        "t.tsv: line 3, column id: the id is empty; every item needs an id"
    );
    assert_eq!(
        fault(&[("dataset.toml", TABLE.as_bytes()), ("t.tsv", b"")]),
        "t.tsv: the file is empty; the first line must contain the column names"
    );
}

#[test]
fn fields_without_effect_are_rejected() {
    let table = b"id\ttext\tlabel\na\tx\tl\n";
    let with = |more: &str| {
        let manifest = format!("{TABLE}{more}");
        fault(&[("dataset.toml", manifest.as_bytes()), ("t.tsv", table)])
    };
    let says = |field: &str, of: &str| {
        format!(
            "dataset.toml: modality text: {field} has no effect here: it applies to {of}; remove it"
        )
    };
    assert_eq!(with("modality.text.under = \"a\""), says("under", "pictures"));
    assert_eq!(with("modality.text.path = \"text\""), says("path", "pictures"));
    assert_eq!(with("modality.text.ids = \"i\""), says("ids", "features without a table"));
    assert_eq!(
        with("modality.text.analysis.max_share = 7.0"),
        "dataset.toml: modality text: analysis: max_share must be between 0 and 1, not 7"
    );
}

#[test]
fn pairs_with_different_labels_are_counted() {
    let dir = folder(&[
        (
            "dataset.toml",
            b"items = { table = \"t.tsv\", id = \"id\" }\n\
              modality.a = { text = \"x\", labels.column = \"l\" }\n\
              modality.b = { text = \"x\", labels.column = \"m\" }",
        ),
        ("t.tsv", b"id\tx\tl\tm\n1\tx\tp\tp\n2\ty\tp\tq\n"),
    ]);
    let report = inspect::inspect(&open(dir.path(), None).unwrap(), &|_| {}).unwrap();
    let warned = "a and b: 1 of 2 pairs have different labels".to_owned();
    assert!(report.warnings.contains(&warned), "{:?}", report.warnings);
}

#[test]
fn sparse_matrices_other_than_csr_are_rejected() {
    let bytes = fs_err::read(fixtures().join("csc.npz")).unwrap();
    let manifest = b"modality.m.features = \"x.npz\"\nlabels.matrix = \"l.npy\"";
    assert_eq!(
        fault(&[("dataset.toml", manifest), ("x.npz", &bytes)]),
        "x.npz: sparse matrices of format \"csc\" are not supported; save it with \
         scipy.sparse.save_npz(file, matrix.tocsr())"
    );
}

#[test]
fn complex_variables_are_rejected() {
    let mut bytes = fs_err::read(fixtures().join("plain5.mat")).unwrap();
    bytes[145] |= 0x08; // the flags of X, the first variable
    let manifest = b"modality.m.features = { file = \"f.mat\", key = \"X\" }\n\
        labels.matrix = { file = \"f.mat\", key = \"L\" }";
    assert_eq!(
        fault(&[("dataset.toml", manifest), ("f.mat", &bytes)]),
        "f.mat: variable X contains complex numbers; save its real part"
    );
}

#[test]
fn deeply_nested_header_is_rejected() {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let text =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {}", "(".repeat(100));
    bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
    let manifest = b"modality.m.features = \"x.npy\"\nlabels.matrix = \"x.npy\"";
    assert_eq!(
        fault(&[("dataset.toml", manifest), ("x.npy", &bytes)]),
        "x.npy: a .npy header of brackets is no header"
    );
}

#[test]
fn damaged_parquet_is_an_error() {
    let bytes = fs_err::read(fixtures().join("damaged.parquet")).unwrap();
    let manifest =
        b"items = { table = \"t.parquet\", id = \"id\" }\nlabels.column = \"tags\"\n\
        modality.a.column = \"emb\"";
    assert_eq!(
        fault(&[("dataset.toml", manifest), ("t.parquet", &bytes)]),
        "t.parquet: cannot be read as Parquet: the file is damaged"
    );
}

/// Opens damaged data and returns the error; it must not take long, whatever the file declares.
fn open_error(files: &[(&str, &[u8])]) -> String {
    let begin = std::time::Instant::now();
    let text = fault(files);
    assert!(begin.elapsed().as_secs() < 10, "took {:?}", begin.elapsed());
    text
}

const MAT: &[u8] = b"modality.m.features = { file = \"f.mat\", key = \"X\" }\n\
    labels.matrix = { file = \"f.mat\", key = \"L\" }";

/// X of `v73.mat` is 3 x 4 doubles in gzip chunks; its dimensions are at byte 1344. Larger dimensions
/// are declared, without stored data: the values are the fill value.
#[test]
fn hdf5_dimensions_beyond_the_file_are_rejected() {
    let plain = fs_err::read(fixtures().join("v73.mat")).unwrap();
    assert_eq!(plain[1344..1352], 3_u64.to_le_bytes());
    for (outer, declared) in
        [(1_u64 << 26, (1_u64 << 31).to_string()), (1 << 60, "more than 2^64".to_owned())]
    {
        let mut bytes = plain.clone();
        bytes[1344..1352].copy_from_slice(&outer.to_le_bytes());
        assert_eq!(
            open_error(&[("dataset.toml", MAT), ("f.mat", &bytes)]),
            format!(
                "f.mat: variable X declares {declared} bytes, but a file of 9056 bytes may expand \
                 to at most 26123008; the file is damaged, or the limit (max_ratio) must be raised"
            )
        );
    }
}

/// L of `v73.mat` is 2 x 4 bytes without chunks; its dimensions and their maxima are at byte 6608.
#[test]
fn empty_rows_of_hdf5_take_no_time() {
    let mut bytes = fs_err::read(fixtures().join("v73.mat")).unwrap();
    for at in [6608, 6624] {
        assert_eq!(bytes[at..at + 16], [2_u64, 4].map(u64::to_le_bytes).concat());
        let empty = [1_u64 << 60, 0].map(u64::to_le_bytes).concat();
        bytes[at..at + 16].copy_from_slice(&empty);
    }
    assert_eq!(
        open_error(&[("dataset.toml", MAT), ("f.mat", &bytes)]),
        "f.mat: an array of 0 x 1152921504606846976: an array without rows may declare at most \
         1048576 columns"
    );
}

#[test]
fn columns_of_an_array_without_rows_are_bounded() {
    let manifest = b"modality.m.features = \"x.npy\"\nlabels.matrix = \"x.npy\"";
    let bytes = npy_of("<f4", "(0, 70368744177664)", &[]);
    assert_eq!(
        open_error(&[("dataset.toml", manifest), ("x.npy", &bytes)]),
        "x.npy: an array of 0 x 70368744177664: an array without rows may declare at most 1048576 \
         columns"
    );
}

#[test]
fn sparse_rows_beyond_the_file_are_rejected() {
    let manifest = b"modality.m.features = { file = \"f.mat\", key = \"S\" }\n\
        labels.matrix = { file = \"f.mat\", key = \"L\" }";
    // The attribute MATLAB_sparse of S, the number of its rows.
    let mut v73 = fs_err::read(fixtures().join("v73.mat")).unwrap();
    let name = v73.windows(13).position(|bytes| bytes == b"MATLAB_sparse").unwrap();
    let four =
        v73[name..].windows(8).position(|bytes| bytes == 4_u64.to_le_bytes()).unwrap();
    v73[name + four..][..8].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    // The dimensions of S, an array of two i32 behind their tag.
    let mut plain5 = fs_err::read(fixtures().join("plain5.mat")).unwrap();
    let tag = [5_u32, 8, 4, 3].map(u32::to_le_bytes).concat();
    let all: Vec<usize> =
        (0..plain5.len() - 16).filter(|&at| plain5[at..at + 16] == tag).collect();
    for at in all {
        plain5[at + 8..at + 12].copy_from_slice(&i32::MAX.to_le_bytes());
    }
    for bytes in [v73, plain5] {
        let text = open_error(&[("dataset.toml", manifest), ("f.mat", &bytes)]);
        assert!(text.starts_with("f.mat: the sparse matrix declares "), "{text}");
        assert!(text.contains(&format!("a file of {} bytes", bytes.len())), "{text}");
    }
    // A CSR matrix whose shape has more columns than memory.
    use std::io::Write as _;
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, shape, values) in [
        ("shape.npy", "(2,)", [1_i64, 1 << 40].map(i64::to_le_bytes).concat()),
        ("indptr.npy", "(2,)", [0_i64, 1].map(i64::to_le_bytes).concat()),
        ("indices.npy", "(1,)", 0_i64.to_le_bytes().to_vec()),
        ("data.npy", "(1,)", 1_i64.to_le_bytes().to_vec()),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&npy_of("<i8", shape, &values)).unwrap();
    }
    let bytes = zip.finish().unwrap().into_inner();
    let manifest = b"modality.m.features = \"f.npz\"\nlabels.matrix = \"l.npy\"";
    let text = open_error(&[("dataset.toml", manifest), ("f.npz", &bytes)]);
    assert!(
        text.starts_with("f.npz: a row of the sparse matrix declares 4398046511104 bytes"),
        "{text}"
    );
}

#[test]
fn compressed_variables_and_entries_beyond_the_file_are_rejected() {
    use std::io::Write as _;
    // A compressed element of a MATLAB 5 file: a matrix X that declares almost 4 GiB.
    let mut element = Vec::new();
    for word in [14_u32, 0xffff_fff0, 6, 8, 6, 0, 5, 8, 1 << 16, 1 << 13] {
        element.extend(word.to_le_bytes());
    }
    element.extend([1, 0, 1, 0, b'X', 0, 0, 0]);
    let mut packed =
        flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&element).unwrap();
    let packed = packed.finish().unwrap();
    let mut bytes = fs_err::read(fixtures().join("packed5.mat")).unwrap()[..128].to_vec();
    bytes.extend(15_u32.to_le_bytes());
    bytes.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
    bytes.extend(&packed);
    let text = open_error(&[("dataset.toml", MAT), ("f.mat", &bytes)]);
    assert!(text.starts_with("f.mat: variable X declares 4294967280 bytes"), "{text}");

    // An entry of a NumPy archive that declares a size that is too large.
    let mut bytes = fs_err::read(fixtures().join("packed.npz")).unwrap();
    let at = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    bytes[at + 24..at + 28].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    let manifest = b"modality.m.features = { file = \"f.npz\", key = \"x\" }\n\
        labels.matrix = { file = \"f.npz\", key = \"labels\" }";
    let text = open_error(&[("dataset.toml", manifest), ("f.npz", &bytes)]);
    assert!(text.starts_with("f.npz: array x declares 4294967280 bytes"), "{text}");
}

#[test]
fn limits_can_be_set() {
    let manifest = b"modality.m.features = { file = \"packed.npz\", key = \"x\" }\n\
        labels.matrix = { file = \"packed.npz\", key = \"labels\" }";
    let with = |manifest: &[u8], limits: ReadLimits| {
        let dir = folder(&[("dataset.toml", manifest)]);
        let options = OpenOptions { root: Some(fixtures()), limits };
        open_with(dir.path(), &options).map(|_| ()).map_err(|err| err.to_string())
    };
    with(manifest, ReadLimits::default()).unwrap();
    let few = ReadLimits { max_spooled: 200, ..ReadLimits::default() };
    let text = with(manifest, few).unwrap_err();
    assert!(
        text.ends_with(
            "packed.npz: array labels declares 136 bytes to unpack, but the limit of a data set \
             is 200 bytes (max_spooled), of which 176 are in use"
        ),
        "{text}"
    );
    let table = b"items = { table = \"table.parquet\", id = \"id\" }\n\
        labels.column = \"labels\"\nmodality.text.text = \"caption\"";
    let none = ReadLimits { max_ratio: 0, min_expanded: 10, ..ReadLimits::default() };
    let text = with(table, none).unwrap_err();
    assert!(text.contains("table.parquet: the table declares "), "{text}");
    assert!(text.contains("may expand to at most 10;"), "{text}");
}

#[test]
fn label_numbers_beyond_the_limit_are_rejected() {
    let with = |labels: &str| {
        let table = format!("id\ttext\tlabel\n{labels}");
        let manifest = TABLE
            .replace("{ column = \"label\" }", "{ column = \"label\", numbers = true }");
        open_error(&[("dataset.toml", manifest.as_bytes()), ("t.tsv", table.as_bytes())])
    };
    assert_eq!(
        with("a\tx\t4000000000\n"),
        "dataset.toml: labels: label number 4000000000 is beyond the limit of 1048576 labels \
         without names; name the labels"
    );
    let many: String = (0..1000).map(|id| format!("{id}\tx\t1048575\n")).collect();
    let text = with(&many);
    assert!(
        text.contains("1000 items with label numbers up to 1048575 need 131072000"),
        "{text}"
    );
}

/// A fixture to damage, its file name, and a manifest.
const DAMAGED: [(&str, &str, &str); 9] = [
    ("x_f4.npy", "f.npy", "modality.m.features = \"f.npy\"\nlabels.matrix = \"f.npy\""),
    ("csr.npz", "f.npz", "modality.m.features = \"f.npz\"\nlabels.matrix = \"f.npz\""),
    (
        "packed.npz",
        "f.npz",
        "modality.m.features = { file = \"f.npz\", key = \"x\" }\n\
         labels.matrix = { file = \"f.npz\", key = \"labels\" }",
    ),
    (
        "plain5.mat",
        "f.mat",
        "modality.m.features = { file = \"f.mat\", key = \"S\" }\n\
         labels.matrix = { file = \"f.mat\", key = \"L\" }",
    ),
    (
        "packed5.mat",
        "f.mat",
        "modality.m.features = { file = \"f.mat\", key = \"X\" }\n\
         labels.matrix = { file = \"f.mat\", key = \"L\" }",
    ),
    (
        "v73.mat",
        "f.mat",
        "modality.m.features = { file = \"f.mat\", key = \"X\" }\n\
         modality.n.features = { file = \"f.mat\", key = \"S\" }\n\
         labels.matrix = { file = \"f.mat\", key = \"L\" }",
    ),
    (
        "table.parquet",
        "f.parquet",
        "items = { table = \"f.parquet\", id = \"id\" }\nlabels.column = \"labels\"\n\
         modality.image.column = \"embedding\"\nmodality.text.text = \"caption\"",
    ),
    (
        "nulls.parquet",
        "f.parquet",
        "items = { table = \"f.parquet\", id = \"id\" }\nlabels.column = \"labels\"\n\
         modality.image.column = \"embedding\"\nmodality.text.text = \"caption\"",
    ),
    ("plain.npz", "f.zip", "modality.m.pictures = \"f.zip\"\nlabels.folder = true"),
];

/// A damaged fixture: its number, changed bytes, and where the file is truncated.
fn damage() -> impl Strategy<Value = (usize, Vec<(Index, u8)>, Option<Index>)> {
    let changes = prop::collection::vec((any::<Index>(), any::<u8>()), 1..6);
    (0..DAMAGED.len(), changes, prop::option::of(any::<Index>()))
}

/// Opens a damaged fixture: an error or other values, no panic, within the time limit.
fn open_damaged(which: usize, changes: &[(Index, u8)], cut: Option<Index>) {
    let (fixture, name, manifest) = DAMAGED[which];
    let mut bytes = fs_err::read(fixtures().join(fixture)).unwrap();
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len()));
    }
    let dir = folder(&[("dataset.toml", manifest.as_bytes()), (name, &bytes)]);
    let begin = std::time::Instant::now();
    if let Ok(opened) = open(dir.path(), None) {
        let _ = inspect::inspect(&opened, &|_| {});
    }
    assert!(begin.elapsed().as_secs() < 60, "{fixture} took {:?}", begin.elapsed());
}

proptest! {
    #![proptest_config(fixed(300))]

    #[test]
    fn damaged_files_do_not_panic((which, changes, cut) in damage()) {
        open_damaged(which, &changes, cut);
    }

    #[test]
    fn damaged_texts_do_not_panic(
        table in "(id\ttext\tlabel\n)?[ab\t\n\"\u{e4}]{0,60}",
        manifest in "[a-z=\"\\[\\]{}.\n 0-9]{0,80}",
    ) {
        let dir = folder(&[("dataset.toml", TABLE.as_bytes()), ("t.tsv", table.as_bytes())]);
        let _ = open(dir.path(), None);
        let dir = folder(&[("dataset.toml", manifest.as_bytes())]);
        prop_assert!(open(dir.path(), None).is_err());
    }
}

/// A long run with random seeds: see CONTRIBUTING.md.
#[test]
#[ignore = "runs for CROSSHASH_FUZZ_SECONDS seconds"]
fn fuzz_damaged_files() {
    fuzz(&damage(), |(which, changes, cut)| {
        open_damaged(which, &changes, cut);
        Ok(())
    });
}
