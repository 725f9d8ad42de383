//! Real-valued cosine: no codes, but what codes lose against. Two references:
//!
//! ```text
//! cosine       f = x - mean_m                the features themselves, where they are in one space
//! cca-cosine   f = (x - mean_m) W_m          canonical variates (`cca.rs`), r of them
//! rank by  <f, g> / (|f| |g|)
//! ```
//!
//! `About::codes` is false: they are judged by real outputs, never by signs, and tables mark them.
//! `cosine` refuses modalities of different widths, which cannot be one space.

use crosshash_codes::Bits;

use super::cca::correlated;
use super::items::pairs;
use super::lsh::mean;
use super::once::{Linear, Once, Solved, linear, towers};
use super::pca::one_space;
use super::{About, Fitting, Items, Learning, Method, cca};
use crate::algebra::Matrix;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::{Error, Result};

/// A real-valued reference.
pub(super) enum Cosine {
    /// Of the features themselves.
    Features,
    /// Of canonical variates.
    Correlated,
}

impl Method for Cosine {
    fn about(&self) -> About {
        let about = About {
            paper: "Salton, Wong, Yang: A vector space model for automatic indexing, CACM",
            year: 1975,
            cost: "O(n d), once",
            learning: Learning::Hardly,
            codes: false,
            ..cca::ABOUT
        };
        match self {
            Cosine::Features => About {
                name: "cosine",
                title: "reference without codes: cosine of centred features",
                pairs: false,
                ..about
            },
            Cosine::Correlated => About {
                name: "cca-cosine",
                title: "reference without codes: cosine of canonical variates",
                cost: cca::ABOUT.cost,
                learning: Learning::Once,
                ..about
            },
        }
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        let name = self.name();
        Once::begin(run, training, analysis, |items| match self {
            Cosine::Features => {
                if items.len() > 1 && !one_space(items) {
                    let why = "compares features of one space, and those of the modalities \
                               have different widths";
                    return Err(Error::Unsuitable { method: name.into(), why: why.into() });
                }
                if items.iter().any(|side| side.preparation.width() > Bits::MAX) {
                    let why = format!("takes features of at most {} numbers", Bits::MAX);
                    return Err(Error::Unsuitable { method: name.into(), why });
                }
                Ok(Box::new(|items, tell| {
                    let towers = items.iter().map(identity).collect::<Result<Vec<_>>>()?;
                    Ok(tell(1, 1).then_some(Solved { towers, loss: f64::NAN }))
                }))
            }
            Cosine::Correlated => {
                let pairs = pairs(name, training, items)?;
                Ok(Box::new(move |items, tell| {
                    let found = correlated(run, items, &pairs, run.bits.get())?;
                    let loss = f64::NAN;
                    Ok(tell(1, 1)
                        .then(|| Solved { towers: towers(run, items, found), loss }))
                }))
            }
        })
    }
}

fn identity(items: &Items) -> Result<crate::tower::Tower> {
    let width = items.preparation.width();
    let weights = Matrix::from_fn(width, width, |i, j| f64::from(u8::from(i == j)));
    Ok(linear(items, &Linear { weights, mean: mean(items)? }))
}
