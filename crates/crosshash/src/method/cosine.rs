//! Cosine of real values: references without codes, which show the loss by quantisation.
//!
//! ```text
//! cosine       f = x - mean_m                the features themselves, if they are in one space
//! cca-cosine   f = (x - mean_m) W_m          canonical variates (`cca.rs`), r of them
//! rank by  <f, g> / (|f| |g|)
//! ```
//!
//! `MethodInfo::codes` is false: they are evaluated by real outputs, not by signs, and marked in tables.
//! `cosine` rejects modalities of different widths, which cannot be in one space.

use crosshash_codes::Bits;

use super::closed_form::{self, Linear, Solution, linear};
use super::lsh::mean;
use super::pca::one_space;
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData, cca};
use crate::algebra::Matrix;
use crate::config::Config;
use crate::data::Training;
use crate::{Error, Result};

const INFO: MethodInfo = MethodInfo {
    paper: "Salton, Wong, Yang: A vector space model for automatic indexing, CACM",
    year: 1975,
    cost: "O(n d), once",
    learning: Learning::Statistics,
    codes: false,
    ..cca::INFO
};

/// The cosine of the features themselves.
pub(super) const FEATURES: Entry = Entry {
    info: MethodInfo {
        name: "cosine",
        title: "reference without codes: cosine of centred features",
        pairs: false,
        ..INFO
    },
    sections: &[],
    search: &[],
    build: |_| Ok(Box::new(Features)),
};

/// The cosine of canonical variates.
pub(super) const CORRELATED: Entry = Entry {
    info: MethodInfo {
        name: "cca-cosine",
        title: "reference without codes: cosine of canonical variates",
        cost: cca::INFO.cost,
        learning: Learning::ClosedForm,
        ..INFO
    },
    sections: cca::SECTIONS,
    search: cca::SEARCH,
    build: |sections| Ok(Box::new(Correlated(sections.read()?))),
};

#[derive(Debug)]
struct Features;

#[derive(Debug)]
struct Correlated(cca::Settings);

impl Method for Features {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let unsuitable =
            |why: String| Err(Error::Unsuitable { method: FEATURES.info.name.into(), why });
        closed_form::begin(config, training, |items| {
            if items.len() > 1 && !one_space(items) {
                return unsuitable(
                    "compares features of one space, and those of the modalities have \
                     different widths"
                        .into(),
                );
            }
            if items.iter().any(|data| data.preparation.width() > Bits::MAX) {
                return unsuitable(format!(
                    "accepts at most {} features per item",
                    Bits::MAX
                ));
            }
            Ok(Box::new(|items, progress| {
                let towers = items.iter().map(identity).collect::<Result<Vec<_>>>()?;
                Ok(progress(1, 1).then_some(Solution { towers, loss: f64::NAN }))
            }))
        })
    }
}

impl Method for Correlated {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        cca::solve_correlated(CORRELATED.info.name, config, training, self.0.ridge)
    }
}

fn identity(items: &ModalityData) -> Result<crate::tower::Tower> {
    let width = items.preparation.width();
    let weights = Matrix::from_fn(width, width, |i, j| f64::from(u8::from(i == j)));
    Ok(linear(items, &Linear { weights, mean: mean(items)? }))
}
