//! SCDH: JCCH's predecessor for one modality (Zhang, Li and Zhang, *Semantic Cluster Unary Loss
//! for Efficient Deep Hashing*, IEEE TIP 2019).
//!
//! ```text
//! L = L_u + mu L_1 + alpha L_q          one tower, centres c_1 .. c_C
//! ```
//!
//! Departures: the coefficients of JCCH's improved bound instead of q = 1/|Y_i|, which
//! `coefficients = "scul"` gives; features instead of a network on pictures.

use super::{About, Fitting, Method, jcch};
use crate::Result;
use crate::config::Run;
use crate::data::{Analysis, Training};

/// SCDH.
pub(super) struct Scdh;

impl Method for Scdh {
    fn about(&self) -> About {
        About {
            name: "scdh",
            title: "cluster unary loss for one modality",
            paper: "Zhang, Li, Zhang: Semantic Cluster Unary Loss for Efficient Deep Hashing, TIP",
            single: true,
            ..jcch::ABOUT
        }
    }

    fn tunes(&self) -> bool {
        true
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        jcch::Jcch.begin(run, training, analysis)
    }
}
