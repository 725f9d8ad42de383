//! An index folder: manifest, one segment, the log. The input is the content of the three files; the
//! checksums are corrected, so that the contents are read. Reading, searching, verifying,
//! exporting, compacting and rescuing end without a panic, and what verifies can be read.

#![no_main]

use crosshash_codes::Codes;
use crosshash_codes::index::Query;
use crosshash_codes::segments::{self, Snapshot, Writer};
use crosshash_fuzz::{folder, with_checksums, with_log_checksums};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // two lengths, then manifest, segment and log
    let Some((lengths, rest)) = data.split_at_checked(4) else { return };
    let length =
        |at: usize| usize::from(u16::from_le_bytes([lengths[at], lengths[at + 1]]));
    let Some((manifest, rest)) = rest.split_at_checked(length(0)) else { return };
    let Some((segment, log)) = rest.split_at_checked(length(2)) else { return };
    let (mut segment, mut log) = (segment.to_vec(), log.to_vec());
    with_checksums(&mut segment);
    with_log_checksums(&mut log);
    // the manifest lists the size of the segment, and is followed by its own checksum
    let text = String::from_utf8_lossy(manifest);
    let line = text
        .lines()
        .next()
        .unwrap_or("")
        .replace("\"bytes\":0", &format!("\"bytes\":{}", segment.len()));
    let sum = xxhash_rust::xxh3::xxh3_64(line.as_bytes());
    let manifest = format!("{line}\n{sum:016x}\n");
    let files: [(&str, &[u8]); 3] = [
        ("manifest", manifest.as_bytes()),
        ("00000002.segment", &segment),
        ("00000003.log", &log),
    ];
    let dir = folder(&files);
    let sound = segments::verify(dir.path())
        .is_ok_and(|states| states.iter().all(|state| state.fault.is_none()));
    match Snapshot::open(dir.path()) {
        Ok(snapshot) => {
            let zero = Codes::from_words(snapshot.bits(), vec![0; snapshot.bits().words()]);
            let found = snapshot.search(&zero.expect("zeros"), &Query::nearest(5), &|_| ());
            let exported = snapshot.to_code_file();
            for item in snapshot.items().take(100) {
                let read = snapshot.id(item).is_ok()
                    && snapshot.labels(item).is_ok()
                    && snapshot.payload(item).is_ok()
                    && snapshot.outputs(item).is_ok();
                assert!(read || !sound, "item {item}");
            }
            assert!(!sound || (found.is_ok() && exported.is_ok()));
        }
        Err(err) => assert!(!sound, "{err}"),
    }
    let _ = segments::rescue(dir.path(), &dir.path().join("rescued"));
    let _ = Writer::open(dir.path()).and_then(|mut writer| writer.compact());
});
