//! Requests that search by words: what they ask for, and matching words of the results.

use crosshash::QueryWords;
use crosshash::keywords::QueryTerms;
use crosshash_codes::segments::Snapshot;
use serde::Serialize;

use super::error::{ApiError, ApiResult};
use super::modality_index::ModalityIndex;
use super::run::ServedModel;
use super::served_items::ServedItems;
use super::word_index::item_words;
use crate::word_ranking::{By, WordQuery};

/// Texts with more characters have a snippet of this length.
const SNIPPET: usize = 200;

/// What a request asks for. The default is both for texts, if items have words.
pub(crate) fn word_query(
    by: Option<By>,
    text: Option<&str>,
    target: &ServedItems,
    (k, skip, radius): (usize, usize, Option<u32>),
) -> ApiResult<WordQuery> {
    let by = match (by, text) {
        (Some(By::Words | By::Both), _) if target.index().is_none() => {
            return Err(ApiError::not_in_store(format!(
                "the items of {} are in a store, which is not searched by words: use \"meaning\"",
                target.modality()
            ))
            .at("by"));
        }
        (None | Some(By::Meaning), None) => By::Meaning,
        (None, Some(_)) if target.has_words() => By::Both,
        (None, Some(_)) => By::Meaning,
        (Some(By::Words), Some(_)) if radius.is_some() => {
            let message = "a search by words has no distances; omit the radius";
            return Err(ApiError::bad_request(message).at("radius"));
        }
        (Some(by), Some(_)) => by,
        (Some(_), None) => {
            let message = "only texts can be searched by words; use \"meaning\"";
            return Err(ApiError::bad_request(message).at("by"));
        }
    };
    Ok(WordQuery { by, text: text.unwrap_or_default().to_owned(), k, skip, radius })
}

/// Which words the model knows, if the query is a text of a modality with a vocabulary; for a search by words,
/// those that an item contains. Words that are spelt like the unknown ones come from the vocabulary and from
/// the texts of the items, if they are in an index.
pub(crate) fn known_words(
    query: &WordQuery,
    model: &ServedModel,
    modality: Option<&str>,
    live: Option<(&ModalityIndex, &Snapshot)>,
) -> Option<QueryWords> {
    if query.text.is_empty() {
        return None;
    }
    let keywords = live.and_then(|(target, snapshot)| {
        Some((target, snapshot, &target.open_word_index()?.keywords))
    });
    let mut words = match (query.by, keywords) {
        (By::Words, None) => return None,
        (By::Words, Some((target, _, keywords))) => {
            logged(target, keywords.words(&query.text))?
        }
        (By::Meaning | By::Both, _) => {
            model.encoder.as_ref()?.words(modality?, &query.text)?
        }
    };
    let unknown = keywords.filter(|_| !words.unknown.is_empty());
    if let Some((target, snapshot, keywords)) = unknown {
        let text = |id: &str| {
            let item = snapshot.find(&snapshot.typed_id(id)?).ok()??;
            let words = item_words(snapshot, item, &target.modality, Some(&model.shown));
            Some(words.ok()??.text)
        };
        logged(target, keywords.suggest(&mut words, &text));
    }
    Some(words)
}

/// Suggestions are not worth an error.
fn logged<T>(target: &ModalityIndex, done: crosshash::Result<T>) -> Option<T> {
    done.inspect_err(|err| {
        tracing::warn!(modality = target.modality, error = %err, "the words of a query are not compared with the items");
    })
    .ok()
}

/// Matching words of a text: ranges in UTF-16 code units, as JavaScript counts them.
#[derive(Serialize)]
pub(crate) struct WordMarks {
    pub(crate) highlights: Vec<[usize; 2]>,
    pub(crate) snippet: Option<SnippetView>,
}

/// The part of a long text that matches.
#[derive(Serialize)]
pub(crate) struct SnippetView {
    text: String,
    highlights: Vec<[usize; 2]>,
}

impl WordMarks {
    pub(crate) fn new(
        target: Option<&ModalityIndex>,
        terms: &QueryTerms,
        text: Option<&str>,
    ) -> WordMarks {
        let words = target.and_then(ModalityIndex::open_word_index);
        let words = words.filter(|_| !terms.is_empty());
        let (Some(words), Some(text)) = (words, text) else {
            return WordMarks { highlights: Vec::new(), snippet: None };
        };
        let found = words.keywords.highlights(terms, text);
        let snippet = found.snippet(text, SNIPPET).map(|snippet| SnippetView {
            highlights: utf16(&snippet.text, &snippet.ranges),
            text: snippet.text,
        });
        WordMarks { highlights: utf16(text, found.ranges()), snippet }
    }
}

/// Byte ranges, ascending, as ranges in UTF-16 code units.
fn utf16(text: &str, ranges: &[std::ops::Range<usize>]) -> Vec<[usize; 2]> {
    let (mut byte, mut unit) = (0, 0);
    let mut to = |at: usize| {
        unit += text[byte..at].encode_utf16().count();
        byte = at;
        unit
    };
    ranges.iter().map(|range| [to(range.start), to(range.end)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_as_javascript_counts() {
        let text = "👩‍🌾 größe 日";
        let at = text.find("größe").unwrap();
        let ranges = [at..at + "größe".len(), text.len() - 3..text.len()];
        assert_eq!(utf16(text, &ranges), [[6, 11], [12, 13]]);
    }
}
