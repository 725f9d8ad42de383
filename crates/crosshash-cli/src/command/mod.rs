//! One file per subcommand: parse, call the library, write.

pub(crate) mod backbones;
pub(crate) mod coefficients;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod embed_plot;
pub(crate) mod encode;
pub(crate) mod eval;
pub(crate) mod features;
pub(crate) mod index;
pub(crate) mod man;
pub(crate) mod methods;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod start;
pub(crate) mod store;
pub(crate) mod sweep;
pub(crate) mod train;
pub(crate) mod verify;
