//! `SplitSpec`: specification of a split by sizes, shares, values of a column or rows; deterministic
//! for a seed.
//!
//! 1. Queries are selected from all items.
//! 2. The database is the remaining items, unless it is specified.
//! 3. Training items are the database, unless they are specified; a size or share is drawn from the
//!    database. Validation items are drawn first, from the same pool, and are not used for training.
//!
//! Units of a draw are groups, or pair keys (by default ids), so that pairs and groups stay together. Sizes
//! are numbers of distinct pair keys over all modalities: a picture with its captions counts once. Each part has its own random stream, so that another training size
//! does not change the queries.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::groups::ItemGroups;
use super::sampling::draw;
use super::{Dataset, Modality, Parts, Split};
use crate::{Error, Result};

/// Specification of a split; parts that are not given have their defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SplitSpec {
    /// Random seed.
    pub seed: u64,
    /// Stratify drawn parts by labels.
    pub stratify: bool,
    /// Query items (default: none).
    pub query: Option<Selection>,
    /// Validation items (default: none).
    pub validation: Option<Selection>,
    /// Training items (default: the whole database).
    pub train: Option<Selection>,
    /// Database items (default: all except the queries).
    pub database: Option<Selection>,
}

/// The items of one part.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection {
    /// A random subset of this size.
    Count(usize),
    /// A random subset, as a share of the pool.
    Share(f64),
    /// Items with one of these values in the split column.
    Marked(Vec<String>),
    /// Items by number, from the first (included) to the second (excluded).
    Rows(usize, usize),
    /// All remaining items.
    Rest,
}

/// The names of the parts, by random stream.
const PARTS: [&str; 5] = ["", "query", "database", "train", "validation"];

/// One flag per item of each modality.
type Members = Vec<Vec<bool>>;

impl SplitSpec {
    /// Draws and checks the split.
    pub fn draw(&self, dataset: &Dataset) -> Result<Split> {
        let units = ItemGroups::new(dataset);
        let all: Members =
            dataset.modalities().iter().map(|m| vec![true; m.len()]).collect();
        let none: Members =
            dataset.modalities().iter().map(|m| vec![false; m.len()]).collect();
        let mut notes = Vec::new();
        let mut choose = |name,
                          stream,
                          choice: &Option<Selection>,
                          default,
                          pool: &Members| match choice.as_ref() {
            None => Ok(if default { pool.clone() } else { none.clone() }),
            Some(choice) => self
                .choose(dataset, &units, stream, choice, pool, &mut notes)
                .map_err(|err| Error::content(format!("split, {name}: {err}"))),
        };
        let query = choose("query", 1, &self.query, false, &all)?;
        let rest = minus(&all, &query);
        // Two parts given explicitly must be disjoint; drawn parts avoid the given ones.
        let check_apart =
            |one: (&str, &Option<Selection>, &Members),
             other: (&str, &Option<Selection>, &Members)| {
                if is_given(one.1) && is_given(other.1) {
                    check_disjoint(dataset, (one.0, one.2), (other.0, other.2))
                } else {
                    Ok(())
                }
            };
        let queries = ("query", &self.query, &query);
        let mut given =
            |name, stream, choice: &Option<Selection>, default, pool: &Members| {
                let chosen = if is_given(choice) {
                    choose(name, stream, choice, default, &all)?
                } else {
                    choose(name, stream, choice, default, pool)?
                };
                check_apart(queries, (name, choice, &chosen))?;
                Ok::<Members, Error>(minus(&chosen, &query))
            };
        let database = given("database", 2, &self.database, true, &rest)?;
        let drawn = matches!(self.train, Some(Selection::Count(_) | Selection::Share(_)));
        let pool = match (drawn, is_given(&self.train)) {
            (true, _) => without_units(&units, &database, &query),
            (false, true) => given("train", 3, &self.train, true, &rest)?,
            (false, false) => database.clone(),
        };
        let from = if is_given(&self.validation) { &rest } else { &pool };
        let validation = given("validation", 4, &self.validation, false, from)?;
        check_apart(
            ("train", &self.train, &pool),
            ("validation", &self.validation, &validation),
        )?;
        let train = if drawn {
            let pool = without_units(&units, &pool, &validation);
            given("train", 3, &self.train, true, &pool)?
        } else {
            minus(&pool, &validation)
        };
        let items = |members: &Members, k: usize| -> Vec<usize> {
            (0..members[k].len()).filter(|&item| members[k][item]).collect()
        };
        let parts = (0..dataset.modalities().len()).map(|k| Parts {
            train: items(&train, k),
            validation: items(&validation, k),
            query: items(&query, k),
            database: items(&database, k),
        });
        Ok(Split::new(dataset, parts.collect())?.with_notes(notes))
    }

    /// Draws the split; if it specifies no validation items, a share of the training items is held out. A
    /// fixed number of training items is reduced if there are not enough others.
    pub fn draw_with_validation(&self, dataset: &Dataset, share: f64) -> Result<Split> {
        if self.validation.is_some() || share == 0.0 {
            return self.draw(dataset);
        }
        let mut spec = self.clone();
        spec.validation = Some(Selection::Share(share));
        match (spec.draw(dataset), &spec.train) {
            (Err(_), Some(Selection::Count(train))) => {
                #[expect(clippy::cast_possible_truncation, reason = "a part of a count")]
                #[expect(clippy::cast_sign_loss, reason = "not negative")]
                let held_out = (*train as f64 * share).round() as usize;
                spec.train = Some(Selection::Count(train - held_out));
                spec.validation = Some(Selection::Count(held_out));
                spec.draw(dataset)
            }
            (drawn, _) => drawn,
        }
    }

    fn choose(
        &self,
        dataset: &Dataset,
        units: &ItemGroups,
        stream: u64,
        choice: &Selection,
        pool: &Members,
        notes: &mut Vec<String>,
    ) -> Result<Members> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(stream);
        let mut take = |count: usize| {
            let members = draw(dataset, units, pool, count, self.stratify, &mut rng);
            let got = distinct_keys(dataset, &members);
            if got != count {
                let name = PARTS[usize::try_from(stream).unwrap_or(0)];
                notes.push(format!(
                    "split, {name}: {count} items were requested, but {got} are drawn: groups are \
                     kept together, and none fits the rest"
                ));
            }
            members
        };
        match choice {
            Selection::Rest => Ok(pool.clone()),
            Selection::Count(count) => {
                let there = distinct_keys(dataset, pool);
                if *count > there {
                    return Err(Error::content(format!(
                        "{count} items were requested, but there are {there}"
                    )));
                }
                Ok(take(*count))
            }
            Selection::Share(share) => {
                if !(0.0..=1.0).contains(share) {
                    return Err(Error::content(format!(
                        "a share must be between 0 and 1, not {share}"
                    )));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at most the number of items"
                )]
                let count = (distinct_keys(dataset, pool) as f64 * share).round() as usize;
                Ok(take(count))
            }
            Selection::Rows(start, end) => {
                let longest = pool.iter().map(Vec::len).max().unwrap_or(0);
                if start >= end || *end > longest {
                    return Err(Error::content(format!(
                        "rows {start} to {end} are not among the {longest} items"
                    )));
                }
                let flag =
                    |(row, &free): (usize, &bool)| free && (*start..*end).contains(&row);
                Ok(pool.iter().map(|m| m.iter().enumerate().map(flag).collect()).collect())
            }
            Selection::Marked(values) => marked(dataset, values, pool),
        }
    }
}

fn marked(dataset: &Dataset, values: &[String], pool: &Members) -> Result<Members> {
    let known: BTreeSet<&str> = dataset
        .modalities()
        .iter()
        .flat_map(|modality| modality.marks().unwrap_or_default())
        .map(String::as_str)
        .collect();
    if known.is_empty() {
        return Err(Error::content(
            "a value is given but no split column: add `column = \"...\"` to [split]",
        ));
    }
    if let Some(value) = values.iter().find(|value| !known.contains(value.as_str())) {
        return Err(Error::unknown("value of the split column", value, known));
    }
    let flags = |(modality, pool): (&Modality, &Vec<bool>)| match modality.marks() {
        Some(marks) => {
            marks.iter().zip(pool).map(|(m, &p)| p && values.contains(m)).collect()
        }
        None => vec![false; pool.len()],
    };
    Ok(dataset.modalities().iter().zip(pool).map(flags).collect())
}

fn minus(from: &Members, what: &Members) -> Members {
    let row = |(a, b): (&Vec<bool>, &Vec<bool>)| {
        a.iter().zip(b).map(|(&a, &b)| a && !b).collect()
    };
    from.iter().zip(what).map(row).collect()
}

/// `from` without items whose group or pair is in `what`.
fn without_units(units: &ItemGroups, from: &Members, what: &Members) -> Members {
    let mut taken: HashSet<usize> = HashSet::new();
    for (k, flags) in what.iter().enumerate() {
        taken.extend((0..flags.len()).filter(|&i| flags[i]).map(|i| units.get(k, i)));
    }
    let free = |k: usize, i: usize| !taken.contains(&units.get(k, i));
    let row = |(k, flags): (usize, &Vec<bool>)| {
        (0..flags.len()).map(|i| flags[i] && free(k, i)).collect()
    };
    from.iter().enumerate().map(row).collect()
}

/// Whether the items are given explicitly, by value or row.
fn is_given(choice: &Option<Selection>) -> bool {
    matches!(choice, Some(Selection::Marked(_) | Selection::Rows(..)))
}

fn check_disjoint(
    dataset: &Dataset,
    (one, these): (&str, &Members),
    (other, those): (&str, &Members),
) -> Result<()> {
    let mut both = Vec::new();
    for (k, modality) in dataset.modalities().iter().enumerate() {
        let items = (0..modality.len()).filter(|&i| these[k][i] && those[k][i]);
        both.extend(items.map(|i| (modality.name(), modality.ids()[i].as_str())));
    }
    let (Some((modality, first)), Some((_, last))) = (both.first(), both.last()) else {
        return Ok(());
    };
    Err(Error::content(format!(
        "split: {} items are both in {one} and in {other}, from {first:?} (modality {modality}) \
         to {last:?}; assign them to one of the two",
        both.len()
    )))
}

fn distinct_keys(dataset: &Dataset, pool: &Members) -> usize {
    let mut keys: HashSet<&str> = HashSet::new();
    for (modality, flags) in dataset.modalities().iter().zip(pool) {
        let chosen = (0..flags.len()).filter(|&i| flags[i]);
        keys.extend(chosen.map(|i| modality.pair_key(i)));
    }
    keys.len()
}

/// As written in a manifest: `2000`, `0.1`, `"test"`, `["a", "b"]`, `{ rows = [0, 2000] }`, `"rest"`.
impl<'de> Deserialize<'de> for Selection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Selection, D::Error> {
        struct Typed;
        impl<'de> Visitor<'de> for Typed {
            type Value = Selection;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a size (2000), a share (0.1), one or more values of the split column, \
                     { rows = [from, to] }, or \"rest\"",
                )
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Selection, E> {
                let count = usize::try_from(count);
                count
                    .map(Selection::Count)
                    .map_err(|_| E::custom("a size must not be negative"))
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Selection, E> {
                let count = usize::try_from(count);
                count.map(Selection::Count).map_err(|_| E::custom("the size is too large"))
            }

            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Selection, E> {
                if (0.0..=1.0).contains(&share) {
                    Ok(Selection::Share(share))
                } else {
                    Err(E::custom(
                        "a share must be between 0.0 and 1.0; write a size without a decimal point",
                    ))
                }
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Selection, E> {
                Ok(match value {
                    "rest" => Selection::Rest,
                    value => Selection::Marked(vec![value.to_owned()]),
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<Selection, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Selection::Marked(values))
            }

            fn visit_map<A: de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<Selection, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Rows {
                    rows: [usize; 2],
                }
                let Rows { rows } =
                    Rows::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Selection::Rows(rows[0], rows[1]))
            }
        }
        deserializer.deserialize_any(Typed)
    }
}

impl Serialize for Selection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Selection::Count(count) => count.serialize(serializer),
            Selection::Share(share) => share.serialize(serializer),
            Selection::Marked(values) => values.serialize(serializer),
            Selection::Rest => serializer.serialize_str("rest"),
            Selection::Rows(start, end) => {
                std::collections::BTreeMap::from([("rows", [start, end])])
                    .serialize(serializer)
            }
        }
    }
}
