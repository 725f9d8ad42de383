//! From the text of an expression to a [`Filter`]; errors show the place.

use super::value::{Comparison, FieldTest, Literal};
use super::{Filter, LabelNames};
use crate::{Error, Result};

/// The longest text in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The largest number of tests and operators.
const MAX_NODES: usize = 1000;
/// The maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Characters of the text that an error shows before and after the place.
const SHOWN: usize = 32;

/// Characters that end a word.
const ENDS: &str = "(),=!<>\"'`";
const SIGNS: [&str; 9] = ["(", ")", ",", "!=", "<=", ">=", "=", "<", ">"];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    /// In backticks.
    Name(String),
    Sign(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(text) => write!(f, "`{text}`"),
            Token::Quoted(text) => write!(f, "{text:?}"),
            Token::Name(text) => write!(f, "the field `{text}`"),
            Token::Sign(text) => write!(f, "`{text}`"),
        }
    }
}

/// An error at a byte of the text.
fn error(text: &str, at: usize, what: &str) -> Error {
    let at = at.min(text.len());
    let (before, after) = text.split_at(at);
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let (number, column) =
        (before.matches('\n').count() + 1, before[line..].chars().count() + 1);
    let place = if text.trim_end().contains('\n') {
        format!("line {number}, character {column}")
    } else {
        format!("character {column}")
    };
    let skipped = before[line..].chars().count().saturating_sub(SHOWN);
    let shown: String = before[line..].chars().skip(skipped).collect();
    let rest: String = after.lines().next().unwrap_or("").chars().take(SHOWN).collect();
    let (dots, indent) = if skipped > 0 { ("...", 3) } else { ("", 0) };
    let caret = " ".repeat(indent + shown.chars().count());
    Error::content(format!(
        "filter, {place}: {what}\n  {dots}{}{rest}\n  {caret}^",
        shown.replace('\t', " ")
    ))
}

/// Tokens with the bytes where they begin.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push((at, Token::Sign(sign)));
            at += sign.len();
        } else if "\"'`".contains(c) {
            let (inner, length) = quoted(rest, c)
                .ok_or_else(|| error(text, at, "this quote is never closed"))?;
            let token = if c == '`' { Token::Name(inner) } else { Token::Quoted(inner) };
            tokens.push((at, token));
            at += length;
        } else {
            let ends = |c: char| c.is_whitespace() || ENDS.contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            if end == 0 {
                return Err(error(text, at, &format!("{c:?} means nothing here")));
            }
            tokens.push((at, Token::Word(rest[..end].to_owned())));
            at += end;
        }
    }
    Ok(tokens)
}

/// The text in quotes and its length with them; a doubled quote stands for itself.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != quote {
            inner.push(c);
        } else if characters.peek().is_some_and(|next| next.1 == quote) {
            inner.push(quote);
            characters.next();
        } else {
            return Some((inner, at + 1));
        }
    }
    None
}

/// Parses an expression.
pub(super) fn parse(text: &str, classes: usize, names: &LabelNames) -> Result<Filter> {
    if text.len() > MAX_TEXT {
        return Err(Error::content(format!(
            "filter: the expression has {} bytes; the limit is {MAX_TEXT}",
            text.len()
        )));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, classes, names, depth: 0, nodes: 0 };
    let filter = parser.expression()?;
    match parser.peek() {
        None => Ok(filter),
        Some(_) => Err(parser.expected("`and`, `or` or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    at: usize,
    classes: usize,
    names: &'a LabelNames,
    depth: usize,
    nodes: usize,
}

/// What a test is about.
enum Subject {
    Label,
    Id,
    Field(String),
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|token| &token.1)
    }

    fn is_word(&self, nth: usize, word: &str) -> bool {
        let token = self.tokens.get(self.at + nth).map(|token| &token.1);
        matches!(token, Some(Token::Word(text)) if text.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn take_sign(&mut self, sign: &'static str) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    /// The byte where a token begins.
    fn place(&self, nth: usize) -> usize {
        self.tokens.get(nth).map_or(self.text.trim_end().len(), |token| token.0)
    }

    fn expected(&self, what: &str) -> Error {
        let found = self.peek().map_or("the end".to_owned(), ToString::to_string);
        let what = format!("expected {what}, found {found}");
        error(self.text, self.place(self.at), &what)
    }

    fn count(&mut self) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let what = format!("more than {MAX_NODES} tests and operators");
            return Err(error(self.text, self.place(self.at), &what));
        }
        Ok(())
    }

    fn expression(&mut self) -> Result<Filter> {
        let mut list = vec![self.term()?];
        while self.take_word("or") {
            self.count()?;
            list.push(self.term()?);
        }
        Ok(one_or(list, Filter::Or))
    }

    fn term(&mut self) -> Result<Filter> {
        let mut list = vec![self.factor()?];
        while self.take_word("and") {
            self.count()?;
            list.push(self.factor()?);
        }
        Ok(one_or(list, Filter::And))
    }

    fn factor(&mut self) -> Result<Filter> {
        self.depth += 1;
        self.count()?;
        if self.depth > MAX_DEPTH {
            return Err(error(self.text, self.place(self.at), "nested too deeply"));
        }
        let filter = if self.take_word("not") {
            Filter::Not(Box::new(self.factor()?))
        } else if self.take_sign("(") {
            let inner = self.expression()?;
            self.close("`and`, `or` or `)`")?;
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn close(&mut self, what: &str) -> Result<()> {
        if self.take_sign(")") { Ok(()) } else { Err(self.expected(what)) }
    }

    fn test(&mut self) -> Result<Filter> {
        let opens = self.tokens.get(self.at + 1).map(|token| &token.1);
        if self.is_word(0, "exists") && opens == Some(&Token::Sign("(")) {
            self.at += 2;
            let name = self.field()?;
            self.close("`)`")?;
            return Ok(Filter::Field(name, FieldTest::Exists));
        }
        let subject = self.subject()?;
        let mut negated = self.take_word("not");
        let test = if self.take_word("in") {
            let values = self.list()?;
            self.one_of(&subject, values)?
        } else if self.is_word(0, "contains") {
            let Subject::Field(name) = subject else {
                return Err(self.expected("`in (..)`, `=` or `!=`"));
            };
            self.at += 1;
            Filter::Field(name, FieldTest::Contains(self.value()?.1))
        } else if negated {
            return Err(self.expected("`in` or `contains`"));
        } else if self.take_sign("!=") {
            negated = true;
            let value = self.value()?;
            self.one_of(&subject, vec![value])?
        } else if self.take_sign("=") {
            let value = self.value()?;
            self.one_of(&subject, vec![value])?
        } else {
            self.comparison(subject)?
        };
        Ok(if negated { Filter::Not(Box::new(test)) } else { test })
    }

    fn subject(&mut self) -> Result<Subject> {
        if self.take_word("label") {
            return Ok(Subject::Label);
        }
        if self.take_word("id") {
            return Ok(Subject::Id);
        }
        Ok(Subject::Field(self.field()?))
    }

    /// The name of a field.
    fn field(&mut self) -> Result<String> {
        const KEYWORDS: [&str; 4] = ["and", "or", "in", "not"];
        let name = match self.peek() {
            Some(Token::Name(name)) => Some(name.clone()),
            Some(Token::Word(word))
                if !KEYWORDS.iter().any(|k| word.eq_ignore_ascii_case(k)) =>
            {
                Some(word.clone())
            }
            _ => None,
        };
        self.at += usize::from(name.is_some());
        name.ok_or_else(|| self.expected("`label`, `id`, a field, `not` or `(`"))
    }

    fn comparison(&mut self, subject: Subject) -> Result<Filter> {
        use Comparison::{AtLeast, AtMost, Greater, Less};
        let Subject::Field(name) = subject else {
            return Err(self.expected("`in (..)`, `=` or `!=`"));
        };
        let all = [Less, AtMost, Greater, AtLeast];
        let Some(found) = all.into_iter().find(|one| self.take_sign(one.sign())) else {
            return Err(
                self.expected("`=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `contains`")
            );
        };
        Ok(Filter::Field(name, FieldTest::Compare(found, self.value()?.1)))
    }

    /// Values in parentheses, with their places.
    fn list(&mut self) -> Result<Vec<(usize, Literal)>> {
        if !self.take_sign("(") {
            return Err(self.expected("`(`"));
        }
        let mut values = vec![self.value()?];
        while self.take_sign(",") {
            values.push(self.value()?);
        }
        self.close("`,` or `)`")?;
        Ok(values)
    }

    fn value(&mut self) -> Result<(usize, Literal)> {
        let literal = match self.peek() {
            Some(Token::Word(text)) => Literal { text: text.clone(), quoted: false },
            Some(Token::Quoted(text)) => Literal { text: text.clone(), quoted: true },
            _ => return Err(self.expected("a number, a date or a text")),
        };
        let place = self.place(self.at);
        self.at += 1;
        Ok((place, literal))
    }

    fn one_of(&self, subject: &Subject, values: Vec<(usize, Literal)>) -> Result<Filter> {
        match subject {
            Subject::Label => self.labels(&values),
            Subject::Id => {
                let mut ids: Vec<String> =
                    values.into_iter().map(|value| value.1.text).collect();
                ids.sort_unstable();
                ids.dedup();
                Ok(Filter::Id(ids))
            }
            Subject::Field(name) => {
                let mut any: Vec<Literal> =
                    values.into_iter().map(|value| value.1).collect();
                any.sort_unstable();
                any.dedup();
                Ok(Filter::Field(name.clone(), FieldTest::OneOf(any)))
            }
        }
    }

    /// Label numbers of values: a known name takes precedence over a number.
    fn labels(&self, values: &[(usize, Literal)]) -> Result<Filter> {
        let mut labels = Vec::new();
        for (place, Literal { text, quoted }) in values {
            let named = self.names.iter().position(|name| name == text);
            let number = text.parse::<usize>().ok().filter(|_| !quoted);
            let what = match named.or(number) {
                Some(label) if label < self.classes => {
                    labels.push(label);
                    continue;
                }
                Some(label) => {
                    format!(
                        "label {label} is out of range, there are {} labels",
                        self.classes
                    )
                }
                None if self.names.is_empty() => {
                    format!("label {text:?}; the index knows no names, use numbers")
                }
                None => {
                    format!("no label is named {text:?}; there are {}", some_of(self.names))
                }
            };
            return Err(error(self.text, *place, &what));
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

/// The first names of many.
pub(super) fn some_of<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(8).map(AsRef::as_ref).collect();
    let more = if names.len() > shown.len() { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
