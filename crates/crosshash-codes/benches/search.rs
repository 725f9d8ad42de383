//! Queries a second of every index on fixed data, by bits and size, one thread:
//! `cargo bench -p crosshash-codes --bench search [large] [INDEX/DATA/BITS]`. The comparison with
//! FAISS is `cargo run --release -p crosshash-bench -- search`.

use std::time::Instant;

use crosshash_codes::index::{INDEXES, Query};
use crosshash_codes::{Bits, Codes};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Chance of a flipped bit: with a thousand items a cluster the tenth neighbour is at distance 3,
/// as the median is in 64-bit JCCH codes of IAPR TC-12 pictures.
const FLIPS: f64 = 0.08;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    let large = std::env::args().any(|arg| arg == "large");
    let sizes: &[usize] = if large { &[1_000_000, 10_000_000] } else { &[1_000_000] };
    for &n in sizes {
        for bits in [64, 128] {
            for clustered in [false, true] {
                let (database, queries) = problem(bits, n, clustered);
                pool.install(|| measure(&database, &queries, clustered));
            }
        }
    }
}

fn measure(database: &Codes, queries: &Codes, clustered: bool) {
    let words = if clustered { "clustered" } else { "random" };
    for kind in INDEXES {
        let case = format!("{}/{words}/{}", kind.name, database.bits());
        if std::env::args().skip(1).any(|arg| arg.contains('/') && !case.starts_with(&arg))
        {
            continue;
        }
        let start = Instant::now();
        let index = (kind.build)(database.clone().shared(), &|_| ()).expect("an index");
        let built = start.elapsed().as_secs_f64();
        for (batch, k) in [(1, 10), (1, 100), (100, 10), (100, 100), (1000, 10)] {
            let first: Vec<usize> = (0..batch).collect();
            let queries = queries.select(&first);
            let rounds = 10;
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let start = now();
                let hits = index.search(&queries, &Query::nearest(k), &|_| ());
                std::hint::black_box(hits.expect("hits"));
                best = best.min(now() - start);
            }
            #[expect(clippy::print_stdout, reason = "a benchmark reports")]
            {
                println!(
                    "{case}/{}/{batch}/{k} {:.1} us a query, built in {built:.2} s",
                    database.len(),
                    best * 1e6 / batch as f64
                );
            }
        }
        #[expect(clippy::print_stdout, reason = "a benchmark reports")]
        {
            println!("  {}", index.explain());
        }
    }
}

/// CPU seconds of this process, so that other work beside it counts little.
fn now() -> f64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_secs_f64()
    }
}

fn problem(bits: usize, n: usize, clustered: bool) -> (Codes, Codes) {
    let bits = Bits::new(bits).expect("bits");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let width = bits.words();
    let centres: Vec<u64> = (0..n / 1000 * width).map(|_| rng.random()).collect();
    let mut make = |n: usize| {
        let mut words = Vec::with_capacity(n * width);
        for _ in 0..n {
            let centre = rng.random_range(0..centres.len() / width);
            for w in 0..width {
                let mut word: u64 =
                    if clustered { centres[centre * width + w] } else { rng.random() };
                if clustered {
                    (0..64)
                        .for_each(|bit| word ^= u64::from(rng.random_bool(FLIPS)) << bit);
                }
                words.push(word);
            }
        }
        Codes::from_words(bits, words).expect("codes").shared()
    };
    (make(n), make(1000))
}
