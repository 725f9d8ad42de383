//! Notices about queries that the model cannot answer well: unknown words, and results that are not
//! closer than chance.

use crosshash::{QueryWords, UnknownWord};
use serde::Serialize;

use crate::word_ranking::By;

/// A notice about the results.
#[derive(Debug, Serialize)]
pub(crate) struct Notice {
    code: &'static str,
    message: String,
}

/// Known and unknown words of a text.
#[derive(Serialize)]
pub(crate) struct WordsView {
    known: Vec<String>,
    unknown: Vec<UnknownView>,
}

#[derive(Serialize)]
struct UnknownView {
    word: String,
    similar: Vec<String>,
}

impl WordsView {
    pub(crate) fn new(words: QueryWords) -> WordsView {
        let unknown = words.unknown.into_iter();
        let unknown =
            unknown.map(|UnknownWord { word, similar }| UnknownView { word, similar });
        WordsView { known: words.known, unknown: unknown.collect() }
    }
}

/// The notice for a query, if there is one. `matching`: items with all words, and with some of them.
pub(crate) fn notice(
    words: Option<&QueryWords>,
    is_weak: bool,
    by: By,
    matching: Option<(usize, usize)>,
) -> Option<Notice> {
    if let Some(words) = words
        && words.known.is_empty()
    {
        return Some(unknown(words));
    }
    if is_weak {
        let message =
            "No item is closer to the query than chance: the results may be unrelated.";
        return Some(Notice { code: "weak_matches", message: message.to_owned() });
    }
    if by == By::Words && matching == Some((0, 0)) {
        let message = "No item contains the words; search by meaning.";
        return Some(Notice { code: "no_words", message: message.to_owned() });
    }
    None
}

/// The notice for a text without a known word.
fn unknown(words: &QueryWords) -> Notice {
    let code = if words.unknown.is_empty() { "no_words" } else { "unknown_words" };
    Notice { code, message: unknown_words(words) }
}

/// The message for a text without a known word.
pub(crate) fn unknown_words(words: &QueryWords) -> String {
    if words.unknown.is_empty() {
        return "The text has no words that the model could use.".to_owned();
    }
    let quoted: Vec<String> =
        words.unknown.iter().map(|unknown| format!("{:?}", unknown.word)).collect();
    let similar: Vec<&str> =
        words.unknown.iter().flat_map(|u| &u.similar).map(String::as_str).collect();
    let mut message =
        format!("None of the words is known to the model: {}", quoted.join(", "));
    if !similar.is_empty() {
        message += &format!("; similar words: {}", similar.join(", "));
    }
    message + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_named_with_similar_ones() {
        let unknown = |word: &str, similar: &[&str]| UnknownWord {
            word: word.to_owned(),
            similar: similar.iter().map(|&word| word.to_owned()).collect(),
        };
        let mut words = QueryWords::default();
        assert_eq!(notice(Some(&words), false, By::Both, None).unwrap().code, "no_words");
        words.unknown = vec![unknown("bycicle", &["bicycle"]), unknown("qwxz", &[])];
        let found = notice(Some(&words), true, By::Both, None).unwrap();
        assert_eq!(found.code, "unknown_words");
        assert_eq!(
            found.message,
            "None of the words is known to the model: \"bycicle\", \"qwxz\"; similar words: bicycle."
        );
        words.known.push("cat".into());
        assert_eq!(
            notice(Some(&words), true, By::Both, None).unwrap().code,
            "weak_matches"
        );
        assert!(notice(Some(&words), false, By::Both, Some((0, 0))).is_none());
        assert_eq!(notice(None, false, By::Words, Some((0, 0))).unwrap().code, "no_words");
    }
}
