//! PostgreSQL, from version 14 on.
//!
//! ```text
//! item bigint primary key, id text, code bit(n), labels integer[], meta jsonb, dates jsonb,
//! outputs bytea
//! ```
//!
//! `code` is a bit string: its leftmost bit is bit 0 of the code. `meta` has the fields of the
//! item; `dates` has, for texts that are dates, their microseconds since 1970. Ranges are loaded
//! by `COPY` in binary form, one transaction each. The search is `bit_count(code # query)` over
//! all rows that pass the filter, which needs no extension. pgvector's HNSW index is optional and
//! approximate; many equal codes, which hashing models give, are what it is not made for.

use std::error::Error as _;
use std::io::Write as _;
use std::ops::Range;
use std::time::Duration;

use crosshash::payload::{field_from_json, field_to_json};
use crosshash_codes::index::{FieldParts, PlainTest};
use crosshash_codes::{BitOrder, Bits, Codes};
use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::types::{FromSql, ToSql, Type};
use postgres::{Client, NoTls};
use serde_json::{Map, Value};

use super::filter::{Dialect, condition, finite};
use super::tls::PostgresTls;
use super::{
    Canceller, Description, Entry, HitColumns, MOST_TIES, RangeRows, RowEncoder, RowKeys,
    Store, StoreError, StoreHit, StoreQuery, StoreResult, StoreRow, StoreUrl, failed,
};

pub(super) const ENTRY: Entry =
    Entry { name: "PostgreSQL", schemes: &["postgresql", "postgres"], open };

/// The oldest server with `bit_count`.
const OLDEST: i32 = 140_000;
/// Candidates that HNSW keeps; more find more, and take longer.
const HNSW_CANDIDATES: usize = 200;
/// Rows that HNSW may visit for one search.
const HNSW_ROWS: usize = 200_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

type Parameters<'a> = Vec<&'a (dyn ToSql + Sync)>;

fn open(url: StoreUrl) -> StoreResult<Box<dyn Store>> {
    let client = connect(&url)?;
    let (place, table) = (url.to_string(), url.quoted_table());
    let mut store = Postgres { client, url, place, table };
    store.check_server()?;
    Ok(Box::new(store))
}

struct Postgres {
    client: Client,
    url: StoreUrl,
    place: String,
    /// Quoted.
    table: String,
}

fn connect(url: &StoreUrl) -> StoreResult<Client> {
    let user = url.user("PGUSER").unwrap_or_else(|| "postgres".into());
    let mut config = postgres::Config::new();
    config
        .host(&url.host)
        .port(url.port.unwrap_or(5432))
        .user(&user)
        .dbname(url.database.as_deref().unwrap_or(&user))
        .application_name("crosshash")
        .connect_timeout(url.limit.unwrap_or(CONNECT_TIMEOUT))
        .tcp_user_timeout(url.limit.unwrap_or(Duration::from_secs(60)))
        .keepalives_idle(Duration::from_secs(30));
    if let Some(password) = url.password("PGPASSWORD") {
        config.password(password);
    }
    let connected = if url.tls {
        config.ssl_mode(SslMode::Require).connect(PostgresTls::new(url)?)
    } else {
        config.ssl_mode(SslMode::Disable).connect(NoTls)
    };
    let mut client = connected.map_err(|err| explain(&err))?;
    if let Some(limit) = url.limit {
        let limit = format!("SET statement_timeout = {}", limit.as_millis());
        client.batch_execute(&limit).map_err(|err| explain(&err))?;
    }
    Ok(client)
}

/// What an error means for the caller, with the message of the server.
fn explain(err: &postgres::Error) -> StoreError {
    let Some(server) = err.as_db_error() else {
        let mut why = match err.source() {
            Some(source) => format!("{err}: {source}"),
            None => err.to_string(),
        };
        if why.contains("password missing") {
            why.push_str("; put it into the address, or into PGPASSWORD");
        }
        let of_connection = err.is_closed()
            || err.source().is_some_and(|source| source.is::<std::io::Error>())
            || why.contains("timed out")
            || why.contains("error connecting");
        let is_certificate = why.contains("certificate");
        return if of_connection && !is_certificate {
            StoreError::Unavailable(why)
        } else {
            StoreError::Failed(why)
        };
    };
    let mut why = server.message().to_owned();
    if let Some(detail) = server.detail() {
        why.push_str(&format!(" ({detail})"));
    }
    if let Some(hint) = server.hint() {
        why.push_str(&format!("; {hint}"));
    }
    let code = server.code();
    let passing = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    if *code == SqlState::INVALID_PASSWORD
        || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
    {
        why.push_str(
            "; put user and password into the address, or into PGUSER and PGPASSWORD",
        );
    }
    if *code == SqlState::QUERY_CANCELED {
        StoreError::TimedOut(why)
    } else if passing.contains(code) || code.code().starts_with("08") {
        StoreError::Unavailable(why)
    } else {
        StoreError::Failed(why)
    }
}

/// The error of a `COPY`.
fn explain_io(err: &std::io::Error) -> StoreError {
    let inner = err.get_ref().and_then(|inner| inner.downcast_ref::<postgres::Error>());
    match inner {
        Some(err) => explain(err),
        None => StoreError::Unavailable(err.to_string()),
    }
}

impl Postgres {
    fn check_server(&mut self) -> StoreResult<()> {
        let row = self
            .client
            .query_one(
                "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')",
                &[],
            )
            .map_err(|err| explain(&err))?;
        let (version, encoding): (i32, String) = (row.get(0), row.get(1));
        if version < OLDEST {
            return Err(failed(
                "the server is older than PostgreSQL 14, which has bit_count",
            ));
        }
        if encoding != "UTF8" {
            return Err(failed(format!(
                "the database has the encoding {encoding}; create one with ENCODING 'UTF8'"
            )));
        }
        Ok(())
    }

    fn run(&mut self, sql: &str) -> StoreResult<()> {
        self.client.batch_execute(sql).map_err(|err| explain(&err))
    }

    fn number(
        &mut self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> StoreResult<u64> {
        let row = self.client.query_one(sql, parameters).map_err(|err| explain(&err))?;
        let number: i64 = row.get(0);
        Ok(number.unsigned_abs())
    }

    fn copy(
        client: &mut postgres::Transaction<'_>,
        sql: &str,
        encoded: &[u8],
    ) -> StoreResult<()> {
        let mut writer = client.copy_in(sql).map_err(|err| explain(&err))?;
        writer.write_all(encoded).map_err(|err| explain_io(&err))?;
        writer.finish().map_err(|err| explain(&err))?;
        Ok(())
    }

    fn copy_sql(&self, description: &Description) -> String {
        let outputs = if description.outputs { ", outputs" } else { "" };
        format!(
            "COPY {} (item, id, code, labels, meta, dates{outputs}) FROM STDIN (FORMAT binary)",
            self.table
        )
    }

    /// Waits for other changes of the table, so that numbers are given once.
    fn lock(&self) -> String {
        format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", self.table)
    }
}

impl Store for Postgres {
    fn place(&self) -> &str {
        &self.place
    }

    fn reconnect(&mut self) -> StoreResult<()> {
        self.client = connect(&self.url)?;
        self.check_server()
    }

    fn description(&mut self) -> StoreResult<Option<Description>> {
        let sql = "SELECT obj_description(c, 'pg_class') FROM (SELECT to_regclass($1)::oid) t(c) \
                   WHERE c IS NOT NULL";
        let rows = self.client.query(sql, &[&self.table]).map_err(|err| explain(&err))?;
        let Some(row) = rows.first() else { return Ok(None) };
        let comment: Option<String> = row.get(0);
        match Description::from_comment(comment.as_deref().unwrap_or("")) {
            Some(description) => description.map(Some).map_err(failed),
            None => Err(failed(
                "the table exists, and crosshash did not create it; select another one by table=NAME \
                 in the address",
            )),
        }
    }

    fn create(&mut self, description: &Description) -> StoreResult<()> {
        let outputs = if description.outputs { ", outputs bytea NOT NULL" } else { "" };
        let create = format!(
            "CREATE TABLE {} (item bigint PRIMARY KEY, id text COLLATE \"C\" NOT NULL, \
             code bit({}) NOT NULL, labels integer[] NOT NULL, meta jsonb NOT NULL, \
             dates jsonb NOT NULL{outputs})",
            self.table, description.bits
        );
        let comment = self.comment(description)?;
        self.run(&format!("BEGIN; {create}; {comment}; COMMIT")).inspect_err(|_| {
            let _ = self.client.batch_execute("ROLLBACK");
        })
    }

    fn describe(&mut self, description: &Description) -> StoreResult<()> {
        let sql = self.comment(description)?;
        self.run(&sql)
    }

    fn encoder(&self) -> RowEncoder {
        encode
    }

    fn write(&mut self, description: &Description, encoded: &[u8]) -> StoreResult<()> {
        let sql = self.copy_sql(description);
        let mut transaction = self.client.transaction().map_err(|err| explain(&err))?;
        let outcome = Postgres::copy(&mut transaction, &sql, encoded);
        let outcome = match outcome {
            Ok(()) => transaction.commit().map_err(|err| explain(&err)),
            Err(err) => {
                drop(transaction);
                Err(err)
            }
        };
        // Another connection has just written some of these items: a push that was killed, or
        // one that runs at the same time. The caller looks again.
        outcome.map_err(|err| match err {
            StoreError::Failed(why) if why.contains("duplicate key") => {
                StoreError::Unavailable(why)
            }
            err => err,
        })
    }

    fn ranges(&mut self, size: u64) -> StoreResult<Vec<(u64, RangeRows)>> {
        // item is the primary key: all rows are different
        let sql = format!(
            "SELECT item / {size}, count(*) FROM {} GROUP BY 1 ORDER BY 1",
            self.table
        );
        let rows = self.client.query(&sql, &[]).map_err(|err| explain(&err))?;
        let range = |row: &postgres::Row| {
            let (range, rows): (i64, i64) = (row.get(0), row.get(1));
            let rows = rows.unsigned_abs();
            (range.unsigned_abs(), RangeRows { rows, distinct: rows })
        };
        Ok(rows.iter().map(range).collect())
    }

    fn range(&mut self, items: Range<u64>) -> StoreResult<RangeRows> {
        let sql = format!(
            "SELECT count(*) FROM {} WHERE item >= {} AND item < {}",
            self.table, items.start, items.end
        );
        let rows = self.number(&sql, &[])?;
        Ok(RangeRows { rows, distinct: rows })
    }

    fn clear(&mut self, items: Range<u64>) -> StoreResult<()> {
        self.run(&format!(
            "DELETE FROM {} WHERE item >= {} AND item < {}",
            self.table, items.start, items.end
        ))
    }

    fn finish(&mut self, description: &Description) -> StoreResult<()> {
        let (name, table) = (self.url.bare_table().to_owned(), self.table.clone());
        self.run(&format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS \"{name}_id\" ON {table} (id)"
        ))?;
        if description.classes > 0 {
            self.run(&format!(
                "CREATE INDEX IF NOT EXISTS \"{name}_labels\" ON {table} USING gin (labels)"
            ))?;
        }
        if description.hnsw {
            self.run("CREATE EXTENSION IF NOT EXISTS vector").map_err(|err| match err {
                StoreError::Failed(why) => failed(format!(
                    "--hnsw needs the extension pgvector, from version 0.8 on: {why}"
                )),
                err => err,
            })?;
            self.run(&format!(
                "CREATE INDEX IF NOT EXISTS \"{name}_hnsw\" ON {table} USING hnsw (code \
                 bit_hamming_ops)"
            ))?;
        }
        // VACUUM cannot run together with another statement
        self.run(&format!("VACUUM (ANALYZE) {table}"))
    }

    fn upsert(
        &mut self,
        description: &Description,
        rows: Vec<StoreRow>,
    ) -> StoreResult<()> {
        let (lock, copy) = (self.lock(), self.copy_sql(description));
        let delete = format!("DELETE FROM {} WHERE id = ANY($1)", self.table);
        let last = format!("SELECT coalesce(max(item) + 1, 0) FROM {}", self.table);
        let mut rows = rows;
        let mut transaction = self.client.transaction().map_err(|err| explain(&err))?;
        transaction.batch_execute(&lock).map_err(|err| explain(&err))?;
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let first: i64 =
            transaction.query_one(&last, &[]).map_err(|err| explain(&err))?.get(0);
        transaction.execute(&delete, &[&ids]).map_err(|err| explain(&err))?;
        for (row, item) in rows.iter_mut().zip(first.unsigned_abs()..) {
            row.item = item;
        }
        Postgres::copy(&mut transaction, &copy, &encode(description, &rows)?)?;
        transaction.commit().map_err(|err| explain(&err))
    }

    fn delete(&mut self, ids: &[String]) -> StoreResult<u64> {
        let sql = format!("DELETE FROM {} WHERE id = ANY($1)", self.table);
        self.client.execute(&sql, &[&ids]).map_err(|err| explain(&err))
    }

    fn search(
        &mut self,
        description: &Description,
        query: &StoreQuery,
    ) -> StoreResult<Vec<StoreHit>> {
        if query.k == 0 {
            return Ok(Vec::new());
        }
        let mut sql = Sql::default();
        let mut conditions = Vec::new();
        if let Some(filter) = &query.filter {
            conditions.push(condition(filter, &mut sql)?);
        }
        let code = bit_string(description.bits, &query.code);
        let distance = format!("bit_count(code # B'{code}')");
        if let Some(radius) = query.radius {
            conditions.push(format!("{distance} <= {radius}"));
        }
        let conditions = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let column = match query.columns {
            HitColumns::Ids => "",
            HitColumns::Codes => ", code",
            HitColumns::Outputs => ", outputs",
        };
        let select =
            format!("SELECT item, id, {distance} AS distance{column} FROM {}", self.table);
        let hnsw = query.approximate && description.hnsw;
        let limit = query.limit().map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let text = if hnsw {
            // the index orders by distance alone: order its rows afterwards
            format!(
                "SELECT * FROM ({select}{conditions} ORDER BY code <~> B'{code}'{limit}) hits ORDER \
                 BY distance, item OFFSET {}",
                query.skip
            )
        } else if let (true, Some(limit)) = (query.ties, query.limit()) {
            format!(
                "SELECT * FROM ({select}{conditions} ORDER BY distance FETCH FIRST {limit} ROWS WITH \
                 TIES) hits ORDER BY distance, item LIMIT {} OFFSET {}",
                MOST_TIES + 1,
                query.skip
            )
        } else {
            let limit = query.limit().map(|_| format!(" LIMIT {}", query.k));
            format!(
                "{select}{conditions} ORDER BY distance, item{} OFFSET {}",
                limit.unwrap_or_default(),
                query.skip
            )
        };
        let parameters: Parameters<'_> =
            sql.parameters.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
        let rows = if hnsw {
            let candidates = HNSW_CANDIDATES.max(query.limit().unwrap_or(0).min(1000));
            let settings = format!(
                "SET LOCAL hnsw.iterative_scan = strict_order; \
                 SET LOCAL hnsw.ef_search = {candidates}; \
                 SET LOCAL hnsw.max_scan_tuples = {HNSW_ROWS}"
            );
            let mut transaction = self.client.transaction().map_err(|err| explain(&err))?;
            transaction.batch_execute(&settings).map_err(|err| explain(&err))?;
            let rows =
                transaction.query(&text, &parameters).map_err(|err| explain(&err))?;
            transaction.commit().map_err(|err| explain(&err))?;
            rows
        } else {
            self.client.query(&text, &parameters).map_err(|err| explain(&err))?
        };
        query.check_ties(rows.len())?;
        rows.iter().map(|row| hit(row, query.columns)).collect()
    }

    fn count(&mut self) -> StoreResult<u64> {
        self.number(&format!("SELECT count(*) FROM {}", self.table), &[])
    }

    fn bytes(&mut self) -> StoreResult<u64> {
        self.number(
            "SELECT pg_total_relation_size(to_regclass($1))",
            &[&self.table.clone()],
        )
    }

    fn read(
        &mut self,
        description: &Description,
        keys: RowKeys<'_>,
    ) -> StoreResult<Vec<StoreRow>> {
        let outputs = if description.outputs { ", outputs" } else { "" };
        let sql = |column: &str| {
            format!(
                "SELECT item, id, code, labels, meta::text{outputs} FROM {} WHERE {column} = ANY($1)",
                self.table
            )
        };
        let rows = match keys {
            RowKeys::Ids(ids) => {
                // no item has such an id
                let ids: Vec<&String> =
                    ids.iter().filter(|id| !id.contains('\0')).collect();
                self.client.query(&sql("id"), &[&ids])
            }
            RowKeys::Items(items) => {
                let items = items.iter().map(|item| signed(*item));
                let items = items.collect::<StoreResult<Vec<i64>>>()?;
                self.client.query(&sql("item"), &[&items])
            }
        };
        let rows = rows.map_err(|err| explain(&err))?;
        rows.iter().map(|row| decode(description, row)).collect()
    }

    fn drop_table(&mut self) -> StoreResult<()> {
        self.run(&format!("DROP TABLE {}", self.table))
    }

    fn canceller(&self) -> Option<Canceller> {
        let (token, url) = (self.client.cancel_token(), self.url.clone());
        Some(Box::new(move || {
            // without an answer the statement ends by its time limit
            if !url.tls {
                let _ = token.cancel_query(NoTls);
            } else if let Ok(tls) = PostgresTls::new(&url) {
                let _ = token.cancel_query(tls);
            }
        }))
    }
}

/// A row of a search.
fn hit(row: &postgres::Row, columns: HitColumns) -> StoreResult<StoreHit> {
    let (item, distance): (i64, i64) =
        (row.try_get(0).map_err(failed)?, row.try_get(2).map_err(failed)?);
    let mut hit = StoreHit {
        item: item.unsigned_abs(),
        id: row.try_get(1).map_err(failed)?,
        distance: u32::try_from(distance).unwrap_or(u32::MAX),
        code: Vec::new(),
        outputs: Vec::new(),
    };
    match columns {
        HitColumns::Ids => {}
        HitColumns::Codes => {
            hit.code = row.try_get::<_, StoredBits>(3).map_err(failed)?.code()?
        }
        HitColumns::Outputs => hit.outputs = signed_bytes(row.try_get(3).map_err(failed)?),
    }
    Ok(hit)
}

fn signed_bytes(bytes: &[u8]) -> Vec<i8> {
    bytes.iter().map(|byte| i8::from_le_bytes([*byte])).collect()
}

impl Postgres {
    fn comment(&self, description: &Description) -> StoreResult<String> {
        for name in description.label_names.iter().chain(&description.fields) {
            no_nul("the names of labels and fields", name)?;
        }
        let comment = description.to_comment();
        Ok(format!("COMMENT ON TABLE {} IS '{}'", self.table, comment.replace('\'', "''")))
    }
}

/// A bit string as PostgreSQL stores and sends it.
struct StoredBits {
    bits: usize,
    packed: Vec<u8>,
}

impl<'a> FromSql<'a> for StoredBits {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> Result<StoredBits, Box<dyn std::error::Error + Sync + Send>> {
        let (bits, packed) =
            raw.split_first_chunk::<4>().ok_or("a bit string has a length")?;
        let bits = usize::try_from(i32::from_be_bytes(*bits))?;
        Ok(StoredBits { bits, packed: packed.to_vec() })
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BIT || *kind == Type::VARBIT
    }
}

impl StoredBits {
    /// The words of a code.
    fn code(self) -> StoreResult<Vec<u64>> {
        let bits = Bits::new(self.bits).map_err(failed)?;
        let codes = Codes::from_packed(bits, &self.packed, BitOrder::Msb);
        Ok(codes.map_err(failed)?.into_words())
    }
}

/// The bits of a code as `0` and `1`, bit 0 first.
fn bit_string(bits: usize, code: &[u64]) -> String {
    let bit = |k: usize| if code[k / 64] >> (k % 64) & 1 == 1 { '1' } else { '0' };
    (0..bits).map(bit).collect()
}

fn signed(number: u64) -> StoreResult<i64> {
    i64::try_from(number).map_err(failed)
}

fn no_nul(what: &str, text: &str) -> StoreResult<()> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(failed(format!("{what}: PostgreSQL cannot store the character NUL in texts")))
}

/// Rows in the binary format of `COPY`.
fn encode(description: &Description, rows: &[StoreRow]) -> StoreResult<Vec<u8>> {
    let bits = Bits::new(description.bits).map_err(failed)?;
    let mut to = Vec::with_capacity(rows.len() * (120 + bits.bytes()));
    to.extend(b"PGCOPY\n\xff\r\n\0");
    to.extend([0; 8]); // flags, length of the extension
    let columns: i16 = if description.outputs { 7 } else { 6 };
    for row in rows {
        let field = |to: &mut Vec<u8>, bytes: &[u8]| -> StoreResult<()> {
            let length = i32::try_from(bytes.len()).map_err(|_| {
                failed(format!("id {}: the item is larger than 2 GiB", row.id))
            })?;
            to.extend(length.to_be_bytes());
            to.extend(bytes);
            Ok(())
        };
        no_nul("ids", &row.id)?;
        to.extend(columns.to_be_bytes());
        field(&mut to, &signed(row.item)?.to_be_bytes())?;
        field(&mut to, row.id.as_bytes())?;
        let codes = Codes::from_words(bits, row.code.clone()).map_err(failed)?;
        let mut code = i32::try_from(bits.get()).unwrap_or(0).to_be_bytes().to_vec();
        code.extend(codes.to_packed(BitOrder::Msb));
        field(&mut to, &code)?;
        field(&mut to, &label_array(&row.labels)?)?;
        let (meta, dates) = fields_to_json(row)?;
        for value in [meta, dates] {
            let mut json = vec![1]; // version of the binary format
            json.extend(value.as_bytes());
            field(&mut to, &json)?;
        }
        if description.outputs {
            let outputs = row.outputs.iter().flatten();
            let bytes: Vec<u8> = outputs.map(|value| value.to_le_bytes()[0]).collect();
            field(&mut to, &bytes)?;
        }
    }
    to.extend((-1_i16).to_be_bytes());
    Ok(to)
}

/// The binary form of `integer[]`.
fn label_array(labels: &[u32]) -> StoreResult<Vec<u8>> {
    const INT4: i32 = 23;
    let mut to = Vec::new();
    let dimensions = i32::from(!labels.is_empty());
    for number in [dimensions, 0, INT4] {
        to.extend(number.to_be_bytes());
    }
    if !labels.is_empty() {
        to.extend(i32::try_from(labels.len()).map_err(failed)?.to_be_bytes());
        to.extend(1_i32.to_be_bytes());
        for label in labels {
            to.extend(4_i32.to_be_bytes());
            to.extend(i32::try_from(*label).map_err(failed)?.to_be_bytes());
        }
    }
    Ok(to)
}

/// The fields of a row and the instants of their dates.
fn fields_to_json(row: &StoreRow) -> StoreResult<(String, String)> {
    if row.fields.is_empty() {
        return Ok(("{}".into(), "{}".into()));
    }
    let (mut meta, mut dates) = (Map::new(), Map::new());
    for (name, value) in &row.fields {
        let parts = FieldParts::new(value);
        if !parts.numbers.iter().all(|number| number.is_finite()) {
            return Err(failed(format!(
                "id {}, field {name}: JSON cannot store an infinite number",
                row.id
            )));
        }
        for text in parts.texts.iter().chain([name]) {
            no_nul(&format!("id {}, field {name:?}", row.id), text)?;
        }
        if !parts.instants.is_empty() {
            dates.insert(name.clone(), Value::from(parts.instants));
        }
        meta.insert(name.clone(), field_to_json(value));
    }
    let meta = Value::Object(meta).to_string();
    Ok((meta, Value::Object(dates).to_string()))
}

fn decode(description: &Description, row: &postgres::Row) -> StoreResult<StoreRow> {
    let item: i64 = row.try_get(0).map_err(failed)?;
    let id: String = row.try_get(1).map_err(failed)?;
    let stored: StoredBits = row.try_get(2).map_err(failed)?;
    let labels: Vec<i32> = row.try_get(3).map_err(failed)?;
    let meta: String = row.try_get(4).map_err(failed)?;
    let meta: Map<String, Value> = serde_json::from_str(&meta).map_err(failed)?;
    let outputs: Option<&[u8]> =
        if description.outputs { row.try_get(5).map_err(failed)? } else { None };
    let fields = meta.into_iter();
    Ok(StoreRow {
        item: item.unsigned_abs(),
        id,
        code: stored.code()?,
        labels: labels.into_iter().map(i32::unsigned_abs).collect(),
        fields: fields.filter_map(|(name, v)| Some((name, field_from_json(&v)?))).collect(),
        outputs: outputs.map(signed_bytes),
    })
}

/// Conditions with the texts that they refer to.
#[derive(Default)]
struct Sql {
    parameters: Vec<String>,
}

impl Sql {
    fn text(&mut self, text: String) -> StoreResult<String> {
        if text.contains('\0') {
            let why = "filter: PostgreSQL cannot compare the character NUL";
            return Err(StoreError::Rejected(why.into()));
        }
        self.parameters.push(text);
        Ok(format!("${}::text", self.parameters.len()))
    }

    /// A value of a field, or an element of a list, has an order with a constant. Values of other
    /// types have none, and missing fields have no values.
    fn any(
        &mut self,
        column: &str,
        name: &str,
        order: &str,
        constant: &str,
    ) -> StoreResult<String> {
        let order = if order == "=" { "==" } else { order };
        let name = Value::from(name).to_string();
        let path = self.text(format!("$.{name}[*] ? (@ {order} {constant})"))?;
        Ok(format!("({column} @? ({path})::jsonpath)"))
    }
}

impl Dialect for Sql {
    fn labels(&mut self, any: &[usize]) -> String {
        let any: Vec<String> = any.iter().map(usize::to_string).collect();
        format!("(labels && ARRAY[{}]::integer[])", any.join(","))
    }

    fn ids(&mut self, any: &[String]) -> StoreResult<String> {
        let any = any.iter().map(|id| self.text(id.clone()));
        Ok(format!("(id IN ({}))", any.collect::<StoreResult<Vec<_>>>()?.join(", ")))
    }

    fn field(&mut self, name: &str, test: &PlainTest) -> StoreResult<String> {
        match test {
            PlainTest::Exists => {
                let name = self.text(name.to_owned())?;
                Ok(format!("jsonb_exists(meta, {name})"))
            }
            PlainTest::Text(order, text) => {
                let constant = Value::from(text.as_str()).to_string();
                self.any("meta", name, order.sign(), &constant)
            }
            PlainTest::Number(order, number) => {
                let constant = Value::from(finite(*number)?).to_string();
                self.any("meta", name, order.sign(), &constant)
            }
            PlainTest::Instant(order, instant) => {
                self.any("dates", name, order.sign(), &instant.to_string())
            }
            PlainTest::Bool(value) => self.any("meta", name, "=", &value.to_string()),
            PlainTest::Substring(text) => {
                let (name, text) = (self.text(name.to_owned())?, self.text(text.clone())?);
                Ok(format!(
                    "coalesce(jsonb_typeof(meta -> {name}) = 'string' AND strpos(meta ->> {name}, \
                     {text}) > 0, false)"
                ))
            }
            PlainTest::InList(test) => {
                let inner = self.field(name, test)?;
                let name = self.text(name.to_owned())?;
                Ok(format!(
                    "(coalesce(jsonb_typeof(meta -> {name}) = 'array', false) AND {inner})"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_zero_is_the_leftmost() {
        assert_eq!(bit_string(3, &[0b011]), "110");
        let word = 1_u64 << 63;
        assert_eq!(bit_string(66, &[word, 2]), format!("{}101", "0".repeat(63)));
    }

    #[test]
    fn label_arrays_have_the_binary_form() {
        assert_eq!(label_array(&[]).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
        let one = label_array(&[7]).unwrap();
        assert_eq!(one[12..], [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7]);
    }
}
