//! `ItemBatch`: items as columns, on their way into an index.

use std::sync::Arc;

use crate::format::{CodeFile, Ids};
use crate::{Codes, Error, Labels, Outputs, Result};

/// Flag of an item that was loaded from a source that can be loaded again, such as the codes of
/// a run. When such an item is replaced or deleted, the index remembers its id
/// ([`Snapshot::superseded`](super::Snapshot::superseded)), so that an index that is rebuilt
/// from a newer source can leave it out.
pub const SEED: u8 = 1;
/// Flag of an item that is kept with its payload but not found: there is no code for it yet.
pub const HIDDEN: u8 = 2;

/// Items to add: codes, and optionally ids, labels, payloads, flags and outputs, one of each per
/// code.
#[derive(Clone, Debug)]
pub struct ItemBatch {
    /// The codes.
    pub codes: Codes,
    /// The ids; without them, items are numbered.
    pub ids: Option<Ids>,
    /// The labels.
    pub labels: Option<Labels>,
    /// Opaque bytes per item; empty bytes are no payload.
    pub payloads: Option<Vec<Arc<[u8]>>>,
    /// [`SEED`] and [`HIDDEN`] per item.
    pub flags: Option<Vec<u8>>,
    /// The outputs of the model. In an index that stores outputs, items without them get the signs
    /// of their codes; an index that stores none refuses them.
    pub outputs: Option<Outputs>,
}

impl ItemBatch {
    /// Codes alone.
    pub fn new(codes: Codes) -> ItemBatch {
        ItemBatch {
            codes,
            ids: None,
            labels: None,
            payloads: None,
            flags: None,
            outputs: None,
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Every column has one value per code.
    pub(crate) fn check_rows(&self) -> Result<()> {
        let columns = [
            ("the ids", self.ids.as_ref().map(Ids::len)),
            ("the labels", self.labels.as_ref().map(Labels::len)),
            ("the payloads", self.payloads.as_ref().map(Vec::len)),
            ("the flags", self.flags.as_ref().map(Vec::len)),
            ("the outputs", self.outputs.as_ref().map(Outputs::len)),
        ];
        for (name, rows) in columns {
            if let Some(rows) = rows
                && rows != self.codes.len()
            {
                return Err(Error::Mismatch {
                    left: "the codes".into(),
                    left_size: self.codes.len(),
                    right: name.into(),
                    right_size: rows,
                    unit: "rows",
                    remedy: "every code needs one",
                });
            }
        }
        match &self.outputs {
            Some(outputs) if outputs.bits() != self.codes.bits() => Err(Error::Mismatch {
                left: "the codes".into(),
                left_size: self.codes.bits().get(),
                right: "the outputs".into(),
                right_size: outputs.bits().get(),
                unit: "values an item",
                remedy: "one output per bit is needed",
            }),
            _ => Ok(()),
        }
    }

    /// Bytes of all payloads.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payloads.iter().flatten().map(|payload| payload.len()).sum()
    }
}

impl From<CodeFile> for ItemBatch {
    fn from(file: CodeFile) -> ItemBatch {
        let CodeFile { codes, ids, labels } = file;
        ItemBatch { ids, labels, ..ItemBatch::new(codes) }
    }
}

impl From<&CodeFile> for ItemBatch {
    fn from(file: &CodeFile) -> ItemBatch {
        file.clone().into()
    }
}
