//! Integer multiples of the beta function: the weights of alternating subset sums.
//!
//! ```text
//! (-1)^(d-1) B(d, r+1) = sum_{j=0..r} (-1)^(d+j-1) C(r, j) / (d+j) = (-1)^(d-1) / (d C(d+r, d))
//! ```
//!
//! `d C(K, d)` divides `lcm(1, ..., K)` for all `d <= K` (Nair, *On Chebyshev-type inequalities
//! for primes*, 1982), so in units of `1/lcm(1..K)` every value with `d + r <= K` is an integer.

/// The values up to `d + r = K`.
pub(super) struct Beta {
    largest: usize, // K
    unit: i128,
    values: Vec<i128>, // [d][r], rows of K + 1
}

impl Beta {
    /// The table for the largest `K` up to `wanted` for which `bound` times the unit stays
    /// below 2^126.
    pub(super) fn new(wanted: usize, bound: u128) -> Beta {
        let room = (1_u128 << 126) / bound.max(1);
        let (mut largest, mut unit) = (1, 1_u128);
        while largest < wanted {
            let next = largest as u128 + 1;
            match (unit / gcd(unit, next)).checked_mul(next) {
                Some(lcm) if lcm < room => (largest, unit) = (largest + 1, lcm),
                _ => break,
            }
        }
        Beta {
            largest,
            unit: unit.cast_signed(),
            values: values(largest, unit.cast_signed()),
        }
    }

    /// K, the maximum number of labels of a set.
    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    /// Number of units in 1.
    pub(super) fn unit(&self) -> i128 {
        self.unit
    }

    /// `(-1)^(d-1) B(d, r+1)` in units; 0 for `d = 0`, where it is undefined.
    #[inline]
    pub(super) fn get(&self, d: usize, r: usize) -> i128 {
        self.values[d * (self.largest + 1) + r]
    }
}

fn values(largest: usize, unit: i128) -> Vec<i128> {
    let mut values = vec![0; (largest + 1) * (largest + 1)];
    for d in 1..=largest {
        let sign = if d % 2 == 1 { 1 } else { -1 };
        let mut choose = 1_i128; // C(d + r, d)
        for r in 0..=largest - d {
            if r > 0 {
                choose = choose * (d + r) as i128 / r as i128;
            }
            values[d * (largest + 1) + r] = sign * (unit / (d as i128 * choose));
        }
    }
    values
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_the_alternating_sum() {
        let beta = Beta::new(20, 1);
        assert_eq!((beta.largest(), beta.unit()), (20, 232_792_560));
        for d in 1..=20_usize {
            for r in 0..=20 - d {
                let (mut sum, mut choose) = (0_i128, 1_i128);
                for j in 0..=r {
                    let sign = if (d + j) % 2 == 1 { 1 } else { -1 };
                    sum += sign * choose * beta.unit() / (d + j) as i128;
                    choose = choose * (r - j) as i128 / (j + 1) as i128;
                }
                assert_eq!(beta.get(d, r), sum, "d {d}, r {r}");
            }
        }
    }

    #[test]
    fn the_table_is_limited_so_that_sums_do_not_overflow() {
        let million = 1_000_000_u128 * 1_000_000;
        let beta = Beta::new(5000, million);
        assert!(beta.largest() >= 48, "{}", beta.largest());
        assert!(beta.unit().cast_unsigned() * million < 1 << 126);
    }
}
