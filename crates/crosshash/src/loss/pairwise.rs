//! Sums of pairwise likelihoods and their gradients, for `likelihood.rs` and `cosine_likelihood.rs`.
//!
//! ```text
//! theta_ij = kappa <f_i, g_j> + b,    L = sum_ij ( log(1 + e^theta_ij) - S_ij theta_ij )
//! dL/d<f_i, g_j> = kappa (sigma(theta_ij) - S_ij)
//! ```
//!
//! S_ij is 1 if the items share a label, else 0. Computed in blocks of the rows of g: one product, one pass,
//! one product for the gradient, so that neither S nor theta is stored. S is a row of bits: the union of the
//! holders of each label of item i. `log(1 + e^theta)` is `max(theta, 0) + log(1 + e^-|theta|)`, which stays
//! finite; logarithms are combined into the logarithm of a product; the exponential is a polynomial (relative
//! error below 1e-5, near 0 below 3e-7). The pass is compiled twice, the second time for 256-bit vectors;
//! both versions add the same numbers in the same order.

use crosshash_codes::Labels;
use rayon::prelude::*;

use crate::gemm::{Factor, accumulate};

/// Rows of g per block: whole words of bits.
pub(super) const BLOCK: usize = 512;
/// Pairs per word of bits.
const WORD: usize = 64;
/// Sums that are kept apart, so that the compiler can use wide registers.
const LANES: usize = 16;

/// Value and gradients, not divided by the number of pairs.
pub(super) struct Sums {
    pub(super) value: f64,
    /// By f.
    pub(super) rows: Vec<f32>,
    pub(super) kappa: f64,
    pub(super) offset: f64,
}

/// The sums over rows `f` with labels `own` and rows `g` with labels `other`; `scale` is kappa and b.
///
/// # Panics
/// If the numbers of rows and labels do not match.
pub(super) fn sums(
    f: &[f32],
    own: &Labels,
    g: &[f32],
    other: &Labels,
    bits: usize,
    scale: [f32; 2],
) -> Sums {
    assert_eq!(f.len(), own.len() * bits, "one row of labels per row of outputs");
    assert_eq!(g.len(), other.len() * bits, "one row of labels per row of outputs");
    let holders = Holders::new(other);
    // Blocks depend only on the number of rows, so the sums do not depend on the threads.
    let parts: Vec<Sums> = g
        .par_chunks(BLOCK * bits)
        .enumerate()
        .map(|(k, block)| against(f, own, block, &holders, k * BLOCK, bits, scale))
        .collect();
    let zero = Sums { value: 0.0, rows: vec![0.0; f.len()], kappa: 0.0, offset: 0.0 };
    parts.into_iter().fold(zero, |mut sum, part| {
        sum.rows.iter_mut().zip(part.rows).for_each(|(a, b)| *a += b);
        let (value, kappa) = (sum.value + part.value, sum.kappa + part.kappa);
        Sums { value, kappa, offset: sum.offset + part.offset, ..sum }
    })
}

/// The items that have each label, as bits.
struct Holders {
    words: usize, // per label
    bits: Vec<u64>,
}

impl Holders {
    fn new(labels: &Labels) -> Holders {
        let words = labels.len().div_ceil(WORD);
        let mut bits = vec![0; labels.classes() * words];
        for item in 0..labels.len() {
            for label in labels.indices(item) {
                bits[label * words + item / WORD] |= 1 << (item % WORD);
            }
        }
        Holders { words, bits }
    }

    /// The items that share a label with an item, from the first item of a word on.
    fn sharing(&self, own: &Labels, item: usize, from: usize, out: &mut [u64]) {
        out.fill(0);
        for label in own.indices(item) {
            let holders = &self.bits[label * self.words + from / WORD..];
            out.iter_mut().zip(holders).for_each(|(a, b)| *a |= b);
        }
    }
}

/// Sums of one block, whose rows start at `from`.
fn against(
    f: &[f32],
    own: &Labels,
    block: &[f32],
    holders: &Holders,
    from: usize,
    bits: usize,
    scale: [f32; 2],
) -> Sums {
    let m = block.len() / bits;
    let mut products = vec![0.0_f32; own.len() * m];
    let (rows, columns) = (Factor::whole(f, bits), Factor::whole(block, bits));
    accumulate(&mut products, 0.0, rows, columns.transposed(), false);
    let mut sums = Sums { value: 0.0, rows: vec![0.0; f.len()], kappa: 0.0, offset: 0.0 };
    let mut similar = vec![0; m.div_ceil(WORD)];
    for (i, row) in products.chunks_exact_mut(m).enumerate() {
        holders.sharing(own, i, from, &mut similar);
        let [value, kappa, offset] = slopes(row, &similar, scale);
        sums.value += value;
        sums.kappa += kappa;
        sums.offset += offset;
    }
    let slopes = Factor::whole(&products, m);
    accumulate(&mut sums.rows, 0.0, slopes, Factor::whole(block, bits), false);
    sums
}

/// Value and derivatives by kappa and b of one row of inner products; replaces each product by its derivative.
fn slopes(row: &mut [f32], similar: &[u64], scale: [f32; 2]) -> [f64; 3] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        #[expect(unsafe_code, reason = "calls code for a feature of the processor")]
        // SAFETY: the processor has the feature.
        return unsafe { slopes_avx2(row, similar, scale) };
    }
    slopes_plain(row, similar, scale)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn slopes_avx2(row: &mut [f32], similar: &[u64], scale: [f32; 2]) -> [f64; 3] {
    slopes_plain(row, similar, scale)
}

#[inline(always)]
fn slopes_plain(row: &mut [f32], similar: &[u64], scale: [f32; 2]) -> [f64; 3] {
    let mut sums = [0.0_f64; 3];
    for (row, &similar) in row.chunks_mut(WORD).zip(similar) {
        let mut lanes = Lanes::new();
        let (whole, rest) = row.as_chunks_mut::<LANES>();
        let mut bits = similar;
        for x in whole {
            for (k, x) in x.iter_mut().enumerate() {
                // The bits of the lanes fit into 32.
                #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
                let similar = (bits as u32 >> k) & 1;
                lanes.add(k, x, similar, scale);
            }
            bits >>= LANES;
        }
        for (k, x) in rest.iter_mut().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
            let similar = (bits as u32 >> k) & 1;
            lanes.add(k, x, similar, scale);
        }
        let wide = |x: [f32; LANES]| x.iter().map(|&x| f64::from(x)).sum::<f64>();
        let logarithm = lanes.product.iter().map(|&p| f64::from(p)).product::<f64>().ln();
        sums[0] += logarithm + wide(lanes.linear);
        sums[1] += wide(lanes.by_kappa);
        sums[2] += wide(lanes.by_offset);
    }
    sums
}

/// Sums over the pairs of one word of bits.
struct Lanes {
    product: [f32; LANES], // at most 2^4 each
    linear: [f32; LANES],
    by_kappa: [f32; LANES],
    by_offset: [f32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn new() -> Lanes {
        let zero = [0.0; LANES];
        Lanes { product: [1.0; LANES], linear: zero, by_kappa: zero, by_offset: zero }
    }

    /// Adds one pair in lane `k`; replaces its inner product by the derivative.
    #[inline(always)]
    fn add(&mut self, k: usize, x: &mut f32, similar: u32, [kappa, offset]: [f32; 2]) {
        let similar = similar as f32;
        let theta = kappa * *x + offset;
        let small = exponential(-theta.abs());
        self.product[k] *= 1.0 + small;
        self.linear[k] += theta.max(0.0) - similar * theta;
        let sigma = if theta >= 0.0 { 1.0 } else { small } / (1.0 + small);
        let slope = sigma - similar;
        self.by_kappa[k] += slope * *x;
        self.by_offset[k] += slope;
        *x = kappa * slope;
    }
}

/// `e^x` for x <= 0, by `2^(k + r)` and a polynomial in r, |r| <= 1/2.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    use std::f32::consts::{LN_2, LOG2_E};
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to a whole number
    let power = (x * LOG2_E).max(-126.0);
    let shifted = power + ROUND;
    let r = power - (shifted - ROUND);
    // Minimax on [-1/2, 1/2].
    let mut value = 1.535_336_2e-4_f32;
    for c in [1.339_887_4e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, LN_2, 1.0] {
        value = value * r + c;
    }
    // The low bits of `shifted` are k; multiplying by 2^k is adding k to the exponent.
    f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_is_accurate() {
        for k in 0..2000 {
            let x = -0.043 * k as f32;
            let (found, wanted) = (exponential(x), x.exp());
            let off = (found - wanted).abs();
            assert!(off <= 3e-7 * (1.0 - x) * wanted + 1e-37, "e^{x}: {found}");
        }
    }

    /// Rows of every length, random bits: the vectorised pass equals the plain one in every bit, and a
    /// double precision loop up to rounding.
    #[test]
    fn the_vectorised_pass_equals_plain_loops() {
        let mut state = 1_u64;
        for length in (1..150).chain([BLOCK]) {
            let row: Vec<f32> =
                (0..length).map(|k| 3.0 * ((k + length) as f32 * 0.37).sin()).collect();
            let similar: Vec<u64> = (0..length.div_ceil(WORD))
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state ^ (state >> 29)
                })
                .collect();
            let scale = [2.0, -0.7];
            let (mut fast, mut plain) = (row.clone(), row.clone());
            let found = slopes(&mut fast, &similar, scale);
            assert_eq!(found, slopes_plain(&mut plain, &similar, scale));
            assert_eq!(fast, plain);
            let mut wanted = [0.0_f64; 3];
            for (k, (&x, &slope)) in row.iter().zip(&fast).enumerate() {
                let s = f64::from(u8::from(similar[k / WORD] >> (k % WORD) & 1 == 1));
                let theta = 2.0 * f64::from(x) - 0.7;
                let by = 1.0 / (1.0 + (-theta).exp()) - s;
                wanted[0] += theta.exp().ln_1p() - s * theta;
                wanted[1] += by * f64::from(x);
                wanted[2] += by;
                assert!((f64::from(slope) - 2.0 * by).abs() < 1e-5, "{slope} for {by}");
            }
            for (found, wanted) in found.iter().zip(wanted) {
                let off = (found - wanted).abs();
                assert!(off < 1e-5 * (1.0 + length as f64), "{found} for {wanted}");
            }
        }
    }

    #[test]
    fn bits_mark_the_items_that_share_a_label() {
        let sets = |n: usize, step: usize| {
            let one = move |i: usize| {
                let label = |k: usize| u32::try_from((i * step + k * 7) % 130).unwrap();
                (0..i % 4).map(label).collect::<Vec<u32>>()
            };
            Labels::from_indices(130, (0..n).map(one)).unwrap()
        };
        let (own, other) = (sets(9, 11), sets(WORD * 3 + 5, 3));
        let holders = Holders::new(&other);
        for from in [0, WORD] {
            let mut bits = vec![0; (other.len() - from).div_ceil(WORD)];
            for i in 0..own.len() {
                holders.sharing(&own, i, from, &mut bits);
                for j in from..other.len() {
                    let at = j - from;
                    let bit = bits[at / WORD] >> (at % WORD) & 1 == 1;
                    assert_eq!(bit, own.shared(i, &other, j) > 0, "{i} {j}");
                }
            }
        }
    }
}
