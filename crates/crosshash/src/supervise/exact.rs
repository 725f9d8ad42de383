//! Exact coefficients of the improved bound: every item is an anchor.
//!
//! Sums over the U distinct label sets instead of the n items, and over shared subsets instead of
//! pairs of sets where that is cheaper (`overlap.rs`): the cost grows with U, not with n. Sets with
//! too many labels for the integer arithmetic (about 50) are compared pair by pair.

use crosshash_codes::Labels;

use super::Coefficients;
use super::beta::Beta;
use super::bound::{self, Sums};
use super::groups::Groups;
use super::overlap::Overlap;
use super::pairwise::pair_sums;
use crate::{Error, Result};

/// Unscaled coefficients; `progress` is called with the completed fraction, in thousandths.
pub fn exact(
    labels: &Labels,
    include_self: bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Coefficients> {
    of_groups(Groups::new(labels), include_self, progress)
}

/// The same for items that are already grouped.
pub(super) fn of_groups(
    groups: Groups,
    include_self: bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Coefficients> {
    let n = groups.labelled();
    if n > u64::from(u32::MAX) {
        return Err(Error::content(format!(
            "{n} labelled items exceed the limit of 2^32; use a sample"
        )));
    }
    let plan = Plan::new(&groups);
    let near = plan.sums(&groups.weights, &|done| progress(done / 2));
    let negatives: Vec<u64> =
        near.0.iter().map(|&p| n - u64::try_from(p).unwrap_or(n)).collect();
    let weights = groups.weights.iter().zip(&negatives).map(|(w, far)| w * far);
    let far = plan.sums(&weights.collect::<Vec<_>>(), &|done| progress(500 + done / 2));
    let anchors = groups.weights.clone();
    let sums = Sums {
        positives: near.0,
        far_positives: far.0,
        shares: near.1,
        far_shares: far.1,
        negatives,
    };
    Ok(bound::assemble(groups, &anchors, &sums, include_self))
}

/// Partition of the sets by algorithm.
pub(super) struct Plan<'a> {
    sets: &'a Labels,
    starts: Vec<usize>,
    beta: Beta,
    narrow: Vec<usize>,
    wide: Vec<usize>,
    overlap: Overlap,
}

impl<'a> Plan<'a> {
    pub(super) fn new(groups: &'a Groups) -> Plan<'a> {
        let sets = &groups.sets;
        let n = u128::from(groups.labelled());
        let largest = (0..sets.len()).map(|set| sets.count(set)).max().unwrap_or(0);
        let beta = Beta::new(largest, n * n);
        let labelled = (0..sets.len()).filter(|&set| sets.count(set) > 0);
        let (narrow, wide): (Vec<_>, Vec<_>) =
            labelled.partition(|&set| sets.count(set) <= beta.largest());
        let overlap = Overlap::new(sets, &narrow);
        Plan { sets, starts: groups.starts(), beta, narrow, wide, overlap }
    }

    /// For weights per set: the weight of the sets that overlap each set, and the shares of its
    /// labels.
    pub(super) fn sums(
        &self,
        weights: &[u64],
        progress: &(dyn Fn(usize) + Sync),
    ) -> (Vec<u128>, Vec<f64>) {
        let mut positives = vec![0_u128; self.sets.len()];
        let mut shares = vec![0.0; self.starts[self.sets.len()]];
        self.add_narrow(weights, &mut positives, &mut shares, progress);
        if !self.wide.is_empty() {
            self.add_pairs(&self.narrow, &self.wide, weights, &mut positives, &mut shares);
            let all: Vec<usize> = (0..self.sets.len()).collect();
            self.add_pairs(&self.wide, &all, weights, &mut positives, &mut shares);
        }
        (positives, shares)
    }

    fn add_narrow(
        &self,
        weights: &[u64],
        positives: &mut [u128],
        shares: &mut [f64],
        progress: &(dyn Fn(usize) + Sync),
    ) {
        let narrow: Vec<u64> = self.narrow.iter().map(|&set| weights[set]).collect();
        let classes = self.sets.classes().max(1);
        let units = self
            .overlap
            .shares(&narrow, &self.beta, &|done| progress(done * 1000 / classes));
        let unit = self.beta.unit();
        let mut rest = &units[..];
        for &set in &self.narrow {
            let row;
            let span = self.starts[set]..self.starts[set + 1];
            (row, rest) = rest.split_at(span.len());
            // The shares of a pair add up to 1, so these are integers.
            positives[set] = (row.iter().sum::<i128>() / unit).cast_unsigned();
            for (share, &units) in shares[span].iter_mut().zip(row) {
                *share = units as f64 / unit as f64;
            }
        }
    }

    fn add_pairs(
        &self,
        rows: &[usize],
        columns: &[usize],
        weights: &[u64],
        positives: &mut [u128],
        shares: &mut [f64],
    ) {
        let sums = pair_sums(self.sets, rows, columns, weights, &|_| ());
        for (&set, sum) in rows.iter().zip(sums) {
            positives[set] += sum.positives;
            let span = self.starts[set]..self.starts[set + 1];
            shares[span].iter_mut().zip(sum.shares).for_each(|(share, add)| *share += add);
        }
    }
}
