//! The living index: items with ids of the caller that come, change and go, in a folder.
//!
//! ```text
//! INDEX/manifest          what is committed: JSON and its checksum (manifest.rs)
//! INDEX/00000001.segment  codes, ids, labels, and what they replace (file.rs); never changed
//! INDEX/lock              held by the one writer
//! ```
//!
//! A commit writes one segment aside, syncs it, renames it, then does the same with the manifest:
//! the rename of the manifest is the moment of the commit. Whatever a crash leaves behind is not
//! in the manifest, so it is not there; the next writer sweeps it up. Readers map the
//! segments of the manifest they met: a [`Snapshot`] never changes, and its files outlive their
//! names. Removed items are listed in the segment of the commit that removed them; `compact`
//! writes one segment of what is left.
//!
//! Item numbers count the rows of all segments in order, removed ones too. They order ties and
//! change only when segments are merged; ids never change.

mod file;
mod manifest;
mod snapshot;
mod writer;

pub use manifest::is_index;
pub use snapshot::{Found, Info, Snapshot};
pub use writer::Writer;
