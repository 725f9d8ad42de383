//! Keyword search over the texts of items, beside the search by codes.
//!
//! | file | contents |
//! |---|---|
//! | `index.rs` | [`KeywordIndex`]: an inverted index (`tantivy`) in a folder or in memory |
//! | `directory.rs` | its files, written without waiting for the disk |
//! | `pending.rs` | changes that are not committed yet |
//! | `search.rs` | matching items, ranked |
//! | `words.rs` | [`QueryTerms`]: the words of a query; exact names |
//! | `tokenizer.rs` | our analyser as a tokenizer of `tantivy` |
//! | `highlight.rs` | matching words of a text, and the part that shows them |
//! | `fusion.rs` | reciprocal rank fusion of two rankings |
//!
//! Texts are split and stemmed as the modality's [`Analysis`](crate::data::Analysis) says, with two
//! differences: words of one character and numbers are kept, because people search for them; and stop
//! words are indexed, but ignored in queries that have other words.
//!
//! Ranking: items whose name or text is the whole query; then items with all words of the query; then
//! items with some of them. Within each group by BM25 (k1 = 1.2, b = 0.75), ties by id. The statistics
//! of BM25 include deleted items until their segment is merged.

mod directory;
mod fusion;
mod highlight;
mod index;
mod pending;
mod search;
mod similar;
mod tokenizer;
mod words;

pub use fusion::{Fused, fuse};
pub use highlight::{Highlights, Snippet};
pub use index::{KeywordIndex, KeywordItem, Reconciled};
pub use search::{KeywordHit, KeywordHits, Tier};
pub use words::QueryTerms;
