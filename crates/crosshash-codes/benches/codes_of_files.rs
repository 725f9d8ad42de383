//! CPU time per query of indexes on codes of files, one thread, each index compared with a scan:
//! `cargo bench -p crosshash-codes --bench codes_of_files -- DATABASE.npy QUERIES.npy BITS K INDEX..`.
//! Single queries go one by one through all of them, batches are all queries at once; the best and the median of
//! the rounds are printed.

use std::path::Path;

use crosshash_codes::index::{Query, build};
use crosshash_codes::{BitOrder, Bits, Codes, read};

/// How often all queries are asked.
const ROUNDS: usize = 9;

fn main() {
    let args: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let [database, queries, bits, k, names @ ..] = &args[..] else {
        return;
    };
    let bits = Bits::new(bits.parse().expect("bits")).expect("bits");
    let query = Query::nearest(k.parse().expect("k"));
    let open = |path: &str| {
        let layout = read::Layout::Auto;
        let order = Some(BitOrder::Lsb);
        let options = read::CodeOptions { bits: Some(bits), layout, order };
        read::codes(Path::new(path), &options).expect("codes").shared()
    };
    let (database, queries) = (open(database), open(queries));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    pool.install(|| measure(&database, &queries, &query, names));
}

#[expect(clippy::print_stdout, reason = "a benchmark reports")]
fn measure(database: &Codes, queries: &Codes, query: &Query<'_>, names: &[String]) {
    let n = queries.len();
    let singles: Vec<Codes> = (0..n).map(|q| queries.select(&[q])).collect();
    let scan = build("scan", database.clone(), &|_| ()).expect("an index");
    let truth = scan.search(queries, query, &|_| ()).expect("hits");
    for name in names {
        let start = now();
        let index = build(name, database.clone(), &|_| ()).expect("an index");
        let built = now() - start;
        let (mut one, mut all) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = now();
            for (single, truth) in singles.iter().zip(&truth) {
                let hits = index.search(single, query, &|_| ()).expect("hits");
                assert_eq!(&hits[0], truth, "{name}");
            }
            one.push((now() - start) * 1e6 / n as f64);
            let start = now();
            let hits = index.search(queries, query, &|_| ()).expect("hits");
            all.push((now() - start) * 1e6 / n as f64);
            assert_eq!(hits, truth, "{name}");
        }
        // the best of the rounds of each query, sorted
        let time = |single: &Codes| {
            let rounds = (0..ROUNDS).map(|_| {
                let start = now();
                std::hint::black_box(index.search(single, query, &|_| ()).expect("hits"));
                (now() - start) * 1e6
            });
            rounds.fold(f64::INFINITY, f64::min)
        };
        let mut each: Vec<f64> = singles.iter().map(time).collect();
        each.sort_by(f64::total_cmp);
        one.sort_by(f64::total_cmp);
        all.sort_by(f64::total_cmp);
        println!(
            "{name}: one {:.2} us (median {:.2}; p50 {:.1}, p90 {:.1}, p99 {:.1}), batch {:.2} us (median {:.2}), \
             {:.1} bytes per item, built in {built:.2} s\n  {}",
            one[0],
            one[ROUNDS / 2],
            each[n / 2],
            each[n * 9 / 10],
            each[n * 99 / 100],
            all[0],
            all[ROUNDS / 2],
            (index.extra_bytes() + database.words().len() * 8) as f64
                / database.len() as f64,
            index.explain()
        );
    }
}

/// CPU seconds of this process.
fn now() -> f64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
    }
}
