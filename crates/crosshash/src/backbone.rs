//! All backbones: those of `crosshash-features`, and the native networks (`network/backbone.rs`).

pub use crosshash_features::backbone::*;

use crate::{Result, network};

/// The tables that are searched, in this order.
const TABLES: [Table; 2] = [BACKBONES, network::BACKBONES];

/// Every backbone that has a name.
pub fn all() -> impl Iterator<Item = &'static About> {
    TABLES.into_iter().flatten().copied()
}

/// A backbone by name.
pub fn about(name: &str) -> Result<&'static About> {
    Ok(about_in(&TABLES, name)?)
}

/// Opens a backbone by name, or an ONNX network by the path of its file.
pub fn open(name: &str, weights: &Weights) -> Result<Loaded> {
    Ok(open_in(&TABLES, name, weights)?)
}

/// The origin of rows that a built-in backbone made.
pub(crate) fn built_in(name: &str) -> Result<Origin> {
    Ok(open(name, &Weights::default())?.origin().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_the_built_in_ones_need_nothing() {
        let all: Vec<_> = all().collect();
        for (k, about) in all.iter().enumerate() {
            assert!(all[..k].iter().all(|other| other.name != about.name));
            if about.files.is_empty() {
                let loaded = open(about.name, &Weights::default()).unwrap();
                assert_eq!(loaded.backbone().width(), about.width);
                assert_eq!(loaded.backbone().takes(), about.takes);
            } else {
                assert!(!about.get.is_empty(), "{}: how to get it", about.name);
            }
        }
        let err = open("resnet", &Weights::default()).unwrap_err().to_string();
        assert!(err.starts_with("no backbone named \"resnet\"; there are: "), "{err}");
    }
}
