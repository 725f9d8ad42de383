"""Runs built fuzz targets, each until it has used some minutes of CPU time, and prints a row of figures for
each: python3 fuzz/run.py [--minutes 15] TARGET... CPU time instead of wall time makes figures of a busy machine
comparable. Exits with 1 if a target found something; its input is in fuzz/artifacts."""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE / "target/x86_64-unknown-linux-gnu/release"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of a process that has not been waited for."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run(target, seconds):
    corpus, artifacts = HERE / "corpus" / target, HERE / "artifacts" / target
    artifacts.mkdir(parents=True, exist_ok=True)
    options = ["-timeout=60", "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={artifacts}/"]
    log = HERE / "artifacts" / f"{target}.log"
    begin, used, interrupted = time.time(), 0, False
    with log.open("w") as out:
        fuzzer = subprocess.Popen(["nice", "-n", "10", BUILT / target, *options, corpus], stdout=out, stderr=out)
        while fuzzer.poll() is None:
            used = cpu_seconds(fuzzer.pid)
            if used >= seconds and not interrupted:
                fuzzer.send_signal(signal.SIGINT)
                interrupted = True
            time.sleep(1)
    text = log.read_text(errors="replace")
    last = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/(\S+)", text)[-1]
    runs, rss = (re.search(rf"stat::{name}:\s+(\d+)", text)[1] for name in ["number_of_executed_units", "peak_rss_mb"])
    slowest = re.search(r"stat::slowest_unit_time_sec:\s+(\d+)", text)[1]
    found = "" if interrupted else (re.findall(r"SUMMARY: (.*)", text) or [f"exit code {fuzzer.returncode}"])[-1]
    wall = time.time() - begin
    print(
        f"{target}: {runs} runs in {used:.0f} s of CPU time ({int(runs) / used:.0f} a second), {wall:.0f} s in total, "
        f"load {os.getloadavg()[0]:.1f}; edges {last[0]}, features {last[1]}, corpus {last[2]} files of {last[3]}, "
        f"peak memory {rss} MB, slowest input {slowest} s; {found or 'nothing found'}",
        flush=True,
    )
    return not found


arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("targets", nargs="+", metavar="TARGET")
arguments.add_argument("--minutes", type=float, default=15)
given = arguments.parse_args()
sys.exit(0 if all([run(target, 60 * given.minutes) for target in given.targets]) else 1)
