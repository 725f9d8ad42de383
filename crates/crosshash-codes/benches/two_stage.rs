//! Two-stage search over a million items of 64 bits with stored outputs, one thread:
//! `cargo bench -p crosshash-codes --bench two_stage`. Prints the times of single queries (p50,
//! p99), of batches, and bytes per item on disk.

use std::time::Instant;

use crosshash_codes::index::{Query, Rank};
use crosshash_codes::segments::{ItemBatch, NewIndex, Ranking, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Outputs};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const ITEMS: usize = 1_000_000;
const BITS: usize = 64;
const QUERIES: usize = 1000;
const CENTRES: usize = 1000;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    for (name, noise) in
        [("random", None), ("clustered", Some(0.7)), ("one code", Some(0.0))]
    {
        pool.install(|| measure(name, noise));
    }
}

/// Outputs around centres, or uniform ones; with noise 0, the items of a centre share a code.
fn outputs(
    rng: &mut ChaCha8Rng,
    centres: &[f32],
    noise: Option<f32>,
    rows: usize,
) -> Vec<f32> {
    let mut values = Vec::with_capacity(rows * BITS);
    for _ in 0..rows {
        let centre = rng.random_range(0..if noise == Some(0.0) { 10 } else { CENTRES });
        for k in 0..BITS {
            let uniform: f32 = rng.random_range(-1.0..1.0);
            values.push(match noise {
                None => uniform,
                Some(noise) => {
                    let sign = centres[centre * BITS + k].signum();
                    let own = sign * 0.5 + uniform * noise;
                    if noise == 0.0 { own * (1.0 + 0.3 * uniform) } else { own }
                }
            });
        }
    }
    values
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn measure(name: &str, noise: Option<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(15);
    let bits = Bits::new(BITS).expect("bits");
    let centres: Vec<f32> =
        (0..CENTRES * BITS).map(|_| rng.random_range(-1.0_f32..1.0)).collect();
    let dir = std::env::temp_dir().join(format!("two-stage-{}", std::process::id()));
    let new = NewIndex { bits, label_names: &[], outputs: true, after_commit: 0 };
    let mut writer = Writer::create_with(&dir, new).expect("an index");
    let values = outputs(&mut rng, &centres, noise, ITEMS);
    let batch = ItemBatch {
        outputs: Some(Outputs::from_reals(bits, &values).expect("outputs")),
        ..ItemBatch::new(Codes::from_signs(bits, &values).expect("codes"))
    };
    drop(values);
    writer.insert(batch).expect("inserted");
    writer.flush().expect("flushed");
    drop(writer);
    let snapshot = Snapshot::open(&dir).expect("opened");
    let start = Instant::now();
    snapshot.prepare("auto", &|_| ()).expect("prepared");
    let bytes = snapshot.info().bytes as f64 / ITEMS as f64;
    println!("{name}: {bytes:.2} bytes per item; prepared in {:.2} s", seconds(start));
    let reals = outputs(&mut rng, &centres, noise, QUERIES);
    let codes = Codes::from_signs(bits, &reals).expect("codes");
    for rank in Rank::ALL {
        for candidates in [200, 1000] {
            let search = |range: std::ops::Range<usize>| {
                let chosen: Vec<usize> = range.clone().collect();
                let own = &reals[range.start * BITS..range.end * BITS];
                let ranking = Ranking { rank, candidates };
                let found = snapshot.search_ranked(
                    &codes.select(&chosen),
                    own,
                    ranking,
                    &Query::nearest(24),
                    &|_| (),
                );
                std::hint::black_box(found.expect("hits"));
            };
            search(0..100); // verifies checksums, warms up
            let mut times: Vec<f64> = (0..QUERIES)
                .map(|nth| {
                    let start = Instant::now();
                    search(nth..nth + 1);
                    seconds(start)
                })
                .collect();
            times.sort_unstable_by(f64::total_cmp);
            let start = Instant::now();
            (0..QUERIES).step_by(100).for_each(|first| search(first..first + 100));
            println!(
                "{name}, {}, {candidates} candidates: p50 {:.0} us, p99 {:.0} us; in batches of \
                 100 {:.0} us per query",
                rank.name(),
                times[QUERIES / 2] * 1e6,
                times[QUERIES * 99 / 100] * 1e6,
                seconds(start) * 1e6 / QUERIES as f64
            );
        }
    }
    drop(snapshot);
    std::fs::remove_dir_all(&dir).expect("removed");
}

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}
