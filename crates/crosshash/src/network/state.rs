//! State dicts: named arrays of a network, from `.safetensors` or `torch.save` (`.pth`, `.pt`, `.bin`).
//! A pickle is parsed as data and never executed: the reader (`pytorch-reader`) rejects everything
//! except tensors, lists and dictionaries.
//!
//! Arrays are found by name, ignoring a common prefix (`module.`, `state_dict.`), and read on demand.
//! Errors list missing arrays, unexpected arrays and wrong shapes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use pytorch_reader::{DType, PytorchReader};
use safetensors::tensor::{Dtype, SafeTensors};

use super::layer::Spec;
use crate::data::Bytes;
use crate::{Error, Result};

/// Name prefixes added by wrappers and training scripts.
const BEFORE: [&str; 6] =
    ["", "module.", "state_dict.", "state_dict.module.", "model.", "model_state_dict."];
/// Maximum number of names per kind in an error.
const LISTED: usize = 8;

/// An open file of named arrays.
pub(crate) struct StateDict {
    path: PathBuf,
    shapes: BTreeMap<String, Vec<usize>>,
    source: Source,
}

enum Source {
    Safe(Bytes),
    Torch(HashMap<String, pytorch_reader::Tensor>),
}

impl StateDict {
    /// Opens a file; the format is detected by its first bytes.
    pub(crate) fn open(path: &Path) -> Result<StateDict> {
        let bytes = Bytes::open(path)?;
        // torch.save writes a zip file; before version 1.6 a pickle (protocol 2).
        let torch = bytes.starts_with(b"PK") || bytes.starts_with(&[0x80, 2]);
        let opened = if torch { torch_file(path) } else { safe_file(bytes) };
        let (shapes, source) = opened.map_err(|err| err.at(path))?;
        Ok(StateDict { path: path.to_owned(), shapes, source })
    }

    /// Reads the arrays in `wanted`, in order. `heads` are prefixes of optional arrays, which are
    /// ignored.
    pub(crate) fn read(&self, wanted: &[Spec], heads: &[&str]) -> Result<Vec<Vec<f32>>> {
        let before = self.before(wanted);
        let key = |spec: &Spec| format!("{before}{}", spec.name);
        let (mut missing, mut misshapen) = (Vec::new(), Vec::new());
        for spec in wanted {
            match self.shapes.get(&key(spec)) {
                None => missing.push(spec.name.clone()),
                Some(shape) if *shape != spec.shape => misshapen
                    .push(format!("{} is {shape:?}, expected {:?}", spec.name, spec.shape)),
                Some(_) => {}
            }
        }
        let known: std::collections::BTreeSet<&str> =
            wanted.iter().map(|spec| spec.name.as_str()).collect();
        let unexpected: Vec<String> = self
            .shapes
            .keys()
            .filter_map(|name| name.strip_prefix(before))
            .filter(|name| !known.contains(name) && !name.ends_with("num_batches_tracked"))
            .filter(|name| !heads.iter().any(|head| name.starts_with(head)))
            .map(str::to_owned)
            .collect();
        let faults: Vec<String> =
            [("missing", missing), ("wrong shape", misshapen), ("unexpected", unexpected)]
                .into_iter()
                .filter(|(_, names)| !names.is_empty())
                .map(|(what, names)| listed(what, &names))
                .collect();
        if !faults.is_empty() {
            let what = format!(
                "the weights do not match this network: {}; use weights of the same network, or \
                 choose the network of this file",
                faults.join("; ")
            );
            return Err(Error::content(what).at(&self.path));
        }
        wanted.iter().map(|spec| self.array(&key(spec))).collect()
    }

    /// The name prefix that matches the most arrays.
    fn before(&self, wanted: &[Spec]) -> &'static str {
        let found = |before: &str| {
            let there =
                |spec: &&Spec| self.shapes.contains_key(&format!("{before}{}", spec.name));
            wanted.iter().filter(there).count()
        };
        // The first of the best.
        BEFORE.into_iter().rev().max_by_key(|before| found(before)).unwrap_or("")
    }

    fn array(&self, name: &str) -> Result<Vec<f32>> {
        let values = match &self.source {
            Source::Safe(bytes) => safe_values(bytes, name),
            Source::Torch(tensors) => torch_values(&tensors[name]),
        }
        .map_err(|err| err.at(&self.path))?;
        match values.iter().find(|x| !x.is_finite()) {
            None => Ok(values),
            Some(value) => {
                Err(Error::content(format!("{name} contains {value}: the file is damaged"))
                    .at(&self.path))
            }
        }
    }
}

type OpenFile = (BTreeMap<String, Vec<usize>>, Source);

fn safe_file(bytes: Bytes) -> Result<OpenFile> {
    let file = SafeTensors::deserialize(&bytes).map_err(not_safe)?;
    let shapes =
        file.tensors().into_iter().map(|(name, view)| (name, view.shape().to_vec()));
    Ok((shapes.collect(), Source::Safe(bytes)))
}

fn not_safe(err: safetensors::SafeTensorError) -> Error {
    Error::content(format!("neither a safetensors file ({err}) nor a file of torch.save"))
}

fn torch_file(path: &Path) -> Result<OpenFile> {
    let reader = PytorchReader::new(path).map_err(|err| {
        Error::content(format!(
            "not a state dict that can be read without executing it ({err}); save it again with \
             torch.save(model.state_dict(), FILE) or as safetensors"
        ))
    })?;
    let tensors = reader.into_tensors();
    let shapes = tensors.iter().map(|(name, t)| (name.clone(), t.shape().to_vec()));
    Ok((shapes.collect(), Source::Torch(tensors)))
}

fn safe_values(bytes: &Bytes, name: &str) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes).map_err(not_safe)?;
    let view = file.tensor(name).map_err(not_safe)?;
    let kind = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        other => return Err(Error::content(format!("{name} is {other:?}, not floats"))),
    };
    floats(kind, view.data(), name)
}

fn torch_values(tensor: &pytorch_reader::Tensor) -> Result<Vec<f32>> {
    floats(tensor.dtype(), &tensor.read()?, &tensor.name)
}

/// Converts floats of any precision to f32. Both formats are little-endian.
fn floats(kind: DType, bytes: &[u8], name: &str) -> Result<Vec<f32>> {
    #[expect(clippy::cast_possible_truncation, reason = "weights are single")]
    let eight = |b: &[u8]| {
        f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as f32
    };
    Ok(match kind {
        DType::F32 => {
            let four = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            bytes.chunks_exact(4).map(four).collect()
        }
        DType::F64 => bytes.chunks_exact(8).map(eight).collect(),
        DType::F16 => bytes
            .chunks_exact(2)
            .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())
            .collect(),
        DType::BF16 => bytes
            .chunks_exact(2)
            .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
            .collect(),
        other => return Err(Error::content(format!("{name} is {other:?}, not floats"))),
    })
}

fn listed(what: &str, names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let shown = names[..names.len() - more].join(", ");
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use super::super::layer::Role;
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/networks").join(name)
    }

    fn wanted() -> Vec<Spec> {
        let spec = |name: &str, shape: &[usize]| Spec {
            name: name.into(),
            shape: shape.to_vec(),
            role: Role::Weight,
        };
        vec![spec("one.weight", &[3, 2]), spec("one.bias", &[3])]
    }

    #[test]
    fn all_formats_contain_the_same_values() {
        let read = |name: &str| {
            StateDict::open(&fixture(name)).unwrap().read(&wanted(), &["head."]).unwrap()
        };
        let first = read("small.safetensors");
        assert_eq!((first[0].len(), first[1].len()), (6, 3));
        assert!(first[0].iter().any(|&x| x != 0.0));
        for name in ["zip.pth", "nested.pth", "legacy.pth"] {
            assert_eq!(read(name), first, "{name}");
        }
        for (half, whole) in read("half.safetensors").iter().zip(&first) {
            assert!(half.iter().zip(whole).all(|(a, b)| (a - b).abs() < 0.01));
        }
    }

    #[test]
    fn errors_list_mismatched_arrays() {
        let file = StateDict::open(&fixture("zip.pth")).unwrap();
        let mut other = wanted();
        other[0].shape = vec![2, 3];
        other[1].name = "two.bias".into();
        let err = file.read(&other, &[]).unwrap_err().to_string();
        for part in [
            "zip.pth: the weights do not match this network",
            "missing: two.bias",
            "wrong shape: one.weight is [3, 2], expected [2, 3]",
            "unexpected: head.weight, one.bias",
        ] {
            assert!(err.contains(part), "{part} in {err}");
        }
    }

    #[test]
    fn pickles_are_never_executed() {
        for name in ["evil.pth", "plain.pth"] {
            // Executing the pickle would create this file.
            let trace = Path::new("/tmp/crosshash-was-run");
            if let Ok(file) = StateDict::open(&fixture(name)) {
                let _ = file.read(&wanted(), &["head."]);
            }
            assert!(!trace.exists());
        }
        assert!(
            StateDict::open(&fixture("plain.pth"))
                .and_then(|f| f.read(&wanted(), &[]))
                .is_err()
        );
        let err = StateDict::open(&fixture("make.py")).err().unwrap().to_string();
        assert!(err.contains("neither a safetensors file"), "{err}");
    }
}
