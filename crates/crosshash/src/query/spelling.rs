//! Known words that are spelt like an unknown one.
//!
//! Damerau-Levenshtein distance (`strsim`): insertions, deletions, substitutions and transpositions, at
//! most 2, and at most 1 for words of up to 4 characters. Words are compared only if their lengths and
//! their sets of characters permit such a distance; one edit changes at most two characters of the set.

use std::collections::BTreeMap;

/// Maximum number of suggestions.
const SUGGESTIONS: usize = 3;
/// Words up to this length have suggestions at distance 1 only; a single character has none.
const SHORT: usize = 4;

/// Known words with their frequencies.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    by_length: BTreeMap<usize, Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    word: String,
    /// How many texts contain it.
    texts: usize,
    /// A bit for each of its characters, modulo 64.
    set: u64,
}

impl Spelling {
    /// Words with the number of texts that contain them; the highest number of a repeated word counts.
    pub(crate) fn new(words: impl IntoIterator<Item = (String, usize)>) -> Spelling {
        let mut distinct: BTreeMap<String, usize> = BTreeMap::new();
        for (word, texts) in words {
            let known = distinct.entry(word).or_default();
            *known = texts.max(*known);
        }
        let mut by_length: BTreeMap<usize, Vec<Known>> = BTreeMap::new();
        for (word, texts) in distinct {
            let set = set(&word);
            by_length.entry(word.chars().count()).or_default().push(Known {
                word,
                texts,
                set,
            });
        }
        Spelling { by_length }
    }

    /// Known words spelt like this one: nearest first, then the most frequent, then alphabetically.
    pub(crate) fn similar(&self, word: &str) -> Vec<String> {
        let length = word.chars().count();
        let most = match length {
            0 | 1 => return Vec::new(),
            n if n <= SHORT => 1,
            _ => 2,
        };
        let own = set(word);
        let candidates = self.by_length.range(length - most..=length + most);
        let mut found: Vec<(usize, &Known)> = candidates
            .flat_map(|(_, words)| words)
            .filter(|known| (known.set ^ own).count_ones() as usize <= 2 * most)
            .map(|known| (strsim::damerau_levenshtein(word, &known.word), known))
            .filter(|(distance, _)| (1..=most).contains(distance))
            .collect();
        found.sort_unstable_by(|a, b| {
            let order = a.0.cmp(&b.0).then_with(|| b.1.texts.cmp(&a.1.texts));
            order.then_with(|| a.1.word.cmp(&b.1.word))
        });
        found.truncate(SUGGESTIONS);
        found.into_iter().map(|(_, known)| known.word.clone()).collect()
    }

    /// Keeps the best of suggestions for a word: the nearest ones, in their order.
    #[cfg(feature = "keywords")]
    pub(crate) fn best(word: &str, similar: &mut Vec<String>) {
        let word = word.to_lowercase();
        similar.sort_by_cached_key(|other| strsim::damerau_levenshtein(&word, other));
        similar.truncate(SUGGESTIONS);
    }
}

/// The set of characters of a word.
fn set(word: &str) -> u64 {
    word.chars().fold(0, |set, c| set | 1 << (u32::from(c) % 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    fn spelling(words: &[(&str, usize)]) -> Spelling {
        Spelling::new(words.iter().map(|(word, texts)| ((*word).to_owned(), *texts)))
    }

    #[test]
    fn near_spellings_are_found_by_distance_and_frequency() {
        let known =
            spelling(&[("bicycle", 9), ("cat", 20), ("cap", 4), ("car", 8), ("größe", 2)]);
        assert_eq!(known.similar("bycicle"), ["bicycle"]);
        assert_eq!(known.similar("bicycel"), ["bicycle"]);
        assert_eq!(known.similar("caz"), ["cat", "car", "cap"]);
        assert_eq!(known.similar("grösse"), ["größe"]);
        assert!(known.similar("xylophone").is_empty());
        assert!(known.similar("at").iter().all(|word| word == "cat"), "distance 1 only");
        assert!(known.similar("c").is_empty());
        assert!(known.similar("").is_empty());
    }

    /// Prints the time per word: `cargo test -p crosshash --lib spelling -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    #[expect(clippy::print_stdout, reason = "a measurement")]
    fn microseconds_per_word() {
        let word = |n: usize| -> String {
            let letter = |k: u32| {
                let shift = n / 7_usize.pow(k) * (k as usize + 3) % 26;
                char::from(b'a' + u8::try_from(shift).unwrap())
            };
            (0..4 + n % 7).zip((0..6).cycle()).map(|(_, k)| letter(k)).collect()
        };
        let known = Spelling::new((0..20_000).map(|n| (word(n * 31), n)));
        let words: usize = known.by_length.values().map(Vec::len).sum();
        let begin = std::time::Instant::now();
        let found: usize = (0..1000).map(|n| known.similar(&word(n * 97 + 1)).len()).sum();
        let each = begin.elapsed().as_micros() as f64 / 1000.0;
        println!("{words} words: {each} microseconds per word, {found} suggestions");
    }

    proptest! {
        #![proptest_config(fixed(64))]

        #[test]
        fn no_near_word_is_missed(
            words in prop::collection::btree_map("[abcß]{1,8}", 1..9_usize, 1..20),
            word in "[abcß]{2,8}",
        ) {
            let known = Spelling::new(words.clone());
            let most = if word.chars().count() <= SHORT { 1 } else { 2 };
            let distance = |other: &str| strsim::damerau_levenshtein(&word, other);
            let mut near: Vec<(usize, std::cmp::Reverse<usize>, &String)> = words
                .iter()
                .map(|(other, texts)| (distance(other), std::cmp::Reverse(*texts), other))
                .filter(|(distance, _, _)| (1..=most).contains(distance))
                .collect();
            near.sort();
            let near: Vec<&String> = near.iter().take(SUGGESTIONS).map(|near| near.2).collect();
            let found = known.similar(&word);
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), near);
        }
    }
}
