//! `Outputs`: the real outputs of a model, one signed byte per value.
//!
//! A row is scaled so that its largest absolute value is 127, then rounded. The scale is not
//! stored, because a cosine does not depend on it. Rounding moves every value by at most 1/2, so
//! the cosine with any vector changes by at most `sqrt(bits) / (2 |row|)`, where the row has
//! length at least 127: 0.031 at 64 bits in the worst case (one large value), below 0.002 for
//! normally distributed outputs and nearly 0 for outputs near -1 and +1.

use crate::{Bits, Codes, Error, Result};

/// The largest absolute value of a row.
const LARGEST: f32 = 127.0;

/// Rows of outputs, one signed byte per bit of a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    bits: Bits,
    values: Vec<i8>, // invariant: len % bits.get() == 0
}

impl Outputs {
    /// No rows.
    pub fn new(bits: Bits) -> Outputs {
        Outputs { bits, values: Vec::new() }
    }

    /// Rows of real outputs, scaled and rounded. A row of zeros stays zero.
    ///
    /// ```
    /// use crosshash_codes::{Bits, Outputs};
    ///
    /// let outputs = Outputs::from_reals(Bits::new(2)?, &[0.5, -0.25, 0.0, 0.0])?;
    /// assert_eq!(outputs.row(0), [127, -64]);
    /// assert_eq!(outputs.row(1), [0, 0]);
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn from_reals(bits: Bits, rows: &[f32]) -> Result<Outputs> {
        let width = bits.get();
        check_width(rows.len(), width)?;
        let mut values = Vec::with_capacity(rows.len());
        for (row, reals) in rows.chunks_exact(width).enumerate() {
            if let Some(column) = reals.iter().position(|value| !value.is_finite()) {
                return Err(Error::BadValue {
                    row,
                    column,
                    value: reals[column].to_string(),
                    wanted: "is not a finite number".into(),
                });
            }
            let largest = reals.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
            // Dividing first keeps tiny and huge rows inside the range of f32.
            let of = |value: &f32| if largest > 0.0 { value / largest } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "between -127 and 127")]
            values.extend(reals.iter().map(|value| (of(value) * LARGEST).round() as i8));
        }
        Ok(Outputs { bits, values })
    }

    /// The signs of codes as outputs: 127 for bit 1, -127 for bit 0.
    pub fn from_codes(codes: &Codes) -> Outputs {
        let bits = codes.bits();
        let mut values = Vec::with_capacity(codes.len() * bits.get());
        for code in codes.iter() {
            let sign =
                |k: usize| if code[k / 64] >> (k % 64) & 1 == 1 { 127 } else { -127 };
            values.extend((0..bits.get()).map(sign));
        }
        Outputs { bits, values }
    }

    /// Rows of bytes as they were stored.
    pub fn from_bytes(bits: Bits, values: Vec<i8>) -> Result<Outputs> {
        check_width(values.len(), bits.get())?;
        Ok(Outputs { bits, values })
    }

    /// The number of values in a row.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.bits.get()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// One row.
    ///
    /// # Panics
    /// If there are not as many rows.
    pub fn row(&self, row: usize) -> &[i8] {
        &self.values[row * self.bits.get()..(row + 1) * self.bits.get()]
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &[i8] {
        &self.values
    }

    /// Adds rows.
    pub fn append(&mut self, others: &Outputs) -> Result<()> {
        if others.bits != self.bits {
            return Err(Error::content(format!(
                "outputs of {} values cannot be added to outputs of {}",
                others.bits, self.bits
            )));
        }
        self.values.extend_from_slice(&others.values);
        Ok(())
    }
}

/// Rows of stored outputs in a part of an index.
#[derive(Clone, Copy)]
pub(crate) struct OutputRows<'a> {
    pub(crate) width: usize,
    pub(crate) values: &'a [i8],
}

impl<'a> OutputRows<'a> {
    /// One row; empty if there are not as many.
    pub(crate) fn row(&self, row: usize) -> &'a [i8] {
        self.values.get(row * self.width..(row + 1) * self.width).unwrap_or(&[])
    }
}

fn check_width(values: usize, width: usize) -> Result<()> {
    if values.is_multiple_of(width) {
        return Ok(());
    }
    Err(Error::content(format!("{values} outputs are no rows of {width}, one per bit")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    fn cosine(
        a: impl Iterator<Item = f64> + Clone,
        b: impl Iterator<Item = f64> + Clone,
    ) -> f64 {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
        let dot: f64 = a.clone().zip(b.clone()).map(|(x, y)| x * y).sum();
        dot / (norm(&mut a.clone()) * norm(&mut b.clone()))
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn rounding_changes_a_cosine_by_less_than_the_bound(
            rows in prop::collection::vec(-1.0_f32..1.0, 192),
            power in -30_i32..30,
        ) {
            let bits = Bits::new(64).unwrap();
            let (query, rest) = rows.split_at(64);
            let scaled: Vec<f32> = rest.iter().map(|v| v * 2.0_f32.powi(power)).collect();
            let outputs = Outputs::from_reals(bits, &scaled).unwrap();
            for at in 0..2 {
                let stored = outputs.row(at);
                prop_assert_eq!(stored.iter().map(|v| v.unsigned_abs()).max(), Some(127));
                let length = stored.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
                let stored = stored.iter().map(|&v| f64::from(v));
                let exact = rest[at * 64..][..64].iter().map(|&v| f64::from(v));
                let query = query.iter().map(|&v| f64::from(v));
                let error = cosine(query.clone(), exact) - cosine(query, stored);
                let bound = 8.0 / 2.0 / (length - 4.0);
                prop_assert!(error.abs() < bound, "{error} of {bound}");
                prop_assert!(error.abs() < 0.004, "{error}");
            }
        }
    }

    #[test]
    fn codes_become_signs_and_bad_values_are_refused() {
        let bits = Bits::new(3).unwrap();
        let codes = Codes::from_words(bits, vec![0b101, 0b010]).unwrap();
        let outputs = Outputs::from_codes(&codes);
        assert_eq!(outputs.values(), [127, -127, 127, -127, 127, -127]);
        assert_eq!(outputs.len(), 2);
        let err = Outputs::from_reals(bits, &[0.0; 4]).unwrap_err().to_string();
        assert_eq!(err, "4 outputs are no rows of 3, one per bit");
        let err = Outputs::from_reals(bits, &[0.0, f32::NAN, 1.0]).unwrap_err().to_string();
        assert!(err.contains("is not a finite number"), "{err}");
        assert!(Outputs::from_bytes(bits, vec![0; 5]).is_err());
    }
}
