//! Our analyser as a tokenizer of `tantivy`.

use std::sync::Arc;

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::data::Analyser;

/// Splits texts by an [`Analyser`].
#[derive(Clone)]
pub(super) struct AnalyserTokenizer(pub(super) Arc<Analyser>);

/// The tokens of one text.
pub(super) struct Tokens {
    all: std::vec::IntoIter<Token>,
    current: Token,
}

impl Tokenizer for AnalyserTokenizer {
    type TokenStream<'a> = Tokens;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Tokens {
        let mut all = Vec::new();
        self.0.words(text, |word, at, term| {
            all.push(Token {
                offset_from: at,
                offset_to: at + word.len(),
                position: all.len(),
                text: term.to_owned(),
                position_length: 1,
            });
        });
        Tokens { all: all.into_iter(), current: Token::default() }
    }
}

impl TokenStream for Tokens {
    fn advance(&mut self) -> bool {
        let next = self.all.next();
        let found = next.is_some();
        self.current = next.unwrap_or_default();
        found
    }

    fn token(&self) -> &Token {
        &self.current
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.current
    }
}
