//! ClickHouse, over its HTTP interface.
//!
//! ```text
//! item UInt64, id String, c0 UInt64, c1 UInt64, ..., labels Array(UInt32), meta String,
//! texts, numbers, bools, instants: Map(String, Array(..)), lists Array(String),
//! outputs String
//! ENGINE = MergeTree ORDER BY item
//! ```
//!
//! `c0` has the bits 0 to 63 of the code, bit 0 in the lowest place. `meta` has the fields of the
//! item as JSON; filters use the maps, which have the same fields by type, so that nothing is
//! parsed during a search. Ranges are sent in the format RowBinary, one block each, which MergeTree
//! adds as a whole. There are no transactions: the push counts the rows of every range afterwards.

use std::io::Read as _;
use std::ops::Range;
use std::time::Duration;

use crosshash::payload::{field_from_json, field_to_json};
use crosshash_codes::index::{FieldParts, PlainTest};
use serde_json::{Map, Value};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::filter::{Dialect, condition, finite};
use super::tls::{certificates, provider};
use super::{
    Description, Entry, HitColumns, MOST_TIES, RangeRows, RowEncoder, RowKeys, Store,
    StoreError, StoreHit, StoreQuery, StoreResult, StoreRow, StoreUrl, failed,
};

pub(super) const ENTRY: Entry =
    Entry { name: "ClickHouse", schemes: &["clickhouse"], open };

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to answer; a search over 10^9 items takes seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Errors of the server that pass.
const PASSING: [&str; 3] =
    ["TOO_MANY_SIMULTANEOUS_QUERIES", "ALL_CONNECTION_TRIES_FAILED", "NETWORK_ERROR"];

fn open(url: StoreUrl) -> StoreResult<Box<dyn Store>> {
    let mut config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(url.limit.unwrap_or(CONNECT_TIMEOUT)))
        .timeout_recv_response(Some(url.limit.unwrap_or(ANSWER_TIMEOUT)))
        .timeout_global(url.limit)
        .max_redirects(0)
        .proxy(None);
    if url.tls {
        let certificates = certificates(&url)?;
        let roots: Vec<Certificate<'static>> =
            certificates.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(provider());
        config = config.tls_config(tls.build());
    }
    let (scheme, port) = if url.tls { ("https", 8443) } else { ("http", 8123) };
    let host =
        if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
    let mut store = ClickHouse {
        agent: config.build().new_agent(),
        address: format!("{scheme}://{host}:{}/", url.port.unwrap_or(port)),
        user: url.user("CLICKHOUSE_USER"),
        password: url.password("CLICKHOUSE_PASSWORD"),
        place: url.to_string(),
        table: url.quoted_table(),
        database: url.database.clone().unwrap_or_else(|| "default".into()),
        url,
    };
    store.ask("SELECT 1")?;
    Ok(Box::new(store))
}

struct ClickHouse {
    agent: ureq::Agent,
    address: String,
    user: Option<String>,
    password: Option<String>,
    place: String,
    /// Quoted.
    table: String,
    database: String,
    url: StoreUrl,
}

impl ClickHouse {
    /// Runs a statement and returns the body of the answer.
    fn ask(&mut self, sql: &str) -> StoreResult<Vec<u8>> {
        self.send(&[], sql.as_bytes())
    }

    fn send(&mut self, settings: &[(&str, &str)], body: &[u8]) -> StoreResult<Vec<u8>> {
        let mut request = self
            .agent
            .post(&self.address)
            .query("database", &self.database)
            // an error after the first rows must not look like a complete answer
            .query("wait_end_of_query", "1")
            .query_pairs(settings.iter().copied());
        if let Some(limit) = self.url.limit {
            let limit = format!("{:.3}", limit.as_secs_f64());
            request = request.query("max_execution_time", limit);
        }
        if let Some(user) = &self.user {
            request = request.header("X-ClickHouse-User", user);
        }
        if let Some(password) = &self.password {
            request = request.header("X-ClickHouse-Key", password);
        }
        let mut response = request.send(body).map_err(|err| explain(&err))?;
        let status = response.status().as_u16();
        let from_server = response.headers().contains_key("X-ClickHouse-Exception-Code");
        let mut answer = Vec::new();
        response
            .body_mut()
            .as_reader()
            .read_to_end(&mut answer)
            .map_err(|err| StoreError::Unavailable(format!("the answer was cut: {err}")))?;
        if status == 200 && !from_server {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer);
        let text: String = text.trim().chars().take(500).collect();
        if matches!(status, 502..=504) && !from_server {
            return Err(StoreError::Unavailable(format!("HTTP status {status}: {text}")));
        }
        if from_server && text.contains("TIMEOUT_EXCEEDED") {
            return Err(StoreError::TimedOut(text));
        }
        if from_server && PASSING.iter().any(|name| text.contains(name)) {
            return Err(StoreError::Unavailable(text));
        }
        let login = "; put user and password into the address, or into CLICKHOUSE_USER and \
                     CLICKHOUSE_PASSWORD";
        let help = if matches!(status, 401 | 403) { login } else { "" };
        Err(failed(format!("{text}{help}")))
    }

    /// Rows of unsigned numbers.
    fn numbers<const N: usize>(&mut self, sql: &str) -> StoreResult<Vec<[u64; N]>> {
        let answer = self.ask(&format!("{sql} FORMAT RowBinary"))?;
        let mut reader = Reader { rest: &answer };
        let mut rows = Vec::new();
        while !reader.rest.is_empty() {
            let mut row = [0; N];
            for cell in &mut row {
                *cell = reader.word()?;
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn number(&mut self, sql: &str) -> StoreResult<u64> {
        let rows = self.numbers::<1>(sql)?;
        rows.first().map(|row| row[0]).ok_or_else(|| failed("the answer has no rows"))
    }

    fn comment(description: &Description) -> String {
        quoted(&description.to_comment())
    }

    /// The database and the name of the table, as literals.
    fn names(&self) -> (String, String) {
        match self.url.table.split_once('.') {
            Some((database, table)) => (quoted(database), quoted(table)),
            None => (quoted(&self.database), quoted(&self.url.table)),
        }
    }
}

fn explain(err: &ureq::Error) -> StoreError {
    let why = err.to_string();
    match err {
        ureq::Error::Io(io) if io.to_string().contains("certificate") => failed(why),
        ureq::Error::Io(_)
        | ureq::Error::Timeout(_)
        | ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Protocol(_) => StoreError::Unavailable(why),
        _ => failed(why),
    }
}

impl Store for ClickHouse {
    fn place(&self) -> &str {
        &self.place
    }

    fn reconnect(&mut self) -> StoreResult<()> {
        self.ask("SELECT 1").map(drop)
    }

    fn description(&mut self) -> StoreResult<Option<Description>> {
        let (database, table) = self.names();
        let sql = format!(
            "SELECT comment FROM system.tables WHERE database = {database} AND name = {table} FORMAT \
             RowBinary"
        );
        let answer = self.ask(&sql)?;
        if answer.is_empty() {
            return Ok(None);
        }
        let comment = Reader { rest: &answer }.text()?;
        match Description::from_comment(&comment) {
            Some(description) => description.map(Some).map_err(failed),
            None => Err(failed(
                "the table exists, and crosshash did not create it; select another one by table=NAME \
                 in the address",
            )),
        }
    }

    fn create(&mut self, description: &Description) -> StoreResult<()> {
        if description.hnsw {
            return Err(failed("--hnsw is for PostgreSQL with pgvector"));
        }
        let outputs = if description.outputs { ", outputs String" } else { "" };
        let codes: Vec<String> =
            (0..description.words()).map(|nth| format!("c{nth} UInt64")).collect();
        let sql = format!(
            "CREATE TABLE {} (item UInt64, id String, {}, labels Array(UInt32), meta String, texts \
             Map(String, Array(String)), numbers Map(String, Array(Float64)), bools Map(String, \
             Array(UInt8)), instants Map(String, Array(Int64)), lists Array(String){outputs}, INDEX \
             by_id id TYPE bloom_filter GRANULARITY 1) ENGINE = MergeTree ORDER BY item COMMENT {}",
            self.table,
            codes.join(", "),
            ClickHouse::comment(description)
        );
        self.ask(&sql).map(drop)
    }

    fn describe(&mut self, description: &Description) -> StoreResult<()> {
        let comment = ClickHouse::comment(description);
        self.ask(&format!("ALTER TABLE {} MODIFY COMMENT {comment}", self.table)).map(drop)
    }

    fn encoder(&self) -> RowEncoder {
        encode
    }

    fn write(&mut self, description: &Description, encoded: &[u8]) -> StoreResult<()> {
        let codes: Vec<String> =
            (0..description.words()).map(|nth| format!("c{nth}")).collect();
        let outputs = if description.outputs { ", outputs" } else { "" };
        let sql = format!(
            "INSERT INTO {} (item, id, {}, labels, meta, texts, numbers, bools, instants, \
             lists{outputs}) FORMAT RowBinary",
            self.table,
            codes.join(", ")
        );
        // one block, so that it is added as a whole
        let settings = [
            ("query", sql.as_str()),
            ("max_insert_block_size", "1048576"),
            ("min_insert_block_size_rows", "1048576"),
            ("min_insert_block_size_bytes", "0"),
            ("async_insert", "0"),
        ];
        self.send(&settings, encoded).map(drop)
    }

    fn ranges(&mut self, size: u64) -> StoreResult<Vec<(u64, RangeRows)>> {
        let sql = format!(
            "SELECT toUInt64(intDiv(item, {size})) AS range, toUInt64(count()), \
             toUInt64(uniqExact(item)) FROM {} GROUP BY range ORDER BY range",
            self.table
        );
        let rows = self.numbers::<3>(&sql)?.into_iter();
        let range =
            |[range, rows, distinct]: [u64; 3]| (range, RangeRows { rows, distinct });
        Ok(rows.map(range).collect())
    }

    fn range(&mut self, items: Range<u64>) -> StoreResult<RangeRows> {
        let sql = format!(
            "SELECT toUInt64(count()), toUInt64(uniqExact(item)) FROM {} WHERE item >= {} AND item < \
             {}",
            self.table, items.start, items.end
        );
        let rows = self.numbers::<2>(&sql)?;
        let row = rows.first().ok_or_else(|| failed("the answer has no rows"))?;
        Ok(RangeRows { rows: row[0], distinct: row[1] })
    }

    fn clear(&mut self, items: Range<u64>) -> StoreResult<()> {
        let sql = format!(
            "DELETE FROM {} WHERE item >= {} AND item < {}",
            self.table, items.start, items.end
        );
        self.ask(&sql).map(drop)
    }

    fn finish(&mut self, _: &Description) -> StoreResult<()> {
        Ok(())
    }

    fn upsert(
        &mut self,
        description: &Description,
        rows: Vec<StoreRow>,
    ) -> StoreResult<()> {
        let mut rows = rows;
        let first = self.number(&format!(
            "SELECT toUInt64(if(count() = 0, 0, max(item) + 1)) FROM {}",
            self.table
        ))?;
        for (row, item) in rows.iter_mut().zip(first..) {
            row.item = item;
        }
        // The new rows first: a crash in between leaves both, and a repetition removes the old.
        self.write(description, &encode(description, &rows)?)?;
        let ids: Vec<String> = rows.iter().map(|row| quoted(&row.id)).collect();
        let sql = format!(
            "DELETE FROM {} WHERE item < {first} AND id IN ({})",
            self.table,
            ids.join(", ")
        );
        self.ask(&sql).map(drop)
    }

    fn delete(&mut self, ids: &[String]) -> StoreResult<u64> {
        let ids: Vec<String> = ids.iter().map(|id| quoted(id)).collect();
        let ids = ids.join(", ");
        let count = self
            .number(&format!("SELECT count() FROM {} WHERE id IN ({ids})", self.table))?;
        self.ask(&format!("DELETE FROM {} WHERE id IN ({ids})", self.table))?;
        Ok(count)
    }

    fn search(
        &mut self,
        description: &Description,
        query: &StoreQuery,
    ) -> StoreResult<Vec<StoreHit>> {
        if query.k == 0 {
            return Ok(Vec::new());
        }
        let mut conditions = Vec::new();
        if let Some(filter) = &query.filter {
            conditions.push(condition(filter, &mut Sql)?);
        }
        let words = query.code.iter().enumerate();
        let words = words.map(|(nth, word)| {
            format!("toUInt32(bitHammingDistance(c{nth}, toUInt64({word})))")
        });
        let distance = words.collect::<Vec<_>>().join(" + ");
        if let Some(radius) = query.radius {
            conditions.push(format!("distance <= {radius}"));
        }
        let conditions = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let columns = match query.columns {
            HitColumns::Ids => String::new(),
            HitColumns::Codes => {
                (0..description.words()).map(|nth| format!(", c{nth}")).collect()
            }
            HitColumns::Outputs => ", outputs".into(),
        };
        let select = format!(
            "SELECT item, id, toUInt32({distance}) AS distance{columns} FROM {}{conditions}",
            self.table
        );
        let sql = match (query.limit(), query.ties) {
            (Some(limit), true) => format!(
                "SELECT * FROM ({select} ORDER BY distance LIMIT {limit} WITH TIES) ORDER BY \
                 distance, item LIMIT {} OFFSET {}",
                MOST_TIES + 1,
                query.skip
            ),
            (Some(limit), false) => {
                format!(
                    "{select} ORDER BY distance, item LIMIT {} OFFSET {}",
                    limit - query.skip,
                    query.skip
                )
            }
            (None, _) => format!("{select} ORDER BY distance, item OFFSET {}", query.skip),
        };
        let answer = self.ask(&format!("{sql} FORMAT RowBinary"))?;
        let mut reader = Reader { rest: &answer };
        let mut hits = Vec::new();
        while !reader.rest.is_empty() {
            let (item, id) = (reader.word()?, reader.text()?);
            let distance = u32::from_le_bytes(reader.array()?);
            let (mut code, mut outputs) = (Vec::new(), Vec::new());
            match query.columns {
                HitColumns::Ids => {}
                HitColumns::Codes => code = reader.words(description.words())?,
                HitColumns::Outputs => outputs = reader.outputs()?,
            }
            hits.push(StoreHit { item, id, distance, code, outputs });
        }
        query.check_ties(hits.len())?;
        Ok(hits)
    }

    fn count(&mut self) -> StoreResult<u64> {
        self.number(&format!("SELECT count() FROM {}", self.table))
    }

    fn bytes(&mut self) -> StoreResult<u64> {
        let (database, table) = self.names();
        self.number(&format!(
            "SELECT toUInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = \
             {database} AND table = {table}"
        ))
    }

    fn read(
        &mut self,
        description: &Description,
        keys: RowKeys<'_>,
    ) -> StoreResult<Vec<StoreRow>> {
        let (column, keys): (&str, Vec<String>) = match keys {
            RowKeys::Ids(ids) => ("id", ids.iter().map(|id| quoted(id)).collect()),
            RowKeys::Items(items) => ("item", items.iter().map(u64::to_string).collect()),
        };
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let codes: Vec<String> =
            (0..description.words()).map(|nth| format!("c{nth}")).collect();
        let outputs = if description.outputs { ", outputs" } else { "" };
        let sql = format!(
            "SELECT item, id, {}, labels, meta{outputs} FROM {} WHERE {column} IN ({}) FORMAT RowBinary",
            codes.join(", "),
            self.table,
            keys.join(", ")
        );
        let answer = self.ask(&sql)?;
        let mut reader = Reader { rest: &answer };
        let mut rows = Vec::new();
        while !reader.rest.is_empty() {
            rows.push(reader.row(description)?);
        }
        Ok(rows)
    }

    fn drop_table(&mut self) -> StoreResult<()> {
        self.ask(&format!("DROP TABLE {} SYNC", self.table)).map(drop)
    }
}

/// A text as a literal.
fn quoted(text: &str) -> String {
    let mut to = String::with_capacity(text.len() + 2);
    to.push('\'');
    for c in text.chars() {
        match c {
            '\'' => to.push_str("\\'"),
            '\\' => to.push_str("\\\\"),
            '\0' => to.push_str("\\0"),
            c => to.push(c),
        }
    }
    to.push('\'');
    to
}

/// Rows in the format RowBinary.
fn encode(description: &Description, rows: &[StoreRow]) -> StoreResult<Vec<u8>> {
    let mut to = Vec::with_capacity(rows.len() * (40 + description.words() * 8));
    for row in rows {
        to.extend(row.item.to_le_bytes());
        text(&mut to, &row.id);
        row.code.iter().for_each(|word| to.extend(word.to_le_bytes()));
        length(&mut to, row.labels.len());
        row.labels.iter().for_each(|label| to.extend(label.to_le_bytes()));
        let parts: Vec<(&str, FieldParts)> = row
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), FieldParts::new(value)))
            .collect();
        let infinite = parts
            .iter()
            .find(|(_, parts)| !parts.numbers.iter().all(|number| number.is_finite()));
        if let Some((name, _)) = infinite {
            return Err(failed(format!(
                "id {}, field {name}: JSON cannot store an infinite number",
                row.id
            )));
        }
        let json =
            row.fields.iter().map(|(name, value)| (name.clone(), field_to_json(value)));
        text(&mut to, &Value::Object(json.collect::<Map<String, Value>>()).to_string());
        map(&mut to, &parts, |parts| &parts.texts, |to, value| text(to, value));
        map(
            &mut to,
            &parts,
            |parts| &parts.numbers,
            |to, value| to.extend(value.to_le_bytes()),
        );
        map(&mut to, &parts, |parts| &parts.bools, |to, value| to.push(u8::from(*value)));
        map(
            &mut to,
            &parts,
            |parts| &parts.instants,
            |to, value| {
                to.extend(value.to_le_bytes());
            },
        );
        let lists: Vec<&str> = parts
            .iter()
            .filter(|(_, parts)| parts.is_list)
            .map(|(name, _)| *name)
            .collect();
        length(&mut to, lists.len());
        lists.iter().for_each(|name| text(&mut to, name));
        if description.outputs {
            length(&mut to, row.outputs.as_ref().map_or(0, Vec::len));
            to.extend(row.outputs.iter().flatten().map(|value| value.to_le_bytes()[0]));
        }
    }
    Ok(to)
}

/// The map of all fields that have values of one type.
fn map<T>(
    to: &mut Vec<u8>,
    fields: &[(&str, FieldParts)],
    values: impl Fn(&FieldParts) -> &Vec<T>,
    write: impl Fn(&mut Vec<u8>, &T),
) {
    let own = || fields.iter().filter(|(_, parts)| !values(parts).is_empty());
    length(to, own().count());
    for (name, parts) in own() {
        text(to, name);
        length(to, values(parts).len());
        values(parts).iter().for_each(|value| write(to, value));
    }
}

fn text(to: &mut Vec<u8>, text: &str) {
    length(to, text.len());
    to.extend(text.as_bytes());
}

/// A length in LEB128.
fn length(to: &mut Vec<u8>, length: usize) {
    let mut left = length;
    loop {
        let low = u8::try_from(left & 0x7f).unwrap_or(0);
        left >>= 7;
        if left == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

/// Reads values in the format RowBinary.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn bytes(&mut self, count: usize) -> StoreResult<&[u8]> {
        let cut = || failed("the answer ends within a row");
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or_else(cut)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> StoreResult<[u8; N]> {
        let bytes = self.bytes(N)?;
        bytes.try_into().map_err(failed)
    }

    fn word(&mut self) -> StoreResult<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn length(&mut self) -> StoreResult<usize> {
        let mut length = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(length).map_err(failed);
            }
        }
        Err(failed("the answer has a length of more than 64 bits"))
    }

    fn text(&mut self) -> StoreResult<String> {
        let length = self.length()?;
        String::from_utf8(self.bytes(length)?.to_vec()).map_err(failed)
    }

    /// The words of a code.
    fn words(&mut self, count: usize) -> StoreResult<Vec<u64>> {
        (0..count).map(|_| self.word()).collect()
    }

    /// Signed bytes with their number before them.
    fn outputs(&mut self) -> StoreResult<Vec<i8>> {
        let length = self.length()?;
        Ok(self.bytes(length)?.iter().map(|byte| i8::from_le_bytes([*byte])).collect())
    }

    fn row(&mut self, description: &Description) -> StoreResult<StoreRow> {
        let (item, id) = (self.word()?, self.text()?);
        let code = self.words(description.words())?;
        let count = self.length()?;
        let labels = (0..count).map(|_| self.array().map(u32::from_le_bytes));
        let labels = labels.collect::<StoreResult<Vec<u32>>>()?;
        let meta: Map<String, Value> =
            serde_json::from_str(&self.text()?).map_err(failed)?;
        let fields = meta.into_iter();
        let fields = fields.filter_map(|(name, v)| Some((name, field_from_json(&v)?)));
        let fields = fields.collect();
        let outputs = description.outputs.then(|| self.outputs()).transpose()?;
        Ok(StoreRow { item, id, code, labels, fields, outputs })
    }
}

/// Conditions with literals.
struct Sql;

impl Sql {
    /// A value of a field in one of the maps; a missing field has no values there.
    fn any(map: &str, name: &str, order: &str, constant: &str) -> String {
        format!("arrayExists(x -> x {order} {constant}, {map}[{}])", quoted(name))
    }
}

impl Dialect for Sql {
    fn labels(&mut self, any: &[usize]) -> String {
        let any: Vec<String> =
            any.iter().map(|label| format!("toUInt32({label})")).collect();
        format!("hasAny(labels, [{}])", any.join(", "))
    }

    fn ids(&mut self, any: &[String]) -> StoreResult<String> {
        let any: Vec<String> = any.iter().map(|id| quoted(id)).collect();
        Ok(format!("(id IN ({}))", any.join(", ")))
    }

    fn field(&mut self, name: &str, test: &PlainTest) -> StoreResult<String> {
        Ok(match test {
            PlainTest::Exists => {
                let name = quoted(name);
                let maps = ["texts", "numbers", "bools"]
                    .map(|map| format!("mapContains({map}, {name})"));
                format!("({} OR has(lists, {name}))", maps.join(" OR "))
            }
            PlainTest::Text(order, text) => {
                Sql::any("texts", name, order.sign(), &quoted(text))
            }
            PlainTest::Number(order, number) => {
                // by its bits: the parser of numbers rounds
                let bits = finite(*number)?.to_bits();
                let constant = format!("reinterpretAsFloat64(toUInt64({bits}))");
                Sql::any("numbers", name, order.sign(), &constant)
            }
            PlainTest::Instant(order, instant) => {
                Sql::any("instants", name, order.sign(), &format!("toInt64({instant})"))
            }
            PlainTest::Bool(value) => {
                Sql::any("bools", name, "=", &u8::from(*value).to_string())
            }
            PlainTest::Substring(text) => {
                let (own, text) = (quoted(name), quoted(text));
                format!(
                    "(NOT has(lists, {own}) AND arrayExists(x -> position(x, {text}) > 0, \
                     texts[{own}]))"
                )
            }
            PlainTest::InList(test) => {
                let inner = self.field(name, test)?;
                format!("(has(lists, {}) AND {inner})", quoted(name))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_rows_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 300, 1 << 20] {
            let mut to = Vec::new();
            length(&mut to, number);
            assert_eq!(Reader { rest: &to }.length().unwrap(), number);
        }
        assert!(Reader { rest: &[5, b'a'] }.text().is_err());
    }

    #[test]
    fn literals_cannot_end_early() {
        assert_eq!(quoted("a'b\\"), r"'a\'b\\'");
        assert_eq!(quoted("\0"), r"'\0'");
    }
}
