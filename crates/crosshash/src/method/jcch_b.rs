//! JCCH-B: JCCH with the basic coefficients (Zhang, Li and Zhang 2019, ablation).
//!
//! ```text
//! q_is = 1/|Y_i|,   u_is = 1
//! ```
//!
//! All else, and the departures, as in `jcch.rs`.

use super::{About, Fitting, Method, jcch};
use crate::Result;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::supervise::Kind;

/// JCCH-B.
pub(super) struct JcchB;

impl Method for JcchB {
    fn about(&self) -> About {
        About { name: "jcch-b", title: "JCCH with q = 1/|Y|, u = 1", ..jcch::ABOUT }
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

    fn coefficients(&self) -> Kind {
        Kind::Scul
    }
}
