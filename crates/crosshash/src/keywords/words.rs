//! The words of a query, and names that are compared as a whole.

use unicode_segmentation::UnicodeSegmentation as _;
use xxhash_rust::xxh3::xxh3_64;

use crate::data::{Analyser, Analysis};

/// Analysers of items and queries.
pub(super) struct Analysers {
    /// Of items: stop words are kept.
    pub(super) items: std::sync::Arc<Analyser>,
    /// Of queries: stop words are removed.
    pub(super) queries: Analyser,
}

impl Analysers {
    pub(super) fn new(analysis: &Analysis) -> Analysers {
        let queries = Analysis { min_length: 1, digits: true, ..analysis.clone() };
        let items = Analysis { stop_words: None, ..queries.clone() };
        Analysers {
            items: std::sync::Arc::new(Analyser::new(&items)),
            queries: Analyser::new(&queries),
        }
    }
}

/// The distinct terms of a query, in their order. Stop words are terms only if there is nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryTerms {
    terms: Vec<String>,
}

/// Words of a query that are searched; those after them are ignored, to bound the time of a query.
const MAX_TERMS: usize = 256;

impl QueryTerms {
    pub(super) fn new(analysers: &Analysers, query: &str) -> QueryTerms {
        let of = |analyser: &Analyser| {
            let mut terms: Vec<String> = Vec::new();
            analyser.words(query, |_, _, term| {
                if terms.len() < MAX_TERMS && !terms.iter().any(|known| known == term) {
                    terms.push(term.to_owned());
                }
            });
            terms
        };
        let mut terms = of(&analysers.queries);
        if terms.is_empty() {
            terms = of(&analysers.items);
        }
        QueryTerms { terms }
    }

    /// The terms.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(super) fn contains(&self, term: &str) -> bool {
        self.terms.iter().any(|known| known == term)
    }
}

/// A name as it is compared: its words in lower case; names without words as they are written.
pub(super) fn name_key(name: &str) -> u64 {
    let lower = name.trim().to_lowercase();
    let words: Vec<&str> = lower.unicode_words().collect();
    if words.is_empty() {
        xxh3_64(lower.as_bytes())
    } else {
        xxh3_64(words.join(" ").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Language;

    #[test]
    fn names_are_compared_without_case_and_punctuation() {
        assert_eq!(name_key("Red heart!"), name_key(" red  HEART"));
        assert_ne!(name_key("red heart"), name_key("redheart"));
        assert_ne!(name_key("❤"), name_key("✔"));
    }

    #[test]
    fn stop_words_are_terms_only_if_there_is_nothing_else() {
        let english = Analysis {
            stop_words: Some(Language::English),
            stem: Some(Language::English),
            ..Analysis::default()
        };
        let analysers = Analysers::new(&english);
        let terms = |text: &str| QueryTerms::new(&analysers, text).terms;
        assert_eq!(terms("the cats and the cat of 7"), ["cat", "7"]);
        assert_eq!(terms("To be, or not to be"), ["to", "be", "or", "not"]);
        assert!(terms("— ! —").is_empty());
    }
}
