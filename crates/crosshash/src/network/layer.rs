//! Layers as data: what a network is made of, before it has weights. A network file builds a list
//! of these; `run.rs` computes them; parameters are named as PyTorch's state dicts name them.

/// One layer, or a few that belong together.
#[derive(Debug, Clone)]
pub(crate) enum Layer {
    /// A convolution.
    Conv(Conv),
    /// Batch normalisation.
    Norm {
        name: String,
        channels: usize,
    },
    Relu,
    MaxPool {
        size: usize,
        stride: usize,
        padding: usize,
        /// Whether a window that is only partly inside counts (PyTorch's `ceil_mode`).
        ceil: bool,
    },
    /// The mean over a grid of so many by so many cells, whatever the size before.
    AveragePool(usize),
    Flatten,
    /// `x W^T + b`.
    Linear {
        name: String,
        inputs: usize,
        outputs: usize,
    },
    /// `relu(body(x) + shortcut(x))`; an empty shortcut is x itself.
    Residual {
        name: String,
        body: Vec<Layer>,
        shortcut: Vec<Layer>,
    },
    /// Squeeze and excitation (Hu et al. 2018): `x * sigmoid(W_2 relu(W_1 mean(x)))`, by channel.
    Excite {
        name: String,
        channels: usize,
        inner: usize,
    },
}

/// The sizes of a convolution; kernels are square.
#[derive(Debug, Clone)]
pub(crate) struct Conv {
    pub(crate) name: String,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) size: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) groups: usize,
    pub(crate) bias: bool,
}

/// A parameter that a layer wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
}

/// What a parameter does, and so how it starts and whether it is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Of a convolution or a linear layer.
    Weight,
    /// Added: 0 at first.
    Shift,
    /// Multiplied: 1 at first.
    Scale,
    /// The running mean of a normalisation: observed, not learnt.
    Mean,
    /// Its running variance.
    Variance,
}

impl Spec {
    /// Numbers in it.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Columns when it is kept as a matrix, one row per output; a vector is one row.
    pub(crate) fn columns(&self) -> usize {
        match self.shape[..] {
            [n] => n,
            _ => self.len() / self.shape[0].max(1),
        }
    }

    /// Whether gradients change it.
    pub(crate) fn is_learnt(&self) -> bool {
        !matches!(self.role, Role::Mean | Role::Variance)
    }
}

impl Conv {
    /// A convolution with bias, as networks without normalisation have it.
    pub(crate) fn biased(
        name: impl Into<String>,
        [inputs, outputs]: [usize; 2],
        [size, stride, padding]: [usize; 3],
    ) -> Layer {
        let (name, groups) = (name.into(), 1);
        let bias = true;
        Layer::Conv(Conv { name, inputs, outputs, size, stride, padding, groups, bias })
    }

    /// A convolution without bias, as networks with normalisation have it.
    pub(crate) fn plain(
        name: impl Into<String>,
        [inputs, outputs]: [usize; 2],
        [size, stride, padding]: [usize; 3],
        groups: usize,
    ) -> Layer {
        let (name, bias) = (name.into(), false);
        Layer::Conv(Conv { name, inputs, outputs, size, stride, padding, groups, bias })
    }
}

/// Batch normalisation.
pub(crate) fn norm(name: impl Into<String>, channels: usize) -> Layer {
    Layer::Norm { name: name.into(), channels }
}

/// A linear layer.
pub(crate) fn linear(name: &str, inputs: usize, outputs: usize) -> Layer {
    Layer::Linear { name: name.into(), inputs, outputs }
}

/// The highest of a window.
pub(crate) fn max_pool(size: usize, stride: usize, padding: usize) -> Layer {
    Layer::MaxPool { size, stride, padding, ceil: false }
}

impl Layer {
    /// Its name, if it has parameters.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Layer::Conv(Conv { name, .. })
            | Layer::Norm { name, .. }
            | Layer::Linear { name, .. }
            | Layer::Residual { name, .. }
            | Layer::Excite { name, .. } => Some(name),
            Layer::Relu
            | Layer::MaxPool { .. }
            | Layer::AveragePool(_)
            | Layer::Flatten => None,
        }
    }

    /// Adds what it wants to a list.
    pub(crate) fn specs(&self, out: &mut Vec<Spec>) {
        let mut want = |name: String, shape: &[usize], role: Role| {
            out.push(Spec { name, shape: shape.to_vec(), role });
        };
        match self {
            Layer::Conv(conv) => {
                let Conv { name, inputs, outputs, size, groups, .. } = conv;
                let shape = [*outputs, inputs / groups, *size, *size];
                want(format!("{name}.weight"), &shape, Role::Weight);
                if conv.bias {
                    want(format!("{name}.bias"), &[*outputs], Role::Shift);
                }
            }
            Layer::Norm { name, channels } => {
                for (part, role) in [
                    ("weight", Role::Scale),
                    ("bias", Role::Shift),
                    ("running_mean", Role::Mean),
                    ("running_var", Role::Variance),
                ] {
                    want(format!("{name}.{part}"), &[*channels], role);
                }
            }
            Layer::Linear { name, inputs, outputs } => {
                want(format!("{name}.weight"), &[*outputs, *inputs], Role::Weight);
                want(format!("{name}.bias"), &[*outputs], Role::Shift);
            }
            Layer::Residual { body, shortcut, .. } => {
                body.iter().chain(shortcut).for_each(|layer| layer.specs(out));
            }
            Layer::Excite { name, channels, inner } => {
                for (part, outputs, inputs) in
                    [("fc1", inner, channels), ("fc2", channels, inner)]
                {
                    let shape = [*outputs, *inputs, 1, 1];
                    want(format!("{name}.{part}.weight"), &shape, Role::Weight);
                    want(format!("{name}.{part}.bias"), &[*outputs], Role::Shift);
                }
            }
            Layer::Relu
            | Layer::MaxPool { .. }
            | Layer::AveragePool(_)
            | Layer::Flatten => {}
        }
    }
}
