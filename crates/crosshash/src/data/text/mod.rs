//! From texts to sparse rows: an analyser splits texts into terms, a vocabulary fitted on the training
//! items selects and weights them.

mod analyser;
mod augment;
mod language;
mod ngrams;
mod vocabulary;

pub use analyser::{Analyser, Analysis, Language};
pub use augment::{KeptWords, TextAugmentation, TokenizedTexts};
pub use ngrams::NGrams;
pub use vocabulary::{Vocabulary, Weights};
