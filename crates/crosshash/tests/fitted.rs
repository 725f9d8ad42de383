//! Vocabulary and standardisation are fitted on training items only.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use crosshash::data::{
    Analysis, Dataset, Dense, Features, Modality, Selection, SplitSpec, Standardiser,
    Vocabulary, Weights,
};
use crosshash_codes::Labels;

fn dataset(features: Features) -> Dataset {
    let n = features.len();
    let ids = (0..n).map(|i| i.to_string()).collect();
    let labels = Labels::from_indices(1, vec![[0_u32]; n]).unwrap();
    let modality = Modality::new("m", ids, features, labels).unwrap();
    Dataset::new("d", vec!["l".into()], vec![modality]).unwrap()
}

/// The last item is a query, the others are training items.
fn last_item_is_query(n: usize) -> SplitSpec {
    SplitSpec { query: Some(Selection::Rows(n - 1, n)), ..SplitSpec::default() }
}

#[test]
fn vocabulary_excludes_words_of_queries() {
    let texts = ["a cat and a dog", "the cat", "the dog dog", "zebra cat"];
    let dataset = dataset(Features::Text(texts.iter().collect()));
    let split = last_item_is_query(4).draw(&dataset).unwrap();
    let training = dataset.training(&split);
    let of = |analysis: &Analysis| Vocabulary::fit(&training, "m", analysis).unwrap();
    let all = of(&Analysis::default());
    let terms: Vec<(&str, usize)> = all.terms().collect();
    assert_eq!(terms, [("and", 1), ("cat", 2), ("dog", 2), ("the", 2)]);
    assert_eq!(all.row("zebra cat cat"), [(1, 1.0)]);
    let counted = of(&Analysis { weights: Weights::Count, ..Analysis::default() });
    assert_eq!(counted.row("dog cat dog"), [(1, 1.0), (2, 2.0)]);
    // Three terms occur in two texts; the alphabet keeps the first two.
    let two = of(&Analysis { max_terms: Some(2), min_texts: 2, ..Analysis::default() });
    assert_eq!(two.terms().map(|t| t.0).collect::<Vec<_>>(), ["cat", "dog"]);
    let share = of(&Analysis { max_share: 0.5, ..Analysis::default() });
    assert_eq!(share.terms().map(|t| t.0).collect::<Vec<_>>(), ["and"]);
    let err =
        Vocabulary::fit(&training, "m", &Analysis { min_texts: 3, ..Analysis::default() });
    assert_eq!(
        err.unwrap_err().to_string(),
        "no term of modality m is left of 4 in 3 training texts; lower min_texts or min_length"
    );
}

#[test]
fn tf_idf_matches_its_formula() {
    let texts = ["cat dog dog", "cat", "cat bird", "query"];
    let dataset = dataset(Features::Text(texts.iter().collect()));
    let split = last_item_is_query(4).draw(&dataset).unwrap();
    let analysis = Analysis { weights: Weights::TfIdf, ..Analysis::default() };
    let vocabulary = Vocabulary::fit(&dataset.training(&split), "m", &analysis).unwrap();
    let idf = |df: f64| (4.0 / (1.0 + df)).ln() + 1.0;
    let (cat, dog) = (idf(3.0), 2.0 * idf(1.0));
    let length = (cat * cat + dog * dog).sqrt();
    let row = vocabulary.row(texts[0]);
    assert_eq!(row.len(), 2);
    assert!((f64::from(row[0].1) - cat / length).abs() < 1e-6);
    assert!((f64::from(row[1].1) - dog / length).abs() < 1e-6);
    let json = serde_json::to_string(&vocabulary).unwrap();
    assert_eq!(serde_json::from_str::<Vocabulary>(&json).unwrap(), vocabulary);
}

#[test]
fn standardisation_uses_training_rows_only() {
    let rows = vec![1.0, 5.0, 2.0, 5.0, 6.0, 5.0, 1000.0, -7.0];
    let dataset = dataset(Features::Dense(Dense::from_floats(2, rows).unwrap()));
    let split = last_item_is_query(4).draw(&dataset).unwrap();
    let fitted = Standardiser::fit(&dataset.training(&split), "m").unwrap();
    assert_eq!(fitted.mean(), [3.0, 5.0]);
    let sd = ((4.0 + 1.0 + 9.0) / 3.0_f32).sqrt();
    assert!((fitted.sd()[0] - sd).abs() < 1e-6);
    assert_eq!(fitted.sd()[1], 1.0, "a constant feature is not divided by 0");
    let mut row = [3.0 + sd, 6.0];
    fitted.apply(&mut row);
    assert!((row[0] - 1.0).abs() < 1e-6 && row[1] == 1.0, "{row:?}");
}
