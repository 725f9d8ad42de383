//! Formats of other tools: round trips, refusals, mutated bytes that never panic, and FAISS itself
//! where it is installed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::process::Command;

use crosshash_codes::exchange::{FORMATS, format_of, read_ids};
use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::read::CodeOptions;
use crosshash_codes::{Bits, Codes, Labels};
use proptest::prelude::*;
use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

fn made(bits: usize, n: usize, names: bool, seed: u64) -> CodeFile {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let bools: Vec<bool> = (0..n * bits).map(|_| next() & 1 == 1).collect();
    let ids = if names {
        Ids::Names((0..n).map(|i| format!("n\"{i}\u{e9}\n")).collect())
    } else {
        Ids::Numbers((0..n).map(|_| next()).collect())
    };
    let mut rows: Vec<Vec<u32>> =
        (0..n).map(|_| vec![u32::try_from(next() % 70).unwrap()]).collect();
    if let Some(row) = rows.first_mut() {
        row.push(69); // so that the number of labels is told
    }
    CodeFile {
        codes: Codes::from_bools(Bits::new(bits).unwrap(), &bools).unwrap(),
        ids: Some(ids),
        labels: Some(Labels::from_indices(70, rows).unwrap()),
    }
}

proptest! {
    #![proptest_config(fixed(24))]

    #[test]
    fn every_format_round_trips(
        bits in 1_usize..140, n in 1_usize..20, names in any::<bool>(), seed in any::<u64>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = made(bits, n, names, seed);
        for format in FORMATS {
            let path = dir.path().join(format!("x.{}", format.ending));
            (format.write)(&path, &file).unwrap();
            prop_assert_eq!(format_of(&path).unwrap().ending, format.ending);
            let options = CodeOptions {
                bits: Some(file.codes.bits()),
                layout: crosshash_codes::read::Layout::Auto,
                order: Some(crosshash_codes::BitOrder::Lsb),
            };
            let options = if format.ending == "npy" {
                CodeOptions { layout: crosshash_codes::read::Layout::Packed, ..options }
            } else {
                options
            };
            let back = (format.read)(&path, &options).unwrap();
            prop_assert_eq!(&back.codes, &file.codes, "{}", format.ending);
            if format.keeps_ids {
                prop_assert_eq!(&back, &file, "{}", format.ending);
            }
        }
    }

    #[test]
    fn mutated_files_are_rejected_or_read_but_never_panic(
        which in 0..FORMATS.len(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let format = &FORMATS[which];
        let path = dir.path().join(format!("x.{}", format.ending));
        (format.write)(&path, &made(24, 5, true, 1)).unwrap();
        let mut bytes = fs_err::read(&path).unwrap();
        let place = at.index(bytes.len());
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len()) + 1);
        fs_err::write(&path, &bytes).unwrap();
        let _ = (format.read)(&path, &CodeOptions::default());
    }
}

#[test]
fn errors_name_the_place() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs_err::write(&path, text).unwrap();
        let format = format_of(&path).unwrap();
        let err = (format.read)(&path, &CodeOptions::default()).unwrap_err().to_string();
        err.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    assert_eq!(
        refused("a.jsonl", "{\"code\":\"00\"}\n{\"code\":\"0g\"}\n"),
        "line 2: code is not text of hexadecimal bytes"
    );
    assert_eq!(
        refused("a.jsonl", "{\"code\":\"00\"}\n{\"code\":\"0011\"}\n"),
        "line 2: a code of 2 bytes; all codes have 8 bits, so 1 bytes"
    );
    assert_eq!(
        refused("a.jsonl", "{\"code\":\"00\",\"id\":1}\n{\"code\":\"01\"}\n"),
        "ids must be on every line or on none, and all numbers or all texts"
    );
    assert!(refused("a.faiss", "IBxX").starts_with("not a FAISS IndexBinaryFlat"));
    let err = format_of(&dir.path().join("a.txt")).err().unwrap().to_string();
    assert!(
        err.ends_with("name a file that ends in .codes, .npy, .faiss, .jsonl"),
        "{err}"
    );
    let ids = dir.path().join("ids.txt");
    fs_err::write(&ids, "1\n22\n").unwrap();
    assert_eq!(read_ids(&ids).unwrap(), Ids::Numbers(vec![1, 22]));
    fs_err::write(&ids, "1\nb c\n").unwrap();
    assert_eq!(read_ids(&ids).unwrap(), Ids::Names(vec!["1".into(), "b c".into()]));
}

/// FAISS reads what we write and we read what FAISS writes.
#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
fn faiss_itself_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let python = |script: &str| Command::new("python3").args(["-c", script]).output();
    if !python("import faiss").is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: python3 has no faiss (python3 -m pip install faiss-cpu)");
        return;
    }
    let file = made(64, 50, false, 3);
    let format = format_of("x.faiss".as_ref()).unwrap();
    let (ours, theirs) = (dir.path().join("ours.faiss"), dir.path().join("theirs.faiss"));
    (format.write)(&ours, &file).unwrap();
    let script = format!(
        "import faiss\n\
         ix = faiss.read_index_binary({ours:?})\n\
         assert (ix.d, ix.ntotal) == (64, 50)\n\
         code = faiss.vector_to_array(ix.xb)[8 * 7:8 * 8].reshape(1, 8)\n\
         distances, items = ix.search(code, 1)\n\
         assert (distances[0, 0], items[0, 0]) == (0, 7)\n\
         faiss.write_index_binary(ix, {theirs:?})\n"
    );
    let out = python(&script).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs_err::read(&ours).unwrap(), fs_err::read(&theirs).unwrap());
    let back = (format.read)(&theirs, &CodeOptions::default()).unwrap();
    assert_eq!(back.codes, file.codes);
}
