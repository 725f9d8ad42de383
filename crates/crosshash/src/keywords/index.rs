//! `KeywordIndex`: an inverted index over the texts of items (`tantivy`).
//!
//! The index is derived data. Every commit stores a position, for example the commit number of the index
//! that contains the items. [`KeywordIndex::reconcile`] compares the index with the items, by a hash of
//! each text, and changes only what differs; a new index is built the same way.
//!
//! ```text
//! key    xxh3 of the id: identifies a document
//! hash   xxh3 of text and names: detects changes
//! id     the id
//! text   terms with their numbers of occurrences and the length, for BM25
//! name   keys of text, names and id (`words.rs`), for exact matches
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tantivy::indexer::LogMergePolicy;
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::store::Compressor;
use tantivy::tokenizer::{TextAnalyzer, TokenizerManager};
use tantivy::{
    Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher,
    TantivyDocument, Term,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::directory::UnsyncedDirectory;
use super::highlight::Highlights;
use super::pending::Pending;
use super::similar::CommittedTerms;
use super::tokenizer::AnalyserTokenizer;
use super::words::{Analysers, QueryTerms, name_key};
use crate::data::Analysis;
use crate::{Error, Result};

/// Version of the fields.
const VERSION: u32 = 1;
/// Memory for documents that are not yet written, in bytes.
const BUFFER: usize = 32 << 20;
/// The name of our tokenizer.
const TOKENIZER: &str = "crosshash";

/// What the index contains of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeywordItem {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Names that find it as a whole, besides its text and its id.
    pub names: Vec<String>,
}

/// What [`KeywordIndex::reconcile`] changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Items that were added or replaced.
    pub written: usize,
    /// Items that were removed.
    pub removed: usize,
}

/// An inverted index over the texts of items. It can be shared between threads.
pub struct KeywordIndex {
    pub(super) index: Index,
    pub(super) reader: IndexReader,
    pub(super) fields: Fields,
    pub(super) analysers: Analysers,
    /// Changed only together with the reader, so that a search sees every item once.
    pending: RwLock<Arc<Pending>>,
    pub(super) committed_terms: Mutex<CommittedTerms>,
    writer: Mutex<Option<IndexWriter>>, // opened for the first change
    analysis: String,
}

/// The content of a commit's payload.
#[derive(serde::Serialize, serde::Deserialize)]
struct Payload {
    version: u32,
    analysis: String,
    position: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Fields {
    pub(super) key: Field,
    hash: Field,
    id: Field,
    pub(super) text: Field,
    pub(super) name: Field,
}

impl Fields {
    fn new() -> (Fields, Schema) {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs);
        let fields = Fields {
            key: schema.add_u64_field("key", FAST | INDEXED),
            hash: schema.add_u64_field("hash", FAST),
            id: schema.add_text_field("id", TextOptions::default().set_fast("raw")),
            text: schema.add_text_field(
                "text",
                TextOptions::default().set_indexing_options(indexing),
            ),
            name: schema.add_u64_field("name", INDEXED),
        };
        (fields, schema.build())
    }
}

impl KeywordIndex {
    /// Opens the index in a folder, or creates it. Damage is an error: remove the folder and build
    /// the index again.
    pub fn open(folder: &Path, analysis: &Analysis) -> Result<KeywordIndex> {
        fs_err::create_dir_all(folder)?;
        let (fields, schema) = Fields::new();
        let found = UnsyncedDirectory::open(folder)
            .map_err(tantivy::TantivyError::from)
            .and_then(|directory| builder(schema).open_or_create(directory));
        let index = found.map_err(|err| failed(err).at(folder))?;
        let damaged = index.validate_checksum().map_err(|err| failed(err).at(folder))?;
        if let Some(file) = damaged.iter().min() {
            return Err(failed("the checksum is wrong").at(&folder.join(file)));
        }
        let opened = KeywordIndex::new(index, fields, analysis)?;
        let stale = opened.payload()?.is_some_and(|payload| {
            payload.version != VERSION || payload.analysis != opened.analysis
        });
        if stale {
            opened.clear()?;
        }
        Ok(opened)
    }

    /// An empty index in memory.
    pub fn in_memory(analysis: &Analysis) -> Result<KeywordIndex> {
        let (fields, schema) = Fields::new();
        KeywordIndex::new(
            builder(schema).create_in_ram().map_err(failed)?,
            fields,
            analysis,
        )
    }

    fn new(mut index: Index, fields: Fields, analysis: &Analysis) -> Result<KeywordIndex> {
        let analysers = Analysers::new(analysis);
        let tokenizers = TokenizerManager::default();
        let tokenizer = AnalyserTokenizer(Arc::clone(&analysers.items));
        tokenizers.register(TOKENIZER, TextAnalyzer::from(tokenizer));
        index.set_tokenizers(tokenizers);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        let language = (analysis.lower_case, analysis.stem);
        Ok(KeywordIndex {
            reader: reader.map_err(failed)?,
            index,
            fields,
            analysers,
            pending: RwLock::default(),
            committed_terms: Mutex::new(None),
            writer: Mutex::new(None),
            analysis: serde_json::to_string(&language).map_err(std::io::Error::from)?,
        })
    }

    /// Number of committed items.
    pub fn len(&self) -> usize {
        usize::try_from(self.reader.searcher().num_docs()).unwrap_or(usize::MAX)
    }

    /// Whether there are no items, committed or not.
    pub fn is_empty(&self) -> bool {
        let (searcher, pending) = self.view();
        searcher.num_docs() == 0 && !pending.has_items()
    }

    /// Number of changes that are not committed yet.
    pub fn pending(&self) -> usize {
        self.view().1.len()
    }

    /// The committed items and the changes since.
    pub(super) fn view(&self) -> (Searcher, Arc<Pending>) {
        let pending = self.pending.read().unwrap_or_else(PoisonError::into_inner);
        (self.reader.searcher(), Arc::clone(&pending))
    }

    /// The position of the last commit.
    pub fn position(&self) -> Result<Option<u64>> {
        Ok(self.payload()?.map(|payload| payload.position))
    }

    /// Replaces or removes items (`None`), and commits.
    pub fn apply(
        &self,
        changes: impl IntoIterator<Item = (String, Option<KeywordItem>)>,
        position: u64,
    ) -> Result<()> {
        self.stage(changes, position);
        self.commit()
    }

    /// Replaces or removes items (`None`). When it returns, searches see the changes; they are written by the
    /// next [`commit`](KeywordIndex::commit).
    pub fn stage(
        &self,
        changes: impl IntoIterator<Item = (String, Option<KeywordItem>)>,
        position: u64,
    ) {
        let mut guard = self.pending.write().unwrap_or_else(PoisonError::into_inner);
        let pending = Arc::make_mut(&mut guard);
        for (id, item) in changes {
            pending.put(xxh3_64(id.as_bytes()), item, &self.analysers.items);
        }
        pending.position = position;
    }

    /// Writes the changes since the last commit. If that fails, they are kept.
    pub fn commit(&self) -> Result<()> {
        let mut writer = self.writer()?;
        let changes = self.view().1;
        let Some(open) = writer.as_mut().filter(|_| !changes.is_empty()) else {
            return Ok(());
        };
        let write = |open: &mut IndexWriter| {
            for (key, change) in changes.changes() {
                self.delete(open, key);
                if let Some(change) = &change.item {
                    self.add(open, &change.item)?;
                }
            }
            self.write(open, changes.position)
        };
        let written = write(open);
        if written.is_err() {
            *writer = None; // it forgets what it has not committed
            return written;
        }
        self.reload(&changes)
    }

    /// Makes the index contain exactly these items, each id once; writes only what differs.
    pub fn reconcile(
        &self,
        items: impl IntoIterator<Item = KeywordItem>,
        position: u64,
    ) -> Result<Reconciled> {
        let mut known = self.hashes()?;
        let mut done = Reconciled::default();
        let mut guard = self.writer()?;
        let Some(writer) = guard.as_mut() else { return Ok(done) };
        for item in items {
            let key = xxh3_64(item.id.as_bytes());
            let before = known.remove(&key);
            if before == Some(hash(&item)) {
                continue;
            }
            if before.is_some() {
                self.delete(writer, key);
            }
            self.add(writer, &item)?;
            done.written += 1;
        }
        done.removed = known.len();
        known.into_keys().for_each(|key| self.delete(writer, key));
        let changed = done != Reconciled::default();
        if changed || self.position()? != Some(position) {
            self.write(writer, position)?;
            self.reload(&Pending::default())?;
        }
        Ok(done)
    }

    /// The words of a query.
    pub fn terms(&self, query: &str) -> QueryTerms {
        QueryTerms::new(&self.analysers, query)
    }

    /// The words of a text that match a query.
    pub fn highlights(&self, query: &QueryTerms, text: &str) -> Highlights {
        Highlights::new(&self.analysers, query, text)
    }

    fn payload(&self) -> Result<Option<Payload>> {
        let payload = self.index.load_metas().map_err(failed)?.payload;
        Ok(payload.and_then(|json| serde_json::from_str(&json).ok()))
    }

    fn clear(&self) -> Result<()> {
        let mut writer = self.writer()?;
        let Some(writer) = writer.as_mut() else { return Ok(()) };
        writer.delete_all_documents().map_err(failed)?;
        writer.commit().map_err(failed)?;
        self.reader.reload().map_err(failed)
    }

    fn writer(&self) -> Result<MutexGuard<'_, Option<IndexWriter>>> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none() {
            let opened = self.index.writer_with_num_threads(1, BUFFER).map_err(failed)?;
            opened.set_merge_policy(Box::new(LogMergePolicy::default()));
            *writer = Some(opened);
        }
        Ok(writer)
    }

    fn delete(&self, writer: &IndexWriter, key: u64) {
        writer.delete_term(Term::from_field_u64(self.fields.key, key));
    }

    fn add(&self, writer: &IndexWriter, item: &KeywordItem) -> Result<()> {
        let Fields { key, hash: own, id, text, name } = self.fields;
        let mut document = TantivyDocument::new();
        document.add_u64(key, xxh3_64(item.id.as_bytes()));
        document.add_u64(own, hash(item));
        document.add_text(id, &item.id);
        document.add_text(text, &item.text);
        names(item).into_iter().for_each(|key| document.add_u64(name, key));
        writer.add_document(document).map_err(failed)?;
        Ok(())
    }

    fn write(&self, writer: &mut IndexWriter, position: u64) -> Result<()> {
        let analysis = self.analysis.clone();
        let payload = Payload { version: VERSION, analysis, position };
        let payload = serde_json::to_string(&payload).map_err(std::io::Error::from)?;
        let mut commit = writer.prepare_commit().map_err(failed)?;
        commit.set_payload(&payload);
        commit.commit().map_err(failed)?;
        Ok(())
    }

    /// Lets searches see a commit instead of its changes.
    fn reload(&self, committed: &Pending) -> Result<()> {
        let mut pending = self.pending.write().unwrap_or_else(PoisonError::into_inner);
        self.reader.reload().map_err(failed)?;
        Arc::make_mut(&mut pending).remove(committed);
        Ok(())
    }

    /// The hash of every item by its key.
    fn hashes(&self) -> Result<HashMap<u64, u64>> {
        let searcher = self.reader.searcher();
        let mut hashes = HashMap::with_capacity(self.len());
        for segment in searcher.segment_readers() {
            let keys = segment.fast_fields().u64("key").map_err(failed)?;
            let own = segment.fast_fields().u64("hash").map_err(failed)?;
            for document in segment.doc_ids_alive() {
                if let (Some(key), Some(hash)) = (keys.first(document), own.first(document))
                {
                    hashes.insert(key, hash);
                }
            }
        }
        Ok(hashes)
    }
}

/// The keys of the names of an item: text, names and id.
pub(super) fn names(item: &KeywordItem) -> Vec<u64> {
    let names = item.names.iter().chain([&item.text, &item.id]);
    let mut keys: Vec<u64> = names.map(|name| name_key(name)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn builder(schema: Schema) -> tantivy::IndexBuilder {
    let settings = IndexSettings {
        docstore_compression: Compressor::None,
        ..IndexSettings::default()
    };
    Index::builder().schema(schema).settings(settings)
}

fn hash(item: &KeywordItem) -> u64 {
    let mut state = Xxh3::new();
    for part in std::iter::once(&item.text).chain(&item.names) {
        state.update(&(part.len() as u64).to_le_bytes());
        state.update(part.as_bytes());
    }
    state.digest()
}

pub(super) fn failed(err: impl std::fmt::Display) -> Error {
    Error::content(format!("keyword index: {err}"))
}
