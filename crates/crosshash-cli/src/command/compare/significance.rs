//! Differences of every method to the best one of the same code length: paired bootstrap over queries,
//! corrected by Holm's method.

use anyhow::Result;
use crosshash_codes::eval::{PairedDifference, holm, paired_bootstrap};

use super::Row;

/// Resamples of the queries.
const RESAMPLES: usize = 2000;

/// The difference of a row to the best row of its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Standing {
    /// It is the best.
    Best,
    /// The best minus this one, with a corrected p-value.
    Below(PairedDifference),
}

/// The standing of every row; `None` without results for every query.
pub(super) fn standings(
    rows: &[Row],
    directions: &[(String, String)],
) -> Result<Vec<Option<Standing>>> {
    let mut found = vec![None; rows.len()];
    let mut lengths: Vec<usize> = rows.iter().map(|row| row.bits).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for bits in lengths {
        let values: Vec<(usize, Vec<f64>)> = (0..rows.len())
            .filter(|&k| rows[k].bits == bits && rows[k].info.codes)
            .filter_map(|k| Some((k, rows[k].by_query(directions)?)))
            .collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let best = values.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
        let Some((best, of_best)) = best else { continue };
        found[*best] = Some(Standing::Best);
        let mut below = Vec::new();
        for (k, own) in values.iter().filter(|(k, _)| k != best) {
            if own.len() == of_best.len() {
                below.push((*k, paired_bootstrap(of_best, own, RESAMPLES, 1)?));
            }
        }
        let corrected = holm(&below.iter().map(|(_, one)| one.p).collect::<Vec<_>>());
        for ((k, one), p) in below.into_iter().zip(corrected) {
            found[k] = Some(Standing::Below(PairedDifference { p, ..one }));
        }
    }
    Ok(found)
}

impl Standing {
    /// For a table.
    pub(super) fn text(self) -> String {
        match self {
            Standing::Best => "best".into(),
            Standing::Below(one) => {
                let p =
                    if one.p < 0.001 { "<0.001".into() } else { format!("{:.3}", one.p) };
                format!("-{:.3} [{:.3}, {:.3}] p {p}", one.difference, one.low, one.high)
            }
        }
    }
}
