//! The encoder against what the NumPy package computes (`fixture/make.py`), and damaged files.

use std::path::PathBuf;

use serde::Deserialize;

use super::*;

/// What the NumPy package computes; made by `fixture/make.py`.
#[derive(Deserialize)]
struct Golden {
    text: String,
    tokens: Vec<u32>,
    features: Vec<f32>,
}

fn fixture(name: &str) -> PathBuf {
    let folder =
        concat!(env!("CARGO_MANIFEST_DIR"), "/src/backbone/use_multilingual/fixture");
    PathBuf::from(folder).join(name)
}

fn golden(name: &str) -> Vec<Golden> {
    let text = fs_err::read_to_string(fixture(name)).unwrap();
    let all: Vec<Golden> = serde_json::from_str(&text).unwrap();
    assert!(all.len() > 10);
    all
}

/// Compares tokens and features, each text alone and all of them in one batch.
fn agree(encoder: &UseMultilingual, golden: &[Golden], within: f32) {
    let texts: Vec<&str> = golden.iter().map(|one| one.text.as_str()).collect();
    let batch = encoder.texts(&texts).unwrap();
    for (one, row) in golden.iter().zip(batch.chunks_exact(encoder.width())) {
        let ids = encoder.tokenizer.encode(&one.text);
        assert_eq!([&[BEGIN][..], &ids[..], &[END]].concat(), one.tokens, "{:?}", one.text);
        let alone = encoder.texts(&[&one.text]).unwrap();
        for row in [row, &alone[..]] {
            assert_eq!(row.len(), one.features.len());
            for (found, wanted) in row.iter().zip(&one.features) {
                assert!(
                    (found - wanted).abs() < within,
                    "{:?}: {found} {wanted}",
                    one.text
                );
            }
        }
    }
}

#[test]
fn a_small_encoder_agrees_with_the_package() {
    let encoder =
        UseMultilingual::open(&fixture("tiny.npz"), &fixture("tiny.model")).unwrap();
    agree(&encoder, &golden("tiny.json"), 1e-5);
    let long = "a red bus ".repeat(2 * MAX_TOKENS);
    assert!(encoder.texts(&[&long]).unwrap().iter().all(|x| x.is_finite()));
    assert!(encoder.texts(&[]).unwrap().is_empty());
}

#[test]
#[ignore = "needs the weights: CROSSHASH_WEIGHTS with use-multilingual/"]
fn the_real_encoder_agrees_with_the_package() {
    let weights = PathBuf::from(std::env::var_os("CROSSHASH_WEIGHTS").unwrap());
    let file = |name: &str| weights.join(INFO.name).join(name);
    let encoder = UseMultilingual::open(&file("weights.npz"), &file("sp.model")).unwrap();
    assert_eq!(encoder.width(), INFO.width);
    agree(&encoder, &golden("real.json"), 1e-4);
}

#[test]
fn files_that_do_not_belong_together_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let fails = |weights: &Path, tokens: &Path, part: &str| {
        let err = UseMultilingual::open(weights, tokens).err().unwrap().to_string();
        assert!(err.contains(part), "{part}: {err}");
    };
    let (weights, tokens) = (fixture("tiny.npz"), fixture("tiny.model"));
    fails(&tokens, &tokens, "not an .npz file");
    fails(&weights, &weights, "SentencePiece");
    fails(&weights, &fixture("none"), "none");
    // Every model that is cut short, or has one byte changed, is rejected or works.
    let whole = fs_err::read(&tokens).unwrap();
    let path = dir.path().join("cut.model");
    let mut rejected = 0;
    for length in (0..whole.len()).step_by(97) {
        fs_err::write(&path, &whole[..length]).unwrap();
        rejected += usize::from(UseMultilingual::open(&weights, &path).is_err());
        let mut changed = whole.clone();
        changed[length] ^= 0x55;
        fs_err::write(&path, &changed).unwrap();
        if let Ok(encoder) = UseMultilingual::open(&weights, &path) {
            encoder.texts(&["ein roter Bus ½"]).unwrap();
        }
    }
    assert!(rejected > 3, "{rejected}");
}
