//! The analyser: from texts to terms.
//!
//! Words by Unicode segmentation (UAX 29, `unicode-segmentation`), lower case, at least so many
//! characters, without stop words (ISO lists of `stop-words`), stemmed (Snowball, by
//! `rust-stemmers`). Stop words are compared before stemming.

use std::borrow::Cow;
use std::collections::HashSet;

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation as _;

/// How texts are split into terms and weighted; fields that are not given have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Analysis {
    /// Convert texts to lower case (default: yes).
    pub lower_case: bool,
    /// Minimum number of characters of a term (default 2).
    pub min_length: usize,
    /// Accept terms with digits (default: yes).
    pub digits: bool,
    /// Remove the stop words of this language (default: none).
    pub stop_words: Option<Language>,
    /// Stem words of this language (default: none).
    pub stem: Option<Language>,
    /// Minimum number of training texts with a term (default 1).
    pub min_texts: usize,
    /// Maximum share of the training texts with a term (default 1.0).
    pub max_share: f64,
    /// Maximum number of terms, the most frequent first (default: all).
    pub max_terms: Option<usize>,
    /// Weights of terms (default: binary).
    pub weights: super::Weights,
    /// Character n-grams of the words as further terms (default: none).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ngrams: Option<super::NGrams>,
}

impl Default for Analysis {
    fn default() -> Analysis {
        Analysis {
            lower_case: true,
            min_length: 2,
            digits: true,
            stop_words: None,
            stem: None,
            min_texts: 1,
            max_share: 1.0,
            max_terms: None,
            weights: super::Weights::Binary,
            ngrams: None,
        }
    }
}

/// Languages with stop words and a stemmer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "their names say it")]
pub enum Language {
    Arabic,
    Danish,
    Dutch,
    English,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Turkish,
}

impl Language {
    /// All languages.
    pub(super) const ALL: [Language; 17] = [
        Language::Arabic,
        Language::Danish,
        Language::Dutch,
        Language::English,
        Language::Finnish,
        Language::French,
        Language::German,
        Language::Greek,
        Language::Hungarian,
        Language::Italian,
        Language::Norwegian,
        Language::Portuguese,
        Language::Romanian,
        Language::Russian,
        Language::Spanish,
        Language::Swedish,
        Language::Turkish,
    ];

    fn code(self) -> (&'static str, Algorithm) {
        match self {
            Language::Arabic => ("ar", Algorithm::Arabic),
            Language::Danish => ("da", Algorithm::Danish),
            Language::Dutch => ("nl", Algorithm::Dutch),
            Language::English => ("en", Algorithm::English),
            Language::Finnish => ("fi", Algorithm::Finnish),
            Language::French => ("fr", Algorithm::French),
            Language::German => ("de", Algorithm::German),
            Language::Greek => ("el", Algorithm::Greek),
            Language::Hungarian => ("hu", Algorithm::Hungarian),
            Language::Italian => ("it", Algorithm::Italian),
            Language::Norwegian => ("no", Algorithm::Norwegian),
            Language::Portuguese => ("pt", Algorithm::Portuguese),
            Language::Romanian => ("ro", Algorithm::Romanian),
            Language::Russian => ("ru", Algorithm::Russian),
            Language::Spanish => ("es", Algorithm::Spanish),
            Language::Swedish => ("sv", Algorithm::Swedish),
            Language::Turkish => ("tr", Algorithm::Turkish),
        }
    }

    pub(super) fn stop_words(self) -> &'static [&'static str] {
        stop_words::lookup(self.code().0).unwrap_or_default()
    }
}

/// Splits texts into terms.
pub struct Analyser {
    analysis: Analysis,
    stop_words: HashSet<&'static str>,
    stemmer: Option<Stemmer>,
}

impl Analyser {
    /// An analyser with these options.
    pub fn new(analysis: &Analysis) -> Analyser {
        let stop_words = analysis.stop_words.map_or(&[][..], Language::stop_words);
        Analyser {
            stop_words: stop_words.iter().copied().collect(),
            stemmer: analysis.stem.map(|language| Stemmer::create(language.code().1)),
            analysis: analysis.clone(),
        }
    }

    /// Calls `take` with each term of a text, in order.
    pub fn terms(&self, text: &str, mut take: impl FnMut(&str)) {
        let text = if self.analysis.lower_case {
            Cow::Owned(text.to_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        for word in text.unicode_words() {
            self.term(word, &mut take);
        }
    }

    /// Calls `take` with each word of a text that is a term, as it is written, its first byte, and
    /// its term.
    pub fn words<'t>(&self, text: &'t str, mut take: impl FnMut(&'t str, usize, &str)) {
        for (at, written) in text.unicode_word_indices() {
            let word = if self.analysis.lower_case {
                Cow::Owned(written.to_lowercase())
            } else {
                Cow::Borrowed(written)
            };
            self.term(&word, |term| take(written, at, term));
        }
    }

    /// Calls `take` with the term of a word, if it is one.
    fn term(&self, word: &str, mut take: impl FnMut(&str)) {
        let long = word.chars().nth(self.analysis.min_length.saturating_sub(1)).is_some();
        let plain = self.analysis.digits || !word.contains(char::is_numeric);
        if !long || !plain || self.stop_words.contains(word) {
            return;
        }
        match &self.stemmer {
            Some(stemmer) => take(&stemmer.stem(word)),
            None => take(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(analysis: &Analysis, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Analyser::new(analysis).terms(text, |term| terms.push(term.to_owned()));
        terms
    }

    #[test]
    fn words_of_any_script_are_lower_case() {
        let text = "Größe, a T-shirt; 3 кошки — l'été 日本";
        let all = Analysis { min_length: 1, ..Analysis::default() };
        let got = terms(&all, text);
        assert_eq!(got, ["größe", "a", "t", "shirt", "3", "кошки", "l'été", "日", "本"]);
        let some = Analysis { min_length: 3, digits: false, ..Analysis::default() };
        assert_eq!(terms(&some, text), ["größe", "shirt", "кошки", "l'été"]);
    }

    #[test]
    fn stop_words_are_removed_and_words_are_stemmed() {
        let german = Analysis {
            stop_words: Some(Language::German),
            stem: Some(Language::German),
            ..Analysis::default()
        };
        assert_eq!(terms(&german, "Die Häuser und das Haus"), ["haus", "haus"]);
        let english = Analysis { stem: Some(Language::English), ..Analysis::default() };
        assert_eq!(terms(&english, "running dogs"), ["run", "dog"]);
    }

    #[test]
    fn words_are_reported_as_they_are_written() {
        let text = "Größe, a T-shirt; 3 Кошки — L'été 日本 İstanbul ΟΔΟΣ";
        for min_length in [1, 2, 3] {
            let analysis = Analysis { min_length, ..Analysis::default() };
            let mut found = Vec::new();
            Analyser::new(&analysis).words(text, |word, at, term| {
                assert_eq!(&text[at..at + word.len()], word);
                found.push(term.to_owned());
            });
            assert_eq!(found, terms(&analysis, text), "{min_length}");
        }
    }

    #[test]
    fn every_language_has_stop_words() {
        for language in Language::ALL {
            assert!(language.stop_words().len() > 20, "{language:?}");
            let name = serde_json::to_string(&language).unwrap();
            assert_eq!(serde_json::from_str::<Language>(&name).unwrap(), language);
        }
    }
}
