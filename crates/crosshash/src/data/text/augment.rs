//! Augmentation of the texts of a batch: truncation to a few words, as users type them, and word
//! dropout.
//!
//! ```text
//! with probability `truncate`   1 to `max_words` distinct words of the text, drawn uniformly
//! otherwise                     every distinct word is dropped with probability `dropout`;
//!                               if none would remain, all are kept
//! ```
//!
//! [`TokenizedTexts`] keeps the words of every text, so that texts are analysed once: those of the vocabulary,
//! and other words that have n-grams of the vocabulary, so that whole texts have the rows that the vocabulary
//! gives them. It also finds the texts that contain all remaining words of another one
//! ([`TokenizedTexts::containing`]): these are further positives of an instance loss.

use std::collections::HashMap;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::vocabulary::{Cells, Term};
use super::{Analyser, Vocabulary};
use crate::Result;
use crate::data::{Sparse, Texts};

/// Augmentation of the texts of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextAugmentation {
    /// Share of the texts that are truncated to a few random words.
    pub truncate: f64,
    /// Maximum number of words of a truncated text.
    pub max_words: usize,
    /// Probability that a word of another text is dropped.
    pub dropout: f64,
}

/// The words of many texts by number: first the terms of a vocabulary, by column, then other words that have
/// n-grams of the vocabulary.
#[derive(Debug, Clone)]
pub struct TokenizedTexts {
    vocabulary: Vocabulary,
    starts: Vec<usize>, // text -> where its words begin in the two vectors below
    words: Vec<u32>,    // distinct within a text, ascending
    times: Vec<u32>,
    terms: Vec<Term>,         // by column
    known: usize,             // words of the vocabulary
    ngram_starts: Vec<usize>, // word -> where its n-grams begin
    ngrams: Vec<u32>,         // columns; repeated if a word has an n-gram twice
}

/// The remaining words of each text of a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptWords {
    starts: Vec<usize>,
    words: Vec<u32>, // distinct within a text, ascending
    times: Vec<u32>,
}

impl KeptWords {
    /// Number of texts.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of the words of one text, ascending.
    pub fn words(&self, text: usize) -> &[u32] {
        &self.words[self.starts[text]..self.starts[text + 1]]
    }
}

impl TokenizedTexts {
    /// Splits texts into the words of a vocabulary.
    pub fn new(vocabulary: &Vocabulary, texts: &Texts) -> TokenizedTexts {
        let analyser = Analyser::new(vocabulary.analysis());
        let (mut starts, mut words, mut times) = (vec![0], Vec::new(), Vec::new());
        let (mut ngram_starts, mut ngrams) = (vec![0], Vec::new());
        for (word, _) in vocabulary.terms() {
            vocabulary.ngrams(word, |known| ngrams.push(known.column));
            ngram_starts.push(ngrams.len());
        }
        let known = ngram_starts.len() - 1;
        // The numbers of other words; none for words without n-grams of the vocabulary.
        let mut others: HashMap<String, Option<u32>> = HashMap::new();
        let mut found: Vec<u32> = Vec::new();
        for text in 0..texts.len() {
            found.clear();
            analyser.terms(texts.get(text), |term| {
                if let Some(known) = vocabulary.term(term) {
                    found.push(known.column);
                    return;
                }
                let number = others.get(term).copied().unwrap_or_else(|| {
                    vocabulary.ngrams(term, |known| ngrams.push(known.column));
                    let number = u32::try_from(ngram_starts.len() - 1).ok();
                    let number =
                        number.filter(|_| ngram_starts.last() < Some(&ngrams.len()));
                    if number.is_some() {
                        ngram_starts.push(ngrams.len());
                    }
                    others.insert(term.to_owned(), number);
                    number
                });
                found.extend(number);
            });
            found.sort_unstable();
            for same in found.chunk_by(|a, b| a == b) {
                words.push(same[0]);
                times.push(u32::try_from(same.len()).unwrap_or(u32::MAX));
            }
            starts.push(words.len());
        }
        TokenizedTexts {
            terms: vocabulary.every_term().collect(),
            vocabulary: vocabulary.clone(),
            starts,
            words,
            times,
            known,
            ngram_starts,
            ngrams,
        }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All words of the texts with these numbers.
    pub fn all(&self, items: &[usize]) -> KeptWords {
        let mut kept = KeptWords { starts: vec![0], ..KeptWords::default() };
        items.iter().for_each(|&item| self.keep_all(item, &mut kept));
        kept
    }

    /// Words of the texts with these numbers, after augmentation.
    pub fn draw(
        &self,
        items: &[usize],
        how: TextAugmentation,
        rng: &mut ChaCha8Rng,
    ) -> KeptWords {
        let mut kept = KeptWords { starts: vec![0], ..KeptWords::default() };
        for &item in items {
            if how.truncate > 0.0 && rng.random_bool(how.truncate.min(1.0)) {
                self.truncate(item, how.max_words, rng, &mut kept);
            } else if how.dropout > 0.0 {
                self.drop_words(item, how.dropout, rng, &mut kept);
            } else {
                self.keep_all(item, &mut kept);
            }
        }
        kept
    }

    /// The rows that the vocabulary gives for texts with these words.
    pub fn rows(&self, kept: &KeptWords) -> Result<Sparse> {
        let mut rows = Sparse::new(self.vocabulary.len());
        let mut cells = Cells::default();
        for text in 0..kept.len() {
            let span = kept.starts[text]..kept.starts[text + 1];
            for (&word, &times) in kept.words[span.clone()].iter().zip(&kept.times[span]) {
                let place = word as usize;
                if place < self.known {
                    cells.add(self.terms[place], times);
                }
                for &ngram in
                    &self.ngrams[self.ngram_starts[place]..self.ngram_starts[place + 1]]
                {
                    cells.add(self.terms[ngram as usize], times);
                }
            }
            rows.push(self.vocabulary.weigh(&mut cells))?;
        }
        Ok(rows)
    }

    /// For every text of a batch, the positions in `items` of the texts that contain all its
    /// words, ascending. A text without words is contained in none.
    pub fn containing(&self, kept: &KeptWords, items: &[usize]) -> Vec<Vec<usize>> {
        // For every word of `items`, the positions of the texts that contain it.
        let mut holders: Vec<(u32, usize)> = Vec::new();
        for (position, &item) in items.iter().enumerate() {
            let words = &self.words[self.starts[item]..self.starts[item + 1]];
            holders.extend(words.iter().map(|&word| (word, position)));
        }
        holders.sort_unstable();
        let having = |word: u32| {
            let start = holders.partition_point(|holder| holder.0 < word);
            let end = start + holders[start..].partition_point(|holder| holder.0 == word);
            &holders[start..end]
        };
        let one = |text: usize| {
            let mut lists: Vec<_> =
                kept.words(text).iter().map(|&word| having(word)).collect();
            lists.sort_unstable_by_key(|list| list.len());
            let Some((rarest, others)) = lists.split_first() else { return Vec::new() };
            let in_all = |&position: &usize| {
                let holds = |list: &&[(u32, usize)]| {
                    list.binary_search_by_key(&position, |holder| holder.1).is_ok()
                };
                others.iter().all(holds)
            };
            rarest.iter().map(|holder| holder.1).filter(in_all).collect()
        };
        (0..kept.len()).map(one).collect()
    }

    fn keep_all(&self, item: usize, kept: &mut KeptWords) {
        let span = self.starts[item]..self.starts[item + 1];
        kept.words.extend(&self.words[span.clone()]);
        kept.times.extend(&self.times[span]);
        kept.starts.push(kept.words.len());
    }

    fn truncate(
        &self,
        item: usize,
        most: usize,
        rng: &mut ChaCha8Rng,
        kept: &mut KeptWords,
    ) {
        let words = &self.words[self.starts[item]..self.starts[item + 1]];
        let count = rng.random_range(1..=most.max(1)).min(words.len());
        let mut drawn = words.to_vec();
        let (drawn, _) = drawn.partial_shuffle(rng, count);
        drawn.sort_unstable();
        kept.words.extend_from_slice(drawn);
        kept.times.resize(kept.words.len(), 1);
        kept.starts.push(kept.words.len());
    }

    fn drop_words(
        &self,
        item: usize,
        rate: f64,
        rng: &mut ChaCha8Rng,
        kept: &mut KeptWords,
    ) {
        let before = kept.words.len();
        for place in self.starts[item]..self.starts[item + 1] {
            if !rng.random_bool(rate.min(1.0)) {
                kept.words.push(self.words[place]);
                kept.times.push(self.times[place]);
            }
        }
        if kept.words.len() == before {
            self.keep_all(item, kept);
        } else {
            kept.starts.push(kept.words.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::super::{Analysis, NGrams, Weights};
    use super::*;

    const TEXTS: [&str; 5] = [
        "red heart love heart",
        "black heart",
        "cat with heart eyes, love",
        "42 % unknown-to-none",
        "",
    ];

    fn texts() -> Texts {
        TEXTS.iter().map(|text| (*text).to_owned()).collect()
    }

    fn vocabulary(ngrams: bool, weights: Weights) -> Vocabulary {
        let ngrams = ngrams.then(NGrams::default);
        let analysis = Analysis { weights, ngrams, ..Analysis::default() };
        Vocabulary::of_texts(&texts(), &analysis).with_scale(3.5)
    }

    fn tokenized(ngrams: bool, weights: Weights) -> TokenizedTexts {
        TokenizedTexts::new(&vocabulary(ngrams, weights), &texts())
    }

    fn names(tokenized: &TokenizedTexts, kept: &KeptWords, text: usize) -> Vec<String> {
        let all: Vec<&str> = tokenized.vocabulary.terms().map(|(term, _)| term).collect();
        kept.words(text).iter().map(|&word| all[word as usize].to_owned()).collect()
    }

    #[test]
    fn whole_texts_have_the_rows_of_the_vocabulary() {
        for ngrams in [false, true] {
            for weights in [Weights::Binary, Weights::Count, Weights::TfIdf] {
                let tokenized = tokenized(ngrams, weights);
                let kept = tokenized.all(&[2, 0, 4, 0]);
                let rows = vocabulary(ngrams, weights).rows(&texts()).unwrap();
                assert_eq!(tokenized.rows(&kept).unwrap(), rows.select(&[2, 0, 4, 0]));
            }
        }
    }

    /// Words outside the vocabulary count by their n-grams, as they do when a text is encoded.
    #[test]
    fn unknown_words_have_their_ngrams() {
        let ngrams = Some(NGrams { min_words: 1, ..NGrams::default() });
        let analysis = Analysis { min_texts: 2, ngrams, ..Analysis::default() };
        let texts: Texts = ["heart", "hearts", "heart", "zebra", "hearts zebra heart"]
            .iter()
            .map(|text| (*text).to_owned())
            .collect();
        let vocabulary = Vocabulary::of_texts(&texts, &analysis);
        let terms: Vec<&str> = vocabulary.terms().map(|(term, _)| term).collect();
        assert_eq!(terms, ["heart", "hearts", "zebra"]);
        let texts: Texts = ["heartbeat", "heart heartbeat", "xyz", "heartbeat xyz"]
            .iter()
            .map(|text| (*text).to_owned())
            .collect();
        let tokenized = TokenizedTexts::new(&vocabulary, &texts);
        let all = tokenized.all(&[0, 1, 2, 3]);
        assert_eq!(tokenized.rows(&all).unwrap(), vocabulary.rows(&texts).unwrap());
        // "xyz" has no known n-gram, so it is no word; "heartbeat" is one, number 3.
        assert_eq!((all.words(0), all.words(1)), (&[3][..], &[0, 3][..]));
        assert_eq!((all.words(2), all.words(3)), (&[][..], &[3][..]));
        let found = tokenized.containing(&all, &[0, 1, 2, 3]);
        assert_eq!(found, [vec![0, 1, 3], vec![1], vec![], vec![0, 1, 3]]);
    }

    #[test]
    fn truncated_text_has_the_row_of_its_words() {
        let tokenized = tokenized(true, Weights::TfIdf);
        let how = TextAugmentation { truncate: 1.0, max_words: 2, dropout: 0.0 };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let items: Vec<usize> =
            std::iter::repeat_n([0, 1, 2, 3, 4], 40).flatten().collect();
        let kept = tokenized.draw(&items, how, &mut rng);
        let rows = tokenized.rows(&kept).unwrap();
        let mut sizes = [0; 3];
        for (text, &item) in items.iter().enumerate() {
            let words = names(&tokenized, &kept, text);
            sizes[words.len()] += 1;
            assert!(words.iter().all(|word| TEXTS[item].contains(word.as_str())));
            let typed = tokenized.vocabulary.row(&words.join(" "));
            let (columns, values) = rows.row(text);
            let cells: Vec<(u32, f32)> =
                columns.iter().copied().zip(values.iter().copied()).collect();
            assert_eq!(cells, typed);
        }
        // One and two words are equally likely, except for texts without words.
        assert!(sizes[0] == 40 && sizes[1] > 50 && sizes[2] > 50, "{sizes:?}");
    }

    #[test]
    fn words_are_dropped_but_never_all() {
        let tokenized = tokenized(false, Weights::Count);
        let how = TextAugmentation { truncate: 0.0, max_words: 1, dropout: 0.5 };
        let kept = tokenized.draw(&[0; 4000], how, &mut ChaCha8Rng::seed_from_u64(2));
        let sizes: Vec<usize> = (0..4000).map(|text| kept.words(text).len()).collect();
        assert!(sizes.iter().all(|&size| (1..=3).contains(&size)));
        // 3 words: all remain with probability 1/8, and none (then all do) with 1/8.
        let whole = sizes.iter().filter(|&&size| size == 3).count();
        assert!((900..1100).contains(&whole), "{whole}");
    }

    #[test]
    fn same_seed_same_words() {
        let tokenized = tokenized(false, Weights::Binary);
        let how = TextAugmentation { truncate: 0.5, max_words: 2, dropout: 0.2 };
        let draw = |seed| {
            tokenized.draw(&[0, 1, 2, 3, 0, 2], how, &mut ChaCha8Rng::seed_from_u64(seed))
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
    }

    #[test]
    fn texts_that_contain_all_words_are_found() {
        let tokenized = tokenized(false, Weights::Binary);
        let items = [0, 1, 2, 3, 4, 2];
        let how = TextAugmentation { truncate: 0.7, max_words: 2, dropout: 0.3 };
        for seed in 0..50 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let kept = tokenized.draw(&items, how, &mut rng);
            let found = tokenized.containing(&kept, &items);
            let whole = tokenized.all(&items);
            for (text, found) in found.iter().enumerate() {
                let words = kept.words(text);
                let holds = |&at: &usize| {
                    !words.is_empty()
                        && words.iter().all(|word| whole.words(at).contains(word))
                };
                let requested: Vec<usize> = (0..items.len()).filter(holds).collect();
                assert_eq!(found, &requested, "{:?}", names(&tokenized, &kept, text));
            }
        }
    }
}
