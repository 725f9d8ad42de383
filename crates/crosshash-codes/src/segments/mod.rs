//! The index on disk: items with ids, labels and payloads that are added, replaced and deleted.
//!
//! ```text
//! INDEX/manifest          the committed state: JSON and its checksum (manifest.rs)
//! INDEX/00000001.segment  codes, ids, labels, payloads and removals (file.rs); immutable
//! INDEX/00000002.log      small commits since the manifest was written (log.rs, record.rs)
//! INDEX/lock              held by the writer
//! ```
//!
//! A small commit is one checksummed record of the log, synced before it is acknowledged. A large
//! one is a segment: written under a temporary name, synced, renamed; then the manifest is
//! replaced the same way, and its rename is the commit. When the log has grown, its items are
//! folded into a segment. Files that the manifest does not name are leftovers of a crash or a
//! merge; the next writer removes them.
//!
//! Readers hold a [`Snapshot`], which never changes: it maps the segments of its manifest and
//! keeps the items of the log in memory. Removed items are listed in the segment of the commit
//! that removed them; merging segments drops them with their payloads.
//!
//! Item numbers count the rows of all parts in order, removed ones included. They order ties and
//! change only when parts are merged; ids never change.
//!
//! Every section has a checksum that is verified when it is first read; damage is reported with
//! the file and never copied into another file.

mod batch;
mod change;
mod check;
mod fields;
mod file;
mod log;
mod manifest;
mod memory;
mod memory_index;
mod merge;
mod part;
mod ranked;
mod record;
mod rescue;
mod search;
mod snapshot;
#[cfg(test)]
mod tests;
mod trees;
mod writer;

pub use batch::{HIDDEN, ItemBatch, SEED};
pub use check::{PartState, verify};
pub use fields::{Counts, FieldCounts};
pub use manifest::is_index;
pub use memory_index::MemoryIndex;
pub use ranked::{CANDIDATES, RankedHits, Ranking};
pub use rescue::{Rescued, rescue};
pub use search::Found;
pub use snapshot::{Info, Snapshot};
pub use writer::{NewIndex, Writer};
