//! Comparison of a store with the items that it should contain: numbers of items, sampled rows bit
//! for bit, and answers of searches.

use anyhow::Result;
use crosshash_codes::Codes;
use crosshash_codes::index::Query;
use crosshash_codes::segments::Snapshot;

use super::rows::{Description, Source, StoreRow};
use super::{HitColumns, RowKeys, Store, StoreQuery};

/// What was compared, and what differs.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Rows that were compared.
    pub rows: usize,
    /// Searches that were compared.
    pub searches: usize,
    /// Differences, at most twenty.
    pub differences: Vec<String>,
}

/// Differences that are listed.
const MOST: usize = 20;
/// Rows that are read at a time.
const ROWS: usize = 1000;

impl Comparison {
    fn differ(&mut self, what: String) {
        if self.differences.len() < MOST {
            self.differences.push(what);
        }
    }
}

/// Compares `samples` rows and the answers of `searches` queries, spread evenly over the items.
pub fn compare(
    store: &mut dyn Store,
    description: &Description,
    source: &Source<'_>,
    snapshot: &Snapshot,
    samples: usize,
    searches: usize,
    progress: &dyn Fn(usize),
) -> Result<Comparison> {
    let mut found = Comparison::default();
    if description.bits != snapshot.bits().get() {
        found.differ(format!(
            "the store has codes of {} bits, the source of {}",
            description.bits,
            snapshot.bits()
        ));
        return Ok(found);
    }
    let count = store.count()?;
    if count != source.len() as u64 {
        found.differ(format!("the store has {count} items, the source {}", source.len()));
    }
    let sampled = spread(source.len(), samples);
    for group in sampled.chunks(ROWS) {
        compare_rows(store, description, source, group, &mut found)?;
        progress(found.rows);
    }
    for (nth, at) in spread(source.len(), searches).into_iter().enumerate() {
        let code = changed(snapshot, source.items()[at], nth)?;
        compare_answers(store, description, snapshot, &code, &mut found)?;
        progress(found.rows + found.searches);
    }
    Ok(found)
}

/// Numbers that are spread evenly, all of them if there are few.
fn spread(len: usize, wanted: usize) -> Vec<usize> {
    let wanted = wanted.min(len);
    (0..wanted).map(|nth| nth * len / wanted).collect()
}

/// The code of an item with some bits flipped: a query that is not stored.
fn changed(snapshot: &Snapshot, item: u32, nth: usize) -> Result<Codes> {
    let bits = snapshot.bits();
    let mut code = snapshot.code(item)?.to_vec();
    for flip in 0..nth % 4 {
        let bit = (nth * 31 + flip * 17) % bits.get();
        code[bit / 64] ^= 1 << (bit % 64);
    }
    Ok(Codes::from_words(bits, code)?)
}

fn compare_rows(
    store: &mut dyn Store,
    description: &Description,
    source: &Source<'_>,
    group: &[usize],
    found: &mut Comparison,
) -> Result<()> {
    let wanted: Vec<StoreRow> =
        group.iter().map(|&at| source.row(at)).collect::<Result<_>>()?;
    let ids: Vec<String> = wanted.iter().map(|row| row.id.clone()).collect();
    let mut stored = store.read(description, RowKeys::Ids(&ids))?;
    stored.sort_by(|a, b| a.id.cmp(&b.id));
    for row in &wanted {
        found.rows += 1;
        let first = stored.partition_point(|other| other.id < row.id);
        let same = stored[first..].iter().take_while(|other| other.id == row.id).count();
        match same {
            0 => found.differ(format!("id {}: the store has no such item", row.id)),
            1 => {
                if let Some(what) = difference(row, &stored[first], description) {
                    found.differ(format!("id {}: {what}", row.id));
                }
            }
            more => found.differ(format!("id {}: the store has it {more} times", row.id)),
        }
    }
    Ok(())
}

fn difference(wanted: &StoreRow, stored: &StoreRow, of: &Description) -> Option<String> {
    if wanted.code != stored.code {
        let bits = wanted.code.iter().zip(&stored.code);
        let bits: u32 = bits.map(|(a, b)| (a ^ b).count_ones()).sum();
        return Some(format!("{bits} bits of the code differ"));
    }
    if wanted.labels != stored.labels {
        return Some(format!("labels {:?}, not {:?}", stored.labels, wanted.labels));
    }
    let sorted = |row: &StoreRow| {
        let mut fields = row.fields.clone();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields
    };
    if sorted(wanted) != sorted(stored) {
        return Some(format!("fields {:?}, not {:?}", stored.fields, wanted.fields));
    }
    if of.outputs && wanted.outputs.is_some() && wanted.outputs != stored.outputs {
        return Some("the outputs differ".into());
    }
    None
}

fn compare_answers(
    store: &mut dyn Store,
    description: &Description,
    snapshot: &Snapshot,
    code: &Codes,
    found: &mut Comparison,
) -> Result<()> {
    let radius = u32::try_from(description.bits / 16).unwrap_or(u32::MAX);
    for (k, radius) in [(10, None), (100, None), (1000, None), (1000, Some(radius))] {
        let query = Query { radius, ..Query::nearest(k) };
        let wanted = snapshot.search(code, &query, &|_| ())?.into_iter().next();
        let wanted = wanted.unwrap_or_default();
        let query = StoreQuery {
            code: code.code(0).to_vec(),
            k,
            skip: 0,
            radius,
            filter: None,
            ties: false,
            approximate: false,
            columns: HitColumns::Ids,
        };
        let answer = store.search(description, &query)?;
        found.searches += 1;
        let wanted: Vec<(String, u32)> =
            wanted.iter().map(|hit| (hit.id.to_string(), hit.hit.distance)).collect();
        let answer: Vec<(String, u32)> =
            answer.into_iter().map(|hit| (hit.id, hit.distance)).collect();
        if wanted != answer {
            let at = wanted.iter().zip(&answer).position(|(a, b)| a != b);
            let at = at.unwrap_or_else(|| wanted.len().min(answer.len()));
            found.differ(format!(
                "k = {k}{}: the index finds {} items, the store {}; they differ from rank {} on",
                radius.map_or(String::new(), |radius| format!(", radius {radius}")),
                wanted.len(),
                answer.len(),
                at + 1
            ));
        }
    }
    Ok(())
}
