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
    if by == By::Words {
        return (matching == Some((0, 0))).then(|| {
            let message = match words.and_then(similar) {
                Some(similar) => {
                    format!("No item contains the words; similar words: {similar}.")
                }
                None => "No item contains the words; search by meaning.".to_owned(),
            };
            Notice { code: "no_words", message }
        });
    }
    if let Some(words) = words
        && words.known.is_empty()
    {
        let has_items = matching.is_some_and(|matching| matching.1 > 0);
        return Some(unknown(words, has_items));
    }
    if is_weak {
        let message =
            "No item is closer to the query than chance: the results may be unrelated.";
        return Some(Notice { code: "weak_matches", message: message.to_owned() });
    }
    None
}

/// Words that are spelt like the unknown ones, if there are any.
fn similar(words: &QueryWords) -> Option<String> {
    let all = words.unknown.iter().flat_map(|unknown| &unknown.similar);
    let all: Vec<&str> = all.map(String::as_str).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The notice for a text without a known word. `has_items`: whether an item contains one of the words.
fn unknown(words: &QueryWords, has_items: bool) -> Notice {
    let code = if words.unknown.is_empty() { "no_words" } else { "unknown_words" };
    let mut message = unknown_words(words);
    if has_items {
        message += " Results that do not contain them may be unrelated.";
    }
    Notice { code, message }
}

/// The message for a text without a known word.
pub(crate) fn unknown_words(words: &QueryWords) -> String {
    if words.unknown.is_empty() {
        return "The text has no words that the model could use.".to_owned();
    }
    let quoted: Vec<String> =
        words.unknown.iter().map(|unknown| format!("{:?}", unknown.word)).collect();
    let mut message =
        format!("None of the words is known to the model: {}", quoted.join(", "));
    if let Some(similar) = similar(words) {
        message += &format!("; similar words: {similar}");
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
        let found = notice(Some(&words), true, By::Both, Some((0, 1))).unwrap();
        assert!(found.message.ends_with("that do not contain them may be unrelated."));
        words.known.push("cat".into());
        assert_eq!(
            notice(Some(&words), true, By::Both, None).unwrap().code,
            "weak_matches"
        );
        assert!(notice(Some(&words), false, By::Both, Some((0, 0))).is_none());
        assert_eq!(notice(None, false, By::Words, Some((0, 0))).unwrap().code, "no_words");
        let found = notice(Some(&words), false, By::Words, Some((0, 0))).unwrap();
        assert_eq!(found.message, "No item contains the words; similar words: bicycle.");
    }
}
