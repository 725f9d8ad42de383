//! Every index answers as a plain loop and a sort do, bit for bit: 1 to 256 bits, random,
//! clustered and learned-like codes, duplicates, any k, radius, page and filter. A new kind of index is tested by
//! being listed in `INDEXES`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use crosshash_codes::index::{Hit, INDEXES, ItemSet, Query, Scan};
use crosshash_codes::index::{Index as _, build};
use crosshash_codes::kernel::Kernel;
use crosshash_codes::{Bits, Codes};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Codes around a few centres; `noise` is the chance of a flipped bit, 0.5 for random codes.
fn codes(bits: usize, n: usize, centres: u64, noise: f64, seed: u64) -> Codes {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bools = Vec::with_capacity(n * bits);
    for _ in 0..n {
        let mut centre = ChaCha8Rng::seed_from_u64(rng.random_range(0..centres));
        for _ in 0..bits {
            bools.push(centre.random::<bool>() ^ rng.random_bool(noise));
        }
    }
    Codes::from_bools(Bits::new(bits).unwrap(), &bools).unwrap()
}

/// Codes as a model learns them: signs of projections of few latent values, so that bits are skewed and
/// correlated; a bit in eight is constant, and many codes occur often. `noise` is added to the latent
/// values of every item; queries of another modality have more of it.
fn learned(bits: usize, n: usize, noise: f64, seed: u64) -> Codes {
    const LATENT: usize = 6;
    const GROUPS: u64 = 60;
    let real = |rng: &mut ChaCha8Rng| rng.random_range(-1.0..1.0);
    let mut model = ChaCha8Rng::seed_from_u64(99);
    let projection: Vec<f64> = (0..bits * LATENT).map(|_| real(&mut model)).collect();
    let offsets: Vec<f64> = (0..bits).map(|_| real(&mut model) * 0.7).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bools = Vec::with_capacity(n * bits);
    for _ in 0..n {
        let skewed = rng.random_range(0..GROUPS).min(rng.random_range(0..GROUPS));
        let mut group = ChaCha8Rng::seed_from_u64(skewed);
        // half of the items have no noise: exact duplicates
        let own = if rng.random::<bool>() { noise } else { 0.0 };
        let latent: Vec<f64> =
            (0..LATENT).map(|_| real(&mut group) + own * real(&mut rng)).collect();
        for bit in 0..bits {
            let row = &projection[bit * LATENT..][..LATENT];
            let output: f64 = row.iter().zip(&latent).map(|(a, b)| a * b).sum();
            bools.push(bit % 8 == 3 || output + offsets[bit] >= 0.0);
        }
    }
    Codes::from_bools(Bits::new(bits).unwrap(), &bools).unwrap()
}

/// The truth: every distance, sorted.
fn plain(database: &Codes, queries: &Codes, q: usize, query: &Query<'_>) -> Vec<Hit> {
    let mut hits: Vec<Hit> = (0..database.len())
        .map(|i| Hit {
            distance: queries.distance(q, database, i),
            item: u32::try_from(i).unwrap(),
        })
        .filter(|hit| query.radius.is_none_or(|radius| hit.distance <= radius))
        .filter(|hit| query.allowed.is_none_or(|items| items.contains(hit.item)))
        .collect();
    hits.sort_unstable();
    let end = query.k.saturating_add(query.skip);
    let last = hits.get(end.wrapping_sub(1)).map(|hit| hit.distance);
    let tied = |hit: &Hit| query.ties && query.k > 0 && Some(hit.distance) == last;
    let hits = hits.into_iter().enumerate();
    hits.skip(query.skip)
        .filter(|(at, hit)| *at < end || tied(hit))
        .map(|hit| hit.1)
        .collect()
}

fn agree(database: &Codes, queries: &Codes, ask: &[Query<'_>]) {
    let all = 0..queries.len();
    let of = |query| all.clone().map(|q| plain(database, queries, q, query)).collect();
    let truths: Vec<Vec<Vec<Hit>>> = ask.iter().map(of).collect();
    let limited = ["auto:9", "auto:16", "auto:24"];
    for name in INDEXES.iter().map(|kind| kind.name).chain(limited) {
        let index = build(name, database.clone(), &|_| ()).unwrap();
        for (query, truth) in ask.iter().zip(&truths) {
            let found = index.search(queries, query, &|_| ()).unwrap();
            assert_eq!(&found, truth, "{name} {database:?} {query:?}");
        }
    }
}

#[test]
fn learned_codes_and_duplicates() {
    let sizes = [
        (12, 900),
        (33, 2000),
        (64, 12_000),
        (65, 9000),
        (100, 3000),
        (128, 9000),
        (192, 2000),
        (256, 2000),
        (300, 2000),
    ];
    for (bits, n) in sizes {
        let database = learned(bits, n, 0.3, 1);
        let queries = learned(bits, 12, 0.8, 2);
        let few = ItemSet::of(n, |item| item % 97 == 3);
        let many = ItemSet::of(n, |item| item % 3 != 0);
        let nearest = Query::nearest;
        agree(
            &database,
            &queries,
            &[
                nearest(1),
                nearest(10),
                nearest(1000),
                nearest(n),
                Query::within(0),
                Query::within(2),
                Query { radius: Some(4), ..nearest(50) },
                Query { skip: 40, ..nearest(10) },
                Query { allowed: Some(&few), ..nearest(10) },
                Query { allowed: Some(&many), ..nearest(10) },
                Query { allowed: Some(&many), skip: 5, ..Query::within(3) },
                Query { ties: true, ..nearest(10) },
                Query { ties: true, ..nearest(1000) },
                Query { ties: true, skip: 7, ..nearest(20) },
                Query { ties: true, allowed: Some(&many), ..nearest(10) },
                Query { ties: true, radius: Some(3), ..nearest(100) },
                Query { skip: 900, ..nearest(1000) },
            ],
        );
    }
    // nothing but duplicates
    let one = learned(64, 1, 0.0, 3);
    let same = one.select(&[0; 10_000]);
    let ties = Query { ties: true, ..Query::nearest(10) };
    agree(&same, &one, &[Query::nearest(10), ties, Query::within(0), Query::within(64)]);
}

#[test]
fn auto_keeps_to_the_memory_limit() {
    let database = learned(64, 20_000, 0.3, 1);
    for bytes in [8, 12, 16, 24, 70] {
        let index = build(&format!("auto:{bytes}"), database.clone(), &|_| ()).unwrap();
        let extra = index.extra_bytes();
        assert!(extra <= (bytes - 8) * database.len(), "{bytes}: {extra}");
    }
    let compact = build("tree-compact", database.clone(), &|_| ()).unwrap();
    assert!(compact.extra_bytes() <= 8 * database.len(), "{}", compact.extra_bytes());
    let random = codes(64, 20_000, 1, 0.5, 4);
    let compact = build("tree-compact", random.clone(), &|_| ()).unwrap();
    assert!(compact.extra_bytes() <= 8 * random.len(), "{}", compact.extra_bytes());
}

#[test]
fn every_index_answers_as_the_plain_loop() {
    let lengths = [1, 2, 7, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 96, 127, 128, 130, 256];
    for (round, bits) in lengths.into_iter().enumerate() {
        let seed = round as u64;
        for (n, centres, noise) in [(700, 1, 0.5), (900, 12, 0.06), (300, 3, 0.0)] {
            let database = codes(bits, n, centres, noise, seed);
            let queries = codes(bits, 5, centres, noise, seed + 1000);
            let few = ItemSet::of(n, |item| item % 97 == 3);
            let many = ItemSet::of(n, |item| item % 3 != 0);
            let none = ItemSet::none(n);
            let half = u32::try_from(bits / 2).unwrap();
            let nearest = Query::nearest;
            agree(
                &database,
                &queries,
                &[
                    nearest(10),
                    nearest(1),
                    nearest(0),
                    nearest(n + 5),
                    Query::within(0),
                    Query::within(3),
                    Query::within(half),
                    Query::within(9999),
                    Query { radius: Some(half), ..nearest(7) },
                    Query { skip: 6, ..nearest(6) },
                    Query { skip: n, ..nearest(6) },
                    Query { allowed: Some(&few), ..nearest(4) },
                    Query { allowed: Some(&many), skip: 3, ..nearest(20) },
                    Query { allowed: Some(&none), ..nearest(4) },
                    Query { allowed: Some(&many), ..Query::within(half) },
                    Query { ties: true, ..nearest(10) },
                    Query { ties: true, skip: 4, ..nearest(3) },
                    Query { ties: true, radius: Some(half), ..nearest(50) },
                    Query { ties: true, allowed: Some(&few), ..nearest(2) },
                    Query { ties: true, allowed: Some(&many), ..nearest(9) },
                    Query { ties: true, ..nearest(0) },
                    Query { ties: true, ..nearest(n + 5) },
                ],
            );
        }
    }
}

#[test]
fn large_enough_to_be_hashed_and_split() {
    for (bits, centres, noise) in
        [(64, 40, 0.1), (64, 1, 0.5), (128, 30, 0.1), (16, 9, 0.3)]
    {
        let database = codes(bits, 20_000, centres, noise, 7);
        let queries = codes(bits, 20, centres, noise, 8);
        let odd = ItemSet::of(database.len(), |item| item % 2 == 1);
        let ask = [
            Query::nearest(10),
            Query::nearest(100),
            Query::within(4),
            Query { allowed: Some(&odd), ..Query::nearest(10) },
            Query { ties: true, ..Query::nearest(100) },
        ];
        agree(&database, &queries, &ask);
        let one = queries.select(&[3]);
        agree(&database, &one, &ask);
    }
}

/// The bound of many hits is estimated from a sample. Where it is too low, because the sample contains items that
/// are rare elsewhere, the scan is repeated.
#[test]
fn many_hits_of_a_large_database() {
    let queries = codes(64, 5, 1, 0.5, 8);
    let random = codes(64, 70_000, 1, 0.5, 7);
    // the first code of 300 of the 512 runs of the sample is the first query, and no other code is
    let mut near: Vec<usize> = (0..70_000).map(|item| item % 64 + 1).collect();
    (0..300).for_each(|run| near[run * (70_000 - 32) / 512] = 0);
    let mut rows = queries.select(&[0]);
    rows.append(&codes(64, 64, 1, 0.5, 9)).unwrap();
    for database in [random, rows.select(&near)] {
        let scan = Scan::new(database.clone()).unwrap();
        for query in [
            Query::nearest(300),
            Query { ties: true, ..Query::nearest(300) },
            Query::nearest(900),
            Query { radius: Some(24), ..Query::nearest(900) },
            Query { skip: 200, ..Query::nearest(800) },
        ] {
            let found = scan.search(&queries, &query, &|_| ()).unwrap();
            for (q, hits) in found.iter().enumerate() {
                assert_eq!(hits, &plain(&database, &queries, q, &query), "{query:?}");
            }
        }
    }
}

#[test]
fn every_kernel_scans_alike() {
    let database = codes(130, 5000, 5, 0.2, 1);
    let queries = codes(130, 9, 5, 0.2, 2);
    for kernel in Kernel::available() {
        let scan = Scan::with_kernel(database.clone(), kernel).unwrap();
        let found = scan.search(&queries, &Query::nearest(20), &|_| ()).unwrap();
        for (q, hits) in found.iter().enumerate() {
            let truth = plain(&database, &queries, q, &Query::nearest(20));
            assert_eq!(hits, &truth, "{}", kernel.name());
        }
    }
}

#[test]
fn pages_join_without_gap_or_overlap() {
    let database = codes(32, 500, 4, 0.02, 5);
    let queries = codes(32, 3, 4, 0.02, 6);
    for kind in INDEXES {
        let index = (kind.build)(database.clone(), &|_| ()).unwrap();
        let whole = index.search(&queries, &Query::nearest(500), &|_| ()).unwrap();
        for (q, whole) in whole.iter().enumerate() {
            let one = queries.select(&[q]);
            let pages = (0..500).step_by(7).flat_map(|skip| {
                let query = Query { skip, ..Query::nearest(7) };
                index.search(&one, &query, &|_| ()).unwrap().remove(0)
            });
            assert!(pages.eq(whole.iter().copied()), "{}", kind.name);
        }
    }
}

#[test]
fn empty_indexes_and_misfits() {
    let (empty, queries) = (codes(24, 0, 1, 0.5, 1), codes(24, 2, 1, 0.5, 2));
    agree(&empty, &queries, &[Query::nearest(3), Query::within(24)]);
    agree(&queries, &empty, &[Query::nearest(3)]);
    for kind in INDEXES {
        let index = (kind.build)(codes(24, 9, 1, 0.5, 1), &|_| ()).unwrap();
        let other = codes(25, 1, 1, 0.5, 1);
        let err = index.search(&other, &Query::nearest(1), &|_| ()).unwrap_err();
        assert_eq!(
            err.to_string(),
            "the index has 24 bits a code, the query has 25; encode both by one model"
        );
        let wrong = ItemSet::none(8);
        let query = Query { allowed: Some(&wrong), ..Query::nearest(1) };
        assert!(index.search(&queries, &query, &|_| ()).is_err());
    }
    let err = build("hnsw", empty, &|_| ()).err().unwrap();
    assert_eq!(
        err.to_string(),
        "no index named \"hnsw\"; try one of: scan, mih-lean, mih, cluster-lists, tree, tree-compact, mih-distinct, mih-distinct-compact, auto"
    );
}
