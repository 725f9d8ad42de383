//! Tests of fields as plain comparisons, for engines that evaluate them elsewhere (databases).
//!
//! [`FieldParts`] splits a value into lists of texts, numbers, bools and instants; a
//! [`PlainTest`] is a disjunction of comparisons of one type each. Both are made by the rules of
//! `value.rs`, so an engine that compares bytes, doubles and integers gives the same answers.

use super::value::{Comparison, FieldTest, FieldValue, Literal, boolean, instant, number};

/// A value of a field by type; the elements of lists, nested ones too, one by one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldParts {
    /// Whether it is a list.
    pub is_list: bool,
    /// The texts.
    pub texts: Vec<String>,
    /// The numbers; none of them is NaN, which compares with nothing.
    pub numbers: Vec<f64>,
    /// The bools.
    pub bools: Vec<bool>,
    /// Microseconds since 1970 of the texts that are dates.
    pub instants: Vec<i64>,
}

impl FieldParts {
    /// The parts of a value.
    pub fn new(value: &FieldValue) -> FieldParts {
        let mut parts = FieldParts {
            is_list: matches!(value, FieldValue::List(_)),
            ..Default::default()
        };
        parts.add(value);
        parts
    }

    fn add(&mut self, value: &FieldValue) {
        match value {
            FieldValue::Text(text) => {
                self.instants.extend(instant(text));
                self.texts.push(text.clone());
            }
            FieldValue::Number(number) if number.is_nan() => {}
            FieldValue::Number(number) => self.numbers.push(*number),
            FieldValue::Bool(value) => self.bools.push(*value),
            FieldValue::List(list) => list.iter().for_each(|value| self.add(value)),
        }
    }
}

/// The order of a part and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainOrder {
    /// They are equal.
    Equal,
    /// One of `<`, `<=`, `>`, `>=`.
    Ordered(Comparison),
}

impl PlainOrder {
    /// Its sign in SQL.
    pub fn sign(self) -> &'static str {
        match self {
            PlainOrder::Equal => "=",
            PlainOrder::Ordered(comparison) => comparison.sign(),
        }
    }
}

/// A comparison that holds if it holds for one of the parts.
#[derive(Clone, Debug, PartialEq)]
pub enum PlainTest {
    /// The item has the field.
    Exists,
    /// A text, by the bytes of its UTF-8.
    Text(PlainOrder, String),
    /// A number.
    Number(PlainOrder, f64),
    /// An instant.
    Instant(PlainOrder, i64),
    /// A bool.
    Bool(bool),
    /// The value is a text, not a list, and contains this one.
    Substring(String),
    /// The value is a list, and this holds.
    InList(Box<PlainTest>),
}

impl FieldTest {
    /// The comparisons of which at least one must hold; without any, nothing matches.
    pub fn plain(&self) -> Vec<PlainTest> {
        match self {
            FieldTest::Exists => vec![PlainTest::Exists],
            FieldTest::OneOf(any) => any.iter().flat_map(equals).collect(),
            FieldTest::Compare(comparison, literal) => {
                let order = PlainOrder::Ordered(*comparison);
                let Constants { number, instant, .. } = Constants::new(literal);
                let text = &literal.text;
                let of_text = match (instant, number) {
                    (Some(own), _) => Some(PlainTest::Instant(order, own)),
                    (None, Some(_)) => None,
                    (None, None) => Some(PlainTest::Text(order, text.clone())),
                };
                let of_number = number.map(|number| PlainTest::Number(order, number));
                of_text.into_iter().chain(of_number).collect()
            }
            FieldTest::Contains(literal) => {
                let inside = equals(literal).into_iter().map(Box::new);
                let substring = PlainTest::Substring(literal.text.clone());
                inside.map(PlainTest::InList).chain([substring]).collect()
            }
        }
    }
}

/// What a literal can mean besides its text.
struct Constants {
    number: Option<f64>,
    boolean: Option<bool>,
    instant: Option<i64>,
}

impl Constants {
    fn new(literal: &Literal) -> Constants {
        let text = literal.text.as_str();
        let unquoted = (!literal.quoted).then_some(text);
        Constants {
            number: unquoted.and_then(number),
            boolean: unquoted.and_then(boolean),
            instant: instant(text),
        }
    }
}

fn equals(literal: &Literal) -> Vec<PlainTest> {
    let Constants { number, boolean, instant } = Constants::new(literal);
    let mut tests = vec![PlainTest::Text(PlainOrder::Equal, literal.text.clone())];
    tests.extend(instant.map(|own| PlainTest::Instant(PlainOrder::Equal, own)));
    tests.extend(number.map(|own| PlainTest::Number(PlainOrder::Equal, own)));
    tests.extend(boolean.map(PlainTest::Bool));
    tests
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    fn compare<T: PartialOrd + ?Sized>(order: PlainOrder, a: &T, b: &T) -> bool {
        match order {
            PlainOrder::Equal => a == b,
            PlainOrder::Ordered(Comparison::Less) => a < b,
            PlainOrder::Ordered(Comparison::AtMost) => a <= b,
            PlainOrder::Ordered(Comparison::Greater) => a > b,
            PlainOrder::Ordered(Comparison::AtLeast) => a >= b,
        }
    }

    fn holds(test: &PlainTest, parts: &FieldParts) -> bool {
        match test {
            PlainTest::Exists => true,
            PlainTest::Text(order, own) => {
                parts.texts.iter().any(|text| compare(*order, text.as_str(), own.as_str()))
            }
            PlainTest::Number(order, own) => {
                parts.numbers.iter().any(|number| compare(*order, number, own))
            }
            PlainTest::Instant(order, own) => {
                parts.instants.iter().any(|instant| compare(*order, instant, own))
            }
            PlainTest::Bool(own) => parts.bools.contains(own),
            PlainTest::Substring(own) => {
                !parts.is_list && parts.texts.iter().any(|text| text.contains(own.as_str()))
            }
            PlainTest::InList(test) => parts.is_list && holds(test, parts),
        }
    }

    fn scalar() -> impl Strategy<Value = FieldValue> {
        let dates =
            ["2024-05-01", "2024-05-01T00:00Z", "2024-05-01T02:00+02:00", "2023-01-01"];
        prop_oneof![
            prop::sample::select(dates.to_vec())
                .prop_map(|date| FieldValue::Text(date.into())),
            "[a-c20TrueZé]{0,3}".prop_map(FieldValue::Text),
            prop::sample::select(vec!["true", "20", "2", ""])
                .prop_map(|text| FieldValue::Text(text.into())),
            (-3..30_i8).prop_map(|number| FieldValue::Number(f64::from(number))),
            Just(FieldValue::Number(0.1)),
            Just(FieldValue::Number(f64::NAN)),
            any::<bool>().prop_map(FieldValue::Bool),
        ]
    }

    fn value() -> impl Strategy<Value = FieldValue> {
        scalar().prop_recursive(2, 8, 3, |inner| {
            prop::collection::vec(inner, 0..3).prop_map(FieldValue::List)
        })
    }

    fn literal() -> impl Strategy<Value = Literal> {
        let texts =
            ["2024-05-01", "2024-05-01T00:00", "20", "2e1", "true", "FALSE", "0.1", "-0"];
        let text = prop_oneof![
            prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
            "[a-c20é]{0,2}".prop_map(|text| text),
        ];
        (text, any::<bool>()).prop_map(|(text, quoted)| Literal { text, quoted })
    }

    fn field_test() -> impl Strategy<Value = FieldTest> {
        let signs = [
            Comparison::Less,
            Comparison::AtMost,
            Comparison::Greater,
            Comparison::AtLeast,
        ];
        prop_oneof![
            Just(FieldTest::Exists),
            prop::collection::vec(literal(), 1..4).prop_map(FieldTest::OneOf),
            (prop::sample::select(signs.to_vec()), literal())
                .prop_map(|(sign, literal)| FieldTest::Compare(sign, literal)),
            literal().prop_map(FieldTest::Contains),
        ]
    }

    proptest! {
        #![proptest_config(fixed(4096))]

        #[test]
        fn plain_comparisons_hold_where_the_test_holds(test in field_test(), value in value()) {
            let parts = FieldParts::new(&value);
            let plain = test.plain().iter().any(|plain| holds(plain, &parts));
            prop_assert_eq!(plain, test.prepare().holds(&value), "{:?} {:?}", test, value);
        }
    }
}
