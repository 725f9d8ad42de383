//! Supervision: computes the coefficients `q_is`, `u_is` of the unary loss from labels:
//!
//! ```text
//! L_u = sum_i sum_{s in Y_i} [ q_is l_c(h_i, s) + lambda u_is |h_i - c_s| ]
//! ```
//!
//! One file per kind: `exact` and `anchors` for the improved bound of the JCCH paper, `cross` for the
//! same between unpaired modalities, `graded` with graded pairs, `scul` for JCCH-B, `balanced` for the
//! closed forms. [`supervise`] selects the kind.

mod anchors;
mod balanced;
mod beta;
mod bound;
mod coefficients;
mod cross;
mod exact;
mod graded;
mod groups;
mod overlap;
mod pairwise;
mod scul;
mod subset_tree;

pub use anchors::{draw as draw_anchors, from_anchors};
pub use balanced::{Balanced, balanced};
pub use coefficients::{Coefficients, Part, Row};
pub use cross::{between, cross};
pub use exact::exact;
pub use graded::graded;
pub use groups::Groups;
pub use scul::{scul, uniform};

use crosshash_codes::Labels;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Up to this many steps (about two minutes on two cores) exact sums are the default.
const EXACT_STEPS: f64 = 1e10;
/// Minimum default number of anchors; otherwise twice the number of labels.
const ANCHORS: usize = 2000;

/// Kind of coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Uniform for single-label data, otherwise exact, or anchors if exact would take too long.
    Auto,
    /// The improved bound over all items.
    Exact,
    /// The improved bound over a sample of anchors.
    Anchors,
    /// The improved bound with larger weights for rare labels and large overlaps.
    Graded,
    /// `q = 1/|Y_i|`, `u = 1` (JCCH-B).
    Scul,
    /// The closed forms for balanced labels.
    Balanced,
    /// `q = u = 1`.
    Uniform,
}

impl Kind {
    /// Whether these are coefficients of the improved bound, which weigh labels by their frequency.
    pub fn is_bound(self) -> bool {
        matches!(self, Kind::Auto | Kind::Exact | Kind::Anchors | Kind::Graded)
    }

    /// Name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Auto => "auto",
            Kind::Exact => "exact",
            Kind::Anchors => "anchors",
            Kind::Graded => "graded",
            Kind::Scul => "scul",
            Kind::Balanced => "balanced",
            Kind::Uniform => "uniform",
        }
    }
}

/// The scale of the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// As in the paper: the improved bound divided by `M = sum q / sum |Y_i|`, which makes the
    /// mean q 1 and the mean u 2; the other kinds are not scaled.
    Paper,
    /// The scale of the bound: no division by M. The balanced form is multiplied by its M.
    Raw,
    /// Every kind divided by its `sum q / sum |Y_i|`.
    MeanOne,
}

/// Settings of [`supervise`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Kind of coefficients.
    pub kind: Kind,
    /// Number of anchors, if anchors are used.
    pub anchors: Option<usize>,
    /// Seed for sampling anchors.
    pub seed: u64,
    /// Scale of the coefficients.
    pub scale: Scale,
    /// Count `(i, i)` as a positive pair, as Algorithm 1 does.
    pub include_self: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            kind: Kind::Auto,
            anchors: None,
            seed: 0,
            scale: Scale::Paper,
            include_self: true,
        }
    }
}

/// Result of [`supervise`].
#[derive(Clone, Debug)]
pub struct Supervision {
    /// The coefficients.
    pub coefficients: Coefficients,
    /// The selected kind; never `Auto`.
    pub kind: Kind,
    /// Reason for the selection.
    pub reason: String,
    /// Distinct label sets.
    pub distinct: usize,
    /// Items without labels; their coefficients are 0.
    pub unlabelled: usize,
    /// The anchors, if they were sampled.
    pub anchors: Option<Vec<usize>>,
    /// M: the factor by which both matrices are smaller than in the bound.
    pub scale: f64,
}

/// Computes coefficients; `progress` is called with the completed fraction, in thousandths.
pub fn supervise(
    labels: &Labels,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Supervision> {
    let groups = Groups::new(labels);
    let unlabelled = labels.unlabelled();
    if unlabelled == labels.len() {
        return Err(Error::content(format!(
            "none of {} items has a label; coefficients need labels",
            labels.len()
        )));
    }
    let distinct = groups.sets.len() - usize::from(unlabelled > 0);
    let (kind, reason) = choose(labels, &groups, options);
    let (mut anchors, mut scale) = (None, 1.0);
    let mut coefficients = match kind {
        Kind::Auto | Kind::Exact => {
            exact::of_groups(groups, options.include_self, progress)?
        }
        Kind::Anchors => {
            let wanted = options.anchors.unwrap_or(ANCHORS.max(2 * labels.classes()));
            let drawn = draw_anchors(labels, wanted, options.seed)?;
            let found = from_anchors(labels, &drawn, options.include_self, progress)?;
            anchors = Some(drawn);
            found
        }
        Kind::Graded => graded::of_groups(groups, options.include_self, progress),
        Kind::Scul => scul(labels),
        Kind::Uniform => uniform(labels),
        Kind::Balanced => {
            let (found, m) = balanced(labels);
            scale = m;
            found
        }
    };
    match options.scale {
        Scale::MeanOne => scale *= coefficients.rescale(),
        Scale::Paper if kind.is_bound() => scale = coefficients.rescale(),
        Scale::Raw if kind == Kind::Balanced => {
            coefficients.divide(1.0 / scale);
            scale = 1.0;
        }
        Scale::Paper | Scale::Raw => {}
    }
    Ok(Supervision { coefficients, kind, reason, distinct, unlabelled, anchors, scale })
}

/// Whether every labelled item has exactly one label.
pub fn is_single_label(labels: &Labels) -> bool {
    (0..labels.len()).all(|item_idx| labels.count(item_idx) <= 1)
}

fn choose(labels: &Labels, groups: &Groups, options: &Options) -> (Kind, String) {
    if options.kind != Kind::Auto {
        return (options.kind, "as requested".into());
    }
    if is_single_label(labels) {
        return (Kind::Uniform, "every item has one label: q = u = 1".into());
    }
    let (sets, steps) = (groups.sets.len(), exact_steps(groups));
    let cost = format!("{sets} distinct label sets need at most {steps:.1e} steps");
    if options.anchors.is_some() {
        return (Kind::Anchors, "the number of anchors was specified".into());
    }
    if steps <= EXACT_STEPS {
        (Kind::Exact, format!("{cost}, within {EXACT_STEPS:.0e}"))
    } else {
        (Kind::Anchors, format!("{cost}, above {EXACT_STEPS:.0e}"))
    }
}

/// Upper bound of the cost of exact sums: all pairs of sets, word by word, or all subsets of all
/// sets.
pub fn exact_steps(groups: &Groups) -> f64 {
    let sets = &groups.sets;
    let pairs = (sets.len() as f64).powi(2) * (1 + sets.stride()) as f64;
    let subsets = (0..sets.len()).map(|set| (sets.count(set) as f64).exp2()).sum::<f64>();
    pairs.min(subset_tree::VISIT as f64 * subsets)
}
