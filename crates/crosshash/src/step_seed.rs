//! Random generators that depend only on seed, stream, epoch and step, so that resumed training makes
//! the same random choices.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Seed of a random generator for one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepSeed {
    /// The seed of the run.
    pub(crate) seed: u64,
    /// Stream: a different number for each modality and purpose.
    pub(crate) stream: u64,
    /// The epoch, from 0.
    pub(crate) epoch: usize,
    /// The step within the epoch, from 0.
    pub(crate) step: usize,
}

impl StepSeed {
    /// Creates the generator.
    pub(crate) fn generator(self) -> ChaCha8Rng {
        let mut seed = [0_u8; 32];
        let parts = [self.seed, self.stream, self.epoch as u64, self.step as u64];
        for (bytes, part) in seed.chunks_exact_mut(8).zip(parts) {
            bytes.copy_from_slice(&part.to_le_bytes());
        }
        ChaCha8Rng::from_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;

    use super::*;

    #[test]
    fn every_part_counts() {
        let seed = StepSeed { seed: 1, stream: 2, epoch: 3, step: 4 };
        let first = |seed: StepSeed| seed.generator().next_u64();
        assert_eq!(first(seed), first(seed));
        for other in [
            StepSeed { seed: 9, ..seed },
            StepSeed { stream: 9, ..seed },
            StepSeed { epoch: 9, ..seed },
            StepSeed { step: 9, ..seed },
        ] {
            assert_ne!(first(seed), first(other));
        }
    }
}
