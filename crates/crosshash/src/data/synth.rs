//! Synthetic multi-label data of any size, written row by row: correlated and unbalanced labels, any
//! number of modalities that depend on the labels and have independent noise.
//!
//! ```text
//! topic t of an item    drawn with probability ~ 1 / (t + 1)
//! label l               with probability ~ per_item * w_tl / sum_l w_tl, at most 0.95, where
//!                       w_tl = (8 in the label's home topic, 0 to 1 elsewhere) / (l + 1);
//!                       at least one
//! dense row             sum of the directions of its labels (unit Gaussian, fixed per modality),
//!                       divided by sqrt(|Y|), + noise * Gaussian, private to the modality
//! sparse row, text      12 words, each drawn from the words of a label of the item (Zipf distribution)
//!                       with probability 1 - noise / (1 + noise), otherwise at random
//! ```
//!
//! The random numbers of an item depend on seed, item and modality only: with the same seed, the first n
//! items are the same for every size. Memory does not depend on the number of items.

use std::collections::BTreeMap;
use std::io::{BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use crosshash_codes::write::atomically;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::manifest::{ArrayFile, Items, LabelSource, Many, ModalitySource, SplitSource};
use super::{MANIFEST, Manifest, Selection};
use crate::{Error, Result};

/// Specification of a synthetic data set.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthSpec {
    /// Number of items.
    pub items: usize,
    /// The number of the first item; so large sets can be made in pieces.
    pub first: usize,
    /// Number of labels.
    pub labels: usize,
    /// Mean number of labels per item, approximately.
    pub per_item: f64,
    /// Noise of each modality, relative to the signal of the labels.
    pub noise: f64,
    /// Random seed.
    pub seed: u64,
    /// The modalities.
    pub modalities: Vec<SynthModality>,
}

impl SynthSpec {
    /// The numbers of all items.
    fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.items
    }
}

/// Specification of one modality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SynthModality {
    /// The name.
    pub name: String,
    /// Number of features or words.
    pub width: usize,
    /// The form of its items.
    pub form: SynthForm,
}

/// The form of a modality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynthForm {
    /// Dense features, as `.npy`.
    Dense,
    /// Word counts, as a CSR matrix in `.npz` (SciPy).
    Sparse,
    /// Texts, as `.jsonl`.
    Text,
}

impl SynthModality {
    fn file(&self) -> String {
        let ending = match self.form {
            SynthForm::Dense => "npy",
            SynthForm::Sparse => "npz",
            SynthForm::Text => "jsonl",
        };
        format!("{}.{ending}", self.name)
    }
}

/// Words in a sparse row.
const WORDS: usize = 12;
/// Maximum number of topics, which correlate labels; one per four labels.
const TOPICS: usize = 8;
/// How much more often a label occurs in its home topic.
const HOME: f64 = 8.0;

/// Writes the data set into an existing folder; returns the paths of the files.
pub fn synth(
    spec: &SynthSpec,
    folder: &Path,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<PathBuf>> {
    check(spec)?;
    let labeller = Labeller::new(spec);
    let table = folder.join("items.tsv");
    atomically(&table, |out| {
        writeln!(out, "id\tlabels")?;
        for item in spec.range() {
            let labels = labeller.labels(item);
            let names: Vec<String> =
                labels.iter().map(|label| format!("l{label}")).collect();
            writeln!(out, "{item}\t{}", names.join(" "))?;
        }
        Ok(())
    })?;
    let mut paths = vec![table];
    for (k, modality) in spec.modalities.iter().enumerate() {
        let done = |n: usize| progress(k * spec.items + n);
        let path = folder.join(modality.file());
        let maker = Maker { spec, labeller: &labeller, k, modality };
        atomically(&path, |out| match modality.form {
            SynthForm::Dense => maker.numbers(out, &done),
            SynthForm::Sparse => maker.counts(out, &done),
            SynthForm::Text => maker.texts(out, &done),
        })?;
        paths.push(path);
    }
    let manifest = folder.join(MANIFEST);
    let text = manifest_of(spec).to_toml()?;
    atomically(&manifest, |out| Ok(out.write_all(text.as_bytes())?))?;
    paths.push(manifest);
    Ok(paths)
}

fn check(spec: &SynthSpec) -> Result<()> {
    let bad = |what: &str| Err(Error::content(what));
    if spec.items == 0 || spec.labels == 0 || spec.modalities.is_empty() {
        return bad("at least one item, one label and one modality are needed");
    }
    if spec.modalities.iter().any(|modality| modality.width == 0) {
        return bad("a modality needs at least one number per item");
    }
    if !(spec.noise >= 0.0 && spec.noise.is_finite()) {
        return bad("noise must be 0 or more");
    }
    if !(spec.per_item >= 1.0 && spec.per_item <= spec.labels as f64) {
        return bad("labels per item must be between 1 and the number of labels");
    }
    for (k, modality) in spec.modalities.iter().enumerate() {
        if spec.modalities[..k].iter().any(|other| other.name == modality.name) {
            return bad("two modalities have the same name");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if modality.name.is_empty() || !modality.name.chars().all(plain) {
            return bad("names of modalities may contain letters, digits, - and _");
        }
    }
    Ok(())
}

fn manifest_of(spec: &SynthSpec) -> Manifest {
    let items = |table: &str| {
        let (table, id) = (Many::One(table.into()), Some("id".into()));
        Some(Items { table, id, ..Items::default() })
    };
    let source = |modality: &SynthModality| {
        let name = &modality.name;
        let file = modality.file();
        let source = match modality.form {
            SynthForm::Text => ModalitySource {
                text: Some(Many::One("text".into())),
                items: items(&file),
                ..ModalitySource::default()
            },
            SynthForm::Dense | SynthForm::Sparse => ModalitySource {
                features: Some(Many::One(ArrayFile::File(file.into()))),
                ..ModalitySource::default()
            },
        };
        (name.clone(), source)
    };
    let share = |share: f64| Some(Selection::Share(share));
    Manifest {
        name: Some(format!("synthetic, {} items, seed {}", spec.items, spec.seed)),
        licence: Some("made by crosshash data synth; free".into()),
        items: items("items.tsv"),
        labels: Some(LabelSource {
            column: Some(Many::One("labels".into())),
            separator: Some(" ".into()),
            ..LabelSource::default()
        }),
        split: Some(SplitSource {
            seed: spec.seed,
            query: share(0.1),
            train: share(0.5),
            ..SplitSource::default()
        }),
        modality: spec.modalities.iter().map(source).collect(),
        ..Manifest::default()
    }
}

/// A random generator: `stream` 0 for the specification, 1 for labels, from 2 for modalities.
fn rng(seed: u64, stream: u64, item: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng.set_word_pos((item as u128) << 24);
    rng
}

/// Draws the labels of any item.
struct Labeller {
    seed: u64,
    chances: Vec<Vec<f64>>, // topic x label
}

impl Labeller {
    fn new(spec: &SynthSpec) -> Labeller {
        let topics = (spec.labels / 4).clamp(1, TOPICS);
        let chances = (0..topics).map(|topic| {
            let mut rng = rng(spec.seed, 0, topic);
            let weights: Vec<f64> = (0..spec.labels)
                .map(|label| {
                    let home =
                        self::rng(spec.seed, 0, TOPICS + label).random_range(0..topics);
                    let pull = if home == topic { HOME } else { rng.random::<f64>() };
                    pull / (label + 1) as f64
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|w| (spec.per_item * w / sum).min(0.95)).collect()
        });
        Labeller { seed: spec.seed, chances: chances.collect() }
    }

    fn labels(&self, item: usize) -> Vec<usize> {
        let mut rng = rng(self.seed, 1, item);
        let topics = self.chances.len();
        let total: f64 = (1..=topics).map(|t| 1.0 / t as f64).sum();
        let mut left = rng.random::<f64>() * total;
        let topic = (0..topics).find(|t| {
            left -= 1.0 / (t + 1) as f64;
            left <= 0.0
        });
        let chances = &self.chances[topic.unwrap_or(topics - 1)];
        let mut labels: Vec<usize> =
            (0..chances.len()).filter(|&l| rng.random::<f64>() < chances[l]).collect();
        if labels.is_empty() {
            let sum: f64 = chances.iter().sum();
            let mut left = rng.random::<f64>() * sum;
            let one = chances.iter().position(|chance| {
                left -= chance;
                left <= 0.0
            });
            labels.push(one.unwrap_or(0));
        }
        labels
    }
}

/// Writes one modality.
struct Maker<'a> {
    spec: &'a SynthSpec,
    labeller: &'a Labeller,
    k: usize,
    modality: &'a SynthModality,
}

impl Maker<'_> {
    fn rng(&self, item: usize) -> ChaCha8Rng {
        rng(self.spec.seed, 2 + self.k as u64, item + 1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
    fn numbers(
        &self,
        out: &mut dyn Write,
        done: &dyn Fn(usize),
    ) -> crosshash_codes::Result<()> {
        let (rows, width) = (self.spec.items, self.modality.width);
        out.write_all(&npy_head("<f4", &format!("({rows}, {width})")))?;
        let mut own = rng(self.spec.seed, 2 + self.k as u64, 0);
        let scale = (width as f64).sqrt().recip();
        let directions: Vec<f64> =
            (0..self.spec.labels * width).map(|_| gaussian(&mut own) * scale).collect();
        let mut row = vec![0.0; width];
        let mut bytes = Vec::with_capacity(4 * width);
        for item in self.spec.range() {
            let labels = self.labeller.labels(item);
            let mut rng = self.rng(item);
            let weight = (labels.len() as f64).sqrt().recip();
            row.iter_mut().for_each(|x| *x = gaussian(&mut rng) * self.spec.noise * scale);
            for &label in &labels {
                let direction = &directions[label * width..][..width];
                row.iter_mut().zip(direction).for_each(|(x, d)| *x += weight * d);
            }
            bytes.clear();
            row.iter().for_each(|&x| bytes.extend((x as f32).to_le_bytes()));
            out.write_all(&bytes)?;
            if item % 1024 == 0 {
                done(item - self.spec.first);
            }
        }
        Ok(())
    }

    /// The words of an item, in order.
    fn words(&self, item: usize, labels: &[usize]) -> [usize; WORDS] {
        let width = self.modality.width;
        let chance = self.spec.noise / (1.0 + self.spec.noise);
        let mut rng = self.rng(item);
        std::array::from_fn(|_| {
            let zipf = zipf(&mut rng, width);
            if rng.random::<f64>() < chance {
                return zipf;
            }
            // Each label has its own order of words.
            let label = labels[rng.random_range(0..labels.len())];
            label.wrapping_mul(0x9e37_79b9).wrapping_add(zipf) % width
        })
    }

    fn texts(
        &self,
        out: &mut dyn Write,
        done: &dyn Fn(usize),
    ) -> crosshash_codes::Result<()> {
        for item in self.spec.range() {
            let labels = self.labeller.labels(item);
            let words = self.words(item, &labels).map(|word| format!("w{word}")).join(" ");
            let names: Vec<String> =
                labels.iter().map(|label| format!("\"l{label}\"")).collect();
            let names = names.join(", ");
            writeln!(out, r#"{{"id": "{item}", "labels": [{names}], "text": "{words}"}}"#)?;
            if item % 1024 == 0 {
                done(item - self.spec.first);
            }
        }
        Ok(())
    }

    /// Generates the items once per array of the CSR matrix, so that none is kept in memory.
    fn counts<W: Write + Seek>(
        &self,
        out: &mut W,
        done: &dyn Fn(usize),
    ) -> crosshash_codes::Result<()> {
        let row = |item: usize| {
            let mut counts: BTreeMap<usize, f32> = BTreeMap::new();
            for word in self.words(item, &self.labeller.labels(item)) {
                *counts.entry(word).or_default() += 1.0;
            }
            counts
        };
        let rows = || self.spec.range().map(row);
        let cells: usize = rows().map(|row| row.len()).sum();
        let (items, width) = (self.spec.items as u64, self.modality.width as u64);
        let mut archive = Archive { zip: ZipWriter::new(out) };
        archive.entry("format", "|S3", "()", |out| out.write_all(b"csr"))?;
        archive.entry("shape", "<i8", "(2,)", |out| {
            out.write_all(&items.to_le_bytes())?;
            out.write_all(&width.to_le_bytes())
        })?;
        archive.entry("indptr", "<i8", &format!("({},)", items + 1), |out| {
            let mut at = 0_u64;
            out.write_all(&at.to_le_bytes())?;
            rows().enumerate().try_for_each(|(item, row)| {
                at += row.len() as u64;
                done(item / 3);
                out.write_all(&at.to_le_bytes())
            })
        })?;
        archive.entry("indices", "<i4", &format!("({cells},)"), |out| {
            rows().flat_map(BTreeMap::into_keys).try_for_each(|word| {
                out.write_all(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes())
            })
        })?;
        archive.entry("data", "<f4", &format!("({cells},)"), |out| {
            rows()
                .flat_map(BTreeMap::into_values)
                .try_for_each(|count| out.write_all(&count.to_le_bytes()))
        })?;
        archive.zip.finish().map_err(std::io::Error::from)?;
        Ok(())
    }
}

/// An `.npz` that is written entry by entry.
struct Archive<W: Write + Seek> {
    zip: ZipWriter<W>,
}

impl<W: Write + Seek> Archive<W> {
    fn entry(
        &mut self,
        name: &str,
        descr: &str,
        shape: &str,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        self.zip
            .start_file(format!("{name}.npy"), options)
            .map_err(std::io::Error::from)?;
        let mut out = BufWriter::new(&mut self.zip);
        out.write_all(&npy_head(descr, shape))?;
        fill(&mut out)?;
        out.flush()
    }
}

/// A random number below `n`, with probability about 1 / (k + 1).
fn zipf(rng: &mut ChaCha8Rng, n: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below n")]
    let k = ((n as f64 + 1.0).powf(rng.random::<f64>()) - 1.0) as usize;
    k.min(n - 1)
}

/// A normally distributed number (Box-Muller).
fn gaussian(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// The header of a `.npy` file, version 1, padded to 64 bytes.
fn npy_head(descr: &str, shape: &str) -> Vec<u8> {
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend(u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    head.extend(text.bytes());
    head.resize(10 + length - 1, b' ');
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(first: usize, items: usize) -> SynthSpec {
        let modality =
            |name: &str, form| SynthModality { name: name.into(), width: 10, form };
        SynthSpec {
            items,
            first,
            labels: 6,
            per_item: 2.0,
            noise: 1.0,
            seed: 3,
            modalities: vec![
                modality("image", SynthForm::Dense),
                modality("words", SynthForm::Text),
            ],
        }
    }

    #[test]
    fn pieces_are_the_whole() {
        let bytes = |first, items, name: &str, head: usize| {
            let folder = tempfile::tempdir().unwrap();
            synth(&spec(first, items), folder.path(), &|_| ()).unwrap();
            fs_err::read(folder.path().join(name)).unwrap().split_off(head)
        };
        // the header of an array, or the line with the names of the columns
        let heads = [("image.npy", 128), ("words.jsonl", 0), ("items.tsv", 10)];
        for (name, head) in heads {
            let whole = bytes(0, 30, name, head);
            let pieces = [bytes(0, 11, name, head), bytes(11, 19, name, head)].concat();
            assert!(whole == pieces, "{name}");
        }
    }
}
