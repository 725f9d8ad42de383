//! Matching words of a text, and the part of a long text that shows them.

use std::collections::HashSet;
use std::ops::Range;

use super::words::{Analysers, QueryTerms};

/// The words of a text that match a query, as byte ranges, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Highlights {
    ranges: Vec<Range<usize>>,
    terms: Vec<String>, // of each range
}

/// A part of a text, with the matching words in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The part; omitted text before or after it is shown as `…`.
    pub text: String,
    /// Byte ranges of matching words in it, ascending.
    pub ranges: Vec<Range<usize>>,
}

impl Highlights {
    pub(super) fn new(analysers: &Analysers, query: &QueryTerms, text: &str) -> Highlights {
        let (mut ranges, mut terms) = (Vec::new(), Vec::new());
        if !query.is_empty() {
            analysers.items.words(text, |word, at, term| {
                if query.contains(term) {
                    ranges.push(at..at + word.len());
                    terms.push(term.to_owned());
                }
            });
        }
        Highlights { ranges, terms }
    }

    /// Byte ranges of the matching words.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }

    /// The part of about `length` characters with the most different matching words, the first such
    /// part; the beginning if no word matches. `None` if the text is not longer than that.
    pub fn snippet(&self, text: &str, length: usize) -> Option<Snippet> {
        text.char_indices().nth(length)?;
        let part = self.part(text, length);
        let (before, after) = (part.start > 0, part.end < text.len());
        let mut shown = String::new();
        if before {
            shown.push('…');
        }
        let shift = |at: usize| at - part.start + shown.len();
        let inside =
            |range: &&Range<usize>| range.start >= part.start && range.end <= part.end;
        let ranges = self
            .ranges
            .iter()
            .filter(inside)
            .map(|r| shift(r.start)..shift(r.end))
            .collect();
        shown.push_str(&text[part]);
        if after {
            shown.push('…');
        }
        Some(Snippet { text: shown, ranges })
    }

    /// The byte range of the snippet.
    fn part(&self, text: &str, length: usize) -> Range<usize> {
        let end_of = |start: usize| {
            text[start..]
                .char_indices()
                .nth(length)
                .map_or(text.len(), |(at, _)| start + at)
        };
        let mut best = (0, 0..0); // different words, and where they are
        for (nth, first) in self.ranges.iter().enumerate() {
            let end = end_of(first.start);
            let mut seen = HashSet::new();
            let mut last = first.start;
            for (range, term) in self.ranges[nth..].iter().zip(&self.terms[nth..]) {
                if range.end > end {
                    break;
                }
                if seen.insert(term) {
                    last = range.end;
                }
            }
            if seen.len() > best.0 {
                best = (seen.len(), first.start..last);
            }
        }
        // The words in the middle, as much text on both sides.
        let words = best.1;
        let spare = length.saturating_sub(text[words.clone()].chars().count()) / 2;
        let back = text[..words.start].char_indices().rev().nth(spare.saturating_sub(1));
        let start = if spare == 0 { words.start } else { back.map_or(0, |(at, _)| at) };
        let end = end_of(start).max(words.end);
        let start = word_start(text, start, words.start);
        start..word_end(text, end, words.end.max(start))
    }
}

/// The next beginning of a word from `at` on, not after `limit`.
fn word_start(text: &str, at: usize, limit: usize) -> usize {
    let is_inside = at > 0 && !text[..at].ends_with(char::is_whitespace);
    if !is_inside {
        return at;
    }
    let space = text[at..limit.max(at)].find(char::is_whitespace);
    space.map_or(at, |space| {
        let rest = &text[at + space..];
        at + space + (rest.len() - rest.trim_start().len())
    })
}

/// The last end of a word up to `at`, not before `limit`.
fn word_end(text: &str, at: usize, limit: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    match text[limit.min(at)..at].rfind(char::is_whitespace) {
        Some(space) => {
            limit.min(at) + text[limit.min(at)..limit.min(at) + space].trim_end().len()
        }
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Analysis, Language};

    fn highlights(query: &str, text: &str) -> Highlights {
        let stem = Some(Language::English);
        let analysers = Analysers::new(&Analysis { stem, ..Analysis::default() });
        Highlights::new(&analysers, &QueryTerms::new(&analysers, query), text)
    }

    fn marked<'t>(query: &str, text: &'t str) -> Vec<&'t str> {
        highlights(query, text).ranges().iter().map(|range| &text[range.clone()]).collect()
    }

    #[test]
    fn words_are_marked_as_they_are_written() {
        assert_eq!(
            marked("cat", "Cats: a cat 🐈, CAT’s and concatenation"),
            ["Cats", "cat"]
        );
        assert_eq!(marked("größe été", "👩‍🌾 GRÖSSE, Größe — Été"), ["Größe", "Été"]);
        assert_eq!(marked("i̇stanbul", "İSTANBUL"), ["İSTANBUL"]);
        assert_eq!(marked("日", "日本"), ["日"]);
        assert!(marked("dog", "Cats").is_empty());
        assert!(marked("", "Cats").is_empty());
    }

    #[test]
    fn snippets_show_the_most_words() {
        let filler = "täglich ".repeat(60);
        let text = format!("a dog. {filler} a cat and a dog 🐕 met; {filler} cat");
        let found = highlights("dog cat", &text);
        assert_eq!(found.ranges().len(), 4);
        let snippet = found.snippet(&text, 80).unwrap();
        let shown: Vec<&str> =
            snippet.ranges.iter().map(|range| &snippet.text[range.clone()]).collect();
        assert_eq!(shown, ["cat", "dog"]);
        let length = snippet.text.chars().count();
        assert!((60..=84).contains(&length), "{length}: {}", snippet.text);
        assert!(snippet.text.starts_with("…täglich") && snippet.text.ends_with("täglich…"));
        assert_eq!(found.snippet(&text, 10_000), None);
    }

    #[test]
    fn snippets_of_any_text_are_parts_of_it() {
        let text =
            "ééé cat \u{1f408}\u{1f408}\u{1f408}xxxxxxxxxxxxxxxxxxxxxxxxxxxxx dog 日本 cat";
        for query in ["cat", "dog cat", "none", "日"] {
            for length in 1..text.chars().count() {
                let snippet = highlights(query, text).snippet(text, length).unwrap();
                assert!(text.contains(snippet.text.trim_matches('…')), "{length}");
                for range in snippet.ranges {
                    assert!(snippet.text.get(range).is_some());
                }
            }
        }
    }
}
