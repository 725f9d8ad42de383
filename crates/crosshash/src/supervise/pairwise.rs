//! Overlaps pair by pair: some label sets (rows) against others (columns).
//!
//! ```text
//! positives(a) = sum_b w_b [a & b not empty]
//! share(a, s)  = sum_{b: s in b} w_b / |a & b|
//! ```
//!
//! Shares are summed in `f64`, each row by one thread in the order of the columns: the result
//! does not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use crosshash_codes::Labels;
use rayon::prelude::*;

/// Overlap of one row with all columns.
#[derive(Clone, Debug)]
pub(super) struct PairSum {
    pub(super) positives: u128,
    pub(super) shares: Vec<f64>, // per label of the row, ascending
}

/// Sums for the sets `rows` over the sets `columns`, weighted by set. `progress` is called with the
/// number of rows done.
pub(super) fn pair_sums(
    sets: &Labels,
    rows: &[usize],
    columns: &[usize],
    weights: &[u64],
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<PairSum> {
    let packed: Vec<u64> = columns.iter().flat_map(|&set| sets.row(set)).copied().collect();
    let weights: Vec<u64> = columns.iter().map(|&set| weights[set]).collect();
    let done = AtomicUsize::new(0);
    let sum = |dense: &mut Vec<f64>, &row: &usize| {
        let positives = row_sum(sets.row(row), &packed, &weights, dense);
        let labels = sets.indices(row);
        let shares = labels.map(|s| std::mem::take(&mut dense[s])).collect();
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(256) {
            progress(done);
        }
        PairSum { positives, shares }
    };
    rows.par_iter().map_init(|| vec![0.0; sets.classes()], sum).collect()
}

/// Sums of one row; writes its shares to `dense`, by label.
fn row_sum(row: &[u64], packed: &[u64], weights: &[u64], dense: &mut [f64]) -> u128 {
    let mut positives = 0_u128;
    for (column, &weight) in packed.chunks_exact(row.len()).zip(weights) {
        let shared: u32 = row.iter().zip(column).map(|(a, b)| (a & b).count_ones()).sum();
        if shared == 0 {
            continue;
        }
        positives += u128::from(weight);
        let share = weight as f64 / f64::from(shared);
        for (k, (a, b)) in row.iter().zip(column).enumerate() {
            let mut word = a & b;
            while word != 0 {
                dense[k * 64 + word.trailing_zeros() as usize] += share;
                word &= word - 1;
            }
        }
    }
    positives
}
