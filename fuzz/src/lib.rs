//! What the fuzz targets share, and the readers of data sets.

// The modules of crosshash that read files, from their sources: they do not need the tensor library, which
// takes most of the time of a build.
#[cfg(feature = "readers")]
#[allow(dead_code, unused_imports, reason = "the rest of crosshash uses more of it")]
#[path = "../../crates/crosshash/src/data/mod.rs"]
pub mod data;
#[cfg(feature = "readers")]
#[allow(dead_code, reason = "the rest of crosshash uses more of it")]
#[path = "../../crates/crosshash/src/error.rs"]
mod error;
#[cfg(feature = "readers")]
pub use crosshash_features::picture;
#[cfg(feature = "readers")]
pub use error::{Error, Place, Result};

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;

/// Ends the process at a panic, except in a dependency: the readers that call those convert panics to
/// errors, and one that they do not is noticed by libFuzzer. The places of such panics are listed once
/// on stderr. Called by every run of a target, because readers replace the hook.
pub fn watch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        static SEEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        if !place.contains("/registry/src/") {
            eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
            std::process::abort();
        }
        let mut seen = SEEN.lock().expect("no panic below");
        if seen.get_or_insert_default().insert(place) {
            eprintln!("panic in a dependency: {panic}");
        }
    }));
}

/// A folder in memory with some files, removed on drop.
pub fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    let dir = dir.expect("a temporary folder");
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).expect("a temporary file");
    }
    dir
}

/// Corrects the checksums of a file of sections (`sections.rs` of crosshash-codes), so that damage is
/// not refused by them: those of the sections, and that of the header.
pub fn with_checksums(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize, width: usize| -> usize {
        let part = bytes.get(at..at + width).unwrap_or(&[]);
        let value = part.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        usize::try_from(value).unwrap_or(usize::MAX)
    };
    let sections = number(bytes, 24, 4);
    if sections > 64 || 32 + 40 * sections + 8 > bytes.len() {
        return;
    }
    for nth in 0..sections {
        let at = 32 + 40 * nth;
        let (start, length) = (number(bytes, at + 16, 8), number(bytes, at + 24, 8));
        let end = start.checked_add(length);
        if let Some(part) = end.and_then(|end| bytes.get(start..end)) {
            let sum = xxhash_rust::xxh3::xxh3_64(part).to_le_bytes();
            bytes[at + 32..at + 40].copy_from_slice(&sum);
        }
    }
    let end = 32 + 40 * sections;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..end]).to_le_bytes();
    bytes[end..end + 8].copy_from_slice(&sum);
}

/// Corrects the checksums of the log of an index (`segments/log.rs` of crosshash-codes): those of its
/// header and of the records that follow each other.
pub fn with_log_checksums(bytes: &mut [u8]) {
    const HEADER: usize = 48;
    const HEAD: usize = 40;
    const CONFIRMATION: usize = 16;
    if bytes.len() < HEADER {
        return;
    }
    let word = |bytes: &[u8], at: usize| {
        let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        part.map(u64::from_le_bytes)
    };
    let salt = word(bytes, 32).unwrap_or(0);
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..40]).to_le_bytes();
    bytes[40..48].copy_from_slice(&sum);
    let mut at = HEADER;
    while let Some(length) = word(bytes, at + 8) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let padded = length.checked_next_multiple_of(8);
        let Some(end) = padded.and_then(|length| (at + HEAD).checked_add(length)) else {
            return;
        };
        let Some(body) = bytes.get(at + HEAD..end) else { return };
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(body, salt).to_le_bytes();
        bytes[at + 24..at + 32].copy_from_slice(&sum);
        let sum =
            xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[at..at + 32], salt).to_le_bytes();
        bytes[at + 32..at + 40].copy_from_slice(&sum);
        at = end + CONFIRMATION;
    }
}
