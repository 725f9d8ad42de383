//! The networks against torchvision and timm: same weights and picture, same features. The expected
//! values are from `fixtures/networks/make.py`; both sides compute the weights by the same formula.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};

use crosshash::network::{NETWORKS, Network, named};
use safetensors::tensor::SafeTensors;

/// Width and height in pixels, as in `make.py`.
fn size(name: &str) -> usize {
    match name {
        "vgg16" | "conv4" => 32,
        _ => 64,
    }
}

/// SplitMix64 from the FNV-1a hash of a name: numbers from -1 to 1.
fn uniform(name: &str, count: usize) -> impl Iterator<Item = f64> {
    let fnv = |seed: u64, byte: u8| (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    (1..=count as u64).map(move |at| {
        let z = seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    })
}

#[expect(clippy::cast_possible_truncation, reason = "weights are single")]
fn weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let fan: usize = shape[1..].iter().product();
    let bound = (6.0 / fan as f64).sqrt();
    let value = |u: f64| match name.rsplit('.').next() {
        Some("running_mean") => 0.1 * u,
        Some("running_var") => 1.0 + 0.3 * u,
        _ if shape.len() > 1 => u * bound,
        Some("bias") => 0.1 * u,
        _ => 0.8 + 0.2 * u,
    };
    uniform(name, shape.iter().product()).map(|u| value(u) as f32).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "pixels are single")]
fn picture(size: usize) -> Vec<f32> {
    uniform("picture", 3 * size * size).map(|u| u as f32).collect()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/networks")
}

fn array(path: &Path, name: &str) -> Vec<f32> {
    let bytes = fs_err::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(name).unwrap();
    let four = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    view.data().chunks_exact(4).map(four).collect()
}

/// Checks that values differ by at most 1e-3 of their mean magnitude, and that the cosine is near 1.
fn assert_same(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>()
    };
    let cosine =
        dot(found, expected) / (dot(found, found) * dot(expected, expected)).sqrt();
    let far = found.iter().zip(expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(cosine > 0.9999 && far < 1e-3, "{name}: cosine {cosine}, at most {far} apart");
}

fn check(name: &str) {
    let architecture = named(name).unwrap();
    let values = architecture
        .parameters()
        .iter()
        .map(|(name, shape)| weights(name, shape))
        .collect();
    let network = Network::from_values(architecture, values).unwrap();
    let found = network.features(&picture(size(name)), size(name));
    assert_eq!(found.len(), architecture.width);
    assert_same(name, &found, &array(&fixtures().join("features.safetensors"), name));
}

#[test]
fn alexnet_matches_torchvision() {
    check("alexnet");
    check("alexnet-conv");
    check("alexnet-conv-mean");
}

#[test]
fn vgg16_matches_torchvision() {
    check("vgg16");
}

#[test]
fn resnets_match_torchvision() {
    check("resnet18");
    check("resnet50");
}

#[test]
fn se_resnext101_matches_timm_in_both_forms() {
    check("se-resnext101");
    check("se-resnext101-legacy");
}

#[test]
fn conv4_matches_pytorch() {
    check("conv4");
}

#[test]
#[ignore = "needs 3 GB of state dicts that fixtures/networks/make.py --full FOLDER writes; CROSSHASH_NETWORKS names the folder"]
fn full_size_state_dicts_of_both_forms() {
    let folder = PathBuf::from(std::env::var("CROSSHASH_NETWORKS").unwrap());
    for architecture in NETWORKS {
        let name = architecture.name;
        let expected = array(&folder.join(format!("{name}.features")), "features");
        for ending in ["pth", "safetensors"] {
            let path = folder.join(format!("{name}.{ending}"));
            let network = Network::open(architecture, &path).unwrap();
            assert_same(name, &network.features(&picture(224), 224), &expected);
        }
    }
}

#[test]
#[ignore = "needs the team's shared folder; CROSSHASH_SHARED names it"]
fn pretrained_convolutions_match_golden_features() {
    let shared = PathBuf::from(std::env::var("CROSSHASH_SHARED").unwrap());
    let weights = shared.join("weights/alexnet-conv/alexnet_conv.safetensors");
    let golden = fs_err::read(shared.join("golden/backbones.json")).unwrap();
    let golden: serde_json::Value = serde_json::from_slice(&golden).unwrap();
    let expected = golden["alexnet-conv"]["gap"].as_array().unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "features are single")]
    let expected: Vec<f32> = expected.iter().map(|x| x.as_f64().unwrap() as f32).collect();
    #[expect(clippy::cast_possible_truncation, reason = "pixels are single")]
    let input: Vec<f32> =
        (0..3 * 224 * 224).map(|k| (0.001 * f64::from(k)).sin() as f32).collect();
    let network = Network::open(named("alexnet-conv-mean").unwrap(), &weights).unwrap();
    assert_same("alexnet-conv", &network.features(&input, 224), &expected);
}
