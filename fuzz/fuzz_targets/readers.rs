//! Readers of data sets: MATLAB 5 and 7.3, NumPy arrays and archives, Parquet, tables, JSON lines, zip
//! and tar files of pictures. The first byte selects the format. The file is opened with a manifest and
//! inspected, its pictures are read, and it is imported without a manifest. Nothing may panic, and no
//! temporary file may grow beyond a limit.

#![no_main]

use crosshash_features::Error;
use crosshash_fuzz::data::import::import;
use crosshash_fuzz::data::inspect::inspect;
use crosshash_fuzz::data::{self, Features, OpenOptions, ReadLimits};
use crosshash_fuzz::{folder, watch_panics};
use libfuzzer_sys::fuzz_target;

/// File name and manifest of every format.
const FORMATS: [(&str, &str); 8] = [
    ("f.npy", "modality.m.features = \"f.npy\"\nlabels.matrix = \"f.npy\""),
    (
        "f.npz",
        "modality.m.features = { file = \"f.npz\", key = \"x\" }\n\
         labels.matrix = { file = \"f.npz\", key = \"labels\" }",
    ),
    (
        "f.mat",
        "modality.m.features = { file = \"f.mat\", key = \"X\" }\n\
         modality.n.features = { file = \"f.mat\", key = \"S\" }\n\
         labels.matrix = { file = \"f.mat\", key = \"L\" }",
    ),
    (
        "f.parquet",
        "items = { table = \"f.parquet\", id = \"id\" }\nlabels.column = \"labels\"\n\
         modality.image.column = \"embedding\"\nmodality.text.text = \"caption\"",
    ),
    (
        "f.tsv",
        "items = { table = \"f.tsv\", id = \"id\" }\nlabels.column = \"label\"\n\
         modality.text.text = \"text\"",
    ),
    (
        "f.jsonl",
        "items = { table = \"f.jsonl\", id = \"id\" }\nlabels.column = \"label\"\n\
         modality.text.text = \"text\"",
    ),
    ("f.zip", "modality.m.pictures = \"f.zip\"\nlabels.folder = true"),
    ("f.tar", "modality.m.pictures = \"f.tar\"\nlabels.folder = true"),
];

fuzz_target!(|data: &[u8]| {
    watch_panics();
    let Some((&kind, bytes)) = data.split_first() else { return };
    let (name, manifest) = FORMATS[usize::from(kind) % FORMATS.len()];
    let dir = folder(&[("dataset.toml", manifest.as_bytes()), (name, bytes)]);
    let limits = ReadLimits { max_spooled: 64 << 20, ..ReadLimits::default() };
    let options = OpenOptions { limits, ..OpenOptions::default() };
    if let Ok(opened) = data::open_with(dir.path(), &options) {
        let _ = inspect(&opened, &|_| ());
        for modality in opened.dataset.modalities() {
            if let Features::Pictures(pictures) = modality.features() {
                let _ = pictures.visit(1 << 20, |_, _| Ok::<(), Error>(()));
            }
        }
    }
    let out = dir.path().join("out");
    if let Ok(proposal) = import(&dir.path().join(name), &out, None)
        && proposal.write(&out, &|_| ()).is_ok()
    {
        let _ = data::open(&out, None);
    }
});
