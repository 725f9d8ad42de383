//! Tokenizes texts with a `tokenizer.json` (crate `kitoken`, cargo feature `text`).
//!
//! The tokens before and after a text (post-processor of the file) are added here. Difference from
//! the `tokenizers` of Hugging Face: a capital sigma at the end of a word becomes a final sigma.

use std::path::Path;

use crate::{Error, Result};

/// Tokenizer without padding and truncation.
pub(super) struct Tokenizer {
    #[cfg(feature = "text")]
    inner: kitoken::Kitoken,
    #[cfg(feature = "text")]
    around: around::Around,
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
        let mut definition =
            convert::convert_tokenizers(&bytes).map_err(|err| fault(&err))?;
        definition.config.processing.retain(|step| {
            !matches!(step, Processing::Pad { .. } | Processing::Truncate { .. })
        });
        let inner =
            kitoken::Kitoken::from_definition(definition).map_err(|err| fault(&err))?;
        Ok(Tokenizer { inner, around })
    }

    /// Token ids of a text; with `special`, also the tokens that mark its beginning and end.
    pub(super) fn tokens(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let ids = self
            .inner
            .encode(text, true)
            .map_err(|err| Error::content(format!("failed to tokenize a text: {err}")))?;
        Ok(if special { self.around.add(&ids) } else { ids })
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
