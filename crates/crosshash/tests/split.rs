//! Splits: separation of training and queries, sizes, groups, stratification, and the hash.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashSet;

use crosshash::data::{
    Dataset, Dense, Features, Modality, Part, Parts, Selection, Split, SplitSpec,
};
use crosshash_codes::Labels;
use proptest::prelude::*;
use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

/// Items `prefix0..`, label `i % classes` (and 0 for every seventh).
fn modality(name: &str, ids: &[String], classes: usize) -> Modality {
    let features = Features::Dense(Dense::from_floats(1, vec![0.5; ids.len()]).unwrap());
    let rows = (0..ids.len()).map(|i| {
        let own = u32::try_from(i % classes).unwrap();
        if i % 7 == 0 { vec![own, 0] } else { vec![own] }
    });
    let labels = Labels::from_indices(classes, rows).unwrap();
    Modality::new(name, ids.to_vec(), features, labels).unwrap()
}

fn names(classes: usize) -> Vec<String> {
    (0..classes).map(|label| format!("l{label}")).collect()
}

fn ids(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("n{i}")).collect()
}

fn paired(n: usize) -> Dataset {
    let (image, text) = (ids(0..n), ids(n / 4..n + n / 4));
    let modalities = vec![modality("image", &image, 5), modality("text", &text, 5)];
    Dataset::new("trial", names(5), modalities).unwrap()
}

fn ids_in<'a>(dataset: &'a Dataset, split: &Split, part: Part) -> HashSet<&'a str> {
    let each = dataset.modalities().iter().enumerate();
    each.flat_map(|(k, m)| split.items(k, part).iter().map(|&i| m.ids()[i].as_str()))
        .collect()
}

#[test]
fn training_excludes_queries_and_their_pairs() {
    let dataset = paired(400);
    let plan = SplitSpec {
        seed: 3,
        query: Some(Selection::Count(60)),
        train: Some(Selection::Count(200)),
        validation: Some(Selection::Count(40)),
        ..SplitSpec::default()
    };
    let split = plan.draw(&dataset).unwrap();
    let queries = ids_in(&dataset, &split, Part::Query);
    assert_eq!(queries.len(), 60);
    assert_eq!(ids_in(&dataset, &split, Part::Train).len(), 200);
    assert_eq!(ids_in(&dataset, &split, Part::Validation).len(), 40);
    assert_eq!(ids_in(&dataset, &split, Part::Database).len(), 500 - 60);
    let training = dataset.training(&split);
    for name in ["image", "text"] {
        for view in [training.train(name).unwrap(), training.validation(name).unwrap()] {
            assert!((0..view.len()).all(|at| !queries.contains(view.id(at))));
        }
    }
    let err = training.train("sound").unwrap_err();
    assert_eq!(err.to_string(), "no modality named \"sound\"; there are: image, text");
}

#[test]
fn queries_do_not_depend_on_the_training_size() {
    let dataset = paired(300);
    let with = |train| {
        let (query, train) = (Some(Selection::Share(0.1)), Some(Selection::Count(train)));
        SplitSpec { seed: 9, query, train, ..SplitSpec::default() }.draw(&dataset).unwrap()
    };
    let (small, large) = (with(10), with(200));
    assert_eq!(
        ids_in(&dataset, &small, Part::Query),
        ids_in(&dataset, &large, Part::Query)
    );
    assert_ne!(small.hash(), large.hash());
    assert_eq!(with(10).hash(), small.hash());
}

#[test]
fn hash_does_not_depend_on_the_order_of_rows() {
    let mut turned = ids(0..50);
    turned.reverse();
    let of = |ids: &[String]| {
        let classes = 1;
        let m = modality("image", ids, classes);
        let dataset = Dataset::new("trial", names(classes), vec![m]).unwrap();
        let plan = SplitSpec { query: Some(Selection::Count(7)), ..SplitSpec::default() };
        plan.draw(&dataset).unwrap().hash()
    };
    assert_eq!(of(&ids(0..50)), of(&turned));
}

#[test]
fn groups_stay_together() {
    let n = 300;
    let sketch = modality("sketch", &ids(0..n), 5)
        .with_groups((0..n).map(|i| format!("photo{}", i / 4)).collect())
        .unwrap();
    let photo_ids: Vec<String> = (0..n / 4).map(|i| format!("photo{i}")).collect();
    let photo = modality("photo", &photo_ids, 5);
    let dataset = Dataset::new("sketches", names(5), vec![sketch, photo]).unwrap();
    let (query, validation) = (Some(Selection::Count(100)), Some(Selection::Share(0.1)));
    let stratify = true;
    let plan = SplitSpec { seed: 1, stratify, query, validation, ..SplitSpec::default() };
    let split = plan.draw(&dataset).unwrap();
    let units = |part| -> HashSet<&str> {
        let each = dataset.modalities().iter().enumerate();
        each.flat_map(|(k, m)| split.items(k, part).iter().map(|&i| m.unit(i))).collect()
    };
    assert!(units(Part::Query).is_disjoint(&units(Part::Train)));
    assert!(units(Part::Query).is_disjoint(&units(Part::Validation)));
    assert!(units(Part::Train).is_disjoint(&units(Part::Validation)));
    assert_eq!(ids_in(&dataset, &split, Part::Query).len(), 100, "20 groups of 4 + 1");
}

#[test]
fn group_in_queries_and_training_is_rejected() {
    let sketch = modality("sketch", &ids(0..4), 2)
        .with_groups(["p", "p", "q", "q"].map(String::from).to_vec())
        .unwrap();
    let dataset = Dataset::new("sketches", names(2), vec![sketch]).unwrap();
    let parts = Parts { train: vec![0, 2], query: vec![3], ..Parts::default() };
    let err = Split::new(&dataset, vec![parts]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "group \"q\" (item \"n3\") is a query of modality sketch and in train of modality \
         sketch: queries must not be used for training"
    );
}

#[test]
fn column_defines_the_parts_and_other_items_are_counted() {
    let marks = |n: usize| -> Vec<String> {
        (0..n).map(|i| ["train", "train", "test", "none"][i % 4].to_owned()).collect()
    };
    let image = modality("image", &ids(0..40), 3).with_marks(marks(40)).unwrap();
    let dataset = Dataset::new("given", names(3), vec![image]).unwrap();
    let value = |value: &str| Some(Selection::Marked(vec![value.to_owned()]));
    let plan = SplitSpec {
        query: value("test"),
        database: value("train"),
        train: Some(Selection::Count(12)),
        ..SplitSpec::default()
    };
    let split = plan.draw(&dataset).unwrap();
    let sizes = Part::ALL.map(|part| split.items(0, part).len());
    assert_eq!(sizes, [12, 0, 10, 20]);
    assert_eq!(split.dropped().len(), 1);
    assert_eq!(split.dropped()[0].items, 10);
    assert!(split.dropped()[0].reason.contains("none"), "{:?}", split.dropped());

    let err = SplitSpec { query: value("tset"), ..SplitSpec::default() }
        .draw(&dataset)
        .unwrap_err();
    assert_eq!(
        err.to_string(),
        "split, query: no value of the split column named \"tset\"; there are: none, test, train"
    );
    let too_many = SplitSpec { train: Some(Selection::Count(41)), ..SplitSpec::default() };
    assert_eq!(
        too_many.draw(&dataset).unwrap_err().to_string(),
        "split, train: 41 items were requested, but there are 40"
    );
}

#[test]
fn stratification_keeps_label_shares() {
    // 1000 items; label l has frequency about 1 / (l + 1), several at once.
    let rows = (0..1000_u32).map(|i| (0..12).filter(|l| (i * 7) % (l + 1) == 0).collect());
    let rows: Vec<Vec<u32>> = rows.collect();
    let labels = Labels::from_indices(12, &rows).unwrap();
    let features = Features::Dense(Dense::from_floats(1, vec![0.0; 1000]).unwrap());
    let image = Modality::new("image", ids(0..1000), features, labels).unwrap();
    let dataset = Dataset::new("strata", names(12), vec![image]).unwrap();
    let query = Some(Selection::Share(0.2));
    let split =
        SplitSpec { stratify: true, query, ..SplitSpec::default() }.draw(&dataset).unwrap();
    assert_eq!(split.items(0, Part::Query).len(), 200);
    let drawn = dataset.queries(&split, "image").unwrap().labels().histogram();
    let all = dataset.modalities()[0].labels().histogram();
    for label in 0..12 {
        let expected = all[label] as f64 * 0.2;
        assert!(
            (drawn[label] as f64 - expected).abs() <= 2.5,
            "{label}: {drawn:?} of {all:?}"
        );
    }
}

#[test]
fn modalities_without_a_common_label_are_rejected() {
    let of = |name: &str, label: u32| {
        let labels = Labels::from_indices(2, [[label]]).unwrap();
        let features = Features::Dense(Dense::from_floats(1, vec![0.0]).unwrap());
        Modality::new(name, ids(0..1), features, labels).unwrap()
    };
    let err = Dataset::new("d", names(2), vec![of("image", 0), of("text", 1)]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "modalities image and text share no label; image has e.g. l0, text has e.g. l1: give \
         both the same label names"
    );
}

/// Items 0 to n of two modalities, the first of them grouped.
fn grouped(n: usize, groups: Vec<String>) -> Dataset {
    let text = modality("text", &ids(0..n), 3);
    let image = modality("image", &ids(0..n), 3).with_groups(groups).unwrap();
    Dataset::new("paired", names(3), vec![image, text]).unwrap()
}

#[test]
fn groups_of_one_modality_include_pairs_in_another() {
    let dataset = grouped(30, (0..30).map(|i| format!("g{}", i / 3)).collect());
    let plan = SplitSpec {
        query: Some(Selection::Share(0.2)),
        validation: Some(Selection::Share(0.2)),
        ..SplitSpec::default()
    };
    let split = plan.draw(&dataset).unwrap();
    for part in Part::ALL {
        assert_eq!(split.items(0, part), split.items(1, part), "{}", part.name());
    }
    assert_eq!(split.items(1, Part::Query).len(), 6);
    let groups = |part| -> std::collections::BTreeSet<usize> {
        split.items(1, part).iter().map(|item| item / 3).collect()
    };
    assert!(groups(Part::Query).is_disjoint(&groups(Part::Train)));
    assert!(groups(Part::Validation).is_disjoint(&groups(Part::Train)));
}

#[test]
fn items_with_an_empty_group_are_independent() {
    let dataset = grouped(30, vec![String::new(); 30]);
    let plan = SplitSpec { query: Some(Selection::Count(7)), ..SplitSpec::default() };
    let split = plan.draw(&dataset).unwrap();
    assert_eq!(split.items(0, Part::Query).len(), 7);
    assert!(split.notes().is_empty(), "{:?}", split.notes());
}

#[test]
fn smaller_sizes_are_reported() {
    let dataset = grouped(32, (0..32).map(|i| format!("g{}", i / 8)).collect());
    let plan = SplitSpec { query: Some(Selection::Count(20)), ..SplitSpec::default() };
    let split = plan.draw(&dataset).unwrap();
    assert_eq!(split.items(0, Part::Query).len(), 16);
    assert_eq!(
        split.notes(),
        [
            "split, query: 20 items were requested, but 16 are drawn: groups are kept together, \
             and none fits the rest"
        ]
    );
}

#[test]
fn overlapping_parts_are_rejected() {
    let image = modality("image", &ids(0..20), 3)
        .with_marks((0..20).map(|i| ["train", "test"][i % 2].to_owned()).collect())
        .unwrap();
    let dataset = Dataset::new("marked", names(3), vec![image]).unwrap();
    let marked = |values: &[&str]| {
        Some(Selection::Marked(values.iter().map(|&value| value.to_owned()).collect()))
    };
    let fault = |plan: SplitSpec| plan.draw(&dataset).unwrap_err().to_string();
    let rows = |from, to| Some(Selection::Rows(from, to));
    let text =
        fault(SplitSpec { query: rows(0, 10), train: rows(5, 20), ..SplitSpec::default() });
    let (first, last) = (&ids(5..6)[0], &ids(9..10)[0]);
    assert_eq!(
        text,
        format!(
            "split: 5 items are both in query and in train, from {first:?} (modality image) to \
             {last:?}; assign them to one of the two"
        )
    );
    let both = ["train", "test"];
    let text = fault(SplitSpec {
        query: marked(&["test"]),
        train: marked(&both),
        ..SplitSpec::default()
    });
    assert!(text.starts_with("split: 10 items are both in query and in train"), "{text}");
    let text = fault(SplitSpec {
        query: marked(&["test"]),
        database: marked(&both),
        ..SplitSpec::default()
    });
    assert!(
        text.starts_with("split: 10 items are both in query and in database"),
        "{text}"
    );
    let text = fault(SplitSpec {
        train: rows(0, 10),
        validation: rows(9, 12),
        ..SplitSpec::default()
    });
    assert!(
        text.starts_with("split: 1 items are both in train and in validation"),
        "{text}"
    );
}

#[test]
fn validation_and_training_share_no_unit() {
    let dataset = grouped(6, (0..6).map(|i| format!("g{}", i / 3)).collect());
    let part = |train: &[usize], validation: &[usize]| Parts {
        train: train.to_vec(),
        validation: validation.to_vec(),
        ..Parts::default()
    };
    let err = Split::new(&dataset, vec![part(&[0, 1], &[]), part(&[], &[2])]).unwrap_err();
    assert_eq!(
        err.to_string(),
        format!(
            "id {:?} is in validation of modality text and in train of modality image: validation \
             items must not be used for training",
            ids(2..3)[0]
        )
    );
}

proptest! {
    #![proptest_config(fixed(256))]

    #[test]
    fn every_split_separates_queries_from_training(
        n in 4_usize..120,
        seed: u64,
        stratify: bool,
        groups in 1_usize..8,
        query in 0.0..0.9_f64,
        validation in 0.0..0.9_f64,
    ) {
        let image = modality("image", &ids(0..n), 3)
            .with_groups((0..n).map(|i| format!("g{}", i / groups)).collect())
            .unwrap();
        let text = modality("text", &ids(n / 2..n + 3), 3)
            .with_groups((n / 2..n + 3).map(|i| format!("g{}", i / groups)).collect())
            .unwrap();
        let dataset = Dataset::new("any", names(3), vec![image, text]).unwrap();
        let (query, validation) = (Some(Selection::Share(query)), Some(Selection::Share(validation)));
        let plan = SplitSpec { seed, stratify, query, validation, ..SplitSpec::default() };
        // `Split::new` rejects every overlap.
        match plan.draw(&dataset) {
            Ok(split) => prop_assert_eq!(plan.draw(&dataset).unwrap(), split),
            Err(err) => prop_assert_eq!(
                err.to_string(), "the split has no training items"
            ),
        }
    }
}
