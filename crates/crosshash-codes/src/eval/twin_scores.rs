//! Plain-loop twins of the metrics over scores and listed relevance, and the tests that hold them
//! together: every order of small databases, sorted lists and random orders of larger ones.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::proptests::fixed;
use crate::{Bits, Codes, Labels};

/// A database item as the twins see it: score and gain; relevant if the gain is not 0.
type Item = (f64, f64);

/// Gains down the ranking, ties in the given order.
fn ranked(items: &[Item]) -> Vec<f64> {
    let mut items = items.to_vec();
    items.sort_by(|a, b| b.0.total_cmp(&a.0));
    items.into_iter().map(|item| item.1).collect()
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

/// The mean of a value over every order of the database.
fn mean_over_orders(items: &[Item], value: impl Fn(&[f64]) -> f64) -> f64 {
    let orders = every_order(items);
    orders.iter().map(|order| value(&ranked(order))).sum::<f64>() / orders.len() as f64
}

fn first_rank(gains: &[f64]) -> usize {
    gains.iter().position(|&gain| gain > 0.0).map_or(usize::MAX, |at| at + 1)
}

fn hits(gains: &[f64], k: usize) -> f64 {
    gains.iter().take(k).filter(|&&gain| gain > 0.0).count() as f64
}

fn dcg(gains: &[f64], k: usize) -> f64 {
    gains.iter().take(k).zip(2..).map(|(gain, rank)| gain / f64::from(rank).log2()).sum()
}

fn twin_ndcg(gains: &[f64], k: usize) -> f64 {
    let mut ideal = gains.to_vec();
    ideal.sort_by(|a, b| b.total_cmp(a));
    let best = dcg(&ideal, k);
    if best == 0.0 { 0.0 } else { dcg(gains, k) / best }
}

fn twin_ap(gains: &[f64]) -> f64 {
    let relevant = hits(gains, gains.len());
    let precision = |rank: usize| hits(gains, rank) / rank as f64;
    let at = (1..=gains.len()).filter(|&rank| gains[rank - 1] > 0.0).map(precision);
    if relevant == 0.0 { 0.0 } else { at.sum::<f64>() / relevant }
}

/// Items that are re-ranked.
const CANDIDATES: usize = 4;

/// Queries and items with codes, real outputs on a coarse grid (so that scores tie exactly),
/// pairs and labels.
struct Problem {
    bits: usize,
    query: Vec<f32>,
    database: Vec<f32>,
    query_codes: Codes,
    database_codes: Codes,
    relevant: Vec<Vec<u32>>,
    query_labels: Labels,
    database_labels: Labels,
}

impl Problem {
    fn random(bits: usize, n_queries: usize, n_items: usize, seed: u64) -> Problem {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut outputs = |n: usize| -> Vec<f32> {
            let value = |_| f32::from(rng.random_range(-2_i8..=2)) / 4.0;
            (0..n * bits).map(value).collect()
        };
        let (query, database) = (outputs(n_queries), outputs(n_items));
        let width = Bits::new(bits).unwrap();
        let n_rows = u32::try_from(n_items).unwrap();
        let relevant = (0..n_queries)
            .map(|_| (0..n_rows).filter(|_| rng.random_bool(0.3)).collect())
            .collect();
        let mut labels = |n: usize| {
            let rows: Vec<Vec<u32>> =
                (0..n).map(|_| (0..5).filter(|_| rng.random_bool(0.3)).collect()).collect();
            Labels::from_indices(5, &rows).unwrap()
        };
        Problem {
            bits,
            query_codes: Codes::from_signs(width, &query).unwrap(),
            database_codes: Codes::from_signs(width, &database).unwrap(),
            query_labels: labels(n_queries),
            database_labels: labels(n_items),
            query,
            database,
            relevant,
        }
    }

    fn len(&self) -> usize {
        self.database_codes.len()
    }

    fn relevant(&self) -> Relevant {
        Relevant::from_rows(self.len(), &self.relevant).unwrap()
    }

    fn all_scores(&self) -> [Scores<'_>; 4] {
        let codes = (&self.query_codes, &self.database_codes);
        [
            Scores::hamming(&self.query_codes, &self.database_codes).unwrap(),
            Scores::asymmetric(&self.query, &self.database_codes).unwrap(),
            Scores::cosine(&self.query, &self.database, self.bits).unwrap(),
            Scores::reranked(codes, (&self.query, &self.database), CANDIDATES).unwrap(),
        ]
    }

    /// The score by its definition.
    fn score(&self, name: &str, q: usize, i: usize) -> f64 {
        let row = |rows: &[f32], at: usize| -> Vec<f64> {
            rows[at * self.bits..][..self.bits].iter().map(|&x| f64::from(x)).collect()
        };
        let sign = |k: usize| if self.database_codes.bit(i, k) { 1.0 } else { -1.0 };
        let (f, g) = (row(&self.query, q), row(&self.database, i));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        match name {
            "hamming" => -f64::from(self.query_codes.distance(q, &self.database_codes, i)),
            "asymmetric" => (0..self.bits).map(|k| f[k] * sign(k)).sum(),
            "reranked" if !self.is_candidate(q, i) => self.score("hamming", q, i) - 2.0,
            _ => {
                let lengths = (dot(&f, &f) * dot(&g, &g)).sqrt();
                if lengths == 0.0 { 0.0 } else { dot(&f, &g) / lengths }
            }
        }
    }

    /// Whether an item is re-ranked: it and all items that are not behind it by Hamming distance are at
    /// most [`CANDIDATES`].
    fn is_candidate(&self, q: usize, i: usize) -> bool {
        let own = self.score("hamming", q, i);
        let not_behind = |&other: &usize| self.score("hamming", q, other) >= own;
        (0..self.len()).filter(not_behind).count() <= CANDIDATES
    }

    /// Items by the scores that the ranking itself uses, with listed relevance.
    fn listed(&self, scores: &Scores<'_>, q: usize) -> Vec<Item> {
        let mut values = vec![0.0; self.len()];
        scores.fill(q, &mut values);
        let gain = |item: u32| f64::from(u8::from(self.relevant[q].contains(&item)));
        values.iter().zip(0..).map(|(&s, item)| (f64::from(s) + 0.0, gain(item))).collect()
    }

    fn idf_items(&self, q: usize) -> Vec<Item> {
        let n = self.len() as f64;
        let df = self.database_labels.histogram();
        let gain = |i: usize| -> f64 {
            let shared = self.query_labels.indices(q).filter(|&label| {
                self.database_labels.indices(i).any(|other| other == label)
            });
            shared.map(|label| (n / df[label] as f64).ln()).sum()
        };
        (0..self.len()).map(|i| (self.score("hamming", q, i), gain(i))).collect()
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// The smallest k with mean success of at least one half.
fn twin_median(success: impl Fn(usize) -> f64, n: usize) -> usize {
    (1..=n).find(|&k| success(k) >= 0.5 - 1e-12).unwrap_or(n)
}

proptest! {
    #![proptest_config(fixed(40))]

    #[test]
    fn scores_follow_their_definition(
        bits in 1_usize..150, n in 1_usize..20, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 2, n, seed);
        for scores in problem.all_scores() {
            let mut out = vec![0.0; n];
            for q in 0..2 {
                scores.fill(q, &mut out);
                for (i, &got) in out.iter().enumerate() {
                    let wanted = problem.score(scores.name(), q, i);
                    prop_assert!((f64::from(got) - wanted).abs() < 1e-4, "{got} {wanted}");
                }
            }
        }
    }

    #[test]
    fn listed_metrics_are_means_over_every_order(
        bits in 1_usize..4, n in 1_usize..7, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 3, n, seed);
        let relevant = problem.relevant();
        let asked: Vec<usize> = (0..3).filter(|&q| !problem.relevant[q].is_empty()).collect();
        for scores in problem.all_scores() {
            let items: Vec<Vec<Item>> =
                asked.iter().map(|&q| problem.listed(&scores, q)).collect();
            let over = |value: &dyn Fn(&[f64]) -> f64| {
                mean(items.iter().map(|items| mean_over_orders(items, value)))
            };
            let success = |k: usize| over(&|gains| f64::from(u8::from(first_rank(gains) <= k)));
            let (found, typed) = (known_item(&scores, &relevant), words(&scores, &relevant));
            if asked.is_empty() {
                prop_assert!(found.is_err() && typed.is_err());
                continue;
            }
            let (found, typed) = (found.unwrap(), typed.unwrap());
            prop_assert_eq!((found.queries, found.queries_without_pair), (asked.len(), 3 - asked.len()));
            prop_assert!(close(found.r1, success(1)), "{} {}", found.r1, success(1));
            prop_assert!(close(found.r5, success(5)), "{} {}", found.r5, success(5));
            prop_assert!(close(found.r10, success(10)));
            prop_assert_eq!(found.median_rank, twin_median(success, n));
            prop_assert!(close(found.mean_rank, over(&|gains| first_rank(gains) as f64)));
            prop_assert_eq!(typed.queries, asked.len());
            prop_assert!(close(typed.p5, over(&|gains| hits(gains, 5) / 5.0)));
            let possible = |gains: &[f64]| hits(gains, 5) / hits(gains, n).min(5.0);
            prop_assert!(close(typed.p5_possible, over(&|gains| possible(gains))));
            prop_assert!(close(typed.p10, over(&|gains| hits(gains, 10) / 10.0)));
            prop_assert!(close(typed.ndcg10, over(&|gains| twin_ndcg(gains, 10))));
        }
    }

    #[test]
    fn map_of_every_ranking_is_the_mean_over_every_order(
        bits in 1_usize..4, n in 1_usize..7, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 2, n, seed);
        let known = Known {
            labels: Some((&problem.query_labels, &problem.database_labels)), pairs: None,
        };
        for scores in problem.all_scores() {
            let twin = mean((0..2).map(|q| {
                let mut items = problem.listed(&scores, q);
                for (i, item) in items.iter_mut().enumerate() {
                    item.1 = problem.query_labels.shared(q, &problem.database_labels, i) as f64;
                }
                mean_over_orders(&items, twin_ap)
            }));
            let got = ranking_quality(&scores, &known).unwrap();
            prop_assert!(close(got.map.unwrap(), twin), "{:?} {twin}", got);
        }
    }

    #[test]
    fn graded_ndcg_and_cut_ties_are_means_over_every_order(
        bits in 1_usize..4, n in 1_usize..7, k in 1_usize..8, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 2, n, seed);
        let options = Options { cutoffs: vec![k], ..Options::default() };
        let report = evaluate(
            &problem.query_codes, &problem.database_codes, &problem.query_labels,
            &problem.database_labels, &options, &|_| {},
        );
        let Ok(report) = report else { return Ok(()) }; // nothing is labelled
        for k in [1, 5, 10, k] {
            let twin = mean((0..2).map(|q| {
                mean_over_orders(&problem.idf_items(q), |gains| twin_ndcg(gains, k))
            }));
            let got = report.ndcg_idf_at[&k];
            prop_assert!(close(got, twin), "{k}: {got} {twin}");
            // The cut after rank k is a matter of chance if some order changes what is above it.
            let cut = mean((0..2).map(|q| {
                let mut distances: Vec<f64> =
                    problem.idf_items(q).iter().map(|item| item.0).collect();
                distances.sort_by(|a, b| b.total_cmp(a));
                f64::from(u8::from(k < n && distances[k - 1] == distances[k]))
            }));
            prop_assert!(close(report.tie_rate_at[&k], cut), "{k}");
        }
    }

    /// On larger databases: the closed forms against the definition over tie classes.
    #[test]
    fn listed_metrics_equal_their_twins(
        bits in prop_oneof![Just(3_usize), Just(8), Just(64), Just(100)],
        n in 1_usize..400, seed in any::<u64>(),
    ) {
        let problem = Problem::random(bits, 3, n, seed);
        let relevant = problem.relevant();
        for scores in problem.all_scores() {
            let first = |k: usize| {
                let each = (0..3).filter_map(|q| {
                    let items = problem.listed(&scores, q);
                    let best = items.iter().filter(|i| i.1 > 0.0).map(|i| i.0).reduce(f64::max)?;
                    let before = items.iter().filter(|i| i.0 > best).count();
                    let tied = items.iter().filter(|i| i.0 == best).count();
                    let hit = items.iter().filter(|i| i.0 == best && i.1 > 0.0).count();
                    // Place after place: the chance that no relevant item came yet.
                    let mut missed = 1.0;
                    for place in 0..k.saturating_sub(before).min(tied) {
                        missed *= (tied - hit).saturating_sub(place) as f64 / (tied - place) as f64;
                    }
                    Some(1.0 - missed)
                });
                each.collect::<Vec<f64>>()
            };
            let Ok(found) = known_item(&scores, &relevant) else {
                prop_assert!(first(1).is_empty());
                continue;
            };
            let success = |k: usize| mean(first(k).into_iter());
            prop_assert!(close(found.r1, success(1)));
            prop_assert!(close(found.r5, success(5)));
            prop_assert!(close(found.r10, success(10)));
            prop_assert_eq!(found.median_rank, twin_median(success, n));
            let typed = words(&scores, &relevant).unwrap();
            let p5 = mean((0..3).filter(|&q| !problem.relevant[q].is_empty()).map(|q| {
                // Expected share of relevant items at each place is that of the place's class.
                let items = problem.listed(&scores, q);
                let mut sorted: Vec<f64> = items.iter().map(|item| item.0).collect();
                sorted.sort_by(|a, b| b.total_cmp(a));
                let share = |&score: &f64| {
                    let class: Vec<f64> =
                        items.iter().filter(|i| i.0 == score).map(|i| i.1).collect();
                    mean(class.into_iter())
                };
                sorted.iter().take(5).map(share).sum::<f64>() / 5.0
            }));
            prop_assert!(close(typed.p5, p5), "{} {p5}", typed.p5);
        }
    }

    #[test]
    fn rankings_do_not_depend_on_order_or_threads(n in 2_usize..200, seed in any::<u64>()) {
        let problem = Problem::random(12, 4, n, seed);
        let turned: Vec<usize> = (0..n).rev().collect();
        let back = |rows: &[u32]| -> Vec<u32> {
            rows.iter().map(|&row| u32::try_from(n).unwrap() - 1 - row).collect()
        };
        let rows: Vec<Vec<u32>> = problem.relevant.iter().map(|rows| back(rows)).collect();
        let other = Relevant::from_rows(n, &rows).unwrap();
        let database = problem.database_codes.select(&turned);
        let a = Scores::asymmetric(&problem.query, &problem.database_codes).unwrap();
        let b = Scores::asymmetric(&problem.query, &database).unwrap();
        let with = |threads: usize, scores: &Scores<'_>, relevant: &Relevant| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| known_item(scores, relevant).ok())
        };
        prop_assert_eq!(with(1, &a, &problem.relevant()), with(3, &b, &other));
        // Graded NDCG: to the last bit.
        let report = |codes: &Codes, labels: &Labels| {
            let options = Options { cutoffs: vec![50], ..Options::default() };
            evaluate(&problem.query_codes, codes, &problem.query_labels, labels, &options, &|_| {})
                .ok()
                .map(|report| report.ndcg_idf_at)
        };
        let labels = problem.database_labels.select(&turned);
        prop_assert_eq!(
            report(&problem.database_codes, &problem.database_labels), report(&database, &labels)
        );
    }
}

#[test]
fn asymmetric_ranking_of_signs_is_hamming_ranking() {
    let problem = Problem::random(70, 3, 200, 5);
    let signs: Vec<f32> = (0..3 * 70)
        .map(|at| if problem.query_codes.bit(at / 70, at % 70) { 1.0 } else { -1.0 })
        .collect();
    let hamming = Scores::hamming(&problem.query_codes, &problem.database_codes).unwrap();
    let asymmetric = Scores::asymmetric(&signs, &problem.database_codes).unwrap();
    let relevant = problem.relevant();
    assert_eq!(
        known_item(&hamming, &relevant).unwrap(),
        known_item(&asymmetric, &relevant).unwrap()
    );
    assert_eq!(words(&hamming, &relevant).unwrap(), words(&asymmetric, &relevant).unwrap());
}

#[test]
fn zeros_of_either_sign_are_tied() {
    let codes = Codes::from_bools(Bits::new(1).unwrap(), &[true, false]).unwrap();
    let scores = Scores::asymmetric(&[0.0], &codes).unwrap();
    let pairs = Relevant::from_rows(2, [[1]]).unwrap();
    assert_eq!(known_item(&scores, &pairs).unwrap().r1, 0.5);
}

#[test]
fn mismatched_sizes_are_rejected() {
    let codes = Codes::from_bools(Bits::new(2).unwrap(), &[true; 4]).unwrap();
    let other = Codes::from_bools(Bits::new(3).unwrap(), &[true; 3]).unwrap();
    let text = |err: crate::Error| err.to_string();
    assert_eq!(
        text(Scores::hamming(&codes, &other).unwrap_err()),
        "the query set has 2 bits a code, the database has 3; both must be of one length"
    );
    assert_eq!(
        text(Scores::asymmetric(&[1.0; 3], &codes).unwrap_err()),
        "query outputs: 3 values do not make rows of 2"
    );
    assert_eq!(
        text(Scores::cosine(&[1.0, f32::NAN], &[1.0; 2], 2).unwrap_err()),
        "row 0, column 1: NaN is not finite; query outputs must be finite"
    );
    let scores = Scores::hamming(&codes, &codes).unwrap();
    let pairs = Relevant::from_rows(2, [[0]]).unwrap();
    assert_eq!(
        text(known_item(&scores, &pairs).unwrap_err()),
        "the query set has 2 rows, the list of relevant rows has 1; relevance must be given for every row"
    );
    let none = Relevant::from_rows(2, [[0; 0]; 2]).unwrap();
    assert!(
        text(known_item(&scores, &none).unwrap_err()).starts_with("no query has a pair")
    );
    let mut user = UserMetrics::default();
    user.add_known_item(&scores, &none).unwrap();
    user.add_words(&scores, &none).unwrap();
    assert_eq!(
        serde_json::to_string(&user).unwrap(),
        "{\"notes\":[\"known_item: no query has a pair in the database\",\
         \"words: no word occurs in enough items\"]}"
    );
}
