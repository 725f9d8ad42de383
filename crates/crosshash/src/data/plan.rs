//! `Plan`: how a split is made, by size, share, given values or rows; deterministic by seed.
//!
//! 1. Queries are chosen out of everything.
//! 2. The database is everything else, unless it is chosen.
//! 3. Training items are the database, or what is chosen; a size or share is drawn out of the
//!    database. Validation items are drawn out of the same pool first, and are not trained on.
//!
//! What is drawn as one is a group, or else an id, so pairs and groups stay together. Sizes
//! count distinct ids over all modalities. Each part draws from its own stream of the
//! generator: another training size leaves the queries as they are.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::draw::draw;
use super::{Dataset, Modality, Parts, Split};
use crate::{Error, Result};

/// How to make a split; what is not said has the default of its part.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Seed of every draw.
    pub seed: u64,
    /// Keep the shares of the labels equal in every part that is drawn.
    pub stratify: bool,
    /// Items that ask (default: none).
    pub query: Option<Choice>,
    /// Items that training may be judged by (default: none).
    pub validation: Option<Choice>,
    /// Items that are learnt from (default: the whole database).
    pub train: Option<Choice>,
    /// Items that are searched (default: everything but the queries).
    pub database: Option<Choice>,
}

/// The items of one part.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// So many, drawn.
    Count(usize),
    /// Such a share, drawn.
    Share(f64),
    /// Those whose split column has one of these values.
    Marked(Vec<String>),
    /// Those with these item numbers, from the first to before the second.
    Rows(usize, usize),
    /// Whatever is left.
    Rest,
}

/// One flag per item of each modality.
type Members = Vec<Vec<bool>>;

impl Plan {
    /// Draws and checks the split.
    pub fn draw(&self, dataset: &Dataset) -> Result<Split> {
        let all: Members =
            dataset.modalities().iter().map(|m| vec![true; m.len()]).collect();
        let none: Members =
            dataset.modalities().iter().map(|m| vec![false; m.len()]).collect();
        let choose = |name, stream, choice: &Option<Choice>, default, pool: &Members| {
            let choice = choice.as_ref();
            match choice {
                None => Ok(if default { pool.clone() } else { none.clone() }),
                Some(choice) => self
                    .choose(dataset, stream, choice, pool)
                    .map_err(|err| Error::content(format!("split, {name}: {err}"))),
            }
        };
        let query = choose("query", 1, &self.query, false, &all)?;
        let rest = minus(&all, &query);
        let database = choose("database", 2, &self.database, true, &rest)?;
        let drawn = matches!(self.train, Some(Choice::Count(_) | Choice::Share(_)));
        let pool = match drawn {
            true => without_units(dataset, &database, &query),
            false => {
                let database = minus(&database, &query);
                match &self.train {
                    Some(Choice::Marked(_) | Choice::Rows(..)) => {
                        choose("train", 3, &self.train, true, &rest)?
                    }
                    _ => database,
                }
            }
        };
        let given = matches!(self.validation, Some(Choice::Marked(_) | Choice::Rows(..)));
        let from = if given { &rest } else { &pool };
        let validation = choose("validation", 4, &self.validation, false, from)?;
        let pool = minus(&pool, &validation);
        let train = match drawn {
            true => choose("train", 3, &self.train, true, &pool)?,
            false => pool,
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
        Split::new(dataset, parts.collect())
    }

    fn choose(
        &self,
        dataset: &Dataset,
        stream: u64,
        choice: &Choice,
        pool: &Members,
    ) -> Result<Members> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(stream);
        match choice {
            Choice::Rest => Ok(pool.clone()),
            Choice::Count(count) => {
                let there = distinct_ids(dataset, pool);
                if *count > there {
                    return Err(Error::content(format!(
                        "{count} items are asked for, there are {there}"
                    )));
                }
                Ok(draw(dataset, pool, *count, self.stratify, &mut rng))
            }
            Choice::Share(share) => {
                if !(0.0..=1.0).contains(share) {
                    return Err(Error::content(format!("a share is 0 to 1, not {share}")));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at most the number of items"
                )]
                let count = (distinct_ids(dataset, pool) as f64 * share).round() as usize;
                Ok(draw(dataset, pool, count, self.stratify, &mut rng))
            }
            Choice::Rows(start, end) => {
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
            Choice::Marked(values) => marked(dataset, values, pool),
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
            "a value is given but no split column: say `column = \"...\"` under [split]",
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

/// `from` without anything whose group or pair is in `what`.
fn without_units(dataset: &Dataset, from: &Members, what: &Members) -> Members {
    let modalities = dataset.modalities();
    let mut taken: HashSet<&str> = HashSet::new();
    for (modality, flags) in modalities.iter().zip(what) {
        taken.extend((0..flags.len()).filter(|&i| flags[i]).map(|i| modality.unit(i)));
    }
    let row = |(modality, flags): (&Modality, &Vec<bool>)| {
        (0..flags.len()).map(|i| flags[i] && !taken.contains(modality.unit(i))).collect()
    };
    modalities.iter().zip(from).map(row).collect()
}

fn distinct_ids(dataset: &Dataset, pool: &Members) -> usize {
    let mut ids: HashSet<&str> = HashSet::new();
    for (modality, flags) in dataset.modalities().iter().zip(pool) {
        ids.extend(
            (0..flags.len()).filter(|&i| flags[i]).map(|i| modality.ids()[i].as_str()),
        );
    }
    ids.len()
}

/// As typed in a manifest: `2000`, `0.1`, `"test"`, `["a", "b"]`, `{ rows = [0, 2000] }`, `"rest"`.
impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Choice, D::Error> {
        struct Typed;
        impl<'de> Visitor<'de> for Typed {
            type Value = Choice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a size (2000), a share (0.1), one or more values of the split column, \
                     { rows = [from, to] }, or \"rest\"",
                )
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Choice, E> {
                let count = usize::try_from(count);
                count.map(Choice::Count).map_err(|_| E::custom("a size is not negative"))
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<Choice, E> {
                let count = usize::try_from(count);
                count.map(Choice::Count).map_err(|_| E::custom("that many items cannot be"))
            }

            fn visit_f64<E: de::Error>(self, share: f64) -> Result<Choice, E> {
                match (0.0..=1.0).contains(&share) {
                    true => Ok(Choice::Share(share)),
                    false => Err(E::custom("a share is 0.0 to 1.0; a size has no point")),
                }
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Choice, E> {
                Ok(match value {
                    "rest" => Choice::Rest,
                    value => Choice::Marked(vec![value.to_owned()]),
                })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Choice, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Choice::Marked(values))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Choice, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Rows {
                    rows: [usize; 2],
                }
                let Rows { rows } =
                    Rows::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Choice::Rows(rows[0], rows[1]))
            }
        }
        deserializer.deserialize_any(Typed)
    }
}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Choice::Count(count) => count.serialize(serializer),
            Choice::Share(share) => share.serialize(serializer),
            Choice::Marked(values) => values.serialize(serializer),
            Choice::Rest => serializer.serialize_str("rest"),
            Choice::Rows(start, end) => {
                std::collections::BTreeMap::from([("rows", [start, end])])
                    .serialize(serializer)
            }
        }
    }
}
