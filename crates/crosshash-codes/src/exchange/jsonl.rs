//! JSON lines, one item each, for stores and scripts:
//!
//! ```text
//! {"id":7,"bits":12,"code":"ff01","labels":[3,5]}
//! ```
//!
//! `code` is the packed code in hexadecimal, lowest bit first. `id` is a number or a text; `id`
//! and `labels` may be left out, but then on every line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::format::{CodeFile, Id, Ids};
use crate::read::CodeOptions;
use crate::write::atomically;
use crate::{BitOrder, Bits, Codes, Error, Labels, Result, hex};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<LineId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bits: Option<usize>,
    code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<u32>>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LineId {
    Number(u64),
    Name(String),
}

pub(super) fn write(path: &Path, file: &CodeFile) -> Result<()> {
    file.check_rows()?;
    let bits = file.codes.bits();
    let packed = file.codes.to_packed(BitOrder::Lsb);
    atomically(path, |out| {
        for (row, code) in packed.chunks_exact(bits.bytes()).enumerate() {
            let labels = file.labels.as_ref().map(|labels| {
                let numbers = labels.indices(row).map(u32::try_from);
                numbers.map(|label| label.unwrap_or(u32::MAX)).collect()
            });
            let line = Line {
                id: file.ids.as_ref().map(|ids| match ids.get(row) {
                    Id::Number(number) => LineId::Number(number),
                    Id::Name(name) => LineId::Name(name),
                }),
                bits: Some(bits.get()),
                code: hex::encode(code.iter().copied()),
                labels,
            };
            serde_json::to_writer(&mut *out, &line).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}

pub(super) fn read(path: &Path, options: &CodeOptions) -> Result<CodeFile> {
    let source = BufReader::new(fs_err::File::open(path)?);
    let mut all = Collected { bits: options.bits, ..Collected::default() };
    for (nth, line) in source.lines().enumerate() {
        let line = line?;
        if !line.trim().is_empty() {
            all.take(&line).map_err(|err| {
                Error::content(format!("line {}: {err}", nth + 1)).at(path)
            })?;
        }
    }
    all.finish().map_err(|err| err.at(path))
}

#[derive(Default)]
struct Collected {
    bits: Option<Bits>,
    packed: Vec<u8>,
    rows: usize,
    numbers: Vec<u64>,
    names: Vec<String>,
    labels: Vec<Vec<u32>>,
}

impl Collected {
    fn take(&mut self, text: &str) -> Result<()> {
        let line: Line =
            serde_json::from_str(text).map_err(|err| Error::content(err.to_string()))?;
        let code = hex::decode(&line.code)
            .ok_or_else(|| Error::content("code is not text of hexadecimal bytes"))?;
        let bits = match (line.bits, self.bits) {
            (Some(bits), _) => Bits::new(bits)?,
            (None, Some(bits)) => bits,
            (None, None) => Bits::new(code.len() * 8)?,
        };
        if *self.bits.get_or_insert(bits) != bits || code.len() != bits.bytes() {
            return Err(Error::content(format!(
                "a code of {} bytes; all codes have {} bits, so {} bytes",
                code.len(),
                self.bits.unwrap_or(bits),
                self.bits.unwrap_or(bits).bytes()
            )));
        }
        self.packed.extend(code);
        match line.id {
            Some(LineId::Number(number)) => self.numbers.push(number),
            Some(LineId::Name(name)) => self.names.push(name),
            None => {}
        }
        self.labels.extend(line.labels);
        self.rows += 1;
        Ok(())
    }

    fn finish(self) -> Result<CodeFile> {
        let bits = self
            .bits
            .ok_or_else(|| Error::Empty { what: "no line, and no code length".into() })?;
        let ids = match (self.numbers.len(), self.names.len()) {
            (0, 0) => None,
            (n, 0) if n == self.rows => Some(Ids::Numbers(self.numbers)),
            (0, n) if n == self.rows => Some(Ids::Names(self.names)),
            _ => {
                return Err(Error::content(
                    "ids must be on every line or on none, and all numbers or all texts",
                ));
            }
        };
        let labels = match self.labels.len() {
            0 => None,
            n if n == self.rows => {
                let most = self.labels.iter().flatten().max();
                let classes = most.map_or(0, |&label| label as usize + 1);
                Some(Labels::from_indices(classes, &self.labels)?)
            }
            _ => return Err(Error::content("labels must be on every line or on none")),
        };
        let codes = Codes::from_packed(bits, &self.packed, BitOrder::Lsb)?;
        Ok(CodeFile { codes, ids, labels })
    }
}
