//! SCDH: the predecessor of JCCH for one modality (Zhang, Li and Zhang, *Semantic Cluster Unary Loss
//! for Efficient Deep Hashing*, IEEE TIP 2019).
//!
//! ```text
//! L = L_u + mu L_1 + alpha L_q          one tower, centres c_1 .. c_C
//! ```
//!
//! Differences from the paper: the coefficients of JCCH's improved bound instead of q = 1/|Y_i|, which
//! `jcch.coefficients = "scul"` gives; features instead of a network on pictures.

use super::jcch::{self, Jcch};
use super::{Entry, MethodInfo};
use crate::supervise::Kind;

/// SCDH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "scdh",
        title: "cluster unary loss for one modality",
        paper: "Zhang, Li, Zhang: Semantic Cluster Unary Loss for Efficient Deep Hashing, TIP",
        single: true,
        ..jcch::INFO
    },
    sections: jcch::SECTIONS,
    search: jcch::SEARCH,
    build: |sections| {
        Ok(Box::new(Jcch { settings: sections.read()?, coefficients: Kind::Auto }))
    },
};
