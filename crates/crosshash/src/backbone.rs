//! All backbones: those of `crosshash-features`, and the native networks (`network/backbone.rs`).

pub use crosshash_features::backbone::*;

use crate::{Result, network};

/// Tables of backbones, in search order.
const TABLES: [Table; 2] = [BACKBONES, network::BACKBONES];

/// All named backbones.
pub fn all() -> impl Iterator<Item = &'static BackboneInfo> {
    TABLES.into_iter().flatten().copied()
}

/// Metadata of a backbone by name.
pub fn info(name: &str) -> Result<&'static BackboneInfo> {
    Ok(info_in(&TABLES, name)?)
}

/// Opens a backbone by name, or an ONNX network by the path of its file.
pub fn open(name: &str, weights: &Weights) -> Result<Loaded> {
    Ok(open_in(&TABLES, name, weights)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_the_built_in_ones_need_nothing() {
        let all: Vec<_> = all().collect();
        for (k, info) in all.iter().enumerate() {
            assert!(all[..k].iter().all(|other| other.name != info.name));
            if info.files.is_empty() {
                let loaded = open(info.name, &Weights::default()).unwrap();
                assert_eq!(loaded.backbone().width(), info.width);
                assert_eq!(loaded.backbone().input_kind(), info.input_kind);
            } else {
                assert!(!info.get.is_empty(), "{}: no instructions", info.name);
            }
        }
        let err = open("resnet", &Weights::default()).unwrap_err().to_string();
        assert!(err.starts_with("no backbone named \"resnet\"; there are: "), "{err}");
    }
}
