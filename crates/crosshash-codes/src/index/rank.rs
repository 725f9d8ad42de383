//! `Rank` and the scores that re-rank candidates.
//!
//! Every score is a cosine, between -1 and 1; a higher score is better:
//!
//! ```text
//! hamming     cos(sign f, b)  = 1 - 2 distance / bits      codes against codes
//! asymmetric  cos(f, b)       b in {-1, +1}                real query outputs f against codes
//! outputs     cos(f, g)       g the stored outputs         real against real
//! ```
//!
//! Asymmetric scores: Gordo, Perronnin, Gong, Lazebnik, *Asymmetric Distances for Binary
//! Embeddings*, TPAMI 2014. The sign discards the confidence of the network in each bit; the query
//! keeps it here.
//!
//! The query is rounded to 16 bits, so that a score is a sum of integers: it is the same on every
//! machine, whatever instructions add it up. The relative error of a value is below 2^-14.

use crate::{Bits, Error, Result};

/// What ranks the candidates of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rank {
    /// Hamming distance alone; there is no second stage.
    Hamming,
    /// The real outputs of the query against the codes of the items.
    Asymmetric,
    /// The real outputs of the query against the stored outputs of the items.
    Outputs,
}

impl Rank {
    /// All, worst first.
    pub const ALL: [Rank; 3] = [Rank::Hamming, Rank::Asymmetric, Rank::Outputs];

    /// The best for a query: by outputs if they are stored, else by the query's real outputs if it
    /// has any, else by Hamming distance.
    pub fn best(has_outputs: bool, has_reals: bool) -> Rank {
        match (has_outputs, has_reals) {
            (true, _) => Rank::Outputs,
            (false, true) => Rank::Asymmetric,
            (false, false) => Rank::Hamming,
        }
    }

    /// Its name: `hamming`, `asymmetric` or `outputs`.
    pub fn name(self) -> &'static str {
        match self {
            Rank::Hamming => "hamming",
            Rank::Asymmetric => "asymmetric",
            Rank::Outputs => "outputs",
        }
    }
}

impl std::str::FromStr for Rank {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rank> {
        Rank::ALL.into_iter().find(|rank| rank.name() == text).ok_or_else(|| {
            Error::content(format!(
                "no rank named {text:?}; use hamming, asymmetric or outputs"
            ))
        })
    }
}

/// The scores of the items for one query.
pub struct Scorer(Formula);

enum Formula {
    Hamming { bits: f64 },
    Asymmetric { sums: Vec<[i32; 256]>, length: f64 },
    Outputs { query: Vec<i16>, length: f64 },
}

impl Scorer {
    /// A query with its real outputs, one per bit; [`Rank::Hamming`] needs none.
    pub fn new(rank: Rank, bits: Bits, outputs: &[f32]) -> Result<Scorer> {
        let count = bits.get() as f64;
        if rank == Rank::Hamming {
            return Ok(Scorer(Formula::Hamming { bits: count }));
        }
        check(bits, outputs)?;
        let query = rounded(outputs);
        let squares = query.iter().map(|&value| f64::from(value) * f64::from(value));
        let length = squares.sum::<f64>().sqrt();
        Ok(Scorer(match rank {
            Rank::Outputs => Formula::Outputs { query, length },
            _ => Formula::Asymmetric { sums: sums(&query), length: length * count.sqrt() },
        }))
    }

    /// The score of an item. Only [`Rank::Asymmetric`] uses its code, only [`Rank::Outputs`] its
    /// stored outputs; for others they can be empty.
    pub fn score(&self, distance: u32, code: &[u64], outputs: &[i8]) -> f32 {
        let (dot, length) = match &self.0 {
            Formula::Hamming { bits } => (bits - 2.0 * f64::from(distance), *bits),
            Formula::Asymmetric { sums, length } => {
                let bytes = code.iter().flat_map(|word| word.to_le_bytes());
                let all = sums.iter().zip(bytes);
                let dot: i32 = all.map(|(sums, byte)| sums[usize::from(byte)]).sum();
                (f64::from(dot), *length)
            }
            Formula::Outputs { query, length } => {
                let (dot, squares) = products(query, outputs);
                (f64::from(dot), length * f64::from(squares).sqrt())
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "a score needs no more digits")]
        let score = if length > 0.0 { (dot / length) as f32 } else { 0.0 };
        score
    }
}

/// One finite output per bit.
pub(crate) fn check(bits: Bits, outputs: &[f32]) -> Result<()> {
    if outputs.len() != bits.get() {
        return Err(Error::Mismatch {
            left: "the index".into(),
            left_size: bits.get(),
            right: "the real-valued query".into(),
            right_size: outputs.len(),
            unit: "bits a code",
            remedy: "one value a bit is needed",
        });
    }
    match outputs.iter().position(|value| !value.is_finite()) {
        Some(column) => Err(Error::BadValue {
            row: 0,
            column,
            value: outputs[column].to_string(),
            wanted: "is not a finite number".into(),
        }),
        None => Ok(()),
    }
}

/// The outputs scaled and rounded, so that a product with bytes fits 32 bits.
fn rounded(outputs: &[f32]) -> Vec<i16> {
    let most = i32::MAX / 128 / i32::try_from(outputs.len().max(1)).unwrap_or(i32::MAX);
    let most = f64::from(most.min(i32::from(i16::MAX)));
    let largest = outputs.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
    let scale = if largest > 0.0 { most / f64::from(largest) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, reason = "at most the largest i16")]
    let value = |value: &f32| (f64::from(*value) * scale).round() as i16;
    outputs.iter().map(value).collect()
}

/// For every byte of a code, the signed sums of the eight values below it.
fn sums(query: &[i16]) -> Vec<[i32; 256]> {
    let of_byte = |group: &[i16]| {
        let mut sums = [0; 256];
        for (byte, sum) in sums.iter_mut().enumerate() {
            let signed = |(k, &value): (usize, &i16)| {
                if byte >> k & 1 == 1 { i32::from(value) } else { -i32::from(value) }
            };
            *sum = group.iter().enumerate().map(signed).sum();
        }
        sums
    };
    query.chunks(8).map(of_byte).collect()
}

/// The product of query and row, and the sum of the squares of the row.
#[inline]
fn products(query: &[i16], row: &[i8]) -> (i32, i32) {
    const LANES: usize = 16;
    let (mut dot, mut squares) = (0, 0);
    let (query_chunks, query_rest) = query.as_chunks::<LANES>();
    let (row_chunks, row_rest) = row.as_chunks::<LANES>();
    for (q, g) in query_chunks.iter().zip(row_chunks) {
        for k in 0..LANES {
            let value = i32::from(i16::from(g[k]));
            dot += i32::from(q[k]) * value;
            squares += value * value;
        }
    }
    for (&q, &g) in query_rest.iter().zip(row_rest) {
        dot += i32::from(q) * i32::from(g);
        squares += i32::from(g) * i32::from(g);
    }
    (dot, squares)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;
    use crate::{Codes, Outputs};

    fn cosine(a: &[f64], b: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let length = (dot(a, a) * dot(b, b)).sqrt();
        if length > 0.0 { dot(a, b) / length } else { 0.0 }
    }

    fn reals(values: &[f32]) -> Vec<f64> {
        values.iter().map(|&value| f64::from(value)).collect()
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn scores_are_cosines(
            width in 1_usize..200,
            values in prop::collection::vec(-3.0_f32..3.0, 400),
        ) {
            let bits = Bits::new(width).unwrap();
            let (f, g) = (&values[..width], &values[200..200 + width]);
            let (query, code) =
                (Codes::from_signs(bits, f).unwrap(), Codes::from_signs(bits, g).unwrap());
            let stored = Outputs::from_reals(bits, g).unwrap();
            let sign = |v: &f32| if *v >= 0.0 { 1.0 } else { -1.0 };
            let b: Vec<f64> = g.iter().map(sign).collect();
            let bytes: Vec<f64> = stored.row(0).iter().map(|&v| f64::from(v)).collect();
            let distance = query.distance(0, &code, 0);
            let truth = [
                cosine(&f.iter().map(sign).collect::<Vec<_>>(), &b),
                cosine(&reals(f), &b),
                cosine(&reals(f), &bytes),
            ];
            for (rank, truth) in Rank::ALL.into_iter().zip(truth) {
                let scorer = Scorer::new(rank, bits, f).unwrap();
                let score = scorer.score(distance, code.code(0), stored.row(0));
                prop_assert!((f64::from(score) - truth).abs() < 1e-3, "{rank:?} {score} {truth}");
            }
        }
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let bits = Bits::new(1024).unwrap();
        let reals = vec![f32::MAX; 1024];
        let codes = Codes::from_signs(bits, &reals).unwrap();
        let row = vec![-128_i8; 1024];
        for rank in Rank::ALL {
            let scorer = Scorer::new(rank, bits, &reals).unwrap();
            let score = scorer.score(0, codes.code(0), &row);
            let wanted = if rank == Rank::Outputs { -1.0 } else { 1.0 };
            assert!((score - wanted).abs() < 1e-5, "{rank:?} {score}");
        }
        let zeros = Scorer::new(Rank::Outputs, bits, &[0.0; 1024]).unwrap();
        assert!(zeros.score(3, codes.code(0), &row).abs() < f32::EPSILON);
        assert!(Scorer::new(Rank::Outputs, bits, &[0.0; 8]).is_err());
        assert!(Scorer::new(Rank::Asymmetric, bits, &[f32::NAN; 1024]).is_err());
    }

    #[test]
    fn ranks_have_names() {
        for rank in Rank::ALL {
            assert_eq!(rank.name().parse::<Rank>().unwrap(), rank);
        }
        let err = "cosine".parse::<Rank>().unwrap_err().to_string();
        assert_eq!(err, "no rank named \"cosine\"; use hamming, asymmetric or outputs");
    }
}
