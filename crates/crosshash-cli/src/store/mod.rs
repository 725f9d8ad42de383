//! Stores: items in a database that others run, shard and replicate. crosshash encodes; the
//! database keeps the codes and searches them.
//!
//! [`Store`] is what a database must do; [`STORES`] lists all of them. The rest of this folder is
//! the same for every store: addresses (`url.rs`), TLS (`tls.rs`), rows and the description of a
//! table (`rows.rs`), bulk loading (`push.rs`), filters (`filter.rs`) and comparison with the
//! index (`check.rs`).
//!
//! Answers are exact and ordered as by our own index: by distance, then by item number. Item
//! numbers are stored: they count the items in the order in which they were pushed.

pub mod check;
mod clickhouse;
mod filter;
mod postgres;
pub mod push;
pub mod rows;
mod tls;
mod url;

use std::fmt;
use std::time::{Duration, Instant};

use crosshash_codes::index::{Filter, check_fields};

pub use rows::{Description, StoreRow};
pub use url::StoreUrl;

/// A kind of store.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The schemes of its addresses.
    pub schemes: &'static [&'static str],
    /// Connects.
    pub open: fn(StoreUrl) -> StoreResult<Box<dyn Store>>,
}

/// All kinds of stores.
pub const STORES: &[Entry] = &[
    postgres::ENTRY,   //
    clickhouse::ENTRY, //
];

/// Why a store did not answer.
#[derive(Debug)]
pub enum StoreError {
    /// It cannot be reached, or it stops or starts: trying again may help.
    Unavailable(String),
    /// The statement took longer than the time limit of the connection, or was cancelled.
    TimedOut(String),
    /// The store has no way to do what was requested: request something else.
    Rejected(String),
    /// It refused, or the answer makes no sense.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable(why)
            | StoreError::TimedOut(why)
            | StoreError::Rejected(why)
            | StoreError::Failed(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

/// The result of a request to a store.
pub type StoreResult<T> = Result<T, StoreError>;

/// An error that trying again does not solve.
pub fn failed(why: impl fmt::Display) -> StoreError {
    StoreError::Failed(why.to_string())
}

/// A search for one code.
#[derive(Clone, Debug)]
pub struct StoreQuery {
    /// The words of the code.
    pub code: Vec<u64>,
    /// Maximum number of hits; `usize::MAX` for all.
    pub k: usize,
    /// Number of first hits to skip.
    pub skip: usize,
    /// Only items within this distance.
    pub radius: Option<u32>,
    /// Only items for which it holds.
    pub filter: Option<Filter>,
    /// Whether all items as near as the last hit are hits, too.
    pub ties: bool,
    /// Whether an approximate index of the store may be used.
    pub approximate: bool,
    /// What is read of every hit besides its number and id.
    pub columns: HitColumns,
}

/// What a search reads of every hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitColumns {
    /// Number and id.
    #[default]
    Ids,
    /// The code, too.
    Codes,
    /// The stored outputs, too.
    Outputs,
}

/// The most hits of a search with ties; more are refused, because a tie class is never cut.
pub const MOST_TIES: usize = 1 << 18;

impl StoreQuery {
    /// The number of hits to find before some are skipped, if there is a limit.
    pub fn limit(&self) -> Option<usize> {
        let limit = self.k.saturating_add(self.skip);
        (i64::try_from(limit).is_ok()).then_some(limit)
    }

    /// Refuses the hits of a search with ties if they are too many.
    fn check_ties(&self, hits: usize) -> StoreResult<()> {
        if !self.ties || hits <= MOST_TIES {
            return Ok(());
        }
        Err(StoreError::Rejected(format!(
            "more than {MOST_TIES} items are equally near to the query, too many to re-rank: rank by \
             hamming, or use a filter or a radius"
        )))
    }
}

/// One hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHit {
    /// The number of the item in the store.
    pub item: u64,
    /// Its id.
    pub id: String,
    /// Hamming distance.
    pub distance: u32,
    /// The words of its code, if they were requested.
    pub code: Vec<u64>,
    /// Its outputs, if they were requested.
    pub outputs: Vec<i8>,
}

/// Which rows to read.
#[derive(Clone, Copy, Debug)]
pub enum RowKeys<'a> {
    /// Those with these ids.
    Ids(&'a [String]),
    /// Those with these item numbers.
    Items(&'a [u64]),
}

/// Cancels the statement that a connection is executing, from another thread.
pub type Canceller = Box<dyn FnOnce() + Send>;

/// Encodes rows for [`Store::write`]; runs in another thread.
pub type RowEncoder = fn(&Description, &[StoreRow]) -> StoreResult<Vec<u8>>;

/// How many rows of a range of items a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeRows {
    /// All rows.
    pub rows: u64,
    /// Different item numbers.
    pub distinct: u64,
}

/// One table of a database.
pub trait Store: Send {
    /// Where it is, without credentials.
    fn place(&self) -> &str;

    /// Connects again.
    fn reconnect(&mut self) -> StoreResult<()>;

    /// The description of the table; `None` if there is no table. A table of something else is
    /// an error.
    fn description(&mut self) -> StoreResult<Option<Description>>;

    /// Creates the table.
    fn create(&mut self, description: &Description) -> StoreResult<()>;

    /// Replaces the description.
    fn describe(&mut self, description: &Description) -> StoreResult<()>;

    /// Encodes rows.
    fn encoder(&self) -> RowEncoder;

    /// Adds encoded rows: all of them or none.
    fn write(&mut self, description: &Description, encoded: &[u8]) -> StoreResult<()>;

    /// The rows of `size` consecutive items each, by the number of the range; ranges without
    /// rows can be left out.
    fn ranges(&mut self, size: u64) -> StoreResult<Vec<(u64, RangeRows)>>;

    /// The rows of some items.
    fn range(&mut self, items: std::ops::Range<u64>) -> StoreResult<RangeRows>;

    /// Removes the rows of some items.
    fn clear(&mut self, items: std::ops::Range<u64>) -> StoreResult<()>;

    /// Creates secondary indexes after the last row was written.
    fn finish(&mut self, description: &Description) -> StoreResult<()>;

    /// Replaces the items with the ids of these rows, or adds them. Their numbers follow the
    /// largest of the store, in the given order.
    fn upsert(&mut self, description: &Description, rows: Vec<StoreRow>)
    -> StoreResult<()>;

    /// Deletes items by id; returns how many there were.
    fn delete(&mut self, ids: &[String]) -> StoreResult<u64>;

    /// The hits of a query, by distance, then by item number.
    fn search(
        &mut self,
        description: &Description,
        query: &StoreQuery,
    ) -> StoreResult<Vec<StoreHit>>;

    /// Number of items.
    fn count(&mut self) -> StoreResult<u64>;

    /// Bytes on disk, indexes included.
    fn bytes(&mut self) -> StoreResult<u64>;

    /// Some rows, in any order; items that do not exist are left out.
    fn read(
        &mut self,
        description: &Description,
        keys: RowKeys<'_>,
    ) -> StoreResult<Vec<StoreRow>>;

    /// Cancels the next statements, if the database can do that from another connection.
    fn canceller(&self) -> Option<Canceller> {
        None
    }

    /// Removes the table.
    fn drop_table(&mut self) -> StoreResult<()>;
}

/// Connects to the store of an address.
pub fn open(address: &str) -> anyhow::Result<Box<dyn Store>> {
    let url = StoreUrl::parse(address)?;
    let (entry, place) = (entry(&url)?, url.to_string());
    connect(&url).map_err(|err| anyhow::anyhow!("{} at {place}: {err}", entry.name))
}

/// Connects to a store.
pub fn connect(url: &StoreUrl) -> StoreResult<Box<dyn Store>> {
    let entry = entry(url).map_err(failed)?;
    (entry.open)(url.clone())
}

/// The kind of store of an address.
pub fn entry(url: &StoreUrl) -> anyhow::Result<&'static Entry> {
    let known = STORES.iter().find(|entry| entry.schemes.contains(&url.scheme.as_str()));
    known.ok_or_else(|| {
        let schemes: Vec<&str> =
            STORES.iter().flat_map(|entry| entry.schemes).copied().collect();
        anyhow::anyhow!(
            "an address begins with one of {}, followed by ://; not with {}",
            schemes.join(", "),
            url.scheme
        )
    })
}

/// The filter of an expression for the items of a store.
pub fn parse_filter(description: &Description, text: &str) -> anyhow::Result<Filter> {
    let filter = Filter::parse(text, description.classes, &description.label_names)?;
    if filter.has_fields() && description.items > 0 {
        let names: Vec<&str> = description.fields.iter().map(String::as_str).collect();
        check_fields(&filter, &names)?;
    }
    Ok(filter)
}

/// Repeats a request, with growing pauses, while the store is unavailable; connects again before
/// every repetition. `request` receives whether it is a repetition.
pub fn with_patience<T>(
    store: &mut dyn Store,
    patience: Duration,
    say: &dyn Fn(&str),
    mut request: impl FnMut(&mut dyn Store, bool) -> StoreResult<T>,
) -> StoreResult<T> {
    const FIRST_PAUSE: Duration = Duration::from_millis(200);
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);
    let (mut since, mut pause, mut again) = (None, FIRST_PAUSE, false);
    loop {
        let outcome = if again { store.reconnect() } else { Ok(()) };
        let why = match outcome.and_then(|()| request(store, again)) {
            Err(StoreError::Unavailable(why)) => why,
            other => return other,
        };
        let since = *since.get_or_insert_with(Instant::now);
        if since.elapsed() >= patience {
            return Err(StoreError::Unavailable(why));
        }
        if !again {
            say(&format!("{}: {why}; trying again", store.place()));
        }
        again = true;
        std::thread::sleep(pause.min(patience));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
