//! Filter expressions over labels and ids.
//!
//! ```text
//! expression = term { "or" term }
//! term       = factor { "and" factor }
//! factor     = "not" factor | "(" expression ")" | test
//! test       = ("label" | "id") [ "not" ] "in" "(" value { "," value } ")"
//!            | ("label" | "id") ("=" | "!=") value
//! value      = number | word | "quoted text" | 'quoted text'
//! ```
//!
//! `label in (3, 7)` holds if the item carries at least one of them; `label not in (..)` is
//! `not label in (..)`. A label is a number, or a name if the index has label names.

use super::ItemSet;
use crate::{Error, Result};

/// The names of labels by their number; empty if they have none.
pub type LabelNames = [String];

/// A parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Carries at least one of these labels (numbers, ascending).
    Label(Vec<usize>),
    /// Is one of these ids, as they were typed.
    Id(Vec<String>),
    /// The inner one does not hold.
    Not(Box<Filter>),
    /// All hold.
    And(Vec<Filter>),
    /// At least one holds.
    Or(Vec<Filter>),
}

impl Filter {
    /// Parses an expression; label names are looked up in `names`, numbers are checked to be
    /// less than `classes`.
    pub fn parse(text: &str, classes: usize, names: &LabelNames) -> Result<Filter> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, classes, names, depth: 0 };
        let filter = parser.expression()?;
        match parser.peek() {
            None => Ok(filter),
            Some(token) => {
                Err(parser.expected(&format!("`and`, `or` or the end, not {token}")))
            }
        }
    }

    /// The items for which it holds, out of `len`: `carries` returns whether an item has at
    /// least one of some labels, `find` gives the item of a typed id.
    pub fn items(
        &self,
        len: usize,
        carries: &(dyn Fn(u32, &[usize]) -> bool + Sync),
        find: &dyn Fn(&str) -> Option<u32>,
    ) -> ItemSet {
        let each = |filter: &Filter| filter.items(len, carries, find);
        match self {
            Filter::Label(any) => ItemSet::of(len, |item| carries(item, any)),
            Filter::Id(ids) => {
                let mut set = ItemSet::none(len);
                ids.iter().filter_map(|id| find(id)).for_each(|item| {
                    set.insert(item);
                });
                set
            }
            Filter::Not(inner) => each(inner).complement(),
            Filter::And(all) => fold(all.iter().map(each), ItemSet::intersection, len),
            Filter::Or(any) => fold(any.iter().map(each), ItemSet::union, len),
        }
    }
}

fn fold(
    mut sets: impl Iterator<Item = ItemSet>,
    join: impl Fn(&ItemSet, &ItemSet) -> ItemSet,
    len: usize,
) -> ItemSet {
    let first = sets.next().unwrap_or_else(|| ItemSet::none(len));
    sets.fold(first, |all, set| join(&all, &set))
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "{text:?}"),
            Token::Sign(text) => write!(f, "`{text}`"),
        }
    }
}

/// The maximum nesting depth.
const MAX_DEPTH: usize = 64;

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let signs = ["(", ")", ",", "!=", "="];
        if let Some(sign) = signs.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else if c == '"' || c == '\'' {
            let inner = &rest[1..];
            let end = inner.find(c).ok_or_else(|| {
                Error::content(format!(
                    "filter: the quote before {inner:?} is never closed"
                ))
            })?;
            tokens.push(Token::Quoted(inner[..end].to_owned()));
            rest = &inner[end + 1..];
        } else {
            let ends = |c: char| c.is_whitespace() || "(),=!\"'".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            if end == 0 {
                return Err(Error::content(format!("filter: {c:?} means nothing here")));
            }
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    classes: usize,
    names: &'a LabelNames,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(text)) if text.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn take_sign(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> Error {
        let place = match self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            None => "at the start".to_owned(),
            Some(before) => format!("after {before}"),
        };
        Error::content(format!(
            "filter: {place}, expected {what}; example: label in (3, 7) and not label in (5)"
        ))
    }

    fn expression(&mut self) -> Result<Filter> {
        let mut list = vec![self.term()?];
        while self.take_word("or") {
            list.push(self.term()?);
        }
        Ok(one_or(list, Filter::Or))
    }

    fn term(&mut self) -> Result<Filter> {
        let mut list = vec![self.factor()?];
        while self.take_word("and") {
            list.push(self.factor()?);
        }
        Ok(one_or(list, Filter::And))
    }

    fn factor(&mut self) -> Result<Filter> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::content("filter: nested too deeply"));
        }
        let filter = if self.take_word("not") {
            Filter::Not(Box::new(self.factor()?))
        } else if self.take_sign("(") {
            let inner = self.expression()?;
            if !self.take_sign(")") {
                return Err(self.expected("`)`"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn test(&mut self) -> Result<Filter> {
        let is_label = self.take_word("label");
        if !is_label && !self.take_word("id") {
            return Err(self.expected("`label`, `id`, `not` or `(`"));
        }
        let mut negated = self.take_word("not");
        let values = if self.take_word("in") {
            if !self.take_sign("(") {
                return Err(self.expected("`(`"));
            }
            let mut values = vec![self.value()?];
            while self.take_sign(",") {
                values.push(self.value()?);
            }
            if !self.take_sign(")") {
                return Err(self.expected("`,` or `)`"));
            }
            values
        } else if !negated && self.take_sign("!=") {
            negated = true;
            vec![self.value()?]
        } else if !negated && self.take_sign("=") {
            vec![self.value()?]
        } else {
            return Err(self.expected("`in (..)`, `=` or `!=`"));
        };
        let test =
            if is_label { self.labels(values)? } else { Filter::Id(strings(values)) };
        Ok(if negated { Filter::Not(Box::new(test)) } else { test })
    }

    fn value(&mut self) -> Result<Token> {
        match self.peek() {
            Some(token @ (Token::Word(_) | Token::Quoted(_))) => {
                let token = token.clone();
                self.at += 1;
                Ok(token)
            }
            _ => Err(self.expected("a number or a name")),
        }
    }

    /// Label numbers of values: a known name takes precedence over a number.
    fn labels(&self, values: Vec<Token>) -> Result<Filter> {
        let mut labels = Vec::new();
        for value in &values {
            let text = match value {
                Token::Word(text) | Token::Quoted(text) => text,
                Token::Sign(_) => continue,
            };
            let named = self.names.iter().position(|name| name == text);
            let number =
                text.parse::<usize>().ok().filter(|_| matches!(value, Token::Word(_)));
            match named.or(number) {
                Some(label) if label < self.classes => labels.push(label),
                Some(label) => {
                    return Err(Error::content(format!(
                        "filter: label {label} is out of range, there are {} labels",
                        self.classes
                    )));
                }
                None if self.names.is_empty() => {
                    return Err(Error::content(format!(
                        "filter: label {text:?}; the index knows no names, use numbers"
                    )));
                }
                None => {
                    return Err(Error::content(format!(
                        "filter: no label is named {text:?}; there are {}",
                        some_of(self.names)
                    )));
                }
            }
        }
        labels.sort_unstable();
        labels.dedup();
        Ok(Filter::Label(labels))
    }
}

fn one_or(mut list: Vec<Filter>, many: impl Fn(Vec<Filter>) -> Filter) -> Filter {
    match list.len() {
        1 => list.remove(0),
        _ => many(list),
    }
}

fn strings(values: Vec<Token>) -> Vec<String> {
    let text = |token| match token {
        Token::Word(text) | Token::Quoted(text) => text,
        Token::Sign(sign) => sign.to_owned(),
    };
    let mut ids: Vec<String> = values.into_iter().map(text).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The first names of many.
fn some_of(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn errors_name_the_expected_token() {
        let example = "; example: label in (3, 7) and not label in (5)";
        let cases = [
            ("", "filter: at the start, expected `label`, `id`, `not` or `(`"),
            ("label in 3", "filter: after `in`, expected `(`"),
            ("label in (3", "filter: after `3`, expected `,` or `)`"),
            ("label in ()", "filter: after `(`, expected a number or a name"),
            ("label ~ 3", "filter: after `label`, expected `in (..)`, `=` or `!=`"),
            (
                "label = 3 label",
                "filter: after `3`, expected `and`, `or` or the end, not `label`",
            ),
            ("(label = 3", "filter: after `3`, expected `)`"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), format!("{expected}{example}"), "{text}");
        }
        assert_eq!(
            parse("label = 9"),
            "filter: label 9 is out of range, there are 9 labels"
        );
        assert_eq!(
            parse("label = cow"),
            "filter: no label is named \"cow\"; there are cat, dog, and so on, 7"
        );
        assert_eq!(
            parse("label = 'cat"),
            "filter: the quote before \"cat\" is never closed"
        );
        assert_eq!(parse(&"(".repeat(9999)), "filter: nested too deeply");
    }

    fn expression() -> impl Strategy<Value = Filter> {
        let labels = prop::collection::btree_set(0_usize..9, 1..4);
        let leaf = prop_oneof![
            labels.prop_map(|set| Filter::Label(set.into_iter().collect())),
            prop::collection::btree_set("[a-z0-9 ]{1,5}", 1..3)
                .prop_map(|set| Filter::Id(set.into_iter().collect())),
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

    /// An expression typed out; lists in brackets.
    fn typed(filter: &Filter) -> String {
        let joined = |list: &[Filter], word: &str| {
            let list: Vec<String> =
                list.iter().map(|f| format!("({})", typed(f))).collect();
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
            Filter::Not(inner) => format!("not ({})", typed(inner)),
            Filter::And(list) => joined(list, " and "),
            Filter::Or(list) => joined(list, " or "),
        }
    }

    #[test]
    fn items_are_those_for_which_it_holds() {
        // item i carries label i % 9 and is called by its number
        let carries = |item: u32, any: &[usize]| any.contains(&(item as usize % 9));
        let find = |id: &str| id.parse().ok().filter(|&item| item < 20_u32);
        let items = |text: &str| -> Vec<u32> {
            let filter = Filter::parse(text, 9, &[]).unwrap();
            filter.items(20, &carries, &find).iter().collect()
        };
        assert_eq!(items("label in (1, 2) and not id in (1, 99)"), [2, 10, 11, 19]);
        assert_eq!(items("label = 8 or id = 0"), [0, 8, 17]);
        assert_eq!(items("id != 3 and label = 3"), [12]);
    }

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn displayed_expressions_are_parsed(filter in expression()) {
            prop_assert_eq!(Filter::parse(&typed(&filter), 9, &[]).unwrap(), filter);
        }

        #[test]
        fn no_text_is_a_panic(text in "[labelidnotinandor ()=!,'\"0-9\\PC]{0,40}") {
            let _ = Filter::parse(&text, 9, &names());
        }
    }
}
