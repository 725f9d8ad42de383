//! Tokenizes texts with a `tokenizer.json` (crate `kitoken`, cargo feature `text`).
//!
//! The tokens before and after a text (post-processor of the file) are added here. Models of whole words
//! (`WordLevel`), which the crate does not read, are in `word_level`. Difference from
//! the `tokenizers` of Hugging Face: a capital sigma at the end of a word becomes a final sigma.

use std::path::Path;

use crate::{Error, Result};

/// Tokenizer without padding and truncation.
pub(super) struct Tokenizer {
    #[cfg(feature = "text")]
    inner: Inner,
    #[cfg(feature = "text")]
    around: around::Around,
}

#[cfg(feature = "text")]
enum Inner {
    Pieces(Box<kitoken::Kitoken>),
    Words(word_level::WordLevel),
}

#[cfg(feature = "text")]
impl Tokenizer {
    /// Reads a `tokenizer.json`.
    pub(super) fn open(path: &Path) -> Result<Tokenizer> {
        use kitoken::{Processing, convert};

        let bytes = fs_err::read(path)?;
        let fault = |err: &dyn std::fmt::Display| {
            Error::content(format!("invalid tokenizer.json: {err}")).at(path)
        };
        let around = around::Around::parse(&bytes).map_err(|err| fault(&err))?;
        if let Some(words) =
            word_level::WordLevel::parse(&bytes).map_err(|err| fault(&err))?
        {
            return Ok(Tokenizer { inner: Inner::Words(words), around });
        }
        let mut definition =
            convert::convert_tokenizers(&bytes).map_err(|err| fault(&err))?;
        definition.config.processing.retain(|step| {
            !matches!(step, Processing::Pad { .. } | Processing::Truncate { .. })
        });
        let inner =
            kitoken::Kitoken::from_definition(definition).map_err(|err| fault(&err))?;
        Ok(Tokenizer { inner: Inner::Pieces(Box::new(inner)), around })
    }

    /// Token ids of a text; with `special`, also the tokens that mark its beginning and end.
    pub(super) fn tokens(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let ids = match &self.inner {
            Inner::Words(words) => words.encode(text),
            Inner::Pieces(pieces) => pieces.encode(text, true).map_err(|err| {
                Error::content(format!("failed to tokenize a text: {err}"))
            })?,
        };
        Ok(if special { self.around.add(&ids) } else { ids })
    }
}

/// Models of whole words: a table of words, without pieces of words.
#[cfg(feature = "text")]
mod word_level {
    use std::collections::HashMap;

    use serde::Deserialize;
    use serde::de::Error as _;

    /// A table of words.
    pub(super) struct WordLevel {
        vocab: HashMap<String, u32>,
        unknown: Option<u32>,
        lower_case: bool,
        /// Whether punctuation is separated from words.
        splits_punctuation: bool,
    }

    #[derive(Deserialize)]
    struct File {
        normalizer: Option<Kind>,
        pre_tokenizer: Option<Kind>,
        model: Model,
    }

    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }

    #[derive(Deserialize)]
    struct Model {
        r#type: Option<String>,
        #[serde(default)]
        vocab: serde_json::Value,
        unk_token: Option<String>,
    }

    impl WordLevel {
        /// `None` if the model of the file is of another type.
        pub(super) fn parse(json: &[u8]) -> serde_json::Result<Option<WordLevel>> {
            let File { normalizer, pre_tokenizer, model } = serde_json::from_slice(json)?;
            if model.r#type.as_deref() != Some("WordLevel") {
                return Ok(None);
            }
            let unsupported = |part: &str, kind: &str| {
                let message =
                    format!("{part} {kind:?} of a WordLevel model is not supported");
                Err(serde_json::Error::custom(message))
            };
            let lower_case = match normalizer.as_ref().map(|kind| kind.r#type.as_str()) {
                None => false,
                Some("Lowercase") => true,
                Some(other) => return unsupported("the normalizer", other),
            };
            let splits_punctuation = match pre_tokenizer
                .as_ref()
                .map(|kind| kind.r#type.as_str())
            {
                Some("Whitespace") => true,
                Some("WhitespaceSplit") => false,
                other => return unsupported("the pre-tokenizer", other.unwrap_or("none")),
            };
            let vocab: HashMap<String, u32> = serde_json::from_value(model.vocab)?;
            let unknown = model.unk_token.and_then(|token| vocab.get(&token).copied());
            Ok(Some(WordLevel { vocab, unknown, lower_case, splits_punctuation }))
        }

        /// The tokens of a text; words that are not in the table are the unknown token, or nothing.
        pub(super) fn encode(&self, text: &str) -> Vec<u32> {
            let text = if self.lower_case { text.to_lowercase() } else { text.to_owned() };
            let mut ids = Vec::new();
            for part in text.split_whitespace() {
                if !self.splits_punctuation {
                    ids.extend(self.id(part));
                    continue;
                }
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let mut rest = part;
                while let Some(first) = rest.chars().next() {
                    let kind = is_word(first);
                    let end = rest.find(|c| is_word(c) != kind).unwrap_or(rest.len());
                    let (word, after) = rest.split_at(end);
                    ids.extend(self.id(word));
                    rest = after;
                }
            }
            ids
        }

        fn id(&self, word: &str) -> Option<u32> {
            self.vocab.get(word).copied().or(self.unknown)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::WordLevel;

        #[test]
        fn words_and_punctuation_are_tokens() {
            let json = "{\"normalizer\": {\"type\": \"Lowercase\"}, \"pre_tokenizer\": {\"type\": \"Whitespace\"},
                \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"red\": 1, \"bus\": 2, \"!\": 3}}}";
            let words = WordLevel::parse(json.as_bytes()).unwrap().unwrap();
            assert_eq!(words.encode("  Red bus! blue"), [1, 2, 3, 0]);
            let other = json.replace("WordLevel", "WordPiece");
            assert!(WordLevel::parse(other.as_bytes()).unwrap().is_none());
            let other = json.replace("Lowercase", "NFC");
            assert!(WordLevel::parse(other.as_bytes()).is_err());
        }
    }
}

/// The tokens that a post-processor adds to a single text.
#[cfg(feature = "text")]
mod around {
    use std::collections::HashMap;

    use serde::Deserialize;

    /// Tokens before and after a text.
    #[derive(Default)]
    pub(super) struct Around {
        before: Vec<u32>,
        after: Vec<u32>,
    }

    #[derive(Deserialize)]
    struct File {
        post_processor: Option<PostProcessor>,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum PostProcessor {
        TemplateProcessing {
            single: Vec<Piece>,
            special_tokens: HashMap<String, Special>,
        },
        BertProcessing {
            sep: (String, u32),
            cls: (String, u32),
        },
        RobertaProcessing {
            sep: (String, u32),
            cls: (String, u32),
        },
        Sequence {
            processors: Vec<PostProcessor>,
        },
        #[serde(other)]
        Other,
    }

    #[derive(Deserialize)]
    enum Piece {
        Sequence {},
        SpecialToken { id: String },
    }

    #[derive(Deserialize)]
    struct Special {
        ids: Vec<u32>,
    }

    impl Around {
        pub(super) fn parse(json: &[u8]) -> serde_json::Result<Around> {
            let file: File = serde_json::from_slice(json)?;
            let mut around = Around::default();
            if let Some(processor) = &file.post_processor {
                around.apply(processor);
            }
            Ok(around)
        }

        fn apply(&mut self, processor: &PostProcessor) {
            match processor {
                PostProcessor::TemplateProcessing { single, special_tokens } => {
                    self.template(single, special_tokens);
                }
                PostProcessor::BertProcessing { sep, cls }
                | PostProcessor::RobertaProcessing { sep, cls } => {
                    self.before.insert(0, cls.1);
                    self.after.push(sep.1);
                }
                PostProcessor::Sequence { processors } => {
                    processors.iter().for_each(|processor| self.apply(processor));
                }
                PostProcessor::Other => {}
            }
        }

        fn template(&mut self, single: &[Piece], special: &HashMap<String, Special>) {
            let ids = |pieces: &[Piece]| -> Vec<u32> {
                let names = pieces.iter().filter_map(|piece| match piece {
                    Piece::SpecialToken { id } => special.get(id),
                    Piece::Sequence {} => None,
                });
                names.flat_map(|special| &special.ids).copied().collect()
            };
            let text = single.iter().position(|piece| matches!(piece, Piece::Sequence {}));
            let (before, after) = single.split_at(text.unwrap_or(single.len()));
            self.before.splice(0..0, ids(before));
            self.after.extend(ids(after));
        }

        pub(super) fn add(&self, text: &[u32]) -> Vec<u32> {
            [&self.before[..], text, &self.after[..]].concat()
        }
    }

    #[cfg(test)]
    mod tests {
        use super::Around;

        fn parsed(processor: &str) -> Vec<u32> {
            let json = format!("{{\"version\": \"1.0\", \"post_processor\": {processor}}}");
            Around::parse(json.as_bytes()).unwrap().add(&[7, 8])
        }

        #[test]
        fn every_post_processor_adds_its_tokens() {
            assert_eq!(parsed("null"), [7, 8]);
            let byte_level = "{\"type\": \"ByteLevel\", \"trim_offsets\": true}";
            assert_eq!(parsed(byte_level), [7, 8]);
            let template = "{\"type\": \"TemplateProcessing\", \"single\": [
                {\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}},
                {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}},
                {\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}], \"pair\": [],
                \"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1, 2], \"tokens\": []},
                \"</s>\": {\"id\": \"</s>\", \"ids\": [3], \"tokens\": []}}}";
            assert_eq!(parsed(template), [1, 2, 7, 8, 3]);
            for name in ["BertProcessing", "RobertaProcessing"] {
                let bert = format!(
                    "{{\"type\": \"{name}\", \"sep\": [\"[SEP]\", 102], \"cls\": [\"[CLS]\", 101]}}"
                );
                assert_eq!(parsed(&bert), [101, 7, 8, 102]);
                let both = format!(
                    "{{\"type\": \"Sequence\", \"processors\": [{byte_level}, {bert}]}}"
                );
                assert_eq!(parsed(&both), [101, 7, 8, 102]);
            }
        }

        #[test]
        fn other_files_are_rejected() {
            assert!(Around::parse(b"[]").is_err());
            assert!(Around::parse(b"{\"post_processor\": {\"type\": 1}}").is_err());
        }
    }
}

#[cfg(not(feature = "text"))]
impl Tokenizer {
    pub(super) fn open(path: &Path) -> Result<Tokenizer> {
        Err(Error::disabled("tokenizers are not available", "text").at(path))
    }

    pub(super) fn tokens(&self, _: &str, _: bool) -> Result<Vec<u32>> {
        Err(Error::disabled("tokenizers are not available", "text"))
    }
}
