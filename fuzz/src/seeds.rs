//! Writes the first inputs of the target `index` to a folder: small indexes with all kinds of columns, and
//! a log with added, replaced and deleted items. Called by corpus.py.

use std::path::Path;
use std::sync::Arc;

use crosshash_codes::format::{Id, Ids};
use crosshash_codes::segments::{ItemBatch, NewIndex, Writer};
use crosshash_codes::{Bits, Codes, Labels, Outputs};

/// Items of an index: `from..to`, with as many bits; `names` instead of numbers, and all columns.
fn items(bits: Bits, from: u64, to: u64, names: bool, full: bool) -> ItemBatch {
    let count = (to - from) as usize;
    let reals: Vec<f32> = (0..count * bits.get())
        .map(|k| ((k * 7919 + from as usize * 31) % 17) as f32 / 8.0 - 1.0)
        .collect();
    let mut batch = ItemBatch::new(Codes::from_signs(bits, &reals).expect("codes"));
    if names {
        batch.ids = Some(Ids::Names((from..to).map(|k| format!("item {k}")).collect()));
    }
    if full {
        let labels = (0..count).map(|k| [(k % 3) as u32]);
        batch.labels = Some(Labels::from_indices(3, labels).expect("labels"));
        let payload =
            |k| -> Arc<[u8]> { format!("{{\"text\":\"number {k}\"}}").into_bytes().into() };
        batch.payloads = Some((from..to).map(payload).collect());
        batch.flags = Some((0..count).map(|k| (k % 4) as u8).collect());
        batch.outputs = Some(Outputs::from_reals(bits, &reals).expect("outputs"));
    }
    batch
}

/// The files of an index as one input; see `fuzz_targets/index.rs`.
fn packed(folder: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(folder.join("manifest")).expect("a manifest");
    let line = text.lines().next().expect("a line");
    let segment = std::fs::read(folder.join("00000002.segment")).expect("one segment");
    let log = std::fs::read(folder.join("00000003.log")).expect("one log");
    let line = line.replace(&format!("\"bytes\":{}", segment.len()), "\"bytes\":0");
    let mut all = Vec::new();
    for length in [line.len(), segment.len()] {
        all.extend(u16::try_from(length).expect("a small file").to_le_bytes());
    }
    all.extend(line.as_bytes());
    all.extend(segment);
    all.extend(log);
    all
}

fn main() {
    let out = std::env::args().nth(1).expect("the folder of the corpus");
    let out = Path::new(&out);
    std::fs::create_dir_all(out).expect("the folder of the corpus");
    for (name, bits, names, full) in
        [("numbers", 64, false, false), ("names", 32, true, false), ("all", 40, true, true)]
    {
        let bits = Bits::new(bits).expect("bits");
        let dir = crosshash_fuzz::folder(&[]);
        let folder = dir.path().join("index");
        let labels =
            if full { ["a", "b", "c"].map(str::to_owned).to_vec() } else { Vec::new() };
        let settings =
            NewIndex { bits, label_names: &labels, outputs: full, after_commit: 0 };
        let mut writer = Writer::create_with(&folder, settings).expect("an index");
        writer.insert(items(bits, 0, 10, names, full)).expect("items");
        writer.flush().expect("a segment");
        std::fs::write(out.join(format!("{name}-segment")), packed(&folder))
            .expect("a seed");
        writer.insert(items(bits, 10, 13, names, full)).expect("items");
        if names {
            writer.upsert(items(bits, 4, 6, names, full)).expect("items");
            writer
                .delete(&[Id::Name("item 1".into()), Id::Name("item 11".into())])
                .expect("deleted");
        } else {
            writer.delete(&[Id::Number(3)]).expect("deleted");
        }
        std::fs::write(out.join(format!("{name}-log")), packed(&folder)).expect("a seed");
    }
}
