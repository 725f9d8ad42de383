//! Text to sparse rows: an analyser cuts texts into terms, a vocabulary fitted on the training
//! items says which terms count and how much.

mod analyser;
mod augment;
mod ngrams;
mod vocabulary;

pub use analyser::{Analyser, Analysis, Language};
pub use augment::{KeptWords, TextAugmentation, TokenizedTexts};
pub use ngrams::NGrams;
pub use vocabulary::{Vocabulary, Weights};
