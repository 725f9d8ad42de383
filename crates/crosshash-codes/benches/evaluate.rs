//! Throughput of the kernels and of the whole evaluation, on fixed data, by code length:
//! `cargo bench -p crosshash-codes`. The comparison with NumPy is `cargo run --release -p crosshash-bench -- eval`.

use std::time::Instant;

use crosshash_codes::eval::{Options, evaluate};
use crosshash_codes::kernel::Kernel;
use crosshash_codes::{Bits, Codes, Labels};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const N_ITEMS: usize = 190_000;
const N_QUERIES: usize = 400;
const N_LABELS: usize = 21;
const ROUNDS: usize = 5;

fn main() {
    for bits in [64, 128, 256] {
        let (query, query_labels) = problem(bits, N_QUERIES, 1);
        let (database, database_labels) = problem(bits, N_ITEMS, 2);
        for kernel in Kernel::available() {
            let mut out = vec![0; N_ITEMS];
            let seconds = best(|| {
                for code in query.iter() {
                    kernel.distances(code, database.words(), &mut out);
                }
            });
            report(&format!("distances/{}/{bits}", kernel.name()), seconds);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
        let options = Options::default();
        let seconds = best(|| {
            let run = || {
                evaluate(
                    &query,
                    &database,
                    &query_labels,
                    &database_labels,
                    &options,
                    &|_| {},
                )
            };
            pool.install(run).expect("a report");
        });
        report(&format!("evaluate/one thread/{bits}"), seconds);
    }
}

/// Noisy copies of ten centres, one to four labels an item.
fn problem(bits: usize, n: usize, seed: u64) -> (Codes, Labels) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let centres: Vec<bool> = (0..10 * bits).map(|_| rng.random()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut bools = Vec::with_capacity(n * bits);
    let mut rows = Vec::with_capacity(n);
    for _ in 0..n {
        let centre: usize = rng.random_range(0..10);
        let row = &centres[centre * bits..][..bits];
        bools.extend(row.iter().map(|&bit| bit ^ rng.random_bool(0.15)));
        let n_labels = rng.random_range(1..5);
        let labels = u32::try_from(N_LABELS).expect("few labels");
        rows.push((0..n_labels).map(|_| rng.random_range(0..labels)).collect::<Vec<_>>());
    }
    let codes = Codes::from_bools(Bits::new(bits).expect("bits"), &bools).expect("rows");
    (codes, Labels::from_indices(N_LABELS, rows).expect("labels"))
}

fn best(mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| time(&mut run)).fold(f64::INFINITY, f64::min)
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn report(name: &str, seconds: f64) {
    let pairs = (N_QUERIES * N_ITEMS) as f64;
    println!(
        "{name:<32} {:>8.3} ns a pair {:>9.0} M pairs/s",
        1e9 * seconds / pairs,
        pairs / seconds / 1e6
    );
}
