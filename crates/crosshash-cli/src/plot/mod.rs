//! Reports as SVG; one file per figure.

pub(crate) mod labels;
