//! One commit as bytes: the body of a record of the log.
//!
//! Numbers are little-endian:
//!
//! ```text
//! number of labels u64, id of the next unnumbered item u64
//! ids are names u8 (1) or numbers (0)
//! items u32, deleted ids u32
//! ids of the items: u64, or u32 length and UTF-8
//! codes: items x ceil(bits/64) u64
//! labels per item: u32 count and as many u32
//! flags per item: u8
//! payloads per item: u32 length and bytes
//! deleted ids
//! outputs, if the index stores them: items x bits i8
//! ```

use std::sync::Arc;

use super::batch::ItemBatch;
use super::manifest::Manifest;
use crate::format::{Id, Ids};
use crate::{Bits, Codes, Error, Labels, Outputs, Result};

/// A checked commit: items to add or replace, each with its id, and ids to delete.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) items: ItemBatch,
    pub(crate) deleted: Vec<Id>,
    /// Number of labels from now on.
    pub(crate) classes: usize,
    /// The id of the next item that comes without one.
    pub(crate) next_id: u64,
}

impl Change {
    /// The body of the record; the items have ids.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let count = |n: usize| {
            u32::try_from(n).map_err(|_| Error::content("more than 4 GiB in one item"))
        };
        out.extend((self.classes as u64).to_le_bytes());
        out.extend(self.next_id.to_le_bytes());
        let names = match (&self.items.ids, self.deleted.first()) {
            (Some(Ids::Names(_)), _) => true,
            (Some(Ids::Numbers(_)), _) => false,
            (None, first) => matches!(first, Some(Id::Name(_))),
        };
        out.push(u8::from(names));
        out.extend(count(self.items.len())?.to_le_bytes());
        out.extend(count(self.deleted.len())?.to_le_bytes());
        let put_id = |out: &mut Vec<u8>, id: &Id| -> Result<()> {
            match id {
                Id::Number(number) => out.extend(number.to_le_bytes()),
                Id::Name(name) => {
                    out.extend(count(name.len())?.to_le_bytes());
                    out.extend(name.as_bytes());
                }
            }
            Ok(())
        };
        for row in 0..self.items.ids.as_ref().map_or(0, Ids::len) {
            let id = self.items.ids.as_ref().map(|ids| ids.get(row));
            id.iter().try_for_each(|id| put_id(&mut out, id))?;
        }
        for word in self.items.codes.words() {
            out.extend(word.to_le_bytes());
        }
        for row in 0..self.items.len() {
            let labels: Vec<u32> =
                self.items.labels.as_ref().map_or(Vec::new(), |labels| {
                    labels
                        .indices(row)
                        .filter_map(|label| u32::try_from(label).ok())
                        .collect()
                });
            out.extend(count(labels.len())?.to_le_bytes());
            labels.iter().for_each(|label| out.extend(label.to_le_bytes()));
        }
        for row in 0..self.items.len() {
            out.push(self.items.flags.as_ref().map_or(0, |flags| flags[row]));
        }
        for row in 0..self.items.len() {
            let payload =
                self.items.payloads.as_ref().map_or(&[][..], |payloads| &payloads[row]);
            out.extend(count(payload.len())?.to_le_bytes());
            out.extend(payload);
        }
        self.deleted.iter().try_for_each(|id| put_id(&mut out, id))?;
        if let Some(outputs) = &self.items.outputs {
            out.extend_from_slice(bytemuck::cast_slice(outputs.values()));
        }
        Ok(out)
    }

    /// The commit of a record of the log of an index.
    pub(crate) fn decode(manifest: &Manifest, body: &[u8]) -> Result<Change> {
        let bits = Bits::new(manifest.bits)?;
        let mut from = Reader { rest: body };
        let mut change = from.change(bits, manifest.max_labels())?;
        if manifest.outputs.is_some() {
            let bytes = from.bytes(change.items.len() * bits.get())?;
            let values = bytemuck::cast_slice::<u8, i8>(bytes).to_vec();
            change.items.outputs = Some(Outputs::from_bytes(bits, values)?);
        }
        if !from.rest.is_empty() {
            return Err(corrupt());
        }
        Ok(change)
    }
}

fn corrupt() -> Error {
    Error::content("corrupt: a record of the log cannot be decoded")
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or_else(corrupt)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.bytes(4)?.try_into().map_err(|_| corrupt())?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64> {
        let bytes = self.bytes(8)?.try_into().map_err(|_| corrupt())?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn name(&mut self) -> Result<String> {
        let length = self.u32()? as usize;
        let text = std::str::from_utf8(self.bytes(length)?).map_err(|_| corrupt())?;
        Ok(text.to_owned())
    }

    fn ids(&mut self, names: bool, n: usize) -> Result<Ids> {
        Ok(if names {
            Ids::Names((0..n).map(|_| self.name()).collect::<Result<_>>()?)
        } else {
            Ids::Numbers((0..n).map(|_| self.u64()).collect::<Result<_>>()?)
        })
    }

    fn change(&mut self, bits: Bits, max_labels: usize) -> Result<Change> {
        let classes = usize::try_from(self.u64()?).map_err(|_| corrupt())?;
        if classes > max_labels {
            return Err(corrupt()); // a row of labels takes memory by their number
        }
        let next_id = self.u64()?;
        let names = self.bytes(1)? == [1];
        let (n, gone) = (self.u32()? as usize, self.u32()? as usize);
        if n.max(gone) > self.rest.len() {
            return Err(corrupt());
        }
        let ids = self.ids(names, n)?;
        let words = (0..n * bits.words()).map(|_| self.u64()).collect::<Result<_>>()?;
        let codes = Codes::from_words(bits, words)?;
        let mut labels = Vec::new();
        for _ in 0..n {
            let count = self.u32()? as usize;
            if count > self.rest.len() {
                return Err(corrupt());
            }
            labels.push((0..count).map(|_| self.u32()).collect::<Result<Vec<u32>>>()?);
        }
        let flags = self.bytes(n)?.to_vec();
        let mut payloads: Vec<Arc<[u8]>> = Vec::new();
        for _ in 0..n {
            let length = self.u32()? as usize;
            payloads.push(self.bytes(length)?.into());
        }
        let deleted = self.ids(names, gone)?;
        let labels = match classes {
            0 => None,
            classes => Some(Labels::from_indices(classes, labels)?),
        };
        let items = ItemBatch {
            codes,
            ids: (n > 0).then_some(ids),
            labels,
            payloads: payloads.iter().any(|p| !p.is_empty()).then_some(payloads),
            flags: flags.iter().any(|&flags| flags != 0).then_some(flags),
            outputs: None,
        };
        let deleted = (0..deleted.len()).map(|at| deleted.get(at)).collect();
        Ok(Change { items, deleted, classes, next_id })
    }
}
