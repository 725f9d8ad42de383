//! Code files, NumPy arrays of codes and labels, lists of labels and ids. The first byte selects the
//! reader; for code files it also selects whether checksums are corrected.

#![no_main]

use crosshash_codes::exchange;
use crosshash_codes::format::CodeFile;
use crosshash_codes::read::{self, CodeOptions};
use crosshash_fuzz::{folder, with_checksums};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let mut bytes = rest.to_vec();
    match kind % 4 {
        0 | 1 => {
            if kind % 4 == 1 {
                with_checksums(&mut bytes);
            }
            if let Ok(file) = CodeFile::from_bytes(&bytes) {
                assert!(file.ids.is_none_or(|ids| ids.len() == file.codes.len()));
                assert!(file.labels.is_none_or(|labels| labels.len() == file.codes.len()));
            }
        }
        2 => {
            let dir = folder(&[("a.npy", &bytes)]);
            let path = dir.path().join("a.npy");
            let _ = read::codes(&path, &CodeOptions::default());
            let _ = read::labels(&path);
        }
        _ => {
            let dir = folder(&[("a.txt", &bytes)]);
            let path = dir.path().join("a.txt");
            let _ = read::codes(&path, &CodeOptions::default());
            let _ = read::labels(&path);
            let _ = exchange::read_ids(&path);
        }
    }
});
