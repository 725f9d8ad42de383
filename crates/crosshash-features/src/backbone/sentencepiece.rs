//! SentencePiece tokenizers (Kudo and Richardson, 2018) of the unigram kind, read from a `.model` file (protocol
//! buffers): pieces with scores, and a table that normalises characters.
//!
//! 1. Prefixes of the text that the table knows are replaced, the longest first. The table is a double array
//!    trie (`darts-clone`) over bytes, followed by the replacements.
//! 2. Runs of spaces become one `▁`, also before the text.
//! 3. The pieces with the largest sum of scores are chosen (Viterbi); the earliest start wins ties. A
//!    character that is no piece is the unknown piece.
//!
//! Differences from the C++ library: unknown characters in a row are one token each, and not one in all; models of
//! other kinds (BPE, bytes as a fallback) are rejected. The crate `kitoken`, which reads `tokenizer.json`, would
//! need another dependency for these files, and it replaces the table by NFKC.

use std::path::Path;

use crate::{Error, Result};

/// Written for a space.
const SPACE: &[u8] = "▁".as_bytes();
/// How much less the unknown piece scores than the worst piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A tokenizer.
pub(super) struct SentencePiece {
    pieces: Vec<Piece>, // sorted by text
    count: usize,
    unknown: u32,
    unknown_score: f64,
    normaliser: Normaliser,
}

struct Piece {
    text: Box<[u8]>,
    id: u32,
    score: f32,
}

impl SentencePiece {
    pub(super) fn open(path: &Path) -> Result<SentencePiece> {
        let bytes = fs_err::read(path)?;
        SentencePiece::parse(&bytes).map_err(|err| err.at(path))
    }

    fn parse(bytes: &[u8]) -> Result<SentencePiece> {
        const NORMAL: u64 = 1;
        const UNKNOWN: u64 = 2;
        const USER_DEFINED: u64 = 4;
        const UNIGRAM: u64 = 1;
        let mut pieces = Vec::new();
        let (mut count, mut unknown, mut worst) = (0_u32, None, 0.0_f32);
        let mut normaliser = Normaliser::default();
        for field in Fields(bytes) {
            match field? {
                (1, Value::Bytes(piece)) => {
                    let (mut text, mut score, mut kind) = (&[][..], 0.0, NORMAL);
                    for field in Fields(piece) {
                        match field? {
                            (1, Value::Bytes(bytes)) => text = bytes,
                            (2, Value::Four(bytes)) => score = f32::from_le_bytes(bytes),
                            (3, Value::Number(number)) => kind = number,
                            _ => {}
                        }
                    }
                    if !score.is_finite() {
                        return Err(damaged("a score is not finite"));
                    }
                    worst = worst.min(score);
                    if kind == UNKNOWN {
                        unknown = Some(count);
                    }
                    if (kind == NORMAL || kind == USER_DEFINED) && !text.is_empty() {
                        pieces.push(Piece { text: text.into(), id: count, score });
                    }
                    count += 1;
                }
                (2, Value::Bytes(trainer)) => {
                    for field in Fields(trainer) {
                        if let (3, Value::Number(kind)) = field?
                            && kind != UNIGRAM
                        {
                            return Err(Error::content(
                                "not a unigram model; other kinds of SentencePiece are not supported",
                            ));
                        }
                    }
                }
                (3, Value::Bytes(spec)) => normaliser = Normaliser::parse(spec)?,
                _ => {}
            }
        }
        let unknown = unknown.ok_or_else(|| damaged("there is no unknown piece"))?;
        pieces.sort_by(|a, b| a.text.cmp(&b.text));
        let unknown_score = f64::from(worst) - UNKNOWN_PENALTY;
        Ok(SentencePiece {
            pieces,
            count: count as usize,
            unknown,
            unknown_score,
            normaliser,
        })
    }

    /// Number of pieces; ids are smaller.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The ids of the pieces of a text; at least one.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let text = self.normaliser.apply(text.as_bytes());
        if text.is_empty() {
            return vec![self.unknown];
        }
        // For every position: the best sum of scores, and where the last piece starts and what it is.
        let mut best = vec![(f64::NEG_INFINITY, 0_usize, self.unknown); text.len() + 1];
        best[0].0 = 0.0;
        let mut start = 0;
        while start < text.len() {
            let character = length_of_character(&text[start..]);
            let (base, ..) = best[start];
            let mut take = |end: usize, score: f64, id: u32| {
                if base + score > best[end].0 {
                    best[end] = (base + score, start, id);
                }
            };
            let mut is_piece = false;
            self.prefixes(&text[start..], |length, piece| {
                take(start + length, f64::from(piece.score), piece.id);
                is_piece |= length == character;
            });
            if !is_piece {
                take(start + character, self.unknown_score, self.unknown);
            }
            start += character;
        }
        let mut ids = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let (_, start, id) = best[end];
            ids.push(id);
            end = start;
        }
        ids.reverse();
        ids
    }

    /// Calls `take` with every piece that the text begins with, the shortest first.
    fn prefixes(&self, text: &[u8], mut take: impl FnMut(usize, &Piece)) {
        // The pieces that begin with the first `length` bytes; one that is no longer is the first of them.
        let mut pieces = &self.pieces[..];
        for (length, &byte) in text.iter().enumerate() {
            let from = pieces.partition_point(|piece| {
                piece.text.get(length).is_none_or(|&own| own < byte)
            });
            let to = pieces.partition_point(|piece| {
                piece.text.get(length).is_none_or(|&own| own <= byte)
            });
            pieces = &pieces[from..to];
            let Some(first) = pieces.first() else { return };
            if first.text.len() == length + 1 {
                take(length + 1, first);
            }
        }
    }
}

/// Replacement of characters and spaces.
#[derive(Default)]
struct Normaliser {
    units: Vec<u32>,       // the trie
    replacements: Vec<u8>, // each ends with 0
    keeps_spaces: bool,
    no_prefix: bool,
}

impl Normaliser {
    fn parse(spec: &[u8]) -> Result<Normaliser> {
        let mut normaliser = Normaliser::default();
        for field in Fields(spec) {
            match field? {
                (2, Value::Bytes(table)) if !table.is_empty() => {
                    let short = || damaged("the table of characters is cut short");
                    let (size, rest) = table.split_first_chunk().ok_or_else(short)?;
                    let size = u32::from_le_bytes(*size) as usize;
                    let (trie, rest) = rest.split_at_checked(size).ok_or_else(short)?;
                    let unit = |bytes: &[u8]| {
                        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
                    };
                    normaliser.units = trie.chunks_exact(4).map(unit).collect();
                    normaliser.replacements = rest.to_vec();
                }
                (3, Value::Number(number)) => normaliser.no_prefix = number == 0,
                (4, Value::Number(number)) => normaliser.keeps_spaces = number == 0,
                (5, Value::Number(0)) => {
                    return Err(Error::content(
                        "models without ▁ for spaces are not supported",
                    ));
                }
                _ => {}
            }
        }
        Ok(normaliser)
    }

    fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + SPACE.len());
        let mut rest = text;
        let mut after_space = !self.keeps_spaces;
        while !rest.is_empty() {
            let (mut replaced, length) = self.prefix(rest);
            rest = &rest[length..];
            while after_space && let Some((b' ', more)) = replaced.split_first() {
                replaced = more;
            }
            let Some(&last) = replaced.last() else { continue };
            if out.is_empty() && !self.no_prefix {
                out.extend(SPACE);
            }
            for &byte in replaced {
                match byte {
                    b' ' => out.extend(SPACE),
                    byte => out.push(byte),
                }
            }
            after_space = !self.keeps_spaces && last == b' ';
        }
        while !self.keeps_spaces && out.ends_with(SPACE) {
            out.truncate(out.len() - SPACE.len());
        }
        out
    }

    /// What the longest known prefix becomes, and its length; else the first character, unchanged.
    fn prefix<'a>(&'a self, text: &'a [u8]) -> (&'a [u8], usize) {
        const LABEL: u32 = 0x8000_00ff;
        const HAS_LEAF: u32 = 0x100;
        let offset = |unit: u32| ((unit >> 10) << ((unit & 0x200) >> 6)) as usize;
        let mut found = None;
        let mut node = self.units.first().map_or(0, |&unit| offset(unit));
        for (at, &byte) in text.iter().enumerate() {
            node ^= usize::from(byte);
            let Some(&unit) = self.units.get(node) else { break };
            if unit & LABEL != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if unit & HAS_LEAF != 0 {
                let value = self.units.get(node).map(|leaf| (leaf & 0x7fff_ffff) as usize);
                found = value.map(|value| (value, at + 1)).or(found);
            }
        }
        let replaced = found.and_then(|(value, length)| {
            let from = self.replacements.get(value..)?;
            let end = from.iter().position(|&byte| byte == 0)?;
            Some((&from[..end], length))
        });
        replaced.unwrap_or_else(|| {
            let length = length_of_character(text);
            (&text[..length], length)
        })
    }
}

/// Bytes of the first character of a UTF-8 text; at least 1 and at most the length of the text.
fn length_of_character(text: &[u8]) -> usize {
    let length = match text.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xff) => 4,
        _ => 1,
    };
    length.min(text.len())
}

fn damaged(what: &str) -> Error {
    Error::content(format!("not a SentencePiece model, or a damaged one: {what}"))
}

/// Fields of a protocol buffer.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Four([u8; 4]),
    Eight,
}

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => {
                self.0 = self.0.get(8..)?;
                Value::Eight
            }
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Value::Four(*bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field().ok_or_else(|| damaged("a field is cut short"));
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}
