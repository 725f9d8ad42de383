//! Plain-loop twins of the metrics, and the tests that hold them together.
//!
//! The twins sort a list and count, as a textbook would. Tie-aware values are checked
//! against the mean over *every* order of a small database, and on larger ones against the
//! expectation written as a loop over ranks.

use proptest::prelude::*;

use crate::proptests::fixed;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{Bits, Codes, Labels};

/// A database item as the twins see it: distance and shared labels.
type Item = (u32, usize);

/// The shared labels down the ranking, ties in the given order.
fn ranked(items: &[Item]) -> Vec<usize> {
    let mut items = items.to_vec();
    items.sort_by_key(|&(distance, _)| distance);
    items.into_iter().map(|(_, shared)| shared).collect()
}

fn twin_ap(shared: &[usize], cutoff: Option<usize>, denominator: ApDenominator) -> f64 {
    let total = shared.iter().filter(|&&s| s > 0).count();
    let k = cutoff.unwrap_or(usize::MAX).min(shared.len());
    let (mut hits, mut sum) = (0, 0.0);
    for rank in 1..=k {
        if shared[rank - 1] > 0 {
            hits += 1;
            sum += f64::from(hits) / rank as f64;
        }
    }
    let z = match denominator {
        ApDenominator::Min => total.min(cutoff.unwrap_or(usize::MAX)),
        ApDenominator::Found => hits as usize,
        ApDenominator::Total => total,
    };
    if z == 0 { 0.0 } else { sum / z as f64 }
}

fn twin_dcg(shared: &[usize], k: usize) -> f64 {
    let top = shared.iter().take(k).enumerate();
    top.map(|(i, &s)| ((s as f64).exp2() - 1.0) / (i as f64 + 2.0).log2()).sum()
}

/// Every metric with a cutoff, in the order of [`METRICS`].
fn twin_at(shared: &[usize], k: usize, denominator: ApDenominator) -> Vec<f64> {
    let total = shared.iter().filter(|&&s| s > 0).count();
    let hits = shared.iter().take(k).filter(|&&s| s > 0).count() as f64;
    let mut ideal = shared.to_vec();
    ideal.sort_by_key(|&s| std::cmp::Reverse(s));
    let best = twin_dcg(&ideal, k);
    vec![
        twin_ap(shared, Some(k), denominator),
        hits / k as f64,
        if total == 0 { 0.0 } else { hits / total as f64 },
        if best == 0.0 { 0.0 } else { twin_dcg(shared, k) / best },
        shared.iter().take(k).sum::<usize>() as f64 / k as f64,
    ]
}

/// Tie-aware AP over the whole ranking, formula of He et al. as a loop over ranks.
fn twin_expected_ap(items: &[Item]) -> f64 {
    let total = items.iter().filter(|item| item.1 > 0).count() as f64;
    let (mut before, mut hits, mut sum) = (0.0, 0.0, 0.0);
    let mut distances: Vec<u32> = items.iter().map(|item| item.0).collect();
    distances.sort_unstable();
    distances.dedup();
    for d in distances {
        let n = items.iter().filter(|item| item.0 == d).count() as f64;
        let relevant = items.iter().filter(|item| item.0 == d && item.1 > 0).count() as f64;
        let m = if n == 1.0 { 0.0 } else { (relevant - 1.0) / (n - 1.0) };
        let mut t = 1.0;
        while t <= n && relevant > 0.0 {
            sum += relevant / n * (hits + 1.0 + (t - 1.0) * m) / (before + t);
            t += 1.0;
        }
        before += n;
        hits += relevant;
    }
    if total == 0.0 { 0.0 } else { sum / total }
}

/// Interpolated precision from expected hits at every single rank.
fn twin_pr(items: &[Item]) -> Vec<f64> {
    let total = items.iter().filter(|item| item.1 > 0).count() as f64;
    let mut sorted = items.to_vec();
    sorted.sort_by_key(|item| item.0);
    let density = |d: u32| {
        let here = items.iter().filter(|item| item.0 == d);
        let n = here.clone().count() as f64;
        here.filter(|item| item.1 > 0).count() as f64 / n
    };
    let mut hits = 0.0;
    let mut points = Vec::new();
    for (i, item) in sorted.iter().enumerate() {
        hits += density(item.0);
        points.push((hits / total, hits / (i as f64 + 1.0)));
    }
    recall_levels()
        .iter()
        .map(|&level| {
            let reached = points.iter().filter(|(recall, _)| *recall >= level - 1e-12);
            reached.map(|point| point.1).fold(0.0, f64::max)
        })
        .collect()
}

fn every_order(items: &[Item]) -> Vec<Vec<Item>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut orders = Vec::new();
    for i in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(i);
        for mut order in every_order(&rest) {
            order.insert(0, first);
            orders.push(order);
        }
    }
    orders
}

/// A random evaluation problem, with duplicates and unlabelled items.
struct Problem {
    query: Codes,
    database: Codes,
    query_labels: Labels,
    database_labels: Labels,
}

impl Problem {
    fn random(
        bits: usize,
        n_queries: usize,
        n_items: usize,
        classes: u32,
        seed: u64,
    ) -> Problem {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let bits = Bits::new(bits).unwrap();
        let centres: Vec<Vec<bool>> =
            (0..4).map(|_| (0..bits.get()).map(|_| rng.random()).collect()).collect();
        let codes = |n: usize, rng: &mut ChaCha8Rng| {
            let mut flat = Vec::new();
            for _ in 0..n {
                let centre = &centres[rng.random_range(0..4)];
                flat.extend(centre.iter().map(|&bit| bit ^ rng.random_bool(0.1)));
            }
            Codes::from_bools(bits, &flat).unwrap()
        };
        let (query, database) = (codes(n_queries, &mut rng), codes(n_items, &mut rng));
        let mut labels = |n: usize| {
            let rows: Vec<Vec<u32>> = (0..n)
                .map(|_| (0..classes).filter(|_| rng.random_bool(0.2)).collect())
                .collect();
            Labels::from_indices(classes as usize, &rows).unwrap()
        };
        let (mut query_labels, mut database_labels) = (labels(n_queries), labels(n_items));
        // at least one label on either side, or there is nothing to evaluate
        if query_labels.unlabelled() == n_queries {
            query_labels =
                Labels::from_indices(classes as usize, vec![[0]; n_queries]).unwrap();
        }
        if database_labels.unlabelled() == n_items {
            let rows = vec![[classes - 1]; n_items];
            database_labels = Labels::from_indices(classes as usize, rows).unwrap();
        }
        Problem { query, database, query_labels, database_labels }
    }

    fn items(&self, q: usize) -> Vec<Item> {
        (0..self.database.len())
            .map(|i| {
                let shared = self.query_labels.shared(q, &self.database_labels, i);
                (self.query.distance(q, &self.database, i), shared)
            })
            .collect()
    }

    fn report(&self, options: &Options) -> Report {
        let Problem { query, database, query_labels, database_labels } = self;
        evaluate(query, database, query_labels, database_labels, options, &|_| {}).unwrap()
    }

    fn mean(&self, value: impl Fn(&[Item]) -> f64) -> f64 {
        let n = self.query.len();
        (0..n).map(|q| value(&self.items(q))).sum::<f64>() / n as f64
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9
}

/// Tied items with the most, or fewest, shared labels first.
fn arranged(items: &[Item], best_first: bool) -> Vec<usize> {
    let mut items = items.to_vec();
    items.sort_by_key(|&(_, shared)| shared);
    if best_first {
        items.reverse();
    }
    ranked(&items)
}

proptest! {
    #![proptest_config(fixed(40))]

    #[test]
    fn tie_aware_is_the_mean_over_every_order(
        bits in 1_usize..4, n in 1_usize..7, k in 1_usize..8, seed in any::<u64>(),
        denominator in prop_oneof![
            Just(ApDenominator::Min), Just(ApDenominator::Found), Just(ApDenominator::Total)
        ],
    ) {
        let problem = Problem::random(bits, 2, n, 3, seed);
        let options = Options { cutoffs: vec![k], denominator, ..Options::default() };
        let report = problem.report(&options);
        let orders = |items: &[Item]| {
            every_order(items).iter().map(|o| ranked(o)).collect::<Vec<_>>()
        };
        let mean = problem.mean(|items| {
            let orders = orders(items);
            orders.iter().map(|o| twin_ap(o, None, denominator)).sum::<f64>() / orders.len() as f64
        });
        let map = report.map.unwrap().tie_aware;
        prop_assert!(close(map, mean), "{map} {mean}");
        for (m, metric) in METRICS.iter().enumerate() {
            let at = |order: &[usize]| twin_at(order, k, denominator)[m];
            let mean = problem.mean(|items| {
                let orders = orders(items);
                orders.iter().map(|o| at(o)).sum::<f64>() / orders.len() as f64
            });
            let got = report.at[metric.name][&k];
            prop_assert!(close(got.tie_aware, mean), "{}@{k}: {got:?} {mean}", metric.name);
            // the bounds are the extremes, but where the denominator itself is random
            if !(metric.name == "map_at" && denominator == ApDenominator::Found) {
                let best = problem.mean(|items| {
                    orders(items).iter().map(|o| at(o)).fold(f64::MIN, f64::max)
                });
                let worst = problem.mean(|items| {
                    orders(items).iter().map(|o| at(o)).fold(f64::MAX, f64::min)
                });
                prop_assert!(close(got.optimistic, best), "{} {got:?} {best}", metric.name);
                prop_assert!(close(got.pessimistic, worst), "{} {got:?} {worst}", metric.name);
            }
        }
    }

    #[test]
    fn every_value_equals_its_twin(
        bits in prop_oneof![
            Just(1_usize), Just(8), Just(33), Just(64), Just(65), Just(130), Just(256)
        ],
        n in 1_usize..300, k in 1_usize..320, classes in 1_u32..80, seed in any::<u64>(),
        denominator in prop_oneof![
            Just(ApDenominator::Min), Just(ApDenominator::Found), Just(ApDenominator::Total)
        ],
    ) {
        let problem = Problem::random(bits, 3, n, classes, seed);
        let options = Options { cutoffs: vec![k], denominator, ..Options::default() };
        let report = problem.report(&options);
        let map = report.map.unwrap();
        prop_assert!(close(map.tie_aware, problem.mean(twin_expected_ap)));
        let ap = |shared: &[usize]| twin_ap(shared, None, denominator);
        prop_assert!(close(map.stable, problem.mean(|items| ap(&ranked(items)))));
        prop_assert!(close(map.optimistic, problem.mean(|items| ap(&arranged(items, true)))));
        prop_assert!(close(map.pessimistic, problem.mean(|items| ap(&arranged(items, false)))));
        for (m, metric) in METRICS.iter().enumerate() {
            let at = |shared: &[usize]| twin_at(shared, k, denominator)[m];
            let got = report.at[metric.name][&k];
            let stable = problem.mean(|items| at(&ranked(items)));
            prop_assert!(close(got.stable, stable), "{} {got:?} {stable}", metric.name);
            let best = problem.mean(|items| at(&arranged(items, true)));
            prop_assert!(close(got.optimistic, best), "{} {got:?} {best}", metric.name);
            let worst = problem.mean(|items| at(&arranged(items, false)));
            prop_assert!(close(got.pessimistic, worst), "{} {got:?} {worst}", metric.name);
        }
        let curves = report.curves.as_ref().unwrap();
        for (level, &got) in curves.precision.iter().enumerate() {
            let mean = problem.mean(|items| {
                if items.iter().all(|item| item.1 == 0) { 0.0 } else { twin_pr(items)[level] }
            });
            prop_assert!(close(got, mean), "recall level {level}: {got} {mean}");
        }
        for (t, got) in curves.radius.precision.iter().enumerate() {
            let ball = |items: &[Item]| -> Vec<usize> {
                items.iter().filter(|item| item.0 as usize <= t).map(|item| item.1).collect()
            };
            let relevant = |ball: &[usize]| ball.iter().filter(|&&s| s > 0).count() as f64;
            let mean = problem.mean(|items| {
                let ball = ball(items);
                if ball.is_empty() { 0.0 } else { relevant(&ball) / ball.len() as f64 }
            });
            prop_assert!(close(*got, mean), "radius {t}");
            let empty = problem.mean(|items| f64::from(u8::from(ball(items).is_empty())));
            prop_assert!(close(curves.radius.empty[t], empty), "radius {t}");
            let hits: f64 = (0..3).map(|q| relevant(&ball(&problem.items(q)))).sum();
            let size: usize = (0..3).map(|q| ball(&problem.items(q)).len()).sum();
            let pooled = if size == 0 { 0.0 } else { hits / size as f64 };
            prop_assert!(close(curves.radius.precision_pooled[t], pooled), "radius {t}");
        }
        for (i, &n) in curves.top_n.iter().enumerate() {
            let at = curves.top_n_precision[i];
            let single = problem.mean(|items| {
                let mut sorted: Vec<f64> = Vec::new();
                for d in 0..=bits {
                    let here = items.iter().filter(|item| item.0 as usize == d);
                    let size = here.clone().count();
                    let share = here.filter(|i| i.1 > 0).count() as f64 / size.max(1) as f64;
                    sorted.extend(vec![share; size]);
                }
                sorted.iter().take(n).sum::<f64>() / n as f64
            });
            prop_assert!(close(at, single), "top {n}: {at} {single}");
        }
    }

    #[test]
    fn shuffling_the_database_changes_no_tie_aware_value(
        bits in 1_usize..80, n in 2_usize..200, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 4, n, 6, seed);
        let mut order: Vec<usize> = (0..n).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 1);
        for i in (1..n).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        let shuffled = Problem {
            query: problem.query.clone(),
            query_labels: problem.query_labels.clone(),
            database: problem.database.select(&order),
            database_labels: problem.database_labels.select(&order),
        };
        let options = Options { cutoffs: vec![1, 5, 50], ..Options::default() };
        let (a, b) = (problem.report(&options), shuffled.report(&options));
        // to the last bit, not to a tolerance
        prop_assert_eq!(a.map.unwrap().tie_aware.to_bits(), b.map.unwrap().tie_aware.to_bits());
        prop_assert_eq!(a.map.unwrap().optimistic.to_bits(), b.map.unwrap().optimistic.to_bits());
        for metric in METRICS {
            for k in [1, 5, 50] {
                let (a, b) = (a.at[metric.name][&k], b.at[metric.name][&k]);
                prop_assert_eq!(a.tie_aware.to_bits(), b.tie_aware.to_bits());
            }
        }
        let (a, b) = (a.curves.unwrap(), b.curves.unwrap());
        prop_assert_eq!(a.top_n_precision, b.top_n_precision);
        prop_assert_eq!(a.precision, b.precision);
    }

    #[test]
    fn threads_change_nothing(seed in any::<u64>()) {
        let problem = Problem::random(24, 30, 150, 5, seed);
        let options = Options { cutoffs: vec![10], ..Options::default() };
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let report = pool.install(|| problem.report(&options));
            serde_json::to_string(&report).unwrap()
        };
        prop_assert_eq!(with(1), with(3));
    }
}

/// Sizes around multiples of the block size of the `stable` rule.
#[test]
fn large_databases_are_ranked_as_the_twin_does() {
    for n in [2047, 2048, 4095, 4096, 4097, 6000, 8192, 9001] {
        let problem = Problem::random(16, 2, n, 5, n as u64);
        let options = Options { cutoffs: vec![100, n], ..Options::default() };
        let report = problem.report(&options);
        let stable =
            problem.mean(|items| twin_ap(&ranked(items), None, ApDenominator::Min));
        let map = report.map.unwrap();
        assert!(close(map.stable, stable), "{n}: {} {stable}", map.stable);
        for k in [100, n] {
            for (m, metric) in METRICS.iter().enumerate() {
                let twin =
                    problem.mean(|items| twin_at(&ranked(items), k, ApDenominator::Min)[m]);
                let got = report.at[metric.name][&k].stable;
                assert!(close(got, twin), "{n}, {}@{k}: {got} {twin}", metric.name);
            }
        }
    }
}

#[test]
fn skipping_queries_without_relevant_items_is_a_named_choice() {
    let bits = Bits::new(2).unwrap();
    let query = Codes::from_bools(bits, &[true, true, true, true]).unwrap();
    let database = Codes::from_bools(bits, &[true, true]).unwrap();
    let query_labels = Labels::from_indices(3, [[0_u32], [1]]).unwrap();
    let database_labels = Labels::from_indices(3, [[0_u32]]).unwrap();
    let problem = Problem { query, database, query_labels, database_labels };
    let zero = problem.report(&Options::default());
    assert_eq!(
        (zero.mean_average_precision(), zero.queries_without_relevant),
        (Some(0.5), Some(1))
    );
    let options = Options { empty_queries: EmptyQueries::Skip, ..Options::default() };
    let skip = problem.report(&options);
    assert_eq!(
        (skip.mean_average_precision(), skip.queries_without_relevant),
        (Some(1.0), Some(1))
    );
}

#[test]
fn a_query_with_far_more_labels_than_any_item_shares_is_evaluated_correctly() {
    let bits = Bits::new(1).unwrap();
    let all: Vec<u32> = (0..3000).collect();
    let problem = Problem {
        query: Codes::from_bools(bits, &[true]).unwrap(),
        database: Codes::from_bools(bits, &[true, false]).unwrap(),
        query_labels: Labels::from_indices(3000, [&all]).unwrap(),
        database_labels: Labels::from_indices(3000, [&all[..2], &all[..1]]).unwrap(),
    };
    let report = problem.report(&Options { cutoffs: vec![2], ..Options::default() });
    assert_eq!(report.at["ndcg_at"][&2].tie_aware, 1.0);
}

#[test]
fn a_thousand_labels_keep_ndcg_finite() {
    let bits = Bits::new(1).unwrap();
    let all: Vec<u32> = (0..3000).collect();
    let problem = Problem {
        query: Codes::from_bools(bits, &[true]).unwrap(),
        database: Codes::from_bools(bits, &[false, true]).unwrap(),
        query_labels: Labels::from_indices(3000, [&all]).unwrap(),
        database_labels: Labels::from_indices(3000, [&all[..], &all[..10]]).unwrap(),
    };
    let report = problem.report(&Options { cutoffs: vec![2], ..Options::default() });
    let ndcg = report.at["ndcg_at"][&2].tie_aware;
    // the better item stands second: its discount is 1/log2(3)
    assert!((ndcg - 1.0 / 3.0_f64.log2()).abs() < 1e-9, "{ndcg}");
}

#[test]
fn without_labels_only_health_and_ties_are_reported() {
    let bits = Bits::new(2).unwrap();
    let query = Codes::from_bools(bits, &[true, true, true, false]).unwrap();
    let database =
        Codes::from_bools(bits, &[true, true, true, true, false, false]).unwrap();
    let none = |n: usize| Labels::from_indices(0, vec![Vec::<u32>::new(); n]).unwrap();
    let problem =
        Problem { query, database, query_labels: none(2), database_labels: none(3) };
    for empty_queries in [EmptyQueries::Zero, EmptyQueries::Skip] {
        let options = Options { cutoffs: vec![1], empty_queries, ..Options::default() };
        let report = problem.report(&options);
        assert_eq!(
            (report.map, report.chance, report.queries_without_relevant),
            (None, None, None)
        );
        assert!(
            report.at.is_empty() && report.radius.is_empty() && report.curves.is_none()
        );
        assert_eq!((report.queries, report.database_health.unique_codes), (2, 2));
        // The first query ties two of three items; for the second, all are at distance 1.
        assert_eq!((report.tie_rate, report.tie_rate_at[&1]), (0.75, 1.0));
        assert_eq!(report.user.notes, ["map: the data set has no labels"]);
        let json = serde_json::to_value(&report).unwrap();
        assert!(json.get("map").is_none() && json.get("curves").is_none());
    }
}
