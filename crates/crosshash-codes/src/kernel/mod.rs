//! One row against many: counts of differing bits (Hamming distance) and of common bits
//! (shared labels), with run-time dispatch.
//!
//! Rows are packed words, `width` words per row. `portable.rs` is the reference; every
//! other file here is a faster implementation of it. The property test at the end compares all of
//! [`Kernel::available`] with it. Only those files contain `unsafe`.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
pub(crate) mod threshold;

use std::sync::OnceLock;

/// An implementation of bit counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel {
    /// Plain Rust, everywhere.
    Portable,
    /// x86-64 with AVX2, BMI2 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 VPOPCNTDQ and BITALG: Intel since Ice Lake, AMD since Zen 4.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 64-bit ARM.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// How the two words are combined before their ones are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    /// `a ^ b`: differing bits.
    Xor,
    /// `a & b`: common bits.
    And,
}

impl Kernel {
    /// Every kernel this machine can run, slowest first.
    pub fn available() -> Vec<Kernel> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64")),
            expect(unused_mut, reason = "nothing to add on other machines")
        )]
        let mut kernels = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
            {
                kernels.push(Kernel::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512bitalg")
                && is_x86_feature_detected!("avx512vpopcntdq")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
            {
                kernels.push(Kernel::Avx512);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            kernels.push(Kernel::Neon);
        }
        kernels
    }

    /// The fastest kernel of this machine, found once.
    pub fn best() -> Kernel {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Kernel::Portable))
    }

    /// A short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => "avx512-vpopcntdq",
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => "neon",
        }
    }

    /// `out[i] = popcount(one ^ many[i])`, the Hamming distances of one code to many.
    ///
    /// `many` holds `out.len()` rows as wide as `one`, which has at most 1,023 words.
    pub fn distances(self, one: &[u64], many: &[u64], out: &mut [u16]) {
        self.count(Combine::Xor, one, many, out);
    }

    /// `out[i] = popcount(one & many[i])`, the labels one item shares with many.
    ///
    /// `many` holds `out.len()` rows as wide as `one`; `one` has at most 65,535 ones.
    pub fn shared(self, one: &[u64], many: &[u64], out: &mut [u16]) {
        self.count(Combine::And, one, many, out);
    }

    fn count(self, combine: Combine, one: &[u64], many: &[u64], out: &mut [u16]) {
        assert!(!one.is_empty(), "a row has at least one word");
        assert_eq!(many.len(), one.len() * out.len(), "rows and room for their counts");
        debug_assert!(Kernel::available().contains(&self), "{self:?} cannot run here");
        match (self, combine) {
            (Kernel::Portable, Combine::Xor) => {
                portable::count(one, many, out, |a, b| a ^ b);
            }
            (Kernel::Portable, Combine::And) => {
                portable::count(one, many, out, |a, b| a & b);
            }
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx2, _) => avx2::count(combine, one, many, out),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512, _) => avx512::count(combine, one, many, out),
            #[cfg(target_arch = "aarch64")]
            (Kernel::Neon, _) => neon::count(combine, one, many, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    /// Bit by bit: slow, but obviously correct.
    fn naive(combine: Combine, one: &[u64], many: &[u64]) -> Vec<u16> {
        many.chunks_exact(one.len())
            .map(|row| {
                let mut ones = 0;
                for (a, b) in one.iter().zip(row) {
                    for k in 0..64 {
                        let (x, y) = (a >> k & 1, b >> k & 1);
                        ones += u16::from(match combine {
                            Combine::Xor => x != y,
                            Combine::And => x == 1 && y == 1,
                        });
                    }
                }
                ones
            })
            .collect()
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn every_kernel_counts_as_the_naive_one(
            width in 1_usize..=19,
            n in 0_usize..70,
            fill in prop_oneof![Just(0_u64), Just(u64::MAX), any::<u64>()],
            seed in any::<u64>(),
        ) {
            let mut state = seed;
            let mut word = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let noise = state ^ (state >> 29);
                if state >> 62 == 0 { fill } else { noise }
            };
            let one: Vec<u64> = (0..width).map(|_| word()).collect();
            let many: Vec<u64> = (0..width * n).map(|_| word()).collect();
            for combine in [Combine::Xor, Combine::And] {
                let truth = naive(combine, &one, &many);
                for kernel in Kernel::available() {
                    let mut counts = vec![0xABCD; n];
                    kernel.count(combine, &one, &many, &mut counts);
                    prop_assert_eq!(&counts, &truth, "{:?} {:?}", kernel, combine);
                }
            }
        }
    }

    /// Prints the kernels that this machine does not support, so that no run is silently partial.
    #[test]
    #[expect(clippy::print_stderr, reason = "a test may speak")]
    fn kernels_that_ran_here() {
        let names: Vec<_> = Kernel::available().iter().map(|k| k.name()).collect();
        eprintln!("kernels compared on this machine: {}", names.join(", "));
        assert_eq!(Kernel::best().name(), *names.last().unwrap());
        assert_eq!(names[0], "portable");
    }
}
