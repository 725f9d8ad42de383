//! Files in and out: round trips, refusals with their texts, and mutated bytes that must
//! never panic.

use std::path::{Path, PathBuf};

use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::npy::{self, Npy};
use crosshash_codes::read::{self, CodeOptions, Layout};
use crosshash_codes::{BitOrder, Bits, Codes, Labels};
use proptest::prelude::*;
use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

fn bits(n: usize) -> Bits {
    Bits::new(n).expect("a code length")
}

fn random_codes(length: usize, n: usize, seed: u64) -> Codes {
    let mut state = seed;
    let bools: Vec<bool> = (0..n * length)
        .map(|_| {
            state =
                state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 63 == 1
        })
        .collect();
    Codes::from_bools(bits(length), &bools).expect("whole rows")
}

fn random_labels(classes: usize, n: usize, seed: u64) -> Labels {
    let codes = random_codes(classes.min(1024), n, seed);
    let rows = (0..n).map(|i| {
        let on = (0..classes.min(1024)).filter(|&k| codes.bit(i, k));
        on.map(|k| u32::try_from(k).expect("small")).collect::<Vec<_>>()
    });
    Labels::from_indices(classes, rows).expect("in range")
}

fn full_file(length: usize, n: usize, names: bool, seed: u64) -> CodeFile {
    let ids = if names {
        Ids::Names((0..n).map(|i| format!("item {i} \u{e9}")).collect())
    } else {
        Ids::Numbers((0..n as u64).map(|i| i * i + 7).collect())
    };
    CodeFile {
        codes: random_codes(length, n, seed),
        ids: Some(ids),
        labels: Some(random_labels(70, n, seed ^ 9)),
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs_err::write(&path, bytes).expect("writing to a temporary folder");
        path
    }
}

/// The message without the folder's name.
fn message<T>(result: crosshash_codes::Result<T>, path: &Path) -> String {
    let text = result.err().expect("an error").to_string();
    text.replace(&path.display().to_string(), "FILE")
}

fn npy_bytes(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (text.len() + 11) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len()).expect("short").to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

proptest! {
    #![proptest_config(fixed(64))]

    #[test]
    fn code_files_round_trip(
        length in 1_usize..300, n in 0_usize..40, names in any::<bool>(), seed in any::<u64>(),
    ) {
        let folder = Folder::new();
        let path = folder.path("a.codes");
        let file = full_file(length, n, names, seed);
        file.write(&path).unwrap();
        prop_assert_eq!(&CodeFile::read(&path).unwrap(), &file);
        let (mapped, codes) = CodeFile::open(&path).unwrap();
        codes.verify().unwrap();
        prop_assert_eq!(&mapped, &file);
    }

    #[test]
    fn npy_codes_round_trip(length in 1_usize..140, n in 1_usize..30, seed in any::<u64>()) {
        let folder = Folder::new();
        let path = folder.path("a.npy");
        let codes = random_codes(length, n, seed);
        let given = CodeOptions { bits: Some(bits(length)), ..CodeOptions::default() };
        for order in [BitOrder::Lsb, BitOrder::Msb] {
            npy::write_packed(&path, &codes, order).unwrap();
            let options = CodeOptions { layout: Layout::Packed, order: Some(order), ..given };
            prop_assert_eq!(&read::codes(&path, &options).unwrap(), &codes);
        }
        npy::write_bits(&path, &codes).unwrap();
        let matrix = CodeOptions { layout: Layout::Matrix, ..CodeOptions::default() };
        prop_assert_eq!(&read::codes(&path, &matrix).unwrap(), &codes);
        prop_assert_eq!(&read::codes(&path, &CodeOptions::default()).unwrap(), &codes);
        npy::write_signs(&path, &codes).unwrap();
        prop_assert_eq!(&read::codes(&path, &CodeOptions::default()).unwrap(), &codes);
        prop_assert_eq!(&read::codes(&path, &given).unwrap(), &codes);
        let labels = random_labels(length, n, seed);
        npy::write_labels(&path, &labels).unwrap();
        prop_assert_eq!(&read::labels(&path).unwrap(), &labels);
    }

    #[test]
    fn packed_codes_of_odd_length_give_the_same_distances_in_either_order(
        length in 1_usize..70, seed in any::<u64>(),
    ) {
        let folder = Folder::new();
        let (a, b) = (random_codes(length, 5, seed), random_codes(length, 6, seed ^ 3));
        let given = CodeOptions {
            bits: Some(bits(length)), layout: Layout::Packed, order: None,
        };
        for order in [BitOrder::Lsb, BitOrder::Msb] {
            let (pa, pb) = (folder.path("a.npy"), folder.path("b.npy"));
            npy::write_packed(&pa, &a, order).unwrap();
            npy::write_packed(&pb, &b, order).unwrap();
            let read = read::codes_together(&[&pa, &pb], &given).unwrap();
            for i in 0..5 {
                for j in 0..6 {
                    prop_assert_eq!(read[0].distance(i, &read[1], j), a.distance(i, &b, j));
                }
            }
        }
    }

    #[test]
    fn mutated_code_files_are_rejected_or_read_but_never_panic(
        seed in any::<u64>(), names in any::<bool>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = Folder::new();
        let path = folder.path("a.codes");
        full_file(33, 5, names, seed).write(&path).unwrap();
        let mut bytes = fs_err::read(&path).unwrap();
        let whole = bytes.clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let read = CodeFile::from_bytes(&bytes);
        fs_err::write(&path, &bytes).unwrap();
        let opened = CodeFile::open(&path).and_then(|(file, codes)| {
            codes.verify()?;
            Ok(file)
        });
        // what is accepted is what was written: only padding between sections may differ
        let original = CodeFile::from_bytes(&whole).unwrap();
        for file in [read, opened].into_iter().flatten() {
            prop_assert_eq!(&file, &original);
        }
    }

    #[test]
    fn mutated_npy_files_never_panic(
        kind in 0_usize..3,
        edits in prop::collection::vec((0_usize..160, any::<u8>()), 1..8),
        cut in prop::option::of(0_usize..160),
    ) {
        let mut bytes = match kind {
            0 => npy_bytes("|u1", "(4, 4)", &[0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0]),
            1 => npy_bytes("<f4", "(2, 2)", &[0; 16]),
            _ => npy_bytes("<i8", "(2,)", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        };
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        let folder = Folder::new();
        let path = folder.put("a.npy", &bytes);
        let _ = read::codes(&path, &CodeOptions::default());
        let _ = read::codes(&path, &CodeOptions { layout: Layout::Real, ..CodeOptions::default() });
        let _ = read::labels(&path);
    }

    #[test]
    fn any_header_text_is_survived(text in "\\PC{0,80}", version in 1_u8..4) {
        let mut bytes = b"\x93NUMPY".to_vec();
        bytes.extend([version, 0]);
        let length = u16::try_from(text.len()).unwrap();
        bytes.extend(length.to_le_bytes());
        if version > 1 {
            bytes.extend([0, 0]);
        }
        bytes.extend(text.as_bytes());
        let size = bytes.len() as u64;
        let _ = Npy::from_reader(std::io::Cursor::new(bytes), size);
    }

    #[test]
    fn label_text_is_read_or_rejected(text in "[0-9 ,;\\-a\n]{0,60}") {
        let folder = Folder::new();
        let path = folder.put("labels.txt", text.as_bytes());
        if let Ok(labels) = read::labels(&path) {
            prop_assert_eq!(labels.len(), text.lines().count());
        }
    }
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let folder = Folder::new();
    let any = CodeOptions::default();
    let refused = |bytes: &[u8], options: &CodeOptions| {
        let path = folder.put("x.npy", bytes);
        message(read::codes(&path, options), &path)
    };
    assert_eq!(refused(b"", &any), "FILE: not a .npy file: it ends before its header does");
    assert_eq!(
        refused(b"PK\x03\x04 a zip file", &any),
        "FILE: not a .npy file: it does not begin with \\x93NUMPY"
    );
    assert_eq!(
        refused(&npy_bytes("<c8", "(1, 8)", &[0; 64]), &any),
        "FILE: dtype '<c8'; expected bool, int8 to int64, uint8 to uint64 or float16 to \
         float64 (in Python: array.astype(...))"
    );
    assert_eq!(
        refused(&npy_bytes("|u1", "(3, 8)", &[0; 23]), &any),
        "FILE: truncated: the header promises 3 x 8 uint8 (24 bytes), the file holds 23 bytes \
         of data"
    );
    assert_eq!(
        refused(&npy_bytes("|u1", "(8,)", &[0; 8]), &any),
        "FILE: an array of 1 dimensions (8); codes are a matrix: n x bytes packed uint8, or \
         n x bits of 0/1, -1/+1 or reals"
    );
    let nan = f32::NAN.to_le_bytes();
    let real = CodeOptions { layout: Layout::Real, ..any };
    assert_eq!(
        refused(&npy_bytes("<f4", "(1, 1)", &nan), &real),
        "FILE: row 0, column 0: NaN has no sign"
    );
    assert_eq!(
        refused(&npy_bytes("<f4", "(1, 1)", &nan), &any),
        "FILE: row 0, column 0: NaN is neither -1/+1 nor 0/1"
    );
    assert_eq!(
        refused(&npy_bytes("|i1", "(1, 3)", &[1, 255, 0]), &any),
        "FILE: row 0, column 2: 0 in a matrix of -1 and +1: three values make no binary code \
         (sign(0) must be +1); read the values as real to do that"
    );
    assert_eq!(
        refused(&npy_bytes("|u1", "(1, 2)", &[1, 0]), &real),
        "FILE: dtype uint8: values that cannot be negative have no sign to take"
    );
    let sixty = CodeOptions { bits: Some(bits(60)), ..any };
    assert_eq!(
        refused(&npy_bytes("|u1", "(1, 7)", &[9; 7]), &sixty),
        "FILE: 60 bits do not fit rows of 7 bytes: packed they take 8 bytes, one value a bit \
         60 columns"
    );
    assert_eq!(
        refused(&npy_bytes("|u1", "(1, 200)", &[9; 200]), &any),
        "FILE: a code has 1 to 1024 bits, not 1600"
    );
    let deep = "(".repeat(40_000);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(40_000_u16.to_le_bytes());
    bytes.extend(deep.as_bytes());
    assert_eq!(refused(&bytes, &any), "FILE: a .npy header of brackets is no header");
    let huge = npy_bytes("|u1", "(99999999999999, 99999999999999)", &[]);
    assert_eq!(refused(&huge, &any), "FILE: the array is larger than any file");
}

#[test]
fn packed_and_unpacked_codes_need_the_bit_order_unless_the_padding_determines_it() {
    let folder = Folder::new();
    let (packed, plain) = (folder.path("p.npy"), folder.path("m.npy"));
    let codes = random_codes(32, 40, 5);
    npy::write_packed(&packed, &codes, BitOrder::Msb).unwrap();
    npy::write_signs(&plain, &codes).unwrap();
    let any = CodeOptions::default();
    let refused = read::codes_together(&[&packed, &plain], &any);
    assert!(message(refused, &packed).contains("--bit-order msb"));
    let given = CodeOptions { order: Some(BitOrder::Msb), ..any };
    let both = read::codes_together(&[&packed, &plain], &given).unwrap();
    assert_eq!(both[0], both[1]);
    let codes = random_codes(33, 40, 5);
    npy::write_packed(&packed, &codes, BitOrder::Msb).unwrap();
    npy::write_signs(&plain, &codes).unwrap();
    let told = CodeOptions { bits: Some(bits(33)), ..any };
    let both = read::codes_together(&[&packed, &plain], &told).unwrap();
    assert_eq!(both[0], both[1]);
}

#[test]
fn label_errors_name_the_place() {
    let folder = Folder::new();
    let refused = |name: &str, bytes: &[u8]| {
        let path = folder.put(name, bytes);
        message(read::labels(&path), &path)
    };
    assert_eq!(
        refused("a.txt", b"0 1\n2 x\n"),
        "FILE: line 2: \"x\" is no label number (0 to 1048575); a line lists the label \
         numbers of one item"
    );
    assert_eq!(
        refused("a.npy", &npy_bytes("|u1", "(2, 2)", &[0, 1, 3, 0])),
        "FILE: row 1, column 0: 3 is neither 0 nor 1"
    );
    assert_eq!(
        refused("a.npy", &npy_bytes("<f4", "(1,)", &[0; 4])),
        "FILE: a vector of float32; labels are a matrix n x labels of 0 and 1, or a vector of \
         whole class numbers"
    );
    // np.savetxt of a 0/1 matrix must not pass for lists of label numbers
    assert_eq!(
        refused("a.txt", b"0 1\n0 1 0\n"),
        "FILE: line 2: label 0 stands twice; a line lists the numbers of an item's labels; a \
         matrix of 0 and 1 is handed in as .npy"
    );
    assert_eq!(
        refused("a.txt", b"0 1\n1 0\n"),
        "FILE: every line holds 0 and 1; a line lists the numbers of an item's labels; a matrix \
         of 0 and 1 is handed in as .npy"
    );
    assert_eq!(
        refused("a.txt", b"1\n\xff\xfe\n"),
        "FILE: line 2 is not text; labels are .npy or text with label numbers a line"
    );
}

#[test]
fn label_lists_share_one_vocabulary() {
    let folder = Folder::new();
    let query = folder.put("q.txt", b"0 2\n\n1\n");
    let database = folder.put("d.txt", b"5\r\n1,2;3\t4");
    let labels = read::labels_together(&[&query, &database]).unwrap();
    assert_eq!((labels[0].len(), labels[0].classes(), labels[0].unlabelled()), (3, 6, 1));
    assert_eq!(labels[1].indices(1).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let classes = folder.put("c.npy", &npy_bytes("|u1", "(2,)", &[3, 7]));
    let labels = read::labels_together(&[&query, &classes]).unwrap();
    assert_eq!((labels[0].classes(), labels[1].indices(0).next()), (8, Some(3)));
}

#[test]
fn columns_first_arrays_are_read_by_rows() {
    let folder = Folder::new();
    let mut bytes = npy_bytes("|i1", "(2, 3)", &[1, 255, 1, 1, 255, 255]);
    let text = b"False";
    let at = bytes.windows(5).position(|window| window == text).unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    let path = folder.put("f.npy", &bytes);
    let codes = read::codes(&path, &CodeOptions::default()).unwrap();
    assert_eq!(codes.words(), [0b011, 0b010]); // rows (1, 1, -1) and (-1, 1, -1)
}

/// Each version has a sample in `compat/`, written once by `full_file(33, 6, true, 20261115)`
/// when the version was new, and never again.
#[test]
fn old_versions_stay_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat/v1.codes");
    let file = CodeFile::read(&path).unwrap();
    assert_eq!(file, full_file(33, 6, true, 20261115));
}
