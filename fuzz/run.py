"""Builds or runs fuzz targets:

  python3 fuzz/run.py --build codes index filter pictures readers seeds
  python3 fuzz/run.py --minutes 15 codes index filter pictures readers

--build compiles with the flags of cargo-fuzz, which is not needed; the stable compiler accepts them with
RUSTC_BOOTSTRAP=1. A run ends when the target has used some minutes of CPU time, and prints a row of figures. CPU
time instead of wall time makes figures of a busy machine comparable. Exits with 1 if a target found something;
its input is in fuzz/artifacts."""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MACHINE = "x86_64-unknown-linux-gnu"
BUILT = HERE / "target" / MACHINE / "release"
FEATURES = {"pictures": "pictures", "readers": "readers"}
COVERAGE = [
    "level=4", "inline-8bit-counters", "pc-table", "trace-compares", "stack-depth",
]
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of a process that has not been waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def build(targets):
    """Compiles targets with AddressSanitizer and counters of edges, with the dependencies of the program."""
    if not (HERE / "Cargo.lock").exists():
        shutil.copy(HERE.parent / "Cargo.lock", HERE)
    flags = ["-Cpasses=sancov-module", *(f"-Cllvm-args=-sanitizer-coverage-{part}" for part in COVERAGE)]
    flags += ["--cfg=fuzzing", "-Zsanitizer=address", "-Ccodegen-units=1"]
    settings = {**os.environ, "RUSTFLAGS": " ".join(flags), "RUSTC_BOOTSTRAP": "1"}
    # Those without decoders and readers are ready in a fraction of the time.
    small = [target for target in targets if target not in FEATURES]
    large = [target for target in targets if target in FEATURES]
    for some in filter(None, [small, large]):
        command = ["cargo", "build", "--release", "--target", MACHINE]
        command += [word for target in some for word in ("--bin", target)]
        features = ",".join(FEATURES[target] for target in some if target in FEATURES)
        command += ["--features", features] if features else []
        if subprocess.run(command, cwd=HERE, env=settings).returncode != 0:
            return False
    return True


def replayed(target, slow):
    """CPU time of an input that took long, perhaps because the process was paused."""
    command = ["nice", "-n", "12", BUILT / target, slow]
    again = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(again.pid, 0)
    return used.ru_utime + used.ru_stime


def run(target, seconds):
    corpus, artifacts = HERE / "corpus" / target, HERE / "artifacts" / target
    artifacts.mkdir(parents=True, exist_ok=True)
    # The timeout is wall time, of which a busy machine takes much; inputs of ten seconds and more are run again.
    options = ["-timeout=600", "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    log = HERE / "artifacts" / f"{target}.log"
    begin, used, interrupted, loads = time.time(), 0, False, []
    with log.open("w") as out:
        fuzzer = subprocess.Popen(["nice", "-n", "12", BUILT / target, *options, corpus], stdout=out, stderr=out)
        while fuzzer.poll() is None:
            used = cpu_seconds(fuzzer.pid)
            loads.append(os.getloadavg()[0])
            if used >= seconds and not interrupted:
                fuzzer.send_signal(signal.SIGINT)
                interrupted = True
            time.sleep(1)
    text = log.read_text(errors="replace")
    last = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)", text)[-1]
    runs, rss = (re.search(rf"stat::{name}:\s+(\d+)", text)[1] for name in ["number_of_executed_units", "peak_rss_mb"])
    slowest = max(map(lambda slow: replayed(target, slow), artifacts.glob("slow-unit-*")), default=0)
    found = "" if interrupted else (re.findall(r"SUMMARY: (.*)", text) or [f"exit code {fuzzer.returncode}"])[-1]
    wall = time.time() - begin
    print(
        f"{target}: {runs} runs in {used:.0f} s of CPU time ({int(runs) / used:.0f} a second), {wall:.0f} s in total, "
        f"mean load {sum(loads) / len(loads):.1f}; edges {last[0]}, features {last[1]}, corpus {last[2]} files of {last[3]}, "
        f"peak memory {rss} MB, slowest input {slowest:.1f} s of CPU time; {found or 'nothing found'}",
        flush=True,
    )
    return not found


arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("targets", nargs="+", metavar="TARGET")
arguments.add_argument("--build", action="store_true", help="compile the targets")
arguments.add_argument("--minutes", type=float, default=15, help="CPU time of each run")
given = arguments.parse_args()
if given.build:
    sys.exit(0 if build(given.targets) else 1)
sys.exit(0 if all([run(target, 60 * given.minutes) for target in given.targets]) else 1)
