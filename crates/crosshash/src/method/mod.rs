//! Methods: what is asked of the towers' outputs.

pub mod jcch;
mod projection;

pub use projection::Projection;

use serde::{Deserialize, Serialize};

use crate::supervise::Kind;

/// Every method that is trained by gradients, in the order tables print them.
pub const METHODS: &[Method] = &[Method::Jcch, Method::JcchB, Method::Scdh];

/// A recipe: which coefficients, and how many modalities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Joint cluster cross-modal hashing with the coefficients of the improved bound.
    Jcch,
    /// The same with `q = 1/|Y_i|`, `u = 1`.
    JcchB,
    /// One modality, the coefficients of the improved bound.
    Scdh,
}

impl Method {
    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Jcch => "jcch",
            Method::JcchB => "jcch-b",
            Method::Scdh => "scdh",
        }
    }

    /// A method by name.
    pub fn named(name: &str) -> crate::Result<Method> {
        let known = METHODS.iter().copied();
        known
            .clone()
            .find(|method| method.name() == name)
            .ok_or_else(|| crate::Error::unknown("method", name, known.map(Method::name)))
    }

    /// The coefficients it takes.
    pub fn coefficients(self) -> Kind {
        match self {
            Method::JcchB => Kind::Scul,
            Method::Jcch | Method::Scdh => Kind::Auto,
        }
    }
}
