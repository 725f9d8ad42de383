//! The centres nearest to a code.

use crosshash_codes::Codes;

use super::QueryEncoder;
use crate::encode::Encoder as _;

/// A centre near a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearCentre {
    /// The number of its label in [`Model::labels`](crate::Model::labels).
    pub label: usize,
    /// Hamming distance between the code and the signs of the centre.
    pub distance: u32,
}

impl QueryEncoder {
    /// The centres nearest to a code by Hamming distance, at most `count`. Ties are ordered by the
    /// inner product with the real outputs, if they are known, then by label. Empty for a method
    /// without centres.
    pub fn nearest_centres(
        &self,
        code: &[u64],
        outputs: Option<&[f32]>,
        count: usize,
    ) -> Vec<NearCentre> {
        let Some(centres) = self.centre_codes() else { return Vec::new() };
        let bits = self.model().bits().get();
        let similarity = |label: usize| {
            let centre = &self.model().centres()[label * bits..(label + 1) * bits];
            outputs
                .map_or(0.0, |out| out.iter().zip(centre).map(|(a, b)| a * b).sum::<f32>())
        };
        let distance = |centre: &[u64]| {
            code.iter().zip(centre).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
        };
        let mut all: Vec<(u32, f32, usize)> = centres
            .iter()
            .enumerate()
            .map(|(label, centre)| (distance(centre), -similarity(label), label))
            .collect();
        all.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
        });
        all.truncate(count);
        all.into_iter().map(|(distance, _, label)| NearCentre { label, distance }).collect()
    }

    fn centre_codes(&self) -> Option<&Codes> {
        self.centres.as_ref()
    }
}
