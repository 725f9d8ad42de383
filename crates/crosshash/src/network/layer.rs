//! Layer descriptions without weights. A network file builds a list of layers; `run.rs` evaluates
//! them. Parameters have the names of PyTorch's state dicts.

/// A layer or block.
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
        /// Include windows that are only partly inside (PyTorch's `ceil_mode`).
        ceil: bool,
    },
    /// Adaptive average pooling to this many cells per side.
    AveragePool(usize),
    Flatten,
    /// `x W^T + b`.
    Linear {
        name: String,
        inputs: usize,
        outputs: usize,
    },
    /// `relu(body(x) + shortcut(x))`; an empty shortcut is the identity.
    Residual {
        name: String,
        body: Vec<Layer>,
        shortcut: Vec<Layer>,
    },
    /// Squeeze and excitation (Hu et al. 2018): `x * sigmoid(W_2 relu(W_1 mean(x)))` per channel.
    Excite {
        name: String,
        channels: usize,
        inner: usize,
    },
}

/// Sizes of a convolution; kernels are square.
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

/// Name, shape and role of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) role: Role,
}

/// Role of a parameter; determines its initial values and whether it is trainable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Weight of a convolution or linear layer.
    Weight,
    /// Additive; initialised to 0.
    Shift,
    /// Multiplicative; initialised to 1.
    Scale,
    /// Running mean of a normalisation; not trainable.
    Mean,
    /// Running variance of a normalisation; not trainable.
    Variance,
}

impl Spec {
    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Columns when stored as a matrix with one row per output; a vector is one row.
    pub(crate) fn columns(&self) -> usize {
        match self.shape[..] {
            [n] => n,
            _ => self.len() / self.shape[0].max(1),
        }
    }

    /// Whether the parameter is trainable.
    pub(crate) fn is_trainable(&self) -> bool {
        !matches!(self.role, Role::Mean | Role::Variance)
    }
}

impl Conv {
    /// Convolution with bias, for networks without normalisation.
    pub(crate) fn biased(
        name: impl Into<String>,
        [inputs, outputs]: [usize; 2],
        [size, stride, padding]: [usize; 3],
    ) -> Layer {
        let (name, groups) = (name.into(), 1);
        let bias = true;
        Layer::Conv(Conv { name, inputs, outputs, size, stride, padding, groups, bias })
    }

    /// Convolution without bias, for networks with normalisation.
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

/// Max pooling.
pub(crate) fn max_pool(size: usize, stride: usize, padding: usize) -> Layer {
    Layer::MaxPool { size, stride, padding, ceil: false }
}

impl Layer {
    /// Name of the layer, if it has parameters.
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

    /// Appends the parameters of the layer to a list.
    pub(crate) fn specs(&self, out: &mut Vec<Spec>) {
        let mut add = |name: String, shape: &[usize], role: Role| {
            out.push(Spec { name, shape: shape.to_vec(), role });
        };
        match self {
            Layer::Conv(conv) => {
                let Conv { name, inputs, outputs, size, groups, .. } = conv;
                let shape = [*outputs, inputs / groups, *size, *size];
                add(format!("{name}.weight"), &shape, Role::Weight);
                if conv.bias {
                    add(format!("{name}.bias"), &[*outputs], Role::Shift);
                }
            }
            Layer::Norm { name, channels } => {
                for (part, role) in [
                    ("weight", Role::Scale),
                    ("bias", Role::Shift),
                    ("running_mean", Role::Mean),
                    ("running_var", Role::Variance),
                ] {
                    add(format!("{name}.{part}"), &[*channels], role);
                }
            }
            Layer::Linear { name, inputs, outputs } => {
                add(format!("{name}.weight"), &[*outputs, *inputs], Role::Weight);
                add(format!("{name}.bias"), &[*outputs], Role::Shift);
            }
            Layer::Residual { body, shortcut, .. } => {
                body.iter().chain(shortcut).for_each(|layer| layer.specs(out));
            }
            Layer::Excite { name, channels, inner } => {
                for (part, outputs, inputs) in
                    [("fc1", inner, channels), ("fc2", channels, inner)]
                {
                    let shape = [*outputs, *inputs, 1, 1];
                    add(format!("{name}.{part}.weight"), &shape, Role::Weight);
                    add(format!("{name}.{part}.bias"), &[*outputs], Role::Shift);
                }
            }
            Layer::Relu
            | Layer::MaxPool { .. }
            | Layer::AveragePool(_)
            | Layer::Flatten => {}
        }
    }
}
