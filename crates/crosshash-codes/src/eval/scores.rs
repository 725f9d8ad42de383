//! Rankings by any score: Hamming distance, real queries against codes, real against real, and the
//! first items by Hamming distance re-ranked by real outputs.
//!
//! ```text
//! hamming     s_i = -|q xor b_i|                       codes against codes
//! asymmetric  s_i = sum_k f_k b_ik,  b in {-1, +1}      real query outputs f against codes
//! cosine      s_i = <f, g_i> / (|f| |g_i|)              real outputs against real outputs
//! reranked    s_i = cosine for the first K by hamming, -2 - |q xor b_i| for the others
//! ```
//!
//! The first K items are complete tie classes of at most K items in total, so that a value does not depend
//! on the order of the database: items that are tied at the boundary are not re-ranked.
//!
//! Items are ranked by falling score; items of exactly equal score are tied, and a ranking is a
//! sequence of tie classes as everywhere else in this module. Time per query O(items) for Hamming
//! distance with listed relevance, O(items log items) otherwise; memory O(items) per thread.

use rayon::prelude::*;

use super::ranking::{Ranking, TieClass};
use super::relevance::Relevance;
use crate::kernel::Kernel;
use crate::{Codes, Error, Result};

/// What ranks a database for each query.
#[derive(Clone, Debug)]
pub struct Scores<'a>(Kind<'a>);

#[derive(Clone, Debug)]
enum Kind<'a> {
    Hamming { query: &'a Codes, database: &'a Codes },
    Asymmetric { query: &'a [f32], database: &'a Codes },
    Cosine { query: Vec<f32>, database: Vec<f32>, width: usize },
    Reranked { first: Box<Kind<'a>>, then: Box<Kind<'a>>, candidates: usize },
}

impl<'a> Scores<'a> {
    /// By Hamming distance, smallest first.
    pub fn hamming(query: &'a Codes, database: &'a Codes) -> Result<Scores<'a>> {
        if query.bits() != database.bits() {
            return Err(widths(query.bits().get(), database.bits().get(), "bits a code"));
        }
        Ok(Scores(Kind::Hamming { query, database }))
    }

    /// By the inner product of real query outputs, one value a bit, with codes of -1 and +1.
    ///
    /// Its order equals that of Hamming distance if all outputs are -1 or +1.
    pub fn asymmetric(query: &'a [f32], database: &'a Codes) -> Result<Scores<'a>> {
        check_rows("query outputs", query, database.bits().get())?;
        Ok(Scores(Kind::Asymmetric { query, database }))
    }

    /// By cosine of real outputs, rows of `width`; a row of zeros has cosine 0 with every row.
    pub fn cosine(query: &[f32], database: &[f32], width: usize) -> Result<Scores<'a>> {
        check_rows("query outputs", query, width)?;
        check_rows("database outputs", database, width)?;
        let (query, database) = (unit(query, width), unit(database, width));
        Ok(Scores(Kind::Cosine { query, database, width }))
    }

    /// By cosine of real outputs among the first `candidates` items by Hamming distance; the other items
    /// follow by Hamming distance. Items that are tied at the boundary are not re-ranked.
    pub fn reranked(
        (query, database): (&'a Codes, &'a Codes),
        (query_outputs, database_outputs): (&[f32], &[f32]),
        candidates: usize,
    ) -> Result<Scores<'a>> {
        let first = Scores::hamming(query, database)?;
        let then = Scores::cosine(query_outputs, database_outputs, database.bits().get())?;
        for (what, codes, outputs) in [
            ("the query codes", first.queries(), then.queries()),
            ("the database codes", first.items(), then.items()),
        ] {
            if codes != outputs {
                return Err(Error::Mismatch {
                    left: what.into(),
                    left_size: codes,
                    right: "their real outputs".into(),
                    right_size: outputs,
                    unit: "rows",
                    remedy: "there must be one row of outputs per code",
                });
            }
        }
        let (first, then) = (Box::new(first.0), Box::new(then.0));
        Ok(Scores(Kind::Reranked { first, then, candidates }))
    }

    /// The name in reports: hamming, asymmetric, cosine or reranked.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Kind::Hamming { .. } => "hamming",
            Kind::Asymmetric { .. } => "asymmetric",
            Kind::Cosine { .. } => "cosine",
            Kind::Reranked { .. } => "reranked",
        }
    }

    /// Number of queries.
    pub fn queries(&self) -> usize {
        self.0.queries()
    }

    /// Number of database items.
    pub fn items(&self) -> usize {
        self.0.items()
    }

    /// The scores of all database items for one query.
    ///
    /// # Panics
    /// If `out` has not one place per item.
    pub fn fill(&self, query: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.items(), "one score per item");
        self.0.fill(query, out);
    }

    /// What `value` makes of the ranking of each query, in parallel, in the order of queries.
    /// Rankings have binary gains: 1 for a relevant item.
    ///
    /// ```
    /// use crosshash_codes::eval::{Relevance, Relevant, Scores, precision};
    ///
    /// let pairs = Relevant::from_rows(3, [[2]])?;
    /// let scores = Scores::cosine(&[1.0, 0.0], &[0.0, 1.0, 3.0, 1.0, 2.0, 0.0], 2)?;
    /// let first = scores.map(&Relevance::Listed(&pairs), |ranking| precision(ranking, 1))?;
    /// assert_eq!(first, [1.0]);
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn map<T: Send>(
        &self,
        relevance: &Relevance<'_>,
        value: impl Fn(&Ranking) -> T + Sync,
    ) -> Result<Vec<T>> {
        relevance.check(self.queries(), self.items())?;
        let one = |scratch: &mut Scratch, query: usize| {
            self.rank(query, relevance, scratch);
            value(&scratch.ranking)
        };
        Ok((0..self.queries()).into_par_iter().map_init(Scratch::default, one).collect())
    }

    fn rank(&self, query: usize, relevance: &Relevance<'_>, scratch: &mut Scratch) {
        match &self.0 {
            Kind::Hamming { query: codes, database } => {
                let (code, max) = (codes.code(query), database.bits().words() * 64);
                scratch.by_distance(code, database.words(), max, |each| {
                    relevance.each(query, each);
                });
            }
            Kind::Asymmetric { .. } | Kind::Cosine { .. } | Kind::Reranked { .. } => {
                scratch.scores.resize(self.items(), 0.0);
                self.fill(query, &mut scratch.scores);
                scratch.by_score(|each| relevance.each(query, each));
            }
        }
    }
}

impl Kind<'_> {
    fn queries(&self) -> usize {
        match self {
            Kind::Hamming { query, .. } => query.len(),
            Kind::Asymmetric { query, database } => query.len() / database.bits().get(),
            Kind::Cosine { query, width, .. } => query.len() / width,
            Kind::Reranked { first, .. } => first.queries(),
        }
    }

    fn items(&self) -> usize {
        match self {
            Kind::Hamming { database, .. } | Kind::Asymmetric { database, .. } => {
                database.len()
            }
            Kind::Cosine { database, width, .. } => database.len() / width,
            Kind::Reranked { first, .. } => first.items(),
        }
    }

    fn fill(&self, query: usize, out: &mut [f32]) {
        match self {
            Kind::Hamming { query: codes, database } => {
                let mut distances = vec![0; out.len()];
                Kernel::best().distances(
                    codes.code(query),
                    database.words(),
                    &mut distances,
                );
                out.iter_mut().zip(distances).for_each(|(s, d)| *s = -f32::from(d));
            }
            Kind::Asymmetric { query: outputs, database } => {
                let bits = database.bits().get();
                Table::new(&outputs[query * bits..][..bits]).scores(database, out);
            }
            Kind::Cosine { query: outputs, database, width } => {
                let f = &outputs[query * width..][..*width];
                for (s, g) in out.iter_mut().zip(database.chunks_exact(*width)) {
                    *s = dot(f, g);
                }
            }
            Kind::Reranked { first, then, candidates } => {
                let mut hamming = vec![0.0; out.len()];
                first.fill(query, &mut hamming);
                then.fill(query, out);
                let lowest = last_complete_class(&hamming, *candidates);
                for (score, &hamming) in out.iter_mut().zip(&hamming) {
                    if lowest.is_none_or(|lowest| hamming < lowest) {
                        *score = hamming - 2.0; // below every cosine
                    }
                }
            }
        }
    }
}

/// The lowest score of the first complete tie classes with at most `candidates` items in total; `None` if the
/// first class is larger.
fn last_complete_class(scores: &[f32], candidates: usize) -> Option<f32> {
    let mut sorted = scores.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    if sorted.len() <= candidates {
        return sorted.last().copied();
    }
    let beyond = sorted[candidates];
    sorted[..candidates].iter().rev().copied().find(|&score| score > beyond)
}

/// Room for one thread's work.
#[derive(Default)]
struct Scratch {
    distances: Vec<u16>,
    scores: Vec<f32>,
    keys: Vec<u64>,
    ranking: Ranking,
}

impl Scratch {
    /// Classes by Hamming distance: a histogram, nothing is sorted.
    fn by_distance(
        &mut self,
        code: &[u64],
        database: &[u64],
        max: usize,
        each_relevant: impl FnOnce(&mut dyn FnMut(usize)),
    ) {
        self.distances.resize(database.len() / code.len(), 0);
        Kernel::best().distances(code, database, &mut self.distances);
        let mut counts = vec![(0_u64, 0_u64); max + 1];
        for &distance in &self.distances {
            counts[usize::from(distance)].0 += 1;
        }
        each_relevant(&mut |item| counts[usize::from(self.distances[item])].1 += 1);
        let classes = counts.into_iter().filter(|&(items, _)| items > 0);
        self.ranking.classes.clear();
        self.ranking
            .classes
            .extend(classes.map(|(items, relevant)| binary(items, relevant)));
        self.finish();
    }

    /// Classes of equal score: keys that sort by falling score, the lowest bit for relevance.
    fn by_score(&mut self, each_relevant: impl FnOnce(&mut dyn FnMut(usize))) {
        self.keys.clear();
        self.keys.extend(self.scores.iter().map(|&score| falling(score) << 1));
        each_relevant(&mut |item| self.keys[item] |= 1);
        self.keys.sort_unstable();
        self.ranking.classes.clear();
        for class in self.keys.chunk_by(|a, b| a >> 1 == b >> 1) {
            let relevant = class.iter().map(|key| key & 1).sum();
            self.ranking.classes.push(binary(class.len() as u64, relevant));
        }
        self.finish();
    }

    fn finish(&mut self) {
        let relevant = self.ranking.classes.iter().map(|class| class.relevant).sum();
        self.ranking.relevant = relevant;
        self.ranking.ideal.clear();
        self.ranking.ideal.extend((relevant > 0).then(|| binary(relevant, relevant)));
    }
}

/// A class whose relevant items share one label and have gain 1.
fn binary(items: u64, relevant: u64) -> TieClass {
    TieClass { items, relevant, shared: relevant, gain: relevant as f64 }
}

/// A key that ascends as the score falls; both zeros are equal.
fn falling(score: f32) -> u64 {
    let bits = (score + 0.0).to_bits(); // -0.0 + 0.0 is +0.0
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    u64::from(!ascending)
}

/// Sums of f_k b_k by byte of the code: 256 values for each group of eight bits.
struct Table(Vec<[f32; 256]>);

impl Table {
    fn new(outputs: &[f32]) -> Table {
        let of_byte = |group: &[f32]| {
            let mut sums = [0.0; 256];
            for (byte, sum) in sums.iter_mut().enumerate() {
                let signed =
                    |(k, &f): (usize, &f32)| if byte >> k & 1 == 1 { f } else { -f };
                *sum = group.iter().enumerate().map(signed).sum();
            }
            sums
        };
        Table(outputs.chunks(8).map(of_byte).collect())
    }

    fn scores(&self, database: &Codes, out: &mut [f32]) {
        for (score, code) in out.iter_mut().zip(database.iter()) {
            let bytes = code.iter().flat_map(|word| word.to_le_bytes());
            *score = self.0.iter().zip(bytes).map(|(sums, b)| sums[usize::from(b)]).sum();
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    // Eight sums, so that the compiler can use wide registers; the order is fixed.
    let mut sums = [0.0_f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (x, y) in a8.iter().zip(b8) {
        for k in 0..8 {
            sums[k] += x[k] * y[k];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

/// Rows of length 1; a row of zeros stays.
fn unit(rows: &[f32], width: usize) -> Vec<f32> {
    let mut out = rows.to_vec();
    for row in out.chunks_exact_mut(width) {
        let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let length = square.sqrt();
        if length > 0.0 {
            #[expect(clippy::cast_possible_truncation, reason = "single precision output")]
            row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
        }
    }
    out
}

fn check_rows(what: &'static str, rows: &[f32], width: usize) -> Result<()> {
    if width == 0 || !rows.len().is_multiple_of(width) {
        return Err(Error::Ragged { what, got: rows.len(), width });
    }
    match rows.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::BadValue {
            row: at / width,
            column: at % width,
            value: rows[at].to_string(),
            wanted: format!("is not finite; {what} must be finite"),
        }),
    }
}

fn widths(left_size: usize, right_size: usize, unit: &'static str) -> Error {
    Error::Mismatch {
        left: "the query set".into(),
        left_size,
        right: "the database".into(),
        right_size,
        unit,
        remedy: "both must be of one length",
    }
}
