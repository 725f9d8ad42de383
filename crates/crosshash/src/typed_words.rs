//! Typed words: single words as queries, and the items whose texts contain them.

use std::collections::{BTreeMap, HashMap};

use crosshash_codes::eval::{ITEMS_PER_WORD, Relevant, word_queries};

use crate::Result;
use crate::data::{Analyser, Analysis, Texts};

/// Words that occur in the texts of a database, each to be typed alone.
#[derive(Debug, Clone)]
pub(crate) struct WordQueries {
    /// The words.
    pub(crate) words: Texts,
    /// For each word, the database items whose texts contain it.
    pub(crate) relevant: Relevant,
}

impl WordQueries {
    /// The words that occur in the texts of 3 to 60 items of a database, at most `most` of them, evenly
    /// spaced in alphabetical order. `texts` are pairs of a key and a text, `database` the keys of the
    /// items; an item contains the words of all texts of its key.
    pub(crate) fn new<'a>(
        analysis: &Analysis,
        texts: impl IntoIterator<Item = (&'a str, &'a str)>,
        database: &[&str],
        most: usize,
    ) -> Result<WordQueries> {
        let analyser = Analyser::new(analysis);
        let mut by_key: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut words: BTreeMap<String, u32> = BTreeMap::new();
        for (key, text) in texts {
            let own = by_key.entry(key).or_default();
            analyser.terms(text, |word| {
                let next = u32::try_from(words.len()).unwrap_or(u32::MAX);
                own.push(*words.entry(word.to_owned()).or_insert(next));
            });
        }
        let none = Vec::new();
        let items: Vec<&Vec<u32>> =
            database.iter().map(|key| by_key.get(key).unwrap_or(&none)).collect();
        let (chosen, relevant) = word_queries(&items, ITEMS_PER_WORD)?;
        let mut by_number = vec![""; words.len()];
        words.iter().for_each(|(word, &number)| by_number[number as usize] = word);
        // Alphabetical, so that a sample does not depend on the order of the items.
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        order.sort_by_key(|&at| by_number[chosen[at] as usize]);
        let step = order.len().div_ceil(most.max(1)).max(1);
        let order: Vec<usize> = order.into_iter().step_by(step).collect();
        let word = |&at: &usize| by_number[chosen[at] as usize].to_owned();
        let rows = order.iter().map(|&at| relevant.row(at));
        Ok(WordQueries {
            words: order.iter().map(word).collect(),
            relevant: Relevant::from_rows(database.len(), rows)?,
        })
    }

    /// Whether there are no words.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_three_to_sixty_items_are_typed() {
        let texts = [
            ("a", "red heart"),
            ("b", "heart of gold"),
            ("c", "black heart"),
            ("d", "red car"),
            ("e", "red"),
        ];
        let database = ["a", "b", "c", "d", "e", "f"];
        let found =
            WordQueries::new(&Analysis::default(), texts, &database, usize::MAX).unwrap();
        let words: Vec<&str> =
            (0..found.words.len()).map(|at| found.words.get(at)).collect();
        assert_eq!(words, ["heart", "red"]);
        assert_eq!(found.relevant.row(0), [0, 1, 2]);
        assert_eq!(found.relevant.row(1), [0, 3, 4]);
        let one = WordQueries::new(&Analysis::default(), texts, &database, 1).unwrap();
        assert_eq!(one.words.len(), 1);
    }
}
