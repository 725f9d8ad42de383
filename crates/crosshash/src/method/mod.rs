//! Methods: from training items to a model, each in its own file with its paper, its equations and
//! its departures from the paper.
//!
//! [`METHODS`] is the registry: the command line, `crosshash methods`, comparisons and the
//! conformance test iterate over it. To add a method: one file here, one entry in the table.

mod acmr;
mod adah;
mod batchwise;
pub mod cca;
mod cca_itq;
mod cca_three_view;
mod chn;
mod closed_form;
mod cmhh;
mod cnnbh;
mod cosine;
mod cvh;
mod cyc_dgh;
mod dcmh;
mod deep;
mod domains;
mod dsh;
mod gdh;
pub(crate) mod itq;
pub(crate) mod jcch;
mod jcch_dcmh;
pub(crate) mod jcch_plus;
mod lsh;
mod modality_data;
mod pca;
mod prdh;
mod range;
mod scdh;
mod seph;
mod sign;
mod ssah;
#[cfg(test)]
mod test_data;
mod tuch;
mod views;

pub(crate) use closed_form::ClosedForm;
pub(crate) use modality_data::ModalityData;
pub use range::{Range, Values, trial_settings};

use crate::config::{Config, Sections};
use crate::data::Training;
use crate::train::Objective;
use crate::{Error, Result};

/// Every method, in the order tables print them.
pub static METHODS: &[Entry] = &[
    jcch_plus::ENTRY,
    jcch::JCCH,
    jcch::JCCH_B,
    scdh::ENTRY,
    dcmh::ENTRY,
    jcch_dcmh::ENTRY,
    prdh::ENTRY,
    ssah::ENTRY,
    adah::ENTRY,
    dsh::ENTRY,
    gdh::ENTRY,
    cnnbh::ENTRY,
    chn::ENTRY,
    cmhh::ENTRY,
    acmr::ENTRY,
    tuch::ENTRY,
    cyc_dgh::ENTRY,
    cca::ENTRY,
    cca_itq::ENTRY,
    cca_three_view::ENTRY,
    cvh::LABELS,
    cvh::PAIRS,
    seph::KM,
    seph::RND,
    lsh::ENTRY,
    pca::ENTRY,
    itq::ENTRY,
    sign::ENTRY,
    cosine::FEATURES,
    cosine::CORRELATED,
];

/// An entry of the table of methods.
#[derive(Debug)]
pub struct Entry {
    /// What is known of the method.
    pub info: MethodInfo,
    /// The sections of a configuration that it reads.
    pub sections: &'static [&'static str],
    /// The settings that a comparison searches.
    pub search: &'static [Range],
    /// Reads its sections.
    pub(crate) build: fn(&mut Sections) -> Result<Box<dyn Method>>,
}

/// Facts about a method, for tables and checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodInfo {
    /// The name used on the command line.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// Authors, title, where.
    pub paper: &'static str,
    /// Year of publication.
    pub year: u16,
    /// Cost of an epoch for n items, r bits, C labels, width d.
    pub cost: &'static str,
    /// Whether it needs items that are in several modalities.
    pub pairs: bool,
    /// Whether it learns one modality only.
    pub single: bool,
    /// Whether it needs labels.
    pub labels: bool,
    /// How it learns.
    pub learning: Learning,
    /// Whether its result depends on the seed.
    pub seeded: bool,
    /// Whether it gives codes; if not it is a reference, ranked by the cosine of real outputs.
    pub codes: bool,
    /// Whether it can fine-tune a network on pictures.
    pub networks: bool,
    /// Whether its outputs are rotated after training where validation improves.
    pub rotates: bool,
    /// Steps of a training of few items, if the number of epochs is not given.
    pub steps: usize,
    /// What differs from the paper on feature vectors, in a few words; empty if nothing does.
    pub on_features: &'static str,
}

/// How a method learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learning {
    /// Epochs of gradient steps.
    Epochs,
    /// In closed form.
    ClosedForm,
    /// Only statistics: at most means and variances.
    Statistics,
}

/// A method with its settings.
pub(crate) trait Method: std::fmt::Debug + Send + Sync {
    /// Prepares a training from the training part of a data set.
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun>;
}

/// A prepared training.
pub(crate) enum Begun {
    /// By gradient steps.
    Gradient(Box<dyn Objective>),
    /// In closed form.
    ClosedForm(ClosedForm),
}

/// A method by name.
pub fn find(name: &str) -> Result<&'static Entry> {
    let found = METHODS.iter().find(|entry| entry.info.name == name);
    found.ok_or_else(|| {
        Error::unknown("method", name, METHODS.iter().map(|entry| entry.info.name))
    })
}

/// Rejects a method that needs labels for data without labels.
pub(crate) fn check_labels(info: &MethodInfo, training: &Training<'_>) -> Result<()> {
    if !info.labels || training.has_labels() {
        return Ok(());
    }
    Err(Error::Unsuitable {
        method: info.name.into(),
        why: format!(
            "learns from labels, and the data set has none; {} do not need labels, or add [labels] \
             to the manifest",
            names(|info| !info.labels)
        ),
    })
}

/// The names of some methods, separated by commas.
pub(crate) fn names(of: impl Fn(&MethodInfo) -> bool) -> String {
    let names = METHODS.iter().map(|entry| entry.info).filter(|info| of(info));
    names.map(|info| info.name).collect::<Vec<_>>().join(", ")
}
