//! The language of texts, by their stop words.
//!
//! Every stop word of a text counts for the languages whose list contains it, shared equally among them: `in`
//! says little, `with` says English. The language with the most is the one, if enough of the words are its
//! stop words and no other language comes near. Lists of tags have no stop words, so they have no language.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation as _;

use super::Language;

/// Fewest words to decide by.
const WORDS: usize = 60;
/// Smallest share of stop words that count for the language.
const SHARE: f64 = 0.1;
/// Smallest ratio to the second language.
const MARGIN: f64 = 1.5;

impl Language {
    /// The language of most of the texts; `None` if it is unclear.
    pub fn detect<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<Language> {
        let mut of_word: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, language) in Language::ALL.into_iter().enumerate() {
            for word in language.stop_words() {
                let known = of_word.entry(word).or_default();
                if known.last() != Some(&at) {
                    known.push(at);
                }
            }
        }
        let mut counts = [0.0; Language::ALL.len()];
        let mut words = 0_usize;
        for text in texts {
            for word in text.to_lowercase().unicode_words() {
                words += usize::from(word.contains(char::is_alphabetic));
                let languages = of_word.get(word).map_or(&[][..], Vec::as_slice);
                for &language in languages {
                    counts[language] += 1.0 / languages.len() as f64;
                }
            }
        }
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]));
        let (first, second) = (counts[order[0]], counts[order[1]]);
        let is_clear =
            words >= WORDS && first >= SHARE * words as f64 && first >= MARGIN * second;
        is_clear.then(|| Language::ALL[order[0]])
    }
}

#[cfg(test)]
mod tests {
    use super::Language;

    fn detect(texts: &[&str]) -> Option<Language> {
        Language::detect(texts.iter().copied().cycle().take(12 * texts.len()))
    }

    #[test]
    fn sentences_have_a_language() {
        for (language, text) in [
            (Language::English, "two men in front of a house with a red roof and a garden"),
            (
                Language::German,
                "zwei Männer stehen vor einem Haus mit rotem Dach und Garten",
            ),
            (
                Language::French,
                "deux hommes devant une maison avec un toit rouge et un jardin",
            ),
            (
                Language::Spanish,
                "dos hombres están delante de una casa con un tejado rojo y el jardín",
            ),
            (
                Language::Italian,
                "due uomini davanti a una casa con il tetto rosso e un giardino nella città",
            ),
            (
                Language::Dutch,
                "twee mannen staan voor een huis met een rood dak en een tuin",
            ),
            (
                Language::Russian,
                "два человека стоят перед домом с красной крышей, и у них есть сад",
            ),
        ] {
            assert_eq!(detect(&[text]), Some(language), "{text}");
        }
    }

    #[test]
    fn tags_and_mixtures_have_none() {
        assert_eq!(detect(&["sofa red leather", "lamp brass vintage", "chair oak"]), None);
        let mixed = [
            "two men in front of a house with a red roof and a garden",
            "zwei Männer stehen vor einem Haus mit rotem Dach und einem Garten",
        ];
        assert_eq!(detect(&mixed), None);
        assert_eq!(Language::detect(["a house with a roof"]), None, "too few words");
        assert_eq!(Language::detect([]), None);
    }
}
