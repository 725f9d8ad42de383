//! The emoji of the data set, with words, labels and families.
//!
//! Skin-tone variants (the same picture in another colour) and components (hair and skin samples) are
//! excluded. A family is kept together in a split: man, woman and person doing the same thing, the
//! hours of the clock face, a heart in several colours.

use std::collections::{BTreeMap, BTreeSet};

use super::sources;

/// A subgroup is a label if it has at least this many emoji.
const SUBGROUP_ITEMS: usize = 8;
/// A keyword is a label if at least this many emoji have it.
const KEYWORD_ITEMS: usize = 15;

/// One emoji.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its code points, as in file names: `1f468-200d-1f33e`.
    pub id: String,
    /// The emoji itself.
    pub glyph: &'static str,
    /// Its CLDR name.
    pub name: &'static str,
    /// Its CLDR keywords.
    pub keywords: Vec<&'static str>,
    /// Group, e.g. `Food & Drink`.
    pub group: &'static str,
    /// Subgroup, e.g. `food-fruit`.
    pub subgroup: &'static str,
    /// The family, which is kept together in a split.
    pub family: String,
}

impl Item {
    /// Name and keywords as one text.
    pub fn words(&self) -> String {
        let others = self.keywords.iter().filter(|&&keyword| keyword != self.name);
        std::iter::once(&self.name).chain(others).copied().collect::<Vec<_>>().join(", ")
    }
}

/// The emoji of the data set, sorted by code points, and the numbers of excluded skin-tone variants and
/// components.
pub fn catalogue() -> (Vec<Item>, usize, usize) {
    let (mut items, mut tones, mut components) = (Vec::new(), 0, 0);
    for emoji in sources::all() {
        let plain = sources::plain(emoji.glyph);
        if emoji.group == "Component" {
            components += 1;
        } else if plain.chars().any(is_skin_tone) {
            tones += 1;
        } else {
            items.push(Item {
                id: plain
                    .chars()
                    .map(|c| format!("{:x}", u32::from(c)))
                    .collect::<Vec<_>>()
                    .join("-"),
                glyph: emoji.glyph,
                name: emoji.name,
                keywords: emoji.keywords,
                group: emoji.group,
                subgroup: emoji.subgroup,
                family: family(emoji.name, emoji.subgroup),
            });
        }
    }
    (items, tones, components)
}

/// The names of all labels (groups, then subgroups, then keywords, each in alphabetical order),
/// and the labels of each item.
pub(super) fn labels(items: &[Item]) -> (Vec<String>, Vec<Vec<u32>>) {
    let mut subgroups: BTreeMap<&str, usize> = BTreeMap::new();
    let mut keywords: BTreeMap<String, usize> = BTreeMap::new();
    for item in items {
        *subgroups.entry(item.subgroup).or_default() += 1;
        for keyword in distinct_keywords(item) {
            *keywords.entry(keyword).or_default() += 1;
        }
    }
    let groups: BTreeSet<&str> = items.iter().map(|item| item.group).collect();
    let mut names: Vec<String> =
        groups.iter().map(|name| format!("group {name}")).collect();
    let subgroups = subgroups.iter().filter(|&(_, &n)| n >= SUBGROUP_ITEMS);
    names.extend(subgroups.map(|(name, _)| format!("subgroup {name}")));
    let keywords = keywords.iter().filter(|&(_, &n)| n >= KEYWORD_ITEMS);
    names.extend(keywords.map(|(name, _)| format!("keyword {name}")));

    let numbers: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let of_item = |item: &Item| -> Vec<u32> {
        let given =
            [format!("group {}", item.group), format!("subgroup {}", item.subgroup)];
        let keywords = distinct_keywords(item).into_iter().map(|k| format!("keyword {k}"));
        given
            .into_iter()
            .chain(keywords)
            .filter_map(|n| numbers.get(n.as_str()).copied())
            .collect()
    };
    let rows = items.iter().map(of_item).collect();
    (names, rows)
}

fn distinct_keywords(item: &Item) -> BTreeSet<String> {
    item.keywords.iter().map(|keyword| keyword.to_lowercase()).collect()
}

fn is_skin_tone(c: char) -> bool {
    ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
}

/// The name without the words that distinguish variants of a picture: person, colour, size, hour.
fn family(name: &str, subgroup: &str) -> String {
    const WHO: [&str; 6] = ["man", "woman", "person", "men", "women", "people"];
    const HOW: [&str; 16] = [
        "red",
        "orange",
        "yellow",
        "green",
        "blue",
        "purple",
        "brown",
        "black",
        "white",
        "light",
        "dark",
        "large",
        "medium",
        "small",
        "medium-small",
        "hollow",
    ];
    if subgroup == "time" && (name.contains("o’clock") || name.contains("-thirty")) {
        return "clock face".into();
    }
    if name.contains("holding hands") {
        return "holding hands".into();
    }
    if let Some((kind, _)) = name.split_once(':').filter(|(kind, _)| {
        ["family", "kiss", "couple with heart", "keycap"].contains(kind)
    }) {
        return kind.into();
    }
    let dropped: &[&str] = match subgroup {
        _ if subgroup.starts_with("person") => &WHO,
        "geometric" | "emotion" | "book-paper" | "flag" => &HOW,
        _ => &[],
    };
    let words =
        name.split([' ', ':']).filter(|word| !word.is_empty() && !dropped.contains(word));
    let rest = words.collect::<Vec<_>>().join(" ");
    if rest.is_empty() { name.into() } else { rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families() {
        for (a, b) in [
            ("man farmer", "woman farmer"),
            ("woman in lotus position", "person in lotus position"),
            ("man: red hair", "person: red hair"),
            ("man", "man"),
        ] {
            assert_eq!(family(a, "person-role"), family(b, "person-role"));
        }
        assert_eq!(family("three-thirty", "time"), family("one o’clock", "time"));
        assert_ne!(family("stopwatch", "time"), family("one o’clock", "time"));
        assert_eq!(family("red heart", "emotion"), family("black heart", "emotion"));
        assert_eq!(family("women holding hands", "family"), "holding hands");
        assert_eq!(family("family: man, boy", "family"), family("family", "family"));
        assert_ne!(
            family("flag: Norway", "country-flag"),
            family("flag: Chad", "country-flag")
        );
    }
}
