//! Asymmetric re-ranking: a real-valued query against codes.
//!
//! The sign discards the confidence of the query's network in each bit. Gordo, Perronnin, Gong,
//! Lazebnik, *Asymmetric Distances for Binary Embeddings*, TPAMI 2014: keep the query real and
//! score an item by the inner product of the query's outputs with the item's signs, bit 1
//! as +1 and bit 0 as -1. Candidates come from exact Hamming search.

use super::Hit;
use crate::{Codes, Error, Result};

/// A hit with its score; a higher score is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The item and its Hamming distance.
    pub hit: Hit,
    /// The inner product of the query's outputs and the item's signs.
    pub score: f32,
}

/// The hits of one query by descending score, ties by Hamming distance, then by item number.
/// `outputs` are the query's real values, one a bit.
pub fn rerank(codes: &Codes, outputs: &[f32], hits: &[Hit]) -> Result<Vec<Scored>> {
    let bits = codes.bits().get();
    if outputs.len() != bits {
        return Err(Error::Mismatch {
            left: "the index".into(),
            left_size: bits,
            right: "the real-valued query".into(),
            right_size: outputs.len(),
            unit: "bits a code",
            remedy: "one value a bit is needed",
        });
    }
    if let Some(column) = outputs.iter().position(|value| !value.is_finite()) {
        return Err(Error::BadValue {
            row: 0,
            column,
            value: outputs[column].to_string(),
            wanted: "is not a finite number".into(),
        });
    }
    let score = |item: u32| -> f32 {
        let code = codes.code(item as usize);
        let signed = |(k, &value): (usize, &f32)| {
            if code[k / 64] >> (k % 64) & 1 == 1 { value } else { -value }
        };
        outputs.iter().enumerate().map(signed).sum()
    };
    let mut scored: Vec<Scored> =
        hits.iter().map(|&hit| Scored { hit, score: score(hit.item) }).collect();
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.hit.cmp(&b.hit)));
    Ok(scored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bits;

    #[test]
    fn a_sure_bit_outweighs_unsure_ones() {
        let codes =
            Codes::from_words(Bits::new(3).unwrap(), vec![0b111, 0b110, 0b001]).unwrap();
        let hit = |item, distance| Hit { item, distance };
        let hits = [hit(0, 0), hit(1, 1), hit(2, 2)];
        let scored = rerank(&codes, &[5.0, 0.5, 0.25], &hits).unwrap();
        let order: Vec<u32> = scored.iter().map(|scored| scored.hit.item).collect();
        assert_eq!(order, [0, 2, 1]);
        assert!((scored[1].score - 4.25).abs() < 1e-6);
        assert!(rerank(&codes, &[1.0], &hits).is_err());
        assert!(rerank(&codes, &[1.0, f32::NAN, 0.0], &hits).is_err());
    }
}
