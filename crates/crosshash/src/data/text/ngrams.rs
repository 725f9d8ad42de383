//! Character n-grams of words, as additional terms of a vocabulary: inflected, compound or misspelt words
//! share most of them with the intended word.
//!
//! As in fastText (Bojanowski et al., *Enriching Word Vectors with Subword Information*, TACL
//! 2017): the word is enclosed in `<` and `>`; every substring of `min` to `max` characters is an n-gram,
//! except the whole string.

use serde::{Deserialize, Serialize};

/// Settings of n-grams; fields that are not given have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NGrams {
    /// Minimum number of characters (default 3).
    pub min: usize,
    /// Maximum number of characters (default 5).
    pub max: usize,
    /// Minimum number of words of the vocabulary with an n-gram (default 2).
    pub min_words: usize,
    /// Maximum number of n-grams, the most frequent first (default 20,000).
    pub max_terms: usize,
    /// Weight of an n-gram relative to a word (default 1).
    pub weight: f64,
}

impl Default for NGrams {
    fn default() -> NGrams {
        NGrams { min: 3, max: 5, min_words: 2, max_terms: 20_000, weight: 1.0 }
    }
}

impl NGrams {
    /// Calls `take` with each n-gram of a word, by length, then position; repeated n-grams are passed
    /// repeatedly.
    pub fn of(&self, word: &str, mut take: impl FnMut(&str)) {
        let marked = format!("<{word}>");
        let mut places: Vec<usize> = marked.char_indices().map(|(at, _)| at).collect();
        places.push(marked.len());
        let characters = places.len() - 1;
        for length in self.min.max(1)..=self.max.min(characters.saturating_sub(1)) {
            for ends in places.windows(length + 1) {
                take(&marked[ends[0]..ends[length]]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ngrams: &NGrams, word: &str) -> Vec<String> {
        let mut found = Vec::new();
        ngrams.of(word, |ngram| found.push(ngram.to_owned()));
        found
    }

    #[test]
    fn ngrams_include_word_boundaries() {
        let ngrams = NGrams { min: 3, max: 4, ..NGrams::default() };
        assert_eq!(of(&ngrams, "été"), ["<ét", "été", "té>", "<été", "été>"]);
        // The whole word is not included.
        assert_eq!(of(&ngrams, "ox"), ["<ox", "ox>"]);
        assert_eq!(of(&ngrams, "a"), Vec::<String>::new());
    }

    #[test]
    fn misspelt_words_share_ngrams() {
        let ngrams = NGrams::default();
        let (right, wrong) = (of(&ngrams, "elephant"), of(&ngrams, "elefant"));
        let shared = wrong.iter().filter(|ngram| right.contains(ngram)).count();
        assert!(shared >= 5, "{shared}");
    }
}
