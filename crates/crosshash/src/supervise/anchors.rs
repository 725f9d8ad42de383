//! Algorithm 1 with a sample of anchors, for data that is too large for exact sums.
//!
//! Only the `l` anchors are summed over, and the sums are scaled by `(n/l)^2` (q) and `n/l` (u)
//! before anything else. Cost: U x (distinct label sets of the anchors).
//!
//! Departure: anchors are sampled so that every label that occurs has at least one (the paper samples
//! uniformly); otherwise, with few anchors, the q of a rare label would be 0 and the label would never
//! be separated from others. The expected q is low by about `1/l` for uniform sampling.

use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand_chacha::ChaCha8Rng;

use super::Coefficients;
use super::bound::{self, Sums};
use super::groups::Groups;
use super::pairwise::pair_sums;
use crate::{Error, Result};

/// Samples `wanted` labelled items: first one for each label that is not covered yet, rarest label
/// first, then uniformly. Returns all labelled items if there are no more than that.
pub fn draw(labels: &Labels, wanted: usize, seed: u64) -> Result<Vec<usize>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut chosen = vec![false; labels.len()];
    let mut drawn = cover(labels, &mut chosen, &mut rng);
    if drawn.len() > wanted {
        return Err(Error::content(format!(
            "{wanted} anchors do not cover every label; use at least {}",
            drawn.len()
        )));
    }
    let mut rest: Vec<usize> =
        (0..labels.len()).filter(|&i| !chosen[i] && labels.count(i) > 0).collect();
    let more = (wanted - drawn.len()).min(rest.len());
    drawn.extend_from_slice(rest.partial_shuffle(&mut rng, more).0);
    drawn.sort_unstable();
    Ok(drawn)
}

/// Coefficients estimated from these anchors, scaled by `n/l` but not rescaled by M; `progress` is
/// called with the completed fraction, in thousandths.
pub fn from_anchors(
    labels: &Labels,
    anchors: &[usize],
    include_self: bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Coefficients> {
    let marks = mark(labels, anchors)?;
    let groups = Groups::split(labels, |item| !include_self && marks[item]);
    let mut counts = vec![0_u64; groups.sets.len()];
    anchors.iter().for_each(|&item| counts[groups.of_item[item] as usize] += 1);
    let n = groups.labelled();
    let all: Vec<usize> = (0..counts.len()).collect();
    let columns: Vec<usize> = (0..counts.len()).filter(|&set| counts[set] > 0).collect();

    let report = |from: usize, rows: usize| {
        move |done: usize| progress(from + done * 333 / rows.max(1))
    };
    let mut negatives = vec![0; counts.len()];
    let whole = report(0, columns.len());
    for (&set, sum) in
        columns.iter().zip(pair_sums(&groups.sets, &columns, &all, &groups.weights, &whole))
    {
        negatives[set] = n - u64::try_from(sum.positives).unwrap_or(n);
    }
    let near = pair_sums(&groups.sets, &all, &columns, &counts, &report(333, all.len()));
    let weights: Vec<u64> = counts.iter().zip(&negatives).map(|(v, far)| v * far).collect();
    let far = pair_sums(&groups.sets, &all, &columns, &weights, &report(666, all.len()));
    let sums = Sums {
        positives: near.iter().map(|sum| sum.positives).collect(),
        far_positives: far.iter().map(|sum| sum.positives).collect(),
        shares: near.into_iter().flat_map(|sum| sum.shares).collect(),
        far_shares: far.into_iter().flat_map(|sum| sum.shares).collect(),
        negatives,
    };
    Ok(bound::assemble(groups, &counts, &sums, include_self))
}

/// One item for each label that occurs.
fn cover(labels: &Labels, chosen: &mut [bool], rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut items_of = vec![Vec::new(); labels.classes()];
    for item in 0..labels.len() {
        labels.indices(item).for_each(|label| items_of[label].push(item));
    }
    let mut order: Vec<usize> = (0..items_of.len()).collect();
    order.sort_by_key(|&label| (items_of[label].len(), label));
    let mut covered = vec![false; labels.classes()];
    let mut drawn = Vec::new();
    for label in order {
        if covered[label] {
            continue;
        }
        if let Some(&item) = items_of[label].choose(rng) {
            labels.indices(item).for_each(|label| covered[label] = true);
            chosen[item] = true;
            drawn.push(item);
        }
    }
    drawn
}

/// Marks the items that are anchors; fails for invalid anchors.
fn mark(labels: &Labels, anchors: &[usize]) -> Result<Vec<bool>> {
    let mut marks = vec![false; labels.len()];
    for (place, &item) in anchors.iter().enumerate() {
        let wrong = match marks.get_mut(item) {
            None => Some(format!("does not exist, there are {} items", labels.len())),
            Some(true) => Some("is listed twice".into()),
            Some(_) if labels.count(item) == 0 => Some("has no label".into()),
            Some(mark) => {
                *mark = true;
                None
            }
        };
        if let Some(wrong) = wrong {
            return Err(Error::content(format!("anchor {place}: item {item} {wrong}")));
        }
    }
    Ok(marks)
}
