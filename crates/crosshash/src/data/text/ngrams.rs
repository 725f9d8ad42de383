//! Character n-grams of words, as further terms of a vocabulary: a word that is inflected,
//! compounded or misspelt still shares most of them with the words it is meant as.
//!
//! As in fastText (Bojanowski et al., *Enriching Word Vectors with Subword Information*, TACL
//! 2017): the word is written between `<` and `>`, and every run of `min` to `max` characters of
//! that is an n-gram, but for the whole of it, which is the word itself.

use serde::{Deserialize, Serialize};

/// Which n-grams count; what is not given has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NGrams {
    /// Characters of the shortest (default 3).
    pub min: usize,
    /// Characters of the longest (default 5).
    pub max: usize,
    /// Words of the vocabulary that an n-gram occurs in at least (default 2).
    pub min_words: usize,
    /// The most n-grams to keep, those of most words first (default 20,000).
    pub max_terms: usize,
    /// Weight of an n-gram beside a word (default 1).
    pub weight: f64,
}

impl Default for NGrams {
    fn default() -> NGrams {
        NGrams { min: 3, max: 5, min_words: 2, max_terms: 20_000, weight: 1.0 }
    }
}

impl NGrams {
    /// Passes each n-gram of a word to `take`, in order of length, then of place; one that occurs
    /// twice is passed twice.
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
    fn runs_of_characters_between_marks() {
        let ngrams = NGrams { min: 3, max: 4, ..NGrams::default() };
        assert_eq!(of(&ngrams, "été"), ["<ét", "été", "té>", "<été", "été>"]);
        // The whole word is not among them.
        assert_eq!(of(&ngrams, "ox"), ["<ox", "ox>"]);
        assert_eq!(of(&ngrams, "a"), Vec::<String>::new());
    }

    #[test]
    fn a_misspelt_word_shares_some() {
        let ngrams = NGrams::default();
        let (right, wrong) = (of(&ngrams, "elephant"), of(&ngrams, "elefant"));
        let shared = wrong.iter().filter(|ngram| right.contains(ngram)).count();
        assert!(shared >= 5, "{shared}");
    }
}
