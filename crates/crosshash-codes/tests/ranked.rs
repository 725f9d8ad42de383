//! Two-stage search and stored outputs against plain lists: duplicates of codes, filters, pages,
//! several segments, upserts, deletes, damage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers")]

use std::sync::mpsc::channel;

use crosshash_codes::format::{Id, Ids};
use crosshash_codes::index::{Query, Rank};
use crosshash_codes::live::{Change, LiveIndex, NewItem, Options, Reply, SearchRequest};
use crosshash_codes::segments::{Found, ItemBatch, NewIndex, Ranking, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Labels, Outputs};
use proptest::prelude::*;

use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

const BITS: usize = 8;
/// Queries are multiples of this, the largest 7 times: rounding to 16 bits is exact.
const UNIT: f32 = 4681.0;

fn bits() -> Bits {
    Bits::new(BITS).unwrap()
}

/// An item of the list, in the order of item numbers.
#[derive(Clone, Debug)]
struct Row {
    id: u64,
    code: u64,
    /// As stored.
    outputs: Vec<i8>,
    label: u32,
}

#[derive(Clone, Debug)]
enum Operation {
    /// id, code, outputs (none: the signs of the code), label
    Upsert(Vec<(u64, u64, Option<Vec<i8>>, u32)>),
    Delete(Vec<u64>),
    Flush,
    Compact,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let outputs = prop::option::weighted(0.8, prop::collection::vec(-3_i8..=3, BITS));
    // few codes, so that classes are large
    let item = (
        0_u64..60,
        prop::sample::select(vec![0_u64, 1, 3, 7, 129, 255]),
        outputs,
        0_u32..3,
    );
    prop_oneof![
        6 => prop::collection::vec(item, 1..20).prop_map(Operation::Upsert),
        2 => prop::collection::vec(0_u64..60, 1..6).prop_map(Operation::Delete),
        2 => Just(Operation::Flush),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Reopen),
    ]
}

fn batch(items: &[(u64, u64, Option<Vec<i8>>, u32)]) -> ItemBatch {
    let codes = items.iter().map(|item| item.1).collect();
    let codes = Codes::from_words(bits(), codes).unwrap();
    let mut outputs = Outputs::new(bits());
    for (nth, item) in items.iter().enumerate() {
        let own = match &item.2 {
            Some(values) => {
                let reals: Vec<f32> =
                    values.iter().map(|&value| f32::from(value)).collect();
                Outputs::from_reals(bits(), &reals).unwrap()
            }
            None => Outputs::from_codes(&codes.select(&[nth])),
        };
        outputs.append(&own).unwrap();
    }
    // a batch in which no item has outputs is given without any
    let some = items.iter().any(|item| item.2.is_some());
    ItemBatch {
        ids: Some(Ids::Numbers(items.iter().map(|item| item.0).collect())),
        labels: Some(Labels::from_indices(3, items.iter().map(|item| [item.3])).unwrap()),
        outputs: some.then_some(outputs),
        ..ItemBatch::new(codes)
    }
}

fn perform(
    folder: &std::path::Path,
    writer: &mut Option<Writer>,
    list: &mut Vec<Row>,
    operation: &Operation,
) {
    let open = writer.as_mut().unwrap();
    match operation {
        Operation::Upsert(items) => {
            let mut seen = std::collections::HashSet::new();
            let unique: Vec<_> =
                items.iter().filter(|item| seen.insert(item.0)).cloned().collect();
            let batch = batch(&unique);
            let stored = batch.outputs.clone();
            let stored = stored.unwrap_or_else(|| Outputs::from_codes(&batch.codes));
            open.upsert(batch).unwrap();
            list.retain(|row| !seen.contains(&row.id));
            list.extend(unique.iter().enumerate().map(|(nth, item)| Row {
                id: item.0,
                code: item.1,
                outputs: stored.row(nth).to_vec(),
                label: item.3,
            }));
        }
        Operation::Delete(ids) => {
            let typed: Vec<Id> = ids.iter().map(|&id| Id::Number(id)).collect();
            open.delete(&typed).unwrap();
            list.retain(|row| !ids.contains(&row.id));
        }
        Operation::Flush => open.flush().unwrap(),
        Operation::Compact => open.compact().unwrap(),
        Operation::Reopen => {
            drop(writer.take());
            *writer = Some(Writer::open(folder).unwrap());
        }
    }
}

/// The plain definition: sort everything.
fn naive(
    list: &[Row],
    query: &[i64],
    ranking: Ranking,
    radius: Option<u32>,
    keep: &dyn Fn(&Row) -> bool,
) -> Vec<(u64, u32, f32)> {
    let code =
        query.iter().enumerate().fold(0_u64, |code, (k, &v)| code | u64::from(v >= 0) << k);
    let mut all: Vec<(u32, usize)> = list
        .iter()
        .enumerate()
        .filter(|(_, row)| keep(row))
        .map(|(item, row)| ((row.code ^ code).count_ones(), item))
        .filter(|(distance, _)| radius.is_none_or(|radius| *distance <= radius))
        .collect();
    all.sort_unstable();
    let query: Vec<i64> = query.iter().map(|value| value * 4681).collect();
    let score = |distance: u32, row: &Row| -> f32 {
        let signs: Vec<i64> =
            (0..BITS).map(|k| if row.code >> k & 1 == 1 { 1 } else { -1 }).collect();
        let other: Vec<i64> = match ranking.rank {
            Rank::Hamming => return (1.0 - 2.0 * f64::from(distance) / 8.0) as f32,
            Rank::Asymmetric => signs,
            Rank::Outputs => row.outputs.iter().map(|&value| i64::from(value)).collect(),
        };
        let dot = |a: &[i64], b: &[i64]| -> f64 {
            a.iter().zip(b).map(|(x, y)| (x * y) as f64).sum()
        };
        let length = dot(&query, &query).sqrt() * dot(&other, &other).sqrt();
        if length > 0.0 { (dot(&query, &other) / length) as f32 } else { 0.0 }
    };
    let mut scored: Vec<(u32, usize, f32)> =
        all.into_iter().map(|(d, item)| (d, item, score(d, &list[item]))).collect();
    if ranking.rank != Rank::Hamming {
        let last =
            scored.get(ranking.candidates.max(1) - 1).map_or(u32::MAX, |last| last.0);
        let near = scored.partition_point(|one| one.0 <= last);
        scored[..near]
            .sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    }
    scored.into_iter().map(|(d, item, score)| (list[item].id, d, score)).collect()
}

fn shown(found: &[Found]) -> Vec<(u64, u32, f32)> {
    let one = |found: &Found| {
        let Id::Number(id) = found.id else { panic!("ids are numbers") };
        (id, found.hit.distance, found.score.unwrap())
    };
    found.iter().map(one).collect()
}

fn queries() -> impl Strategy<Value = Vec<Vec<i64>>> {
    let query = prop::collection::vec(-7_i64..=7, BITS).prop_map(|mut query| {
        query[0] = if query[0] < 0 { -7 } else { 7 };
        query
    });
    prop::collection::vec(query, 1..5)
}

proptest! {
    #![proptest_config(fixed(96))]

    #[test]
    fn ranked_search_equals_a_full_sort(
        operations in prop::collection::vec(operation(), 1..14),
        queries in queries(),
        candidates in 0_usize..30,
        page in 1_usize..9,
        radius in prop::option::of(0_u32..9),
        label in prop::option::of(0_u32..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let new = NewIndex { bits: bits(), label_names: &[], outputs: true, after_commit: 0 };
        let mut writer = Some(Writer::create_with(dir.path(), new).unwrap());
        let mut list = Vec::new();
        for operation in &operations {
            perform(dir.path(), &mut writer, &mut list, operation);
        }
        drop(writer);
        let snapshot = Snapshot::open(dir.path()).unwrap();
        snapshot.verify().unwrap();
        for (row, item) in list.iter().zip(snapshot.items()) {
            prop_assert_eq!(snapshot.outputs(item).unwrap(), Some(&row.outputs[..]));
            prop_assert_eq!(snapshot.id(item).unwrap(), Id::Number(row.id));
        }
        let classes = snapshot.info().labels;
        let label = label.filter(|&label| (label as usize) < classes);
        let allowed = label.map(|label| snapshot.filter(&format!("label = {label}")).unwrap());
        let keep = |row: &Row| label.is_none_or(|label| row.label == label);
        let reals: Vec<f32> = queries.iter().flatten().map(|&v| v as f32 * UNIT).collect();
        let codes = Codes::from_signs(bits(), &reals).unwrap();
        for rank in Rank::ALL {
            let ranking = Ranking { rank, candidates };
            let search = |query: &Query<'_>| {
                snapshot.search_ranked(&codes, &reals, ranking, query, &|_| ()).unwrap()
            };
            let nearest = |query: &Query<'_>| -> Vec<Option<u32>> {
                let found = snapshot.search_ranked_hits(&codes, &reals, ranking, query, &|_| ());
                found.unwrap().iter().map(|found| found.nearest).collect()
            };
            let base = Query { radius, allowed: allowed.as_ref(), ..Query::nearest(usize::MAX) };
            let all = search(&base);
            let truth: Vec<_> = queries
                .iter()
                .map(|query| naive(&list, query, ranking, radius, &keep))
                .collect();
            for (found, truth) in all.iter().zip(&truth) {
                prop_assert_eq!(&shown(found), truth, "{:?}", ranking);
            }
            // the nearest item is known on every page
            let near: Vec<Option<u32>> =
                all.iter().map(|hits| hits.iter().map(|found| found.hit.distance).min()).collect();
            for (k, skip) in [(usize::MAX, 0), (page, 0), (page, page), (page, list.len()), (0, 0)] {
                prop_assert_eq!(&nearest(&Query { k, skip, ..base }), &near);
            }
            // pages join to the same list
            for (nth, truth) in truth.iter().enumerate() {
                let mut joined = Vec::new();
                while joined.len() < truth.len() {
                    let query = Query { k: page, skip: joined.len(), ..base };
                    let found = search(&query);
                    prop_assert!(!found[nth].is_empty() && found[nth].len() <= page);
                    joined.extend(shown(&found[nth]));
                }
                prop_assert_eq!(&joined, truth);
                let beyond = Query { k: page, skip: truth.len(), ..base };
                prop_assert!(search(&beyond)[nth].is_empty());
            }
        }
        // a copy has the same outputs
        let copy = dir.path().join("copy");
        snapshot.copy_to(&copy).unwrap();
        let copy = Snapshot::open(&copy).unwrap();
        for (row, item) in list.iter().zip(copy.items()) {
            prop_assert_eq!(copy.outputs(item).unwrap(), Some(&row.outputs[..]));
        }
    }
}

/// All items have the same code: the whole class is scored.
#[test]
fn a_large_tie_class_is_never_cut() {
    let bits = Bits::new(64).unwrap();
    let items = 60_000_usize;
    let mut reals = vec![1.0_f32; items * 64];
    // the last item is the best, the others differ from the query in one output
    for (item, row) in reals.chunks_exact_mut(64).enumerate().take(items - 1) {
        row[item % 64] = 0.1 + (item % 97) as f32 / 200.0;
    }
    let codes = Codes::from_signs(bits, &reals).unwrap();
    let outputs = Some(Outputs::from_reals(bits, &reals).unwrap());
    let snapshot =
        Snapshot::in_memory(ItemBatch { outputs, ..ItemBatch::new(codes) }, &[]).unwrap();
    let query = vec![1.0_f32; 64];
    let code = Codes::from_signs(bits, &query).unwrap();
    let ranking = Ranking { rank: Rank::Outputs, candidates: 10 };
    let found = snapshot
        .search_ranked(&code, &query, ranking, &Query::nearest(60), &|_| ())
        .unwrap()
        .remove(0);
    assert_eq!(found[0].hit.item, 59_999);
    assert!(found.is_sorted_by(|a, b| a.score >= b.score));
    assert!(found[1..].iter().all(|found| found.hit.item % 97 >= 90), "{found:?}");
    assert!(found.iter().all(|found| found.hit.distance == 0));
}

#[test]
fn the_best_rank_depends_on_index_and_query() {
    let codes = Codes::from_words(bits(), vec![3, 5]).unwrap();
    let bare = Snapshot::in_memory(ItemBatch::new(codes.clone()), &[]).unwrap();
    let outputs = Some(Outputs::from_codes(&codes));
    let full =
        Snapshot::in_memory(ItemBatch { outputs, ..ItemBatch::new(codes.clone()) }, &[])
            .unwrap();
    assert_eq!(bare.best_rank(true), Rank::Asymmetric);
    assert_eq!(bare.best_rank(false), Rank::Hamming);
    assert_eq!(full.best_rank(false), Rank::Outputs);
    let query = codes.select(&[0]);
    let search = |reals: &[f32], rank| {
        bare.search_ranked(&query, reals, Ranking::by(rank), &Query::nearest(1), &|_| ())
    };
    let err = search(&[1.0; 8], Rank::Outputs).unwrap_err().to_string();
    assert!(err.starts_with("the index stores no outputs"), "{err}");
    let err = search(&[1.0; 7], Rank::Asymmetric).unwrap_err().to_string();
    assert!(err.contains("one value per bit is needed"), "{err}");
    assert!(search(&[f32::NAN; 8], Rank::Asymmetric).is_err());
    assert!(search(&[], Rank::Hamming).is_ok());
}

/// An index without outputs refuses them; damage to stored outputs is found.
#[test]
fn outputs_belong_to_an_index_and_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (bare, full) = (dir.path().join("bare"), dir.path().join("full"));
    let codes = Codes::from_words(bits(), vec![3, 5]).unwrap();
    let outputs = Some(Outputs::from_codes(&codes));
    let items = ItemBatch { outputs, ..ItemBatch::new(codes) };
    let mut writer = Writer::create(&bare, bits(), &[]).unwrap();
    let err = writer.insert(items.clone()).unwrap_err().to_string();
    assert!(err.starts_with("the index stores no outputs; "), "{err}");
    let new = NewIndex { bits: bits(), label_names: &[], outputs: true, after_commit: 4 };
    let mut writer = Writer::create_with(&full, new).unwrap();
    assert_eq!(writer.snapshot().commit(), 4);
    writer.insert(items).unwrap();
    writer.flush().unwrap();
    drop(writer);
    assert_eq!(Snapshot::open(&full).unwrap().info().outputs, Some("int8"));
    let files = || fs_err::read_dir(&full).unwrap().map(|entry| entry.unwrap().path());
    let path =
        files().find(|path| path.extension().is_some_and(|e| e == "segment")).unwrap();
    let whole = fs_err::read(&path).unwrap();
    let row: Vec<u8> = Outputs::from_codes(&Codes::from_words(bits(), vec![5]).unwrap())
        .values()
        .iter()
        .map(|value| value.to_le_bytes()[0])
        .collect();
    let at = whole.windows(8).position(|bytes| bytes == row).unwrap();
    let mut damaged = whole.clone();
    damaged[at] ^= 1;
    fs_err::write(&path, &damaged).unwrap();
    let snapshot = Snapshot::open(&full).unwrap();
    let err = snapshot.outputs(0).unwrap_err().to_string();
    assert!(err.contains("the outputs section is damaged"), "{err}");
    assert!(snapshot.verify().is_err());
    let mut writer = Writer::open(&full).unwrap();
    writer.insert(ItemBatch::new(Codes::from_words(bits(), vec![1]).unwrap())).unwrap();
    assert!(writer.compact().is_err());
}

/// Ranked searches of a live index give what its snapshot gives; items without outputs get signs.
#[test]
fn live_searches_are_ranked() {
    let dir = tempfile::tempdir().unwrap();
    let new = NewIndex { bits: bits(), label_names: &[], outputs: true, after_commit: 0 };
    drop(Writer::create_with(dir.path(), new).unwrap());
    let index = LiveIndex::open(dir.path(), Options::default()).unwrap();
    let item = |id: u64| {
        let reals: Vec<f32> =
            (0..8).map(|k| ((id * 7 + k * 5) % 11) as f32 - 5.0).collect();
        let code = Codes::from_signs(bits(), &reals).unwrap().words().to_vec();
        let outputs = (!id.is_multiple_of(5)).then_some(reals);
        NewItem { id: Id::Number(id), code, labels: vec![], payload: vec![], outputs }
    };
    let put = |items: Vec<NewItem>| index.apply(Change::Put(items));
    assert!(matches!(put((0..50).map(item).collect()), Reply::Applied(_)));
    let short = NewItem { outputs: Some(vec![1.0; 7]), ..item(99) };
    assert!(matches!(put(vec![short]), Reply::Failed(_)));
    let nan = NewItem { outputs: Some(vec![f32::NAN; 8]), ..item(99) };
    assert!(matches!(put(vec![nan]), Reply::Failed(_)));
    let snapshot = index.snapshot();
    let signs = snapshot.find(&Id::Number(5)).unwrap().unwrap();
    let signs = snapshot.outputs(signs).unwrap().unwrap();
    assert!(signs.iter().all(|value| value.abs() == 127));
    let (reply, answers) = channel();
    let ranking = Some(Ranking { rank: Rank::Outputs, candidates: 12 });
    let request = SearchRequest { k: 9, skip: 2, radius: None, ranking };
    for nth in 0..20_u64 {
        let reals: Vec<f32> =
            (0..8).map(|k| ((nth * 3 + k * 7) % 13) as f32 - 6.0).collect();
        let code = Codes::from_signs(bits(), &reals).unwrap();
        let reply = reply.clone();
        let reals = if nth == 7 { vec![0.0; 3] } else { reals };
        let wanted = reals.clone();
        index.search(code.words().to_vec(), reals, request, move |found| {
            reply.send((code, wanted, found)).unwrap();
        });
    }
    drop(reply);
    let mut answered = 0;
    for (code, reals, found) in answers {
        answered += 1;
        if reals.len() == 3 {
            assert!(found.err().unwrap().to_string().contains("3 real outputs"));
            continue;
        }
        let query = Query { skip: 2, ..Query::nearest(9) };
        let ranking = request.ranking.unwrap();
        let wanted =
            snapshot.search_ranked(&code, &reals, ranking, &query, &|_| ()).unwrap();
        assert_eq!(found.unwrap().hits, wanted[0]);
    }
    assert_eq!(answered, 20);
}
