//! Words of the items that are spelt like a word that no item contains.
//!
//! The words are compared by their terms, which may be stems; a suggestion is a word as a text has it. The
//! terms are read when they are first needed after a commit, and only the most frequent ones of a large
//! dictionary.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocSet as _, Searcher, TERMINATED, Term};

use super::KeywordIndex;
use super::index::failed;
use super::search::ids;
use crate::Result;
use crate::query::{QueryWords, Spelling, UnknownWord};

/// Terms that are compared at most.
const MAX_TERMS: usize = 200_000;

/// The terms of a commit, by its number.
pub(super) type CommittedTerms = Option<(u64, Arc<Spelling>)>;

impl KeywordIndex {
    /// The words of a query: known ones are those that an item contains. Nothing is suggested.
    pub fn words(&self, query: &str) -> Result<QueryWords> {
        let (searcher, pending) = self.view();
        let mut words = QueryWords::default();
        let mut failure = None;
        self.analysers.queries.words(query, |word, _, term| {
            match self.items_with(&searcher, term) {
                Ok(items) if items > 0 || pending.has_term(term) => {
                    words.add_known(word.to_owned());
                }
                Ok(_) => words.add_unknown(word, Vec::new),
                Err(err) => failure = Some(err),
            }
        });
        failure.map_or(Ok(words), Err)
    }

    /// Adds words of the committed items to the suggestions for unknown words. Words that an item contains are
    /// spelt right and have none. `text` is the indexed text of an item.
    pub fn suggest(
        &self,
        words: &mut QueryWords,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Result<()> {
        for UnknownWord { word, similar } in &mut words.unknown {
            if !self.words(word)?.known.is_empty() {
                similar.clear();
                continue;
            }
            let found = self.similar(word, text)?;
            let new: Vec<String> =
                found.into_iter().filter(|found| !similar.contains(found)).collect();
            similar.extend(new);
            Spelling::best(word, similar);
        }
        Ok(())
    }

    /// Words of the committed items that are spelt like a word, best first.
    fn similar(
        &self,
        word: &str,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>> {
        let mut own = String::new();
        self.analysers.items.words(word, |_, _, term| term.clone_into(&mut own));
        let (searcher, _) = self.view();
        let terms = self.committed_terms(&searcher)?.similar(&own);
        let written = terms.into_iter().map(|term| self.written(&searcher, &term, text));
        written.filter_map(Result::transpose).collect()
    }

    /// A term as the text of an item has it, in lower case; `None` if all items with it are deleted.
    fn written(
        &self,
        searcher: &Searcher,
        term: &str,
        text: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>> {
        let Some(id) = self.item_with(searcher, term)? else { return Ok(None) };
        let mut found = None;
        self.analysers.items.words(&text(&id).unwrap_or_default(), |word, _, own| {
            if own == term && found.is_none() {
                found = Some(word.to_lowercase());
            }
        });
        Ok(Some(found.unwrap_or_else(|| term.to_owned())))
    }

    /// The id of a committed item that contains a term.
    fn item_with(&self, searcher: &Searcher, term: &str) -> Result<Option<String>> {
        let term = Term::from_field_text(self.fields.text, term);
        for (nth, segment) in (0_u32..).zip(searcher.segment_readers()) {
            let index = segment.inverted_index(self.fields.text).map_err(failed)?;
            let postings = index.read_postings(&term, IndexRecordOption::Basic);
            let Some(mut postings) = postings.map_err(failed)? else { continue };
            while postings.doc() != TERMINATED && segment.is_deleted(postings.doc()) {
                postings.advance();
            }
            if postings.doc() != TERMINATED {
                return Ok(ids(searcher, [DocAddress::new(nth, postings.doc())])?.pop());
            }
        }
        Ok(None)
    }

    /// How many committed items contain a term.
    fn items_with(&self, searcher: &Searcher, term: &str) -> Result<u64> {
        searcher.doc_freq(&Term::from_field_text(self.fields.text, term)).map_err(failed)
    }

    fn committed_terms(&self, searcher: &Searcher) -> Result<Arc<Spelling>> {
        let commit = searcher.generation().generation_id();
        let mut kept = self.committed_terms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, terms)) = &*kept
            && *of == commit
        {
            return Ok(Arc::clone(terms));
        }
        let mut items: HashMap<String, usize> = HashMap::new();
        for segment in searcher.segment_readers() {
            let index = segment.inverted_index(self.fields.text).map_err(failed)?;
            let mut terms = index.terms().stream()?;
            while terms.advance() {
                if let Ok(term) = std::str::from_utf8(terms.key()) {
                    *items.entry(term.to_owned()).or_default() +=
                        terms.value().doc_freq as usize;
                }
            }
        }
        let mut items: Vec<(String, usize)> = items.into_iter().collect();
        if items.len() > MAX_TERMS {
            items.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            items.truncate(MAX_TERMS);
        }
        let terms = Arc::new(Spelling::new(items));
        *kept = Some((commit, Arc::clone(&terms)));
        Ok(terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Analysis, Language};
    use crate::keywords::KeywordItem;

    #[test]
    fn misspelt_words_are_compared_with_the_words_of_the_items() {
        let english = Analysis { stem: Some(Language::English), ..Analysis::default() };
        let index = KeywordIndex::in_memory(&english).unwrap();
        let texts =
            [("1", "Two Helicopters, flying"), ("2", "a red helicopter"), ("3", "cat")];
        let item = |(id, text): (&str, &str)| KeywordItem {
            id: id.to_owned(),
            text: text.to_owned(),
            names: Vec::new(),
        };
        index.reconcile(texts.map(item), 1).unwrap();
        let text =
            |id: &str| texts.iter().find(|one| one.0 == id).map(|one| one.1.to_owned());
        let words = |query: &str| {
            let mut words = index.words(query).unwrap();
            index.suggest(&mut words, &text).unwrap();
            words
        };
        let found = words("the helicoptr cats");
        assert_eq!(found.known, ["cats"]);
        assert_eq!(found.unknown[1].word, "helicoptr");
        // The terms are stems; the suggestion is a word of a text.
        assert_eq!(found.unknown[1].similar, ["helicopters"]);
        // Suggestions of the model come first among equals, and there are three at most.
        let mut known = QueryWords::default();
        known.add_unknown("caz", || ["cap", "car"].map(str::to_owned).to_vec());
        index.suggest(&mut known, &text).unwrap();
        assert_eq!(known.unknown[0].similar, ["cap", "car", "cat"]);
        known.add_unknown("cats", || vec!["rats".to_owned()]);
        index.suggest(&mut known, &text).unwrap();
        assert!(known.unknown[1].similar.is_empty(), "an item contains it");
        // What a commit adds is suggested, and what is only staged is known.
        index.stage([("4".to_owned(), Some(item(("4", "zeppelin"))))], 2);
        assert_eq!(words("zeppelin").known, ["zeppelin"]);
        index.commit().unwrap();
        assert_eq!(words("zepelin").unknown[0].similar, ["zeppelin"]);
    }
}
