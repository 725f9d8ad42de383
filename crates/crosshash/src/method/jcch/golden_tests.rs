//! One JCCH step against an independent implementation (PyTorch, f64): loss terms, every
//! gradient, and all parameters after three SGD steps, through the towers that training uses.
//!
//! `golden/jcch_step.safetensors`: lambda 0.04, mu 0.1, alpha 0.1, beta 0.2, rate 0.01, momentum
//! 0.9, decay 1e-4; linear layers are stored outputs x inputs.

use burn_tensor::{DType, Device, Tensor, TensorData, activation::relu};
use safetensors::SafeTensors;

use super::loss::{
    LabelledPart, LabelledTerms, Loss, Pairs, Part, PartTerms, Weights, loss,
};
use crate::data::Sparse;
use crate::optimise::{Param, Sgd};
use crate::tower::{Batch, Matrix, Shape, Tower};

const WEIGHTS: Weights =
    Weights { unary: 1.0, tight: false, lambda: 0.04, mu: 0.1, beta: 0.2 };
const ALPHA: f64 = 0.1;

struct Golden(Vec<u8>);

impl Golden {
    fn open() -> Golden {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/jcch_step.safetensors");
        Golden(fs_err::read(path).expect("the golden file"))
    }

    /// Values by rows, and how many columns.
    fn get(&self, name: &str) -> (Vec<f64>, usize) {
        let file = SafeTensors::deserialize(&self.0).expect("a safetensors file");
        let view = file.tensor(name).expect(name);
        let values = view.data().chunks_exact(8);
        let values = values.map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes")));
        (values.collect(), view.shape().last().copied().unwrap_or(1))
    }

    fn value(&self, name: &str) -> f64 {
        self.get(name).0[0]
    }

    fn double(&self, name: &str) -> Tensor<2> {
        let (values, columns) = self.get(name);
        let shape = [values.len() / columns, columns];
        let device = Device::flex().autodiff();
        Tensor::from_data(TensorData::new(values, shape), (&device, DType::F64))
    }

    #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
    fn single(&self, name: &str) -> (Vec<f32>, usize) {
        let (values, columns) = self.get(name);
        (values.iter().map(|&x| x as f32).collect(), columns)
    }

    /// A linear layer of the file as ours: inputs x outputs.
    fn transposed(&self, name: &str) -> (Vec<f32>, usize) {
        let (values, inputs) = self.single(name);
        let outputs = values.len() / inputs;
        let at = |k: usize| values[(k % outputs) * inputs + k / outputs];
        ((0..values.len()).map(at).collect(), outputs)
    }

    /// Hash and classifier of a tower side by side.
    fn heads(&self, when: &str, tower: &str, part: &str) -> (Vec<f32>, usize) {
        let get = |head: &str| match part {
            "weight" => self.transposed(&format!("{when}.{tower}.{head}.weight")),
            _ => self.single(&format!("{when}.{tower}.{head}.bias")),
        };
        let ((hash, r), (cls, c)) = (get("hash"), get("cls"));
        let rows = hash.chunks_exact(r).zip(cls.chunks_exact(c));
        (rows.flat_map(|(a, b)| a.iter().chain(b)).copied().collect(), r + c)
    }
}

fn shares(y: Tensor<2>) -> Tensor<2> {
    y.clone() / y.sum_dim(1)
}

fn scalar(tensor: &Tensor<1>) -> f64 {
    tensor.clone().into_scalar()
}

#[test]
fn terms_and_gradients_in_double_precision() {
    let golden = Golden::open();
    let mut leaves: Vec<(String, Tensor<2>)> = Vec::new();
    let mut leaf = |name: String| {
        let leaf = golden.double(&format!("param.{name}")).require_grad();
        leaves.push((name, leaf.clone()));
        leaf
    };
    let centres = leaf("centres".into());
    let mut parts = Vec::new();
    for tower in ["image", "text"] {
        let mut linear = |x: Tensor<2>, name: &str| {
            let weight = leaf(format!("{tower}.{name}.weight"));
            x.matmul(weight.transpose()) + leaf(format!("{tower}.{name}.bias"))
        };
        let h = relu(linear(golden.double(&format!("in.{tower}")), "hidden"));
        parts.push(Part {
            hash: linear(h.clone(), "hash"),
            labelled: Some(LabelledPart {
                logits: linear(h, "cls"),
                q: golden.double("in.q"),
                u: golden.double("in.u"),
                shares: shares(golden.double("in.y")),
            }),
            alpha: ALPHA,
        });
    }
    let pairs = [Pairs { parts: [0, 1], rows: None }];
    let loss = loss(parts, &pairs, &centres, WEIGHTS).expect("two parts");
    let sum = |f: fn(&LabelledTerms) -> &Tensor<1>| -> f64 {
        let labelled = |terms: &PartTerms| terms.labelled.as_ref().map(|t| scalar(f(t)));
        loss.terms.iter().map(|terms| labelled(terms).expect("labels")).sum()
    };
    let unary = sum(|t| &t.classification) + WEIGHTS.lambda * sum(|t| &t.attraction);
    let near = |what: &str, got: f64| {
        let wanted = golden.value(what);
        assert!((got - wanted).abs() < 1e-9, "{what}: {got}, wanted {wanted}");
    };
    near("term.unary", unary);
    near("term.aux", sum(|t| &t.classifier));
    let quantisation = loss.terms.iter().map(|terms| scalar(&terms.quantisation)).sum();
    near("term.quant", quantisation);
    near("term.pair", scalar(loss.pair.as_ref().expect("pairs")));
    near("loss.0", scalar(&loss.total));
    let grads = loss.total.backward();
    for (name, leaf) in leaves {
        let gradient = leaf.grad(&grads).expect("a gradient").into_data();
        let gradient = gradient.as_slice::<f64>().expect("f64");
        let (wanted, _) = golden.get(&format!("grad.{name}"));
        assert_eq!(gradient.len(), wanted.len(), "{name}");
        for (got, wanted) in gradient.iter().zip(&wanted) {
            assert!((got - wanted).abs() < 1e-9, "{name}: {got}, wanted {wanted}");
        }
    }
}

/// The towers of training, in single precision, dense and with a sparse text layer.
#[test]
fn three_steps_of_training() {
    let golden = Golden::open();
    for sparse in [false, true] {
        let device = Device::flex().autodiff();
        let at_rest = |name: &'static str, (values, columns): (Vec<f32>, usize)| Matrix {
            name: name.into(),
            columns,
            velocity: vec![0.0; values.len()],
            values,
        };
        let tower = |name: &str, sparse: bool| {
            let (weight, hidden) =
                golden.transposed(&format!("param.{name}.hidden.weight"));
            let width = weight.len() / hidden;
            let shape =
                Shape { width, sparse, hidden, bits: 16, classes: 6, ..Shape::default() };
            let bias = golden.single(&format!("param.{name}.hidden.bias"));
            let matrices = vec![
                at_rest("hidden.weight", (weight, hidden)),
                at_rest("hidden.bias", bias),
                at_rest("heads.weight", golden.heads("param", name, "weight")),
                at_rest("heads.bias", golden.heads("param", name, "bias")),
            ];
            Tower::from_matrices(shape, matrices, &device).expect("matrices that fit")
        };
        let (image, _) = golden.single("in.image");
        let (text, width) = golden.single("in.text");
        let text =
            if sparse { Batch::Sparse(rows(&text, width)) } else { Batch::Dense(text) };
        let mut towers =
            [(tower("image", false), Batch::Dense(image)), (tower("text", sparse), text)];
        let (values, columns) = golden.single("param.centres");
        let mut centres = Param::new(values, columns, &device);
        let sgd = Sgd { rate: 0.01, momentum: 0.9, decay: 1e-4 };
        for step in 0..3 {
            let outputs: Vec<_> = towers.iter_mut().map(|(t, x)| t.forward(x)).collect();
            let single = |name: &str| {
                let (values, columns) = golden.single(name);
                let shape = [values.len() / columns, columns];
                Tensor::<2>::from_data(TensorData::new(values, shape), &device)
            };
            let parts = outputs.iter().map(|out| Part {
                hash: out.hash.clone(),
                labelled: Some(LabelledPart {
                    logits: out.logits.clone(),
                    q: single("in.q"),
                    u: single("in.u"),
                    shares: shares(single("in.y")),
                }),
                alpha: ALPHA,
            });
            let pairs = [Pairs { parts: [0, 1], rows: None }];
            let Loss { total, .. } =
                loss(parts.collect(), &pairs, &centres.leaf(), WEIGHTS).expect("parts");
            let mut grads = total.backward();
            let value: f32 = total.into_scalar();
            let wanted = golden.value(&format!("loss.{step}"));
            assert!((f64::from(value) - wanted).abs() < 1e-5 * wanted, "{value} {wanted}");
            for ((tower, batch), out) in towers.iter_mut().zip(outputs) {
                tower.step(&mut grads, batch, out, [sgd; 2]);
            }
            centres.step(&mut grads, sgd);
        }
        let near = |what: &str, got: &[f32], wanted: &[f32]| {
            assert_eq!(got.len(), wanted.len(), "{what}");
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got - wanted).abs() < 2e-6, "{what}: {got}, wanted {wanted}");
            }
        };
        near("centres", &centres.values(), &golden.single("after3.centres").0);
        for ((tower, _), name) in towers.iter_mut().zip(["image", "text"]) {
            let found = tower.matrices(false);
            let wanted = [
                golden.transposed(&format!("after3.{name}.hidden.weight")),
                golden.single(&format!("after3.{name}.hidden.bias")),
                golden.heads("after3", name, "weight"),
                golden.heads("after3", name, "bias"),
            ];
            for (matrix, (wanted, _)) in found.iter().zip(&wanted) {
                near(&format!("{name} {}", matrix.name), &matrix.values, wanted);
            }
        }
    }
}

fn rows(values: &[f32], width: usize) -> Sparse {
    let mut sparse = Sparse::new(width);
    for row in values.chunks_exact(width) {
        let mut cells: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
        sparse.push(&mut cells).expect("a row");
    }
    sparse
}
