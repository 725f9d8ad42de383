//! `Bits`, `Codes`, `BitOrder`: how codes are packed; the only place that packs them.
//!
//! A code of `r` bits is `ceil(r / 64)` little-endian `u64` words, bit 0 in the lowest place
//! of the first word; the padding above bit `r - 1` is zero. A real value becomes bit 1 iff
//! it is `>= 0`: zero, and minus zero, are positive.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// A code length in bits, from 1 to 1024, checked once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(u16);

impl Bits {
    /// The longest code.
    pub const MAX: usize = 1024;

    /// Checks a code length.
    pub fn new(bits: usize) -> Result<Bits> {
        match u16::try_from(bits) {
            Ok(b) if (1..=Self::MAX).contains(&bits) => Ok(Bits(b)),
            _ => Err(Error::BadBits { got: bits }),
        }
    }

    /// The length as a number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// How many `u64` words hold one code.
    pub fn words(self) -> usize {
        self.get().div_ceil(64)
    }

    /// How many bytes hold one packed code.
    pub fn bytes(self) -> usize {
        self.get().div_ceil(8)
    }

    /// The bits of the last word that belong to the code.
    fn tail_mask(self) -> u64 {
        match self.get() % 64 {
            0 => u64::MAX,
            used => (1 << used) - 1,
        }
    }
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which bit of a packed byte is the first bit of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOrder {
    /// Bit 0 of the code is the byte's lowest bit: crosshash, FAISS, `np.packbits(bitorder="little")`.
    Lsb,
    /// Bit 0 of the code is the byte's highest bit: `np.packbits`, PostgreSQL, Milvus.
    Msb,
}

/// Many codes of one length, stored back to back.
///
/// The words are owned, or borrowed from a memory-mapped file (see [`crate::format`]).
#[derive(Clone)]
pub struct Codes {
    bits: Bits,
    words: Words, // invariant: len % bits.words() == 0, padding bits are zero
}

#[derive(Clone)]
enum Words {
    Owned(Vec<u64>),
    Shared(Arc<dyn AsRef<[u64]> + Send + Sync>),
}

impl Codes {
    /// No codes yet, of the given length.
    pub fn new(bits: Bits) -> Codes {
        Codes { bits, words: Words::Owned(Vec::new()) }
    }

    /// Codes from real values, `bits` of them a row: bit 1 iff the value is `>= 0`, so zero
    /// is positive. NaN has no sign and is rejected.
    pub fn from_signs(bits: Bits, rows: &[f32]) -> Result<Codes> {
        Self::from_values(bits, rows, |v| if v.is_nan() { None } else { Some(*v >= 0.0) })
    }

    /// Codes from booleans, `bits` of them a row.
    pub fn from_bools(bits: Bits, rows: &[bool]) -> Result<Codes> {
        Self::from_values(bits, rows, |&b| Some(b))
    }

    /// Codes from any values through a rule that gives each its bit, or `None` if it has none.
    pub(crate) fn from_values<T: fmt::Display>(
        bits: Bits,
        rows: &[T],
        bit: impl Fn(&T) -> Option<bool>,
    ) -> Result<Codes> {
        let width = bits.get();
        if !rows.len().is_multiple_of(width) {
            return Err(Error::Ragged { what: "codes", got: rows.len(), width });
        }
        let mut words = vec![0_u64; rows.len() / width * bits.words()];
        for (row, values) in rows.chunks_exact(width).enumerate() {
            let code = &mut words[row * bits.words()..][..bits.words()];
            for (column, value) in values.iter().enumerate() {
                match bit(value) {
                    Some(on) => code[column / 64] |= u64::from(on) << (column % 64),
                    None => {
                        return Err(Error::BadValue {
                            row,
                            column,
                            value: value.to_string(),
                            wanted: "is not a bit".into(),
                        });
                    }
                }
            }
        }
        Ok(Codes { bits, words: Words::Owned(words) })
    }

    /// Codes from words in this crate's own layout; padding bits must be zero.
    pub fn from_words(bits: Bits, words: Vec<u64>) -> Result<Codes> {
        check_words(bits, &words)?;
        Ok(Codes { bits, words: Words::Owned(words) })
    }

    /// Codes over words that are stored elsewhere, such as a mapped file. The caller has checked
    /// the length; padding is not checked, so that opening a file does not read it.
    pub(crate) fn from_shared(
        bits: Bits,
        words: Arc<dyn AsRef<[u64]> + Send + Sync>,
    ) -> Codes {
        Codes { bits, words: Words::Shared(words) }
    }

    /// Codes over words that another owner holds (such as an array of another language) and that do not
    /// change as long as they are used; nothing is copied. Padding bits must be zero.
    pub fn over_words(
        bits: Bits,
        words: Arc<dyn AsRef<[u64]> + Send + Sync>,
    ) -> Result<Codes> {
        check_words(bits, (*words).as_ref())?;
        Ok(Codes::from_shared(bits, words))
    }

    /// The words, without a copy where this is their only owner.
    pub fn into_words(self) -> Vec<u64> {
        match self.words {
            Words::Owned(words) => words,
            Words::Shared(words) => (*words).as_ref().to_vec(),
        }
    }

    /// The same codes, held so that clones share them.
    #[must_use]
    pub fn shared(self) -> Codes {
        match self.words {
            Words::Owned(words) => Codes::from_shared(self.bits, Arc::new(words)),
            Words::Shared(_) => self,
        }
    }

    /// Codes from packed bytes, [`Bits::bytes`] a row; padding bits must be zero.
    pub fn from_packed(bits: Bits, bytes: &[u8], order: BitOrder) -> Result<Codes> {
        let width = bits.bytes();
        if !bytes.len().is_multiple_of(width) {
            return Err(Error::Ragged { what: "packed codes", got: bytes.len(), width });
        }
        let mut words = vec![0_u64; bytes.len() / width * bits.words()];
        for (row, packed) in bytes.chunks_exact(width).enumerate() {
            let code = &mut words[row * bits.words()..][..bits.words()];
            for (k, &byte) in packed.iter().enumerate() {
                let byte = if order == BitOrder::Msb { byte.reverse_bits() } else { byte };
                code[k / 8] |= u64::from(byte) << (k % 8 * 8);
            }
        }
        check_words(bits, &words)?;
        Ok(Codes { bits, words: Words::Owned(words) })
    }

    /// The codes as packed bytes, [`Bits::bytes`] a row.
    pub fn to_packed(&self, order: BitOrder) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() * self.bits.bytes());
        for code in self.iter() {
            let packed = code.iter().flat_map(|w| w.to_le_bytes()).take(self.bits.bytes());
            match order {
                BitOrder::Lsb => bytes.extend(packed),
                BitOrder::Msb => bytes.extend(packed.map(u8::reverse_bits)),
            }
        }
        bytes
    }

    /// The code length.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// Number of codes.
    pub fn len(&self) -> usize {
        self.words().len() / self.bits.words()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.words().is_empty()
    }

    /// All words, code after code.
    pub fn words(&self) -> &[u64] {
        match &self.words {
            Words::Owned(words) => words,
            Words::Shared(words) => (**words).as_ref(),
        }
    }

    /// The words of one code.
    pub fn code(&self, item_idx: usize) -> &[u64] {
        let width = self.bits.words();
        &self.words()[item_idx * width..][..width]
    }

    /// One bit of one code.
    pub fn bit(&self, item_idx: usize, bit_idx: usize) -> bool {
        assert!(bit_idx < self.bits.get(), "bit {bit_idx} of a code of {} bits", self.bits);
        self.code(item_idx)[bit_idx / 64] >> (bit_idx % 64) & 1 == 1
    }

    /// The codes one by one.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, u64> {
        self.words().chunks_exact(self.bits.words())
    }

    /// Hamming distance between one of these codes and one of the others.
    pub fn distance(&self, item_idx: usize, others: &Codes, other_idx: usize) -> u32 {
        assert_eq!(self.bits, others.bits, "codes of different length have no distance");
        let pair = self.code(item_idx).iter().zip(others.code(other_idx));
        pair.map(|(a, b)| (a ^ b).count_ones()).sum()
    }

    /// The codes with these numbers, in this order.
    pub fn select(&self, items: &[usize]) -> Codes {
        let words = items.iter().flat_map(|&i| self.code(i)).copied().collect();
        Codes { bits: self.bits, words: Words::Owned(words) }
    }

    /// Adds the codes of another set of the same length behind these.
    pub fn append(&mut self, others: &Codes) -> Result<()> {
        if self.bits != others.bits {
            return Err(Error::Mismatch {
                left: "the first set of codes".into(),
                left_size: self.bits.get(),
                right: "the second".into(),
                right_size: others.bits.get(),
                unit: "bits a code",
                remedy: "all codes of a set must have the same length",
            });
        }
        if let Words::Shared(words) = &self.words {
            self.words = Words::Owned((**words).as_ref().to_vec());
        }
        if let Words::Owned(words) = &mut self.words {
            words.extend_from_slice(others.words());
        }
        Ok(())
    }
}

impl PartialEq for Codes {
    fn eq(&self, other: &Codes) -> bool {
        self.bits == other.bits && self.words() == other.words()
    }
}

impl Eq for Codes {}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codes({} of {} bits)", self.len(), self.bits)
    }
}

/// Whole rows, zero padding.
pub(crate) fn check_words(bits: Bits, words: &[u64]) -> Result<()> {
    let width = bits.words();
    if !words.len().is_multiple_of(width) {
        return Err(Error::Ragged { what: "code words", got: words.len(), width });
    }
    let beyond = !bits.tail_mask();
    match words.chunks_exact(width).position(|code| code[width - 1] & beyond != 0) {
        None => Ok(()),
        Some(row) => Err(Error::Padding {
            row,
            bits: bits.get(),
            remedy: "check the length and the bit order".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    #[test]
    fn zero_is_positive() {
        let codes = Codes::from_signs(Bits::new(3).unwrap(), &[0.0, -0.0, -1.0]).unwrap();
        assert_eq!(codes.words(), [0b011]);
    }

    #[test]
    fn nan_is_rejected_with_its_place() {
        let err = Codes::from_signs(Bits::new(2).unwrap(), &[1.0, 1.0, -1.0, f32::NAN]);
        assert_eq!(err.unwrap_err().to_string(), "row 1, column 1: NaN is not a bit");
    }

    #[test]
    fn lengths_are_checked() {
        assert!(Bits::new(0).is_err());
        assert!(Bits::new(1025).is_err());
        assert_eq!(Bits::new(1024).unwrap().words(), 16);
        assert_eq!(
            Bits::new(70_000).unwrap_err().to_string(),
            "a code has 1 to 1024 bits, not 70000"
        );
    }

    #[test]
    fn padding_must_be_zero() {
        let bits = Bits::new(3).unwrap();
        assert!(Codes::from_packed(bits, &[0b0000_1000], BitOrder::Lsb).is_err());
        assert!(Codes::from_packed(bits, &[0b0001_0000], BitOrder::Msb).is_err());
        let msb = Codes::from_packed(bits, &[0b1100_0000], BitOrder::Msb).unwrap();
        assert_eq!(msb.words(), [0b011]);
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn packing_round_trips(bits in 1_usize..200, n in 0_usize..20, seed in any::<u64>()) {
            let bits = Bits::new(bits).unwrap();
            let mut state = seed;
            let bools: Vec<bool> = (0..n * bits.get())
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    state >> 63 == 1
                })
                .collect();
            let codes = Codes::from_bools(bits, &bools).unwrap();
            prop_assert_eq!(codes.len(), n);
            for order in [BitOrder::Lsb, BitOrder::Msb] {
                let packed = codes.to_packed(order);
                prop_assert_eq!(&Codes::from_packed(bits, &packed, order).unwrap(), &codes);
            }
            for (k, &on) in bools.iter().enumerate() {
                prop_assert_eq!(codes.bit(k / bits.get(), k % bits.get()), on);
            }
            prop_assert_eq!(&Codes::from_words(bits, codes.words().to_vec()).unwrap(), &codes);
        }
    }
}
