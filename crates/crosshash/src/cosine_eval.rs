//! Evaluation of real outputs ranked by cosine similarity, for references without codes. The metrics
//! are the same as for codes; items of equal similarity are tied.

use crosshash_codes::Labels;
use crosshash_codes::eval::{
    ApDenominator, Ranking, TieClass, average_precision, precision_at_recall,
    recall_levels, top_n_curve,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::evaluate::Direction;

/// Outputs of queries and database of one modality; the width is the same for all modalities.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// The modality.
    pub name: String,
    /// Outputs of its queries.
    pub queries: Vec<f32>,
    /// Labels of its queries.
    pub query_labels: Labels,
    /// Outputs of its database.
    pub database: Vec<f32>,
    /// Labels of its database.
    pub database_labels: Labels,
}

/// Metrics of one direction, for rankings by codes or by cosine similarity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionMetrics {
    /// Modality of the queries.
    pub query: String,
    /// Modality of the database.
    pub database: String,
    /// Tie-aware MAP over the whole ranking; `None` without labels.
    pub map: Option<f64>,
    /// Expected MAP of a random ranking; `None` without labels.
    pub chance: Option<f64>,
    /// Recall levels.
    pub recall: Vec<f64>,
    /// Interpolated precision at the recall levels.
    pub precision: Vec<f64>,
    /// Numbers of results N.
    pub top_n: Vec<usize>,
    /// Precision of the first N results.
    pub top_n_precision: Vec<f64>,
    /// R@10 of pairs, if there are pairs and it was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair_recall: Option<f64>,
    /// P@5 of typed words, of what is possible, if there are texts and it was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_words: Option<f64>,
}

impl DirectionMetrics {
    /// Metrics of a direction evaluated with codes; keeps the top-N curve at the points `top_n`.
    pub fn of(direction: &Direction, top_n: &[usize]) -> DirectionMetrics {
        let mut metrics = DirectionMetrics {
            query: direction.query.clone(),
            database: direction.database.clone(),
            map: direction.report.mean_average_precision(),
            chance: direction.report.chance,
            recall: Vec::new(),
            precision: Vec::new(),
            top_n: Vec::new(),
            top_n_precision: Vec::new(),
            pair_recall: direction.report.user.known_item.as_ref().map(|found| found.r10),
            typed_words: {
                direction.report.user.words.as_ref().map(|found| found.p5_possible)
            },
        };
        if let Some(curves) = &direction.report.curves {
            for n in top_n {
                if let Some(at) = curves.top_n.iter().position(|known| known == n) {
                    metrics.top_n.push(*n);
                    metrics.top_n_precision.push(curves.top_n_precision[at]);
                }
            }
            metrics.recall.clone_from(&curves.recall);
            metrics.precision.clone_from(&curves.precision);
        }
        metrics
    }
}

/// Evaluates every direction by cosine similarity; outputs are rows of `width`.
pub fn every_direction_by_cosine(
    all: &[Outputs],
    width: usize,
    top_n: &[usize],
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<DirectionMetrics> {
    let mut metrics = Vec::new();
    for from in all {
        for to in all {
            if from.queries.is_empty() || to.database.is_empty() {
                continue;
            }
            metrics.push(direction(from, to, width, top_n));
            progress(metrics.len());
        }
    }
    metrics
}

fn direction(
    from: &Outputs,
    to: &Outputs,
    width: usize,
    top_n: &[usize],
) -> DirectionMetrics {
    if from.query_labels.classes() == 0 {
        return DirectionMetrics {
            query: from.name.clone(),
            database: to.name.clone(),
            map: None,
            chance: None,
            recall: Vec::new(),
            precision: Vec::new(),
            top_n: Vec::new(),
            top_n_precision: Vec::new(),
            pair_recall: None,
            typed_words: None,
        };
    }
    let (queries, database) = (unit(&from.queries, width), unit(&to.database, width));
    let top_n: Vec<usize> =
        top_n.iter().copied().filter(|&n| n <= to.database_labels.len()).collect();
    let one = |(at, query): (usize, &[f32])| {
        let scores = database
            .chunks_exact(width)
            .map(|row| row.iter().zip(query).map(|(x, q)| x * q).sum::<f32>());
        let shared = |item| from.query_labels.shared(at, &to.database_labels, item) > 0;
        let ranking = ranking(scores.collect(), shared);
        let share = ranking.relevant as f64 / to.database_labels.len() as f64;
        (
            average_precision(&ranking, None, ApDenominator::Total),
            share,
            precision_at_recall(&ranking),
            top_n_curve(&ranking, &top_n),
        )
    };
    let rows: Vec<_> = queries.par_chunks_exact(width).enumerate().map(one).collect();
    let n = rows.len().max(1) as f64;
    let mut metrics = DirectionMetrics {
        query: from.name.clone(),
        database: to.name.clone(),
        map: None,
        chance: None,
        recall: recall_levels(),
        precision: vec![0.0; recall_levels().len()],
        top_n_precision: vec![0.0; top_n.len()],
        top_n,
        pair_recall: None,
        typed_words: None,
    };
    let (mut mean_map, mut chance) = (0.0, 0.0);
    for (map, share, precision, top) in rows {
        mean_map += map / n;
        chance += share / n;
        metrics.precision.iter_mut().zip(precision).for_each(|(sum, p)| *sum += p / n);
        metrics.top_n_precision.iter_mut().zip(top).for_each(|(sum, p)| *sum += p / n);
    }
    (metrics.map, metrics.chance) = (Some(mean_map), Some(chance));
    metrics
}

/// Normalises rows to length 1; zero rows are unchanged.
fn unit(rows: &[f32], width: usize) -> Vec<f32> {
    let mut out = rows.to_vec();
    for row in out.chunks_exact_mut(width) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= length);
    }
    out
}

/// Ranking by descending score; equal scores are tied.
fn ranking(scores: Vec<f32>, relevant: impl Fn(usize) -> bool) -> Ranking {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut classes: Vec<TieClass> = Vec::new();
    let (mut last, mut hits) = (None, 0);
    for item in order {
        let hit = u64::from(relevant(item));
        hits += hit;
        match classes.last_mut().filter(|_| last == Some(scores[item])) {
            Some(class) => {
                class.items += 1;
                class.relevant += hit;
            }
            None => {
                classes.push(TieClass { items: 1, relevant: hit, ..TieClass::default() })
            }
        }
        last = Some(scores[item]);
    }
    Ranking { classes, ideal: Vec::new(), relevant: hits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_cosine_with_ties() {
        let labels =
            |rows: &[u32]| Labels::from_indices(2, rows.iter().map(|&l| [l])).unwrap();
        let outputs = Outputs {
            name: "m".into(),
            queries: vec![1.0, 0.0],
            query_labels: labels(&[0]),
            database: vec![5.0, 0.1, 0.25, 0.25, 0.5, 0.5, -1.0, 0.0],
            database_labels: labels(&[0, 1, 0, 1]),
        };
        let metrics = every_direction_by_cosine(&[outputs], 2, &[1, 2, 9], &|_| {});
        // first a hit, then a tie of one hit and one miss: AP = (1 + (2/2 + 2/3) / 2) / 2
        let map = metrics[0].map.unwrap();
        assert!((map - (1.0 + 5.0 / 6.0) / 2.0).abs() < 1e-9, "{map}");
        assert_eq!((metrics[0].chance, &metrics[0].top_n[..]), (Some(0.5), &[1, 2][..]));
        assert_eq!(metrics[0].top_n_precision, [1.0, 0.75]);
    }
}
