//! Values of fields, and how a literal of an expression compares with them.
//!
//! A literal without quotes is a number, a bool (`true`, `false`), a date or a text; in quotes it is
//! a date or a text. Dates are ISO 8601: `2024-05-01`, `2024-05-01T10:30`, with seconds, fractions
//! and an offset (`Z`, `+02:00`); without an offset they are UTC. A field holds a date if its text
//! is one. Values of different types are neither equal nor ordered, except that a literal without
//! quotes also equals the same text. A list matches if one of its elements does.

use std::cmp::Ordering;

/// The value of a field of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// A text; a date is a text in ISO 8601.
    Text(String),
    /// A number.
    Number(f64),
    /// True or false.
    Bool(bool),
    /// Several values.
    List(Vec<FieldValue>),
}

impl FieldValue {
    /// A cell of a table: a number, a bool or a text.
    pub fn from_cell(text: &str) -> FieldValue {
        match (number(text), boolean(text)) {
            (Some(number), _) => FieldValue::Number(number),
            (None, Some(boolean)) => FieldValue::Bool(boolean),
            (None, None) => FieldValue::Text(text.to_owned()),
        }
    }

    /// A text that is different for different values.
    pub(crate) fn key(&self) -> String {
        match self {
            FieldValue::Text(text) => format!("t{text}"),
            FieldValue::Number(number) => format!("n{:x}", number.to_bits()),
            FieldValue::Bool(boolean) => format!("b{boolean}"),
            FieldValue::List(list) => {
                let key = |value: &FieldValue| {
                    let key = value.key();
                    format!("{}:{key}", key.len())
                };
                format!("l{}", list.iter().map(key).collect::<String>())
            }
        }
    }
}

/// A literal of an expression as it was typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Literal {
    /// The text without quotes.
    pub text: String,
    /// Whether it was in quotes.
    pub quoted: bool,
}

/// An order that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Comparison {
    /// Its sign.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::AtMost => "<=",
            Comparison::Greater => ">",
            Comparison::AtLeast => ">=",
        }
    }

    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
        }
    }
}

/// A test of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldTest {
    /// The item has the field.
    Exists,
    /// The value is one of these.
    OneOf(Vec<Literal>),
    /// The value has this order with the literal.
    Compare(Comparison, Literal),
    /// A text contains the literal, or an element of a list equals it.
    Contains(Literal),
}

impl FieldTest {
    /// The test, with its literals parsed.
    pub(super) fn prepare(&self) -> Prepared<'_> {
        match self {
            FieldTest::Exists => Prepared::Exists,
            FieldTest::OneOf(any) => {
                Prepared::OneOf(any.iter().map(Operand::new).collect())
            }
            FieldTest::Compare(comparison, literal) => {
                Prepared::Compare(*comparison, Operand::new(literal))
            }
            FieldTest::Contains(literal) => Prepared::Contains(Operand::new(literal)),
        }
    }
}

/// A test that is ready to be evaluated.
pub(super) enum Prepared<'a> {
    Exists,
    OneOf(Vec<Operand<'a>>),
    Compare(Comparison, Operand<'a>),
    Contains(Operand<'a>),
}

impl Prepared<'_> {
    /// Whether it holds for a value.
    pub(super) fn holds(&self, value: &FieldValue) -> bool {
        match (self, value) {
            (Prepared::Exists, _) => true,
            (Prepared::Contains(operand), FieldValue::List(list)) => {
                list.iter().any(|value| operand.equals(value))
            }
            (Prepared::Contains(operand), FieldValue::Text(text)) => {
                text.contains(operand.text)
            }
            (Prepared::Contains(_), _) => false,
            (_, FieldValue::List(list)) => list.iter().any(|value| self.holds(value)),
            (Prepared::OneOf(any), value) => any.iter().any(|one| one.equals(value)),
            (Prepared::Compare(comparison, operand), value) => {
                operand.order(value).is_some_and(|order| comparison.holds(order))
            }
        }
    }
}

/// A literal with all that it can mean.
pub(super) struct Operand<'a> {
    text: &'a str,
    number: Option<f64>,
    boolean: Option<bool>,
    instant: Option<i64>,
}

impl Operand<'_> {
    fn new(literal: &Literal) -> Operand<'_> {
        let text = literal.text.as_str();
        let number = if literal.quoted { None } else { number(text) };
        let boolean = if literal.quoted { None } else { boolean(text) };
        Operand { text, number, boolean, instant: instant(text) }
    }

    fn equals(&self, value: &FieldValue) -> bool {
        match value {
            FieldValue::Text(text) => {
                text == self.text
                    || self.instant.is_some_and(|own| instant(text) == Some(own))
            }
            FieldValue::Number(number) => self.number == Some(*number),
            FieldValue::Bool(boolean) => self.boolean == Some(*boolean),
            FieldValue::List(list) => list.iter().any(|value| self.equals(value)),
        }
    }

    /// The order of a value and this literal, if they have one.
    fn order(&self, value: &FieldValue) -> Option<Ordering> {
        match value {
            FieldValue::Number(number) => number.partial_cmp(&self.number?),
            FieldValue::Text(text) => match (self.instant, self.number) {
                (Some(own), _) => Some(instant(text)?.cmp(&own)),
                (None, Some(_)) => None,
                (None, None) => Some(text.as_str().cmp(self.text)),
            },
            FieldValue::Bool(_) | FieldValue::List(_) => None,
        }
    }
}

/// A finite decimal number.
pub(super) fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let begins = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.parse().ok().filter(|number: &f64| begins && number.is_finite())
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Microseconds since 1970 of a date in ISO 8601; `None` if the text is none.
pub(super) fn instant(text: &str) -> Option<i64> {
    let (date, time) = match text.as_bytes().get(10) {
        None => (text, None),
        Some(b'T' | b't' | b' ') => (text.get(..10)?, Some(text.get(11..)?)),
        Some(_) => return None,
    };
    let [b0, b1, b2, b3, b'-', b4, b5, b'-', b6, b7] = date.as_bytes() else { return None };
    let year = digits(&[*b0, *b1, *b2, *b3])?;
    let (month, day) = (digits(&[*b4, *b5])?, digits(&[*b6, *b7])?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    let micros = match time {
        None => 0,
        Some(time) => micros_of_day(time)?,
    };
    Some(days_since_1970(year, month, day) * 86_400_000_000 + micros)
}

/// Microseconds of `hh:mm[:ss[.f]][Z|+hh:mm]`, in UTC.
fn micros_of_day(time: &str) -> Option<i64> {
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let offset = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => 0,
        [sign, a, b, b':', c, d] | [sign, a, b, c, d] => {
            let (hours, minutes) = (digits(&[*a, *b])?, digits(&[*c, *d])?);
            let minutes = within(hours, 23)? * 60 + within(minutes, 59)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let (clock, fraction) = match clock.split_once('.') {
        None => (clock, 0),
        Some((clock, fraction)) => (clock, micros_of_fraction(fraction)?),
    };
    let seconds = match clock.as_bytes() {
        [a, b, b':', c, d] if fraction == 0 => {
            within(digits(&[*a, *b])?, 23)? * 3600 + within(digits(&[*c, *d])?, 59)? * 60
        }
        [a, b, b':', c, d, b':', e, f] => {
            within(digits(&[*a, *b])?, 23)? * 3600
                + within(digits(&[*c, *d])?, 59)? * 60
                + within(digits(&[*e, *f])?, 60)?
        }
        _ => return None,
    };
    Some((seconds - offset * 60) * 1_000_000 + fraction)
}

fn micros_of_fraction(fraction: &str) -> Option<i64> {
    let all = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let padded: Vec<u8> = fraction.bytes().chain(*b"000000").take(6).collect();
    digits(&padded).filter(|_| all)
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
    })
}

fn within(number: i64, most: i64) -> Option<i64> {
    (number <= most).then_some(number)
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leaps = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    before * 365 + leaps + months + day - 1 - 719_162
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_instants() {
        assert_eq!(instant("1970-01-01"), Some(0));
        assert_eq!(instant("2000-03-01"), Some(951_868_800_000_000));
        assert_eq!(instant("2024-02-29T12:00"), Some(1_709_208_000_000_000));
        assert_eq!(instant("2024-02-29T12:00:00.25+02:00"), Some(1_709_200_800_250_000));
        assert_eq!(instant("2024-02-29 10:00:00Z"), instant("2024-02-29T12:00:00+0200"));
        assert_eq!(instant("1969-12-31T23:59:59"), Some(-1_000_000));
        for text in [
            "",
            "2023-02-29",
            "2024-13-01",
            "2024-1-1",
            "2024-01-01T",
            "2024-01-01T25:00",
            "2024-01-01T10:00:00+",
            "20240101",
            "2024-01-01T10:00.5",
            "2024-01-01x",
            "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
            "2024-01-01T10:00:00.",
        ] {
            assert_eq!(instant(text), None, "{text}");
        }
    }

    #[test]
    fn literals_compare_by_type() {
        let holds = |test: FieldTest, value: &FieldValue| test.prepare().holds(value);
        let word = |text: &str| Literal { text: text.into(), quoted: false };
        let quoted = |text: &str| Literal { text: text.into(), quoted: true };
        let text = |text: &str| FieldValue::Text(text.into());
        let is = |literal: Literal, value: &FieldValue| {
            holds(FieldTest::OneOf(vec![literal]), value)
        };
        assert!(is(word("20"), &FieldValue::Number(20.0)));
        assert!(is(word("2e1"), &FieldValue::Number(20.0)));
        assert!(!is(quoted("20"), &FieldValue::Number(20.0)));
        assert!(is(word("20"), &text("20")) && is(quoted("20"), &text("20")));
        assert!(
            is(word("TRUE"), &FieldValue::Bool(true))
                && !is(word("inf"), &FieldValue::Number(1.0))
        );
        assert!(is(word("2024-05-01"), &text("2024-05-01T00:00:00Z")));
        let list = FieldValue::List(vec![text("a"), FieldValue::Number(3.0)]);
        assert!(is(word("3"), &list) && is(word("a"), &list) && !is(word("b"), &list));
        let less = |literal, value: &FieldValue| {
            holds(FieldTest::Compare(Comparison::Less, literal), value)
        };
        assert!(less(word("20"), &FieldValue::Number(19.5)) && less(word("20"), &list));
        assert!(!less(word("20"), &text("19")), "a text is no number");
        assert!(less(quoted("2024-05-01"), &text("2024-04-30T23:59:59Z")));
        assert!(!less(quoted("2024-05-01"), &text("a note")));
        assert!(less(quoted("b"), &text("apple")));
        let contains =
            |literal, value: &FieldValue| holds(FieldTest::Contains(literal), value);
        assert!(
            contains(quoted("pp"), &text("apple"))
                && !contains(quoted("x"), &text("apple"))
        );
        assert!(contains(word("3"), &list) && !contains(word("4"), &list));
    }

    #[test]
    fn cells_of_tables_have_types() {
        assert_eq!(FieldValue::from_cell("3.50"), FieldValue::Number(3.5));
        assert_eq!(FieldValue::from_cell("False"), FieldValue::Bool(false));
        assert_eq!(FieldValue::from_cell("nan"), FieldValue::Text("nan".into()));
        assert_eq!(FieldValue::from_cell("3 kg"), FieldValue::Text("3 kg".into()));
    }
}
