//! The coefficients against the enumeration of all triplets, another implementation and known
//! identities; and the bound of the triplet loss.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

use crosshash::supervise::{
    Coefficients, Kind, Options, Scale, draw_anchors, exact, from_anchors, supervise,
};
use crosshash_codes::Labels;
use proptest::prelude::*;
use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

/// Dense q and u.
type Dense = (Vec<Vec<f64>>, Vec<Vec<f64>>);

/// Algorithm 1 as explicit sums over triplets (i, j, k): i from `first`, j and k from `others`, i similar
/// to j and not to k. An item without labels is in no triplet.
fn enumerate(
    labels: &Labels,
    first: &[usize],
    others: &[usize],
    include_self: bool,
) -> Dense {
    let zero = vec![vec![0.0; labels.classes()]; labels.len()];
    let (mut q, mut u) = (zero.clone(), zero);
    let shared = |i: usize, j: usize| labels.shared(i, labels, j);
    for &i in first.iter().filter(|&&i| labels.count(i) > 0) {
        for &j in others.iter().filter(|&&j| shared(i, j) > 0 && (include_self || i != j)) {
            for &k in others.iter().filter(|&&k| shared(i, k) == 0 && labels.count(k) > 0) {
                for s in labels.indices(i).filter(|&s| labels.indices(j).any(|t| t == s)) {
                    for t in labels.indices(k) {
                        let weight = 1.0 / (shared(i, j) * labels.count(k)) as f64;
                        q[i][s] += weight;
                        u[j][s] += weight;
                        u[k][t] += weight;
                    }
                }
            }
        }
    }
    (q, u)
}

fn dense(coefficients: &Coefficients) -> Dense {
    let matrix = |of: &dyn Fn(usize) -> Vec<f64>| (0..coefficients.len()).map(of).collect();
    let spread = |item: usize, values: &[f64]| {
        let mut row = vec![0.0; coefficients.classes()];
        for (&s, &value) in coefficients.row(item).labels.iter().zip(values) {
            row[s as usize] = value;
        }
        row
    };
    (
        matrix(&|i| spread(i, coefficients.row(i).q)),
        matrix(&|i| spread(i, coefficients.row(i).u)),
    )
}

fn worst(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(x, y)| (x - y).abs() / x.abs().max(1.0)).fold(0.0, f64::max)
}

fn all(labels: &Labels) -> Vec<usize> {
    (0..labels.len()).collect()
}

fn some_labels() -> impl Strategy<Value = Labels> {
    let classes = prop_oneof![1_u32..7, 60_u32..70, 128_u32..131];
    let rows = prop::collection::vec(prop::collection::vec(any::<u32>(), 0..6), 1..15);
    (classes, rows, 1_u32..3).prop_map(|(classes, rows, skew)| {
        let rows = rows.iter().map(|row| {
            row.iter().map(|&p| (p % classes) / (1 + p % skew)).collect::<Vec<u32>>()
        });
        Labels::from_indices(classes as usize, rows).unwrap()
    })
}

proptest! {
    #![proptest_config(fixed(256))]

    #[test]
    fn exact_equals_enumeration(labels in some_labels(), include_self: bool) {
        let found = dense(&exact(&labels, include_self, &|_| ()).unwrap());
        let items = all(&labels);
        let expected = enumerate(&labels, &items, &items, include_self);
        prop_assert!(worst(&expected.0, &found.0) < 1e-11);
        prop_assert!(worst(&expected.1, &found.1) < 1e-11);
    }

    #[test]
    fn anchors_equal_enumeration_over_anchors(
        labels in some_labels(),
        include_self: bool,
        picks in prop::collection::vec(any::<bool>(), 15),
    ) {
        let items = all(&labels);
        let anchors: Vec<usize> =
            items.iter().copied().filter(|&i| picks[i] && labels.count(i) > 0).collect();
        prop_assume!(!anchors.is_empty());
        let found = dense(&from_anchors(&labels, &anchors, include_self, &|_| ()).unwrap());
        let ratio = (labels.len() - labels.unlabelled()) as f64 / anchors.len() as f64;
        let (mut q, _) = enumerate(&labels, &items, &anchors, include_self);
        let (_, mut u) = enumerate(&labels, &anchors, &items, include_self);
        q.iter_mut().flatten().for_each(|value| *value *= ratio * ratio);
        u.iter_mut().flatten().for_each(|value| *value *= ratio);
        prop_assert!(worst(&q, &found.0) < 1e-11);
        prop_assert!(worst(&u, &found.1) < 1e-11);
    }

    #[test]
    fn all_items_as_anchors_equal_exact(labels in some_labels(), include_self: bool) {
        let anchors: Vec<usize> =
            all(&labels).into_iter().filter(|&i| labels.count(i) > 0).collect();
        let left = dense(&from_anchors(&labels, &anchors, include_self, &|_| ()).unwrap());
        let right = dense(&exact(&labels, include_self, &|_| ()).unwrap());
        prop_assert!(worst(&left.0, &right.0) < 1e-11 && worst(&left.1, &right.1) < 1e-11);
    }

    #[test]
    fn sums_count_triplets(labels in some_labels()) {
        let coefficients = exact(&labels, true, &|_| ()).unwrap();
        let related = |i: usize, j: usize| labels.shared(i, &labels, j) > 0;
        for i in 0..labels.len() {
            let labelled = all(&labels).into_iter().filter(|&j| labels.count(j) > 0);
            let positives = labelled.clone().filter(|&j| related(i, j)).count();
            let negatives = labelled.filter(|&j| !related(i, j)).count();
            let sum: f64 = coefficients.row(i).q.iter().sum();
            prop_assert!((sum - (positives * negatives) as f64).abs() < 1e-9);
        }
        let (q, u, _) = coefficients.sums();
        prop_assert!((u - 2.0 * q).abs() <= 1e-12 * u);
    }

    /// Permuted items and labels give bit-identical coefficients.
    #[test]
    fn order_does_not_matter(labels in some_labels(), seed: u64) {
        let shuffled = |n: usize, salt: u64| {
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|&k| (k as u64 ^ seed).wrapping_mul(salt).rotate_left(29));
            order
        };
        let items = shuffled(labels.len(), 0x9e37_79b9_7f4a_7c15);
        let renamed = shuffled(labels.classes(), 0xc2b2_ae3d_27d4_eb4f);
        let rows = items.iter().map(|&i| {
            labels.indices(i).map(|s| u32::try_from(renamed[s]).unwrap()).collect::<Vec<_>>()
        });
        let other = Labels::from_indices(labels.classes(), rows).unwrap();
        let before = dense(&exact(&labels, true, &|_| ()).unwrap());
        let after = dense(&exact(&other, true, &|_| ()).unwrap());
        for (place, &i) in items.iter().enumerate() {
            for s in 0..labels.classes() {
                prop_assert_eq!(before.0[i][s], after.0[place][renamed[s]]);
                prop_assert_eq!(before.1[i][s], after.1[place][renamed[s]]);
            }
        }
    }

    /// Cross-modal: the triplet loss of codes `h` against codes `g` is at most the unary loss
    /// with lambda = 1, the classification part on `h`, the attraction part split over both.
    #[test]
    fn the_bound_holds(
        labels in some_labels().prop_filter("small", |l| l.classes() < 8 && l.len() > 3),
        bits in prop::collection::vec(any::<bool>(), 2 * 15 * 6),
        centres in prop::collection::vec(-2.0_f64..2.0, 7 * 6),
    ) {
        let code = |m: usize, i: usize| -> Vec<f64> {
            let bits = &bits[(m * 15 + i) * 6..][..6];
            bits.iter().map(|&b| if b { 1.0 } else { -1.0 }).collect()
        };
        let centre = |s: usize| centres[s * 6..][..6].to_vec();
        let (triplet, unary) = losses(&labels, &code, &centre);
        prop_assert!(triplet <= unary * (1.0 + 1e-12), "{triplet} > {unary}");
    }
}

/// Both losses in both directions: `code(m, i)` of item i in modality m.
fn losses(
    labels: &Labels,
    code: &dyn Fn(usize, usize) -> Vec<f64>,
    centre: &dyn Fn(usize) -> Vec<f64>,
) -> (f64, f64) {
    let distance = |a: &[f64], b: &[f64]| {
        a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
    };
    let coefficients = exact(labels, true, &|_| ()).unwrap();
    let (mut triplet, mut unary) = (0.0, 0.0);
    for (m, other) in [(0, 1), (1, 0)] {
        for i in 0..labels.len() {
            let h = code(m, i);
            let labelled = all(labels).into_iter().filter(|&j| labels.count(j) > 0);
            let (similar, apart): (Vec<_>, Vec<_>) =
                labelled.partition(|&j| labels.shared(i, labels, j) > 0);
            for &j in similar.iter().filter(|_| labels.count(i) > 0) {
                for &k in &apart {
                    let (a, b) =
                        (distance(&h, &code(other, j)), distance(&h, &code(other, k)));
                    triplet += (a - b).exp().ln_1p();
                }
            }
            let to: Vec<f64> =
                (0..labels.classes()).map(|s| distance(&h, &centre(s))).collect();
            let log_sum = to.iter().map(|d| (-d).exp()).sum::<f64>().ln();
            let row = coefficients.row(i);
            for (k, &s) in row.labels.iter().enumerate() {
                let d = to[s as usize];
                unary += row.q[k] * (d + log_sum) + row.u[k] * d;
            }
        }
    }
    (triplet, unary)
}

#[test]
fn single_balanced_labels_give_one_and_two() {
    let labels = Labels::from_indices(5, (0_u32..40).map(|i| [i % 5])).unwrap();
    let options = Options { kind: Kind::Exact, ..Options::default() };
    let found = supervise(&labels, &options, &|_| ()).unwrap();
    for i in 0..40 {
        assert_eq!(found.coefficients.row(i).q, [1.0]);
        assert_eq!(found.coefficients.row(i).u, [2.0]);
    }
    assert_eq!(found.scale, 8.0 * 32.0); // (n/C)^2 (C-1)
    assert_eq!(found.distinct, 5);
}

fn golden() -> (serde_json::Value, Labels) {
    let text = include_str!("golden/coefficients.json");
    let golden: serde_json::Value = serde_json::from_str(text).unwrap();
    let rows: Vec<Vec<u32>> = serde_json::from_value(golden["labels"].clone()).unwrap();
    (golden, Labels::from_indices(8, rows).unwrap())
}

fn check_golden(coefficients: &Coefficients, q: &serde_json::Value, u: &serde_json::Value) {
    for i in 0..60 {
        let row = coefficients.row(i);
        for k in 0..row.labels.len() {
            for (found, expected) in [(row.q[k], &q[i][k]), (row.u[k], &u[i][k])] {
                let expected = expected.as_f64().unwrap();
                assert!(
                    (found - expected).abs() <= 1e-9,
                    "item {i}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn golden_exact() {
    let (golden, labels) = golden();
    check_golden(&exact(&labels, true, &|_| ()).unwrap(), &golden["q"], &golden["u"]);
    let found = supervise(&labels, &Options::default(), &|_| ()).unwrap();
    assert_eq!(found.kind, Kind::Exact);
    check_golden(&found.coefficients, &golden["q_rescaled"], &golden["u_rescaled"]);
}

#[test]
fn golden_anchors() {
    let (golden, labels) = golden();
    let anchors: Vec<usize> = serde_json::from_value(golden["anchors"].clone()).unwrap();
    let found = from_anchors(&labels, &anchors, true, &|_| ()).unwrap();
    check_golden(&found, &golden["q_anchors"], &golden["u_anchors"]);
}

/// Correlated labels (subset tree) and dense labels (blocks of pairs): bit-identical with one and four
/// threads, and equal to the computation pair by pair.
#[test]
fn results_do_not_depend_on_threads() {
    let rows = |labels: u32, size: u32| {
        (0_u32..1500).map(move |i| {
            let step = |k: u32| (i.wrapping_mul(2_654_435_761) >> (k % 23)) ^ (i * k * k);
            (0..1 + i % size).map(|k| step(k) % labels / (1 + k % 3)).collect::<Vec<u32>>()
        })
    };
    for (labels, size) in [(81, 6), (60, 40)] {
        let labels = Labels::from_indices(labels as usize, rows(labels, size)).unwrap();
        let with = |threads: usize| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| dense(&exact(&labels, true, &|_| ()).unwrap()))
        };
        let (one, four) = (with(1), with(4));
        assert!(one == four);
        let paired = dense(&from_anchors(&labels, &all(&labels), true, &|_| ()).unwrap());
        assert!(worst(&one.0, &paired.0) < 1e-11 && worst(&one.1, &paired.1) < 1e-11);
    }
}

/// Label sets that are too large for the integer arithmetic are computed pair by pair.
#[test]
fn very_wide_sets() {
    let rows = (0_u32..12).map(|i| match i % 3 {
        0 => (0..120).filter(|s| s % (i + 1) < 2).collect::<Vec<u32>>(),
        1 => vec![i, i + 1, 150 + i],
        _ => (20 + i..140).collect(),
    });
    let labels = Labels::from_indices(170, rows).unwrap();
    let items = all(&labels);
    for include_self in [true, false] {
        let found = dense(&exact(&labels, include_self, &|_| ()).unwrap());
        let expected = enumerate(&labels, &items, &items, include_self);
        assert!(
            worst(&expected.0, &found.0) < 1e-11 && worst(&expected.1, &found.1) < 1e-11
        );
    }
}

#[test]
fn drawn_anchors_cover_every_label() {
    // label 9 has one item, label 8 none
    let rows =
        (0_u32..300).map(|i| if i == 77 { vec![9, 0] } else { vec![i % 8, (i / 8) % 7] });
    let mut labels = Labels::from_indices(10, rows).unwrap();
    labels.push(&[]).unwrap();
    for seed in 0..20 {
        let anchors = draw_anchors(&labels, 12, seed).unwrap();
        assert_eq!(anchors.len(), 12);
        assert!(anchors.is_sorted_by(|a, b| a < b), "each once");
        assert!(anchors.contains(&77));
        assert!(labels.select(&anchors).histogram()[..8].iter().all(|&count| count > 0));
        assert_eq!(anchors, draw_anchors(&labels, 12, seed).unwrap());
    }
    assert_ne!(
        draw_anchors(&labels, 12, 1).unwrap(),
        draw_anchors(&labels, 12, 2).unwrap()
    );
    assert_eq!(draw_anchors(&labels, 1000, 1).unwrap().len(), 300);
    let err = draw_anchors(&labels, 2, 1).unwrap_err().to_string();
    assert!(err.starts_with("2 anchors do not cover every label; use at least"), "{err}");
}

#[test]
fn bad_anchors_are_rejected() {
    let labels = Labels::from_indices(2, [vec![0], vec![], vec![1]]).unwrap();
    let refusal = |anchors: &[usize]| {
        from_anchors(&labels, anchors, true, &|_| ()).unwrap_err().to_string()
    };
    assert_eq!(refusal(&[0, 3]), "anchor 1: item 3 does not exist, there are 3 items");
    assert_eq!(refusal(&[2, 2]), "anchor 1: item 2 is listed twice");
    assert_eq!(refusal(&[1]), "anchor 0: item 1 has no label");
}

#[test]
fn automatic_choice_is_explained() {
    let kinds = |labels: &Labels, options: &Options| {
        let found = supervise(labels, options, &|_| ()).unwrap();
        (found.kind, found.reason)
    };
    let auto = Options::default();
    let single = Labels::from_indices(3, [vec![0], vec![1], vec![]]).unwrap();
    assert_eq!(
        kinds(&single, &auto),
        (Kind::Uniform, "every item has one label: q = u = 1".into())
    );
    let multi = Labels::from_indices(3, [vec![0], vec![1, 2], vec![2]]).unwrap();
    let (kind, reason) = kinds(&multi, &auto);
    assert_eq!(kind, Kind::Exact);
    assert_eq!(reason, "3 distinct label sets need at most 1.6e1 steps, within 1e10");
    let given = Options { anchors: Some(3), ..auto };
    assert_eq!(kinds(&multi, &given).0, Kind::Anchors);
    let none = Labels::from_indices(3, [vec![], vec![]]).unwrap();
    assert_eq!(
        supervise(&none, &auto, &|_| ()).unwrap_err().to_string(),
        "none of 2 items has a label; coefficients need labels"
    );
}

#[test]
fn scales() {
    let labels =
        Labels::from_indices(4, [vec![0, 1], vec![1], vec![2, 3], vec![]]).unwrap();
    let sums = |kind, scale| {
        let options = Options { kind, scale, ..Options::default() };
        let found = supervise(&labels, &options, &|_| ()).unwrap();
        let (q, u, labels) = found.coefficients.sums();
        (q / labels, u / labels, found.scale)
    };
    let (q, u, scale) = sums(Kind::Exact, Scale::Paper);
    assert!((q - 1.0).abs() < 1e-12 && (u - 2.0).abs() < 1e-12);
    let raw = sums(Kind::Exact, Scale::Raw);
    assert!((raw.0 - scale).abs() < 1e-12 && raw.2 == 1.0);
    assert_eq!(sums(Kind::Scul, Scale::Paper), (0.6, 1.0, 1.0));
    assert_eq!(sums(Kind::Scul, Scale::MeanOne).0, 1.0);
    let (paper, raw) =
        (sums(Kind::Balanced, Scale::Paper), sums(Kind::Balanced, Scale::Raw));
    assert!((paper.0 * paper.2 - raw.0).abs() < 1e-12);
}
