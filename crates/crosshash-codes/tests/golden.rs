//! Numbers from an independent implementation: `golden/ranking.json`.
//!
//! Codes are strings of 0 and 1 (bit 0 first), labels are lists of indices; relevant means
//! sharing a label; the first query of each case has no relevant item and counts as 0.

use crosshash_codes::eval::{Options, evaluate};
use crosshash_codes::{Bits, Codes, Labels};
use serde_json::Value;

fn codes(bits: Bits, rows: &Value) -> Codes {
    let rows = rows.as_array().expect("a list of codes");
    let text = rows.iter().map(|row| row.as_str().expect("a code"));
    let bools: Vec<bool> =
        text.flat_map(|row| row.bytes().map(|bit| bit == b'1')).collect();
    Codes::from_bools(bits, &bools).expect("codes of one length")
}

fn labels(classes: usize, rows: &Value) -> Labels {
    let rows: Vec<Vec<u32>> = serde_json::from_value(rows.clone()).expect("label lists");
    Labels::from_indices(classes, rows).expect("labels in range")
}

#[test]
fn ranking_agrees_with_the_independent_implementation() {
    let text = include_str!("golden/ranking.json");
    let cases: Vec<Value> = serde_json::from_str(text).expect("golden file");
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let bits = usize::try_from(case["bits"].as_u64().expect("bits")).expect("small");
        let classes =
            usize::try_from(case["labels"].as_u64().expect("labels")).expect("small");
        let width = Bits::new(bits).expect("a code length");
        let report = evaluate(
            &codes(width, &case["query"]),
            &codes(width, &case["database"]),
            &labels(classes, &case["query_labels"]),
            &labels(classes, &case["database_labels"]),
            &Options { cutoffs: vec![50], ..Options::default() },
            &|_| {},
        )
        .expect("a report");
        let expect = |key: &str| case["expect"][key].as_f64().expect("a golden number");
        let map = report.map.expect("there are labels");
        let pairs = [
            ("tie_aware", map.tie_aware),
            ("optimistic", map.optimistic),
            ("pessimistic", map.pessimistic),
            ("stable", map.stable),
            ("p@50", report.at["precision_at"][&50].tie_aware),
        ];
        for (key, got) in pairs {
            assert!((got - expect(key)).abs() < 1e-9, "{bits} bits, {key}: {got}");
        }
        let (query, database) = (&case["query_labels"], &case["database_labels"]);
        let (query, database) = (labels(classes, query), labels(classes, database));
        let hopeless =
            |q: &usize| (0..database.len()).all(|i| query.shared(*q, &database, i) == 0);
        assert!(hopeless(&0), "the first query has no relevant item");
        assert_eq!(
            report.queries_without_relevant.unwrap(),
            (0..query.len()).filter(hopeless).count()
        );
    }
}
