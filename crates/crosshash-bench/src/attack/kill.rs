//! Rounds of kill -9 under mixed changes. The moment is one of four in turn, so that each of them occurs
//! often on machines of any speed: some changes after the start, a fold of the log or the compaction
//! that follows it, an exchange of the model, and `crosshash index compact`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use crosshash_codes::segments::is_index;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::crash::{Change, Changed, Items, check, runs};
use super::{Outcome, PeakMemory, copy};
use crate::serve::{Client, Server};
use crosshash_cli::progress::Progress;

/// How long a round waits for its moment.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);
/// The longest time between the first file of a fold and the kill, in microseconds.
const FOLD_MICROS: u64 = 80_000;

/// What is under way when a process is killed.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    Changes,
    Fold,
    Exchange,
    Compaction,
}

const MOMENTS: [Moment; 4] =
    [Moment::Changes, Moment::Fold, Moment::Exchange, Moment::Compaction];

/// What happened in all rounds.
#[derive(Default, Serialize)]
struct Counts {
    acknowledged: usize,
    inserted: usize,
    replaced: usize,
    deleted: usize,
    /// Rounds in which the server folded the log into a segment, and those of them in which it also
    /// compacted the index.
    rounds_with_a_fold: usize,
    rounds_with_a_compaction_by_the_server: usize,
    /// Kills that left files which the manifest does not name: in the middle of a fold or compaction.
    kills_within_a_fold: usize,
    exchanges_completed: usize,
    kills_within_an_exchange: usize,
    compactions_completed: usize,
    kills_within_a_compaction: usize,
    checks: usize,
    peak_mib: u64,
}

/// How long a step takes that was not interrupted; the longest so far.
#[derive(Default)]
struct Typical(Option<Duration>);

impl Typical {
    fn completed(&mut self, took: Duration) {
        self.0 = Some(self.0.unwrap_or_default().max(took));
    }

    /// A random moment of the step, or after its end. The first time it is not interrupted.
    fn moment(&self, rng: &mut ChaCha8Rng) -> Duration {
        let share = rng.random_range(0.0..1.1);
        self.0.map_or(PATIENCE, |typical| typical.mul_f64(share))
    }
}

/// Rounds of kill -9.
pub(super) fn kill(folder: &Path, rounds: usize, seed: u64) -> Result<Outcome> {
    let served = folder.join("killed");
    let models = runs(folder, &served)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut items, mut faults, mut version) = (Items::new(), Vec::new(), 0);
    let (mut reloads, mut compactions) = (Typical::default(), Typical::default());
    let mut counts = Counts::default();
    let mut open = None;
    let progress = Progress::new("kill -9, round", rounds);
    for round in 0..rounds {
        let moment = MOMENTS[round % MOMENTS.len()];
        let when = format!("round {round}");
        // Not 503 because this machine has other work.
        let mut server = Server::start_with(&served, &["--max-seconds", "120"])?;
        counts.checks += check(server.addr, &mut items, open.take(), &mut faults, &when)?;
        let address = server.addr;
        let before = Files::of(&index(&served)?)?;
        if moment == Moment::Exchange {
            exchange(&models[(round / MOMENTS.len() + 1) % 2], &served)?;
        }
        let acknowledged = AtomicUsize::new(0);
        let wanted = rng.random_range(1..12);
        let pause = Duration::from_micros(rng.random_range(0..10_000));
        let fold = Duration::from_micros(rng.random_range(0..FOLD_MICROS));
        let reload = reloads.moment(&mut rng);
        let (changed, reloaded) = std::thread::scope(|scope| -> Result<_> {
            let work = scope.spawn(|| {
                let mut changer = Changer { items: &mut items, version, rng: &mut rng };
                let changed = changer.run(address, moment, &acknowledged);
                version = changer.version;
                changed
            });
            let reloading =
                (moment == Moment::Exchange).then(|| scope.spawn(|| reload_model(address)));
            let reached = match moment {
                Moment::Changes | Moment::Compaction => {
                    let many = || Ok(acknowledged.load(Ordering::Relaxed) >= wanted);
                    let reached = wait(PATIENCE, many);
                    std::thread::sleep(pause);
                    reached
                }
                Moment::Fold => {
                    let folding = || Ok(Files::of(&before.folder)?.differ(&before));
                    let reached = wait(PATIENCE, folding);
                    std::thread::sleep(fold);
                    reached
                }
                Moment::Exchange => {
                    let ended = || {
                        Ok(reloading.as_ref().is_some_and(|thread| thread.is_finished()))
                    };
                    wait(reload, ended).map(|_| true)
                }
            };
            counts.peak_mib = counts.peak_mib.max(PeakMemory::now(&server));
            server.kill();
            let ended = |_| anyhow::anyhow!("a client panicked");
            let changed = work.join().map_err(ended)?;
            let reloaded =
                reloading.map(|thread| thread.join().map_err(ended)).transpose()?;
            if !reached? {
                bail!("{when}: it did not come to what was to be interrupted");
            }
            Ok((changed, reloaded.flatten()))
        })?;
        open = changed.open;
        faults.extend(changed.refused.map(|status| format!("{when}: status {status}")));
        counts.acknowledged += acknowledged.into_inner();
        counts.inserted += changed.changed.inserted;
        counts.replaced += changed.changed.replaced;
        counts.deleted += changed.changed.deleted;
        match (moment, reloaded) {
            (Moment::Exchange, Some((200, took))) => {
                counts.exchanges_completed += 1;
                reloads.completed(took);
            }
            (Moment::Exchange, Some((status, _))) => {
                faults.push(format!("{when}: exchange: status {status}"));
            }
            (Moment::Exchange, None) => counts.kills_within_an_exchange += 1,
            _ => {
                let after = Files::of(&before.folder)?;
                counts.rounds_with_a_fold +=
                    usize::from(after.manifest.log != before.manifest.log);
                counts.rounds_with_a_compaction_by_the_server +=
                    usize::from(after.manifest.first() != before.manifest.first());
                counts.kills_within_a_fold += usize::from(after.has_unnamed());
            }
        }
        if moment == Moment::Compaction {
            let limit = compactions.moment(&mut rng);
            match compact(&index(&served)?, limit)? {
                Some(took) => {
                    counts.compactions_completed += 1;
                    compactions.completed(took);
                }
                None => counts.kills_within_a_compaction += 1,
            }
        }
        progress.set(round + 1);
    }
    let server = Server::start(&served)?;
    counts.checks +=
        check(server.addr, &mut items, open.take(), &mut faults, "at the end")?;
    let mut figures = json!(counts);
    figures["rounds"] = rounds.into();
    figures["items"] = items.len().into();
    Ok(Outcome { figures, faults })
}

/// Changes items until the server is gone.
struct Changer<'a> {
    items: &'a mut Items,
    version: u64,
    rng: &'a mut ChaCha8Rng,
}

/// What a changer did.
#[derive(Default)]
struct Ended {
    changed: Changed,
    /// The change of which the end is unknown.
    open: Option<Change>,
    /// The status of a change that was refused, which ends the changes.
    refused: Option<u16>,
}

impl Changer<'_> {
    fn run(
        &mut self,
        address: SocketAddr,
        moment: Moment,
        acknowledged: &AtomicUsize,
    ) -> Ended {
        let mut client = Client::new(address);
        let mut ended = Ended::default();
        loop {
            self.version += 1;
            let change = match moment {
                // Mostly many items, so that the log is soon full.
                Moment::Fold if self.rng.random_bool(0.75) => {
                    Change::many(self.version, self.rng)
                }
                _ => Change::random(self.items, self.version, self.rng),
            };
            match change.send(&mut client) {
                Ok(reply) if reply.status < 300 => {
                    let changed = change.apply(self.items);
                    ended.changed.inserted += changed.inserted;
                    ended.changed.replaced += changed.replaced;
                    ended.changed.deleted += changed.deleted;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(reply) => return Ended { refused: Some(reply.status), ..ended },
                Err(_) => return Ended { open: Some(change), ..ended },
            }
        }
    }
}

/// Waits until something is so, for a limited time; returns whether it is.
fn wait(time: Duration, mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    let ends = Instant::now() + time;
    loop {
        if is_so()? {
            return Ok(true);
        }
        if Instant::now() >= ends {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets the server load the exchanged model: status and time, if it answered.
fn reload_model(address: SocketAddr) -> Option<(u16, Duration)> {
    let started = Instant::now();
    let reply =
        Client::new(address).request("POST", "/v1/models/killed/reload", "", &[]).ok()?;
    Some((reply.status, started.elapsed()))
}

/// Compacts an index by the program, which is killed after some time; how long it took if it was not.
fn compact(folder: &Path, limit: Duration) -> Result<Option<Duration>> {
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["program", "index", "compact"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if wait(limit, || Ok(child.try_wait()?.is_some()))? {
        let took = started.elapsed();
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "index compact {}: {status}", folder.display());
        return Ok(Some(took));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Copies a run over another one, the checksums last.
fn exchange(from: &Path, to: &Path) -> Result<()> {
    for entry in fs_err::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name == "codes" {
            copy(&path, &to.join("codes"))?;
        } else if path.is_file() && name != "checksums.json" {
            fs_err::copy(&path, to.join(name))?;
        }
    }
    fs_err::copy(from.join("checksums.json"), to.join("checksums.json"))?;
    Ok(())
}

/// The newest index of the pictures of a served run.
fn index(served: &Path) -> Result<PathBuf> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs_err::read_dir(served.join("serve").join("picture"))? {
        let folder = entry?.path();
        let is_built = folder.extension().is_none_or(|ending| ending != "new");
        if is_built && is_index(&folder) {
            let commit = Manifest::read(&folder)?.commit;
            if newest.as_ref().is_none_or(|(highest, _)| commit > *highest) {
                newest = Some((commit, folder));
            }
        }
    }
    Ok(newest.context("the server has no index of pictures")?.1)
}

/// What a manifest says about files.
#[derive(Deserialize)]
struct Manifest {
    commit: u64,
    log: u64,
    segments: Vec<Segment>,
}

#[derive(Deserialize)]
struct Segment {
    number: u64,
}

impl Manifest {
    fn read(folder: &Path) -> Result<Manifest> {
        let text = fs_err::read_to_string(folder.join("manifest"))?;
        Ok(serde_json::from_str(text.lines().next().unwrap_or(""))?)
    }

    /// The number of the first segment; a compaction changes it.
    fn first(&self) -> Option<u64> {
        self.segments.first().map(|segment| segment.number)
    }
}

/// The files of an index.
struct Files {
    folder: PathBuf,
    manifest: Manifest,
    names: BTreeSet<String>,
}

impl Files {
    fn of(folder: &Path) -> Result<Files> {
        let mut names = BTreeSet::new();
        for entry in fs_err::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let is_data =
                [".segment", ".log", ".tmp"].iter().any(|end| name.ends_with(end));
            if is_data {
                names.insert(name);
            }
        }
        let manifest = Manifest::read(folder)?;
        Ok(Files { folder: folder.to_owned(), manifest, names })
    }

    /// Whether files were added or removed.
    fn differ(&self, before: &Files) -> bool {
        self.names != before.names
    }

    /// Whether there are files that the manifest does not name.
    fn has_unnamed(&self) -> bool {
        let segments = self.manifest.segments.iter();
        let mut named: BTreeSet<String> =
            segments.map(|segment| format!("{:08}.segment", segment.number)).collect();
        named.insert(format!("{:08}.log", self.manifest.log));
        self.names != named
    }
}
