//! Parsing, errors with their place, and evaluation against a plain evaluator.

use proptest::prelude::*;

use super::*;
use crate::proptests::fixed;

fn names() -> Vec<String> {
    ["cat", "dog", "and so on", "7"].map(str::to_owned).to_vec()
}

fn parse(text: &str) -> String {
    match Filter::parse(text, 9, &names()) {
        Ok(filter) => format!("{filter:?}"),
        Err(err) => err.to_string(),
    }
}

#[test]
fn expressions_select_the_expected_items() {
    assert_eq!(
        parse("label in (3, 5) and not label in (8)"),
        "And([Label([3, 5]), Not(Label([8]))])"
    );
    assert_eq!(
        parse("label = cat OR (label not in ('and so on') and id != x7)"),
        "Or([Label([0]), And([Not(Label([2])), Not(Id([\"x7\"]))])])"
    );
    assert_eq!(parse("label = 7"), "Label([3])", "a name wins over a number");
    assert_eq!(parse("id in (9, 'a b', 9)"), "Id([\"9\", \"a b\"])");
    assert_eq!(
        parse("`unit price`<=-2.5 and exists(exists)"),
        "And([Field(\"unit price\", Compare(AtMost, Literal { text: \"-2.5\", quoted: false })), \
         Field(\"exists\", Exists)])"
    );
    assert_eq!(
        parse("tags not contains 'it''s'"),
        "Not(Field(\"tags\", Contains(Literal { text: \"it's\", quoted: true })))"
    );
    assert_eq!(
        parse("exists = 1"),
        "Field(\"exists\", OneOf([Literal { text: \"1\", quoted: false }]))"
    );
}

#[test]
fn errors_name_the_expected_token_and_its_place() {
    let cases = [
        (
            "",
            "character 1: expected `label`, `id`, a field, `not` or `(`, found the end\n  \n  ^",
        ),
        ("label in 3", "character 10: expected `(`, found `3`\n  label in 3\n           ^"),
        (
            "label in (3",
            "character 12: expected `,` or `)`, found the end\n  label in (3\n             ^",
        ),
        (
            "label in ()",
            "character 11: expected a number, a date or a text, found `)`\n  label in ()\n            ^",
        ),
        (
            "label < 3",
            "character 7: expected `in (..)`, `=` or `!=`, found `<`\n  label < 3\n        ^",
        ),
        (
            "id contains 3",
            "character 4: expected `in (..)`, `=` or `!=`, found `contains`\n  id contains 3\n     ^",
        ),
        (
            "label = 3 label",
            "character 11: expected `and`, `or` or the end, found `label`\n  label = 3 label\n            ^",
        ),
        (
            "(label = 3",
            "character 11: expected `and`, `or` or `)`, found the end\n  (label = 3\n            ^",
        ),
        (
            "price not < 3",
            "character 11: expected `in` or `contains`, found `<`\n  price not < 3\n            ^",
        ),
        (
            "label = 9",
            "character 9: label 9 is out of range, there are 9 labels\n  label = 9\n          ^",
        ),
        (
            "label = 'cat",
            "character 9: this quote is never closed\n  label = 'cat\n          ^",
        ),
        (
            "price < 2 and\n  label = !",
            "line 2, character 11: '!' means nothing here\n    label = !\n            ^",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text), format!("filter, {expected}"), "{text}");
    }
    assert_eq!(
        parse("label in (cat, cow)"),
        "filter, character 16: no label is named \"cow\"; there are cat, dog, and so on, 7\n  \
         label in (cat, cow)\n                 ^"
    );
    let long = format!("{} and x", "label = 1 and ".repeat(20));
    let shown = parse(&long);
    assert!(shown.ends_with(&format!("{}^", " ".repeat(2 + 3 + 32))), "{shown}");
}

#[test]
fn expressions_have_a_budget() {
    assert!(parse(&"(".repeat(9999)).contains("nested too deeply"));
    let many = |n: usize| vec!["x = 1"; n].join(" or ");
    assert!(Filter::parse(&many(500), 9, &[]).is_ok());
    assert!(parse(&many(501)).contains("more than 1000 tests and operators"));
    let long = format!("x = '{}'", "a".repeat(65_536));
    assert_eq!(parse(&long), "filter: the expression has 65542 bytes; the limit is 65536");
}

/// An item of the plain evaluator.
#[derive(Clone, Debug)]
struct Item {
    labels: Vec<usize>,
    fields: Vec<(&'static str, FieldValue)>,
}

const FIELDS: [&str; 4] = ["price", "brand", "tags", "odd ` name"];

fn scalar() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        (-3_i32..4).prop_map(|n| FieldValue::Number(f64::from(n) / 2.0)),
        any::<bool>().prop_map(FieldValue::Bool),
        prop::sample::select(vec![
            "a",
            "b",
            "ab",
            "1",
            "0.5",
            "true",
            "2024-05-01",
            "2024-05-01T00:00Z",
            "2023-12-31",
        ])
        .prop_map(|text| FieldValue::Text(text.to_owned())),
    ]
}

fn item() -> impl Strategy<Value = Item> {
    let value = prop_oneof![
        4 => scalar(),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(FieldValue::List),
    ];
    let fields =
        prop::collection::btree_map(prop::sample::select(FIELDS.to_vec()), value, 0..4);
    (prop::collection::vec(0_usize..9, 0..3), fields)
        .prop_map(|(labels, fields)| Item { labels, fields: fields.into_iter().collect() })
}

fn literal() -> impl Strategy<Value = Literal> {
    let text = prop::sample::select(vec![
        "a",
        "b",
        "1",
        "0.5",
        "-1.5",
        "true",
        "false",
        "2024-05-01",
        "2024-05-01T02:00:00+02:00",
        "it's",
        "two words",
        "",
    ]);
    (text, any::<bool>()).prop_map(|(text, quoted)| {
        let plain = !text.is_empty() && !text.contains([' ', '\'']);
        Literal { text: text.to_owned(), quoted: quoted || !plain }
    })
}

fn expression() -> impl Strategy<Value = Filter> {
    use Comparison::{AtLeast, AtMost, Greater, Less};
    let labels = prop::collection::btree_set(0_usize..9, 1..4);
    let test = prop_oneof![
        Just(FieldTest::Exists),
        prop::collection::btree_set(literal(), 1..3)
            .prop_map(|set| FieldTest::OneOf(set.into_iter().collect())),
        (prop::sample::select(vec![Less, AtMost, Greater, AtLeast]), literal())
            .prop_map(|(comparison, literal)| FieldTest::Compare(comparison, literal)),
        literal().prop_map(FieldTest::Contains),
    ];
    let field = (prop::sample::select(FIELDS.to_vec()), test);
    let leaf = prop_oneof![
        labels.prop_map(|set| Filter::Label(set.into_iter().collect())),
        prop::collection::btree_set("[0-9]{1,2}", 1..3)
            .prop_map(|set| Filter::Id(set.into_iter().collect())),
        field.prop_map(|(name, test)| Filter::Field(name.to_owned(), test)),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
            list.clone().prop_map(Filter::And),
            list.prop_map(Filter::Or),
        ]
    })
}

fn typed_literal(literal: &Literal) -> String {
    if literal.quoted {
        format!("'{}'", literal.text.replace('\'', "''"))
    } else {
        literal.text.clone()
    }
}

/// An expression typed out; lists in brackets.
fn typed(filter: &Filter) -> String {
    let joined = |list: &[Filter], word: &str| {
        let list: Vec<String> = list.iter().map(|f| format!("({})", typed(f))).collect();
        list.join(word)
    };
    match filter {
        Filter::Label(labels) => {
            let labels: Vec<String> = labels.iter().map(usize::to_string).collect();
            format!("label in ({})", labels.join(","))
        }
        Filter::Id(ids) => {
            let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
            format!("id in ({})", ids.join(", "))
        }
        Filter::Field(name, test) => {
            let name = format!("`{}`", name.replace('`', "``"));
            match test {
                FieldTest::Exists => format!("exists({name})"),
                FieldTest::OneOf(any) => {
                    let any: Vec<String> = any.iter().map(typed_literal).collect();
                    format!("{name} in ({})", any.join(", "))
                }
                FieldTest::Compare(comparison, literal) => {
                    format!("{name} {} {}", comparison.sign(), typed_literal(literal))
                }
                FieldTest::Contains(literal) => {
                    format!("{name} contains {}", typed_literal(literal))
                }
            }
        }
        Filter::Not(inner) => format!("not ({})", typed(inner)),
        Filter::And(list) => joined(list, " and "),
        Filter::Or(list) => joined(list, " or "),
    }
}

/// Dates of the tests as days, written out.
fn day(text: &str) -> Option<i32> {
    match text {
        "2024-05-01" | "2024-05-01T00:00Z" | "2024-05-01T02:00:00+02:00" => Some(20240501),
        "2023-12-31" => Some(20231231),
        _ => None,
    }
}

fn plain_equals(value: &FieldValue, literal: &Literal) -> bool {
    let number = literal.text.parse::<f64>().ok().filter(|_| !literal.quoted);
    let boolean = literal.text.parse::<bool>().ok().filter(|_| !literal.quoted);
    match value {
        FieldValue::Number(n) => number.is_some_and(|own| (own - n).abs() < 1e-9),
        FieldValue::Bool(b) => boolean == Some(*b),
        FieldValue::Text(text) => {
            *text == literal.text
                || (day(text).is_some() && day(text) == day(&literal.text))
        }
        FieldValue::List(list) => list.iter().any(|value| plain_equals(value, literal)),
    }
}

fn plain_test(value: &FieldValue, test: &FieldTest) -> bool {
    match test {
        FieldTest::Exists => true,
        FieldTest::OneOf(any) => any.iter().any(|literal| plain_equals(value, literal)),
        FieldTest::Contains(literal) => match value {
            FieldValue::Text(text) => text.contains(&literal.text),
            FieldValue::List(_) => plain_equals(value, literal),
            _ => false,
        },
        FieldTest::Compare(comparison, literal) => {
            let number = literal.text.parse::<f64>().ok().filter(|_| !literal.quoted);
            let order = match value {
                FieldValue::List(list) => return list.iter().any(|v| plain_test(v, test)),
                FieldValue::Number(n) => number.and_then(|own| n.partial_cmp(&own)),
                FieldValue::Bool(_) => None,
                FieldValue::Text(text) => match (day(&literal.text), number) {
                    (Some(own), _) => day(text).map(|day| day.cmp(&own)),
                    (None, Some(_)) => None,
                    (None, None) => Some(text.cmp(&literal.text)),
                },
            };
            order.is_some_and(|order| match comparison {
                Comparison::Less => order.is_lt(),
                Comparison::AtMost => order.is_le(),
                Comparison::Greater => order.is_gt(),
                Comparison::AtLeast => order.is_ge(),
            })
        }
    }
}

fn plain(filter: &Filter, at: usize, item: &Item) -> bool {
    match filter {
        Filter::Label(any) => item.labels.iter().any(|label| any.contains(label)),
        Filter::Id(ids) => ids.iter().any(|id| id.parse() == Ok(at)),
        Filter::Field(name, test) => {
            let value = item.fields.iter().find(|field| field.0 == name);
            value.is_some_and(|(_, value)| plain_test(value, test))
        }
        Filter::Not(inner) => !plain(inner, at, item),
        Filter::And(list) => list.iter().all(|filter| plain(filter, at, item)),
        Filter::Or(list) => list.iter().any(|filter| plain(filter, at, item)),
    }
}

proptest! {
    #![proptest_config(fixed(512))]

    #[test]
    fn items_are_those_for_which_a_plain_evaluator_holds(
        filter in expression(),
        items in prop::collection::vec(item(), 0..40),
    ) {
        let parsed = Filter::parse(&typed(&filter), 9, &[]).unwrap();
        prop_assert_eq!(&parsed, &filter);
        let mut columns = ColumnsBuilder::default();
        for (row, item) in (0..).zip(&items) {
            item.fields.iter().for_each(|(name, value)| columns.add(row, name, value.clone()));
        }
        let columns = columns.finish();
        let len = items.len();
        let carries = |item: u32, any: &[usize]| {
            items[item as usize].labels.iter().any(|label| any.contains(label))
        };
        let find = |id: &str| id.parse().ok().filter(|&item: &u32| (item as usize) < len);
        let field = |name: &str, test: &FieldTest| columns.matching(len, name, test);
        let subjects = Subjects { len, carries: &carries, find: &find, field: &field, cancel: &Cancel::default() };
        let found: Vec<u32> = parsed.items(&subjects).iter().collect();
        let truth: Vec<u32> = (0..)
            .zip(&items)
            .filter(|(at, item)| plain(&filter, *at as usize, item))
            .map(|(at, _)| at)
            .collect();
        prop_assert_eq!(found, truth, "{}", typed(&filter));
    }

    #[test]
    fn no_text_is_a_panic(text in "[labelidnotinandorexistscontains ()=!<>,'\"`0-9\\PC\n]{0,40}") {
        let _ = Filter::parse(&text, 9, &names());
    }
}
