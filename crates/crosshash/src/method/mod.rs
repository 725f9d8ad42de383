//! Methods: from training items to a model, each in its own file with its paper, its equations
//! and where we depart.
//!
//! [`METHODS`] is the registry: what can be typed, `crosshash methods`, comparisons and the
//! conformance test walk it. A method begins a [`Fitting`], which goes epoch by epoch; methods in
//! closed form have one. To add one: a file here, a line in the table.

pub mod cca;
mod cca_three_view;
mod cosine;
mod cvh;
pub mod dcmh;
mod items;
pub mod itq;
pub mod jcch;
mod jcch_b;
mod jcch_dcmh;
mod lsh;
mod once;
mod pca;
mod scdh;
pub mod seph;
mod sign;
mod views;

pub(crate) use items::{Items, modalities, validate};

use crate::config::{RawRun, Run};
use crate::data::{Analysis, Training};
use crate::model::Model;
use crate::supervise::Kind;
use crate::train::{Epoch, Trainer, Watch};
use crate::{Error, Result};

/// Every method, in the order tables print them.
pub const METHODS: &[&dyn Method] = &[
    &jcch::Jcch,
    &jcch_b::JcchB,
    &scdh::Scdh,
    &dcmh::Dcmh,
    &jcch_dcmh::JcchDcmh,
    &cca::Cca,
    &cca_three_view::CcaThreeView,
    &cvh::Cvh,
    &seph::Seph::Means,
    &seph::Seph::Drawn,
    &lsh::Lsh,
    &pca::Pca,
    &itq::Itq,
    &sign::Sign,
    &cosine::Cosine::Features,
    &cosine::Cosine::Correlated,
];

/// What a table says of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// The name used on the command line.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// Authors, title, where.
    pub paper: &'static str,
    /// When.
    pub year: u16,
    /// What an epoch costs for n items, r bits, C labels, width d.
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
}

/// How a method learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learning {
    /// By epochs of gradient steps.
    Epochs,
    /// All at once.
    Once,
    /// Hardly: at most means and variances.
    Hardly,
}

/// A way to learn codes.
pub trait Method: Sync {
    /// What a table says of it.
    fn about(&self) -> About;

    /// Prepares everything, from the training part alone. `analysis` says how the texts of a
    /// modality are read.
    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>>;

    /// The name used on the command line.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// The run that comes before it, for a method that starts from another's towers.
    fn first(&self, _raw: &RawRun) -> Option<RawRun> {
        None
    }

    /// Whether it learns through a network on pictures.
    fn tunes(&self) -> bool {
        false
    }

    /// The supervision coefficients it takes if none are named; used by the methods that have any.
    fn coefficients(&self) -> Kind {
        Kind::Auto
    }
}

/// A training in progress.
pub trait Fitting<'r> {
    /// The epochs so far.
    fn history(&self) -> &[Epoch];

    /// The best epoch so far by validation, from 1; without validation, the last.
    fn best_epoch(&self) -> Option<usize>;

    /// Whether all epochs are done.
    fn is_done(&self) -> bool;

    /// One more epoch, or the rest of one that was left; `None` if the watcher asked to stop.
    fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>>;

    /// The model of the best epoch.
    fn finish(self: Box<Self>) -> Result<Model>;

    /// The trainer, if this is one that can be saved and go on exactly; others begin again.
    fn trainer(&mut self) -> Option<&mut Trainer<'r>>;
}

/// A method by name.
pub fn named(name: &str) -> Result<&'static dyn Method> {
    let mut known = METHODS.iter().copied();
    known
        .find(|method| method.name() == name)
        .ok_or_else(|| Error::unknown("method", name, METHODS.iter().map(|m| m.name())))
}

impl std::fmt::Debug for dyn Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Method {
    fn eq(&self, other: &dyn Method) -> bool {
        self.name() == other.name()
    }
}

impl<'r> Fitting<'r> for Trainer<'r> {
    fn history(&self) -> &[Epoch] {
        Trainer::history(self)
    }

    fn best_epoch(&self) -> Option<usize> {
        Trainer::best_epoch(self)
    }

    fn is_done(&self) -> bool {
        Trainer::is_done(self)
    }

    fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>> {
        Trainer::epoch(self, watch)
    }

    fn finish(self: Box<Self>) -> Result<Model> {
        Trainer::finish(*self)
    }

    fn trainer(&mut self) -> Option<&mut Trainer<'r>> {
        Some(self)
    }
}
