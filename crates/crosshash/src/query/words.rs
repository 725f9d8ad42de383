//! Which words of a text the model knows.

use super::QueryEncoder;
use super::spelling::Spelling;
use crate::data::{Analyser, Analysis, Vocabulary};
use crate::encode::Encoder as _;
use crate::prepare::Preparation;

/// Words of a text that are reported, known and unknown; those after them are not looked up.
const MAX_WORDS: usize = 64;

/// The words of a text query: the first ones of a long text. A word is known if its term is in the vocabulary of the modality; an
/// unknown word may still be encoded, by its character n-grams. Stop words and words that the analyser
/// removes are neither.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryWords {
    /// Known words, as they are written.
    pub known: Vec<String>,
    /// Unknown words.
    pub unknown: Vec<UnknownWord>,
}

/// A word that the model does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// The word, as it is written.
    pub word: String,
    /// Known words, or words of items, that are spelt like it, at most three, best first.
    pub similar: Vec<String>,
}

impl QueryWords {
    pub(crate) fn add_known(&mut self, word: String) {
        if self.known.len() < MAX_WORDS && !self.known.contains(&word) {
            self.known.push(word);
        }
    }

    pub(crate) fn add_unknown(
        &mut self,
        word: &str,
        similar: impl FnOnce() -> Vec<String>,
    ) {
        let is_new = self.unknown.iter().all(|known| known.word != word);
        if self.unknown.len() < MAX_WORDS && is_new {
            self.unknown.push(UnknownWord { word: word.to_owned(), similar: similar() });
        }
    }
}

impl QueryEncoder {
    /// Which words of a text a modality knows. `None` if the modality has no vocabulary: its texts are
    /// encoded by a backbone, or it takes no texts.
    pub fn words(&self, modality: &str, text: &str) -> Option<QueryWords> {
        let vocabulary = self.vocabulary(modality)?;
        let spelling = self.spelling(modality)?.get_or_init(|| self.spellings(vocabulary));
        let mut words = QueryWords::default();
        Analyser::new(vocabulary.analysis()).words(text, |word, _, term| {
            if vocabulary.contains(term) {
                words.add_known(word.to_owned());
            } else {
                words.add_unknown(word, || spelling.similar(term));
            }
        });
        Some(words)
    }

    /// How the texts of a modality are analysed: as its vocabulary says, or that of the first modality
    /// with a vocabulary; the default analysis if there is none.
    pub fn analysis(&self, modality: &str) -> Analysis {
        let all = self.model().modalities();
        let mut names = std::iter::once(modality).chain(all);
        let found = names.find_map(|name| self.vocabulary(name));
        found.map_or_else(Analysis::default, |vocabulary| vocabulary.analysis().clone())
    }

    fn vocabulary(&self, modality: &str) -> Option<&Vocabulary> {
        let mut preparation = self.model().preparation(modality).ok()?;
        while let Preparation::Kernel { rows, .. } = preparation {
            preparation = rows;
        }
        match preparation {
            Preparation::Text(vocabulary) => Some(vocabulary),
            _ => None,
        }
    }

    /// The words of the vocabulary and of the names of labels that are in it.
    fn spellings(&self, vocabulary: &Vocabulary) -> Spelling {
        let terms = vocabulary.terms().map(|(term, texts)| (term.to_owned(), texts));
        let analyser = Analyser::new(vocabulary.analysis());
        let mut labels = Vec::new();
        for name in self.model().labels() {
            analyser.words(name, |word, _, term| {
                if vocabulary.contains(term) {
                    labels.push((word.to_lowercase(), vocabulary.texts_with(term)));
                }
            });
        }
        Spelling::new(terms.chain(labels))
    }
}
