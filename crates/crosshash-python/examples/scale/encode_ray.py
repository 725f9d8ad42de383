"""Encodes Parquet files of any size into Parquet files of codes, with Ray.

Ray Data reads the files, streams their blocks through actors on all nodes and writes the results;
`crosshash.arrow_encoder` encodes the Arrow tables in between. Every actor loads the model once. Needs ray[data] 2
and pyarrow, and the package crosshash in the Python of every node.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

EXAMPLES = """\
examples:
  This machine:
    python encode_ray.py run raw/ codes/ --modality text --column caption --id sku

  A cluster for a trial, two nodes on this machine with two CPUs each:
    python encode_ray.py run raw/ codes/ --modality text --column caption --id sku --trial-nodes 2

  A cluster; the run is a folder that every node can read:
    python encode_ray.py /shared/run s3://bucket/raw s3://bucket/codes --modality image \\
        --column embedding --id sku --address auto --workers 64

The output has the columns `id` and `code` (bytes, lowest bit first) and is read by `crosshash store push codes/
URL`. With --sort, the items are ordered by id over all files, so that item numbers do not depend on how Ray
split the work. Exit code 2 for bad arguments.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description="Encode Parquet files into Parquet files of codes, with Ray.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("run", help="folder of a run (crosshash train), at the same path on every node")
    made.add_argument("input", help="a Parquet file, a folder of them, or an address that Ray can read")
    made.add_argument("output", help="folder of the codes; must not exist, or be empty")
    made.add_argument("--modality", required=True, metavar="NAME", help="modality of the items")
    made.add_argument("--column", required=True, metavar="NAME", help="column of the items: texts, or lists of numbers")
    made.add_argument("--id", default="id", metavar="NAME", help="column of the ids [default: id]")
    cluster = made.add_mutually_exclusive_group()
    cluster.add_argument("--address", metavar="ADDRESS", help="the cluster; auto: the one of this node [default: none]")
    cluster.add_argument("--trial-nodes", type=int, metavar="N", help="start N nodes with two CPUs each on this machine")
    made.add_argument("--workers", type=int, metavar="N", help="most actors at a time, one CPU each [default: all CPUs]")
    made.add_argument("--batch", type=int, default=10_000, metavar="ROWS", help="rows per batch [default: 10000]")
    made.add_argument("--sort", action="store_true", help="order all items by id (a shuffle of ids and codes)")
    return made


class Encoder:
    """One actor: loads the model with its first batch."""

    def __init__(self, run: str, modality: str, column: str, id: str) -> None:
        import crosshash

        self.id = id
        self.encode = crosshash.arrow_encoder(run, modality, column=column, keep=[id])

    def __call__(self, table: Any) -> Any:
        (codes,) = self.encode([table])
        return codes.rename_columns(["id", "code"])


def encode(args: argparse.Namespace) -> int:
    """Reads, encodes, writes; returns the number of rows."""
    import ray

    data = ray.data.read_parquet(args.input)
    names = data.schema().names
    for option, name in (("--id", args.id), ("--column", args.column)):
        if name not in names:
            raise ValueError(f"{option}: no column named {name!r} in {args.input}; there are: {', '.join(names)}")
    # blocks are written in the order in which they were read
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    most = args.workers or max(1, int(ray.cluster_resources()["CPU"]) - 1)  # one CPU reads and writes
    codes = data.select_columns([args.id, args.column]).map_batches(
        Encoder,
        fn_constructor_args=(os.path.abspath(args.run), args.modality, args.column, args.id),
        batch_format="pyarrow",
        batch_size=args.batch,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        num_cpus=1,
        # an actor has one CPU: one that used all cores would compete with the others
        runtime_env={"env_vars": {"RAYON_NUM_THREADS": "1"}},
    )
    if args.sort:
        codes = codes.sort("id")
    codes.write_parquet(args.output, compression="zstd")
    return int(ray.data.read_parquet(args.output).count())


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        import ray
        import ray.data
    except ImportError as err:
        print(f"error: {err}; pip install 'ray[data]>=2,<3' pyarrow", file=sys.stderr)
        return 2
    for problem, is_there in (
        (f"{args.run} is not the folder of a run: it does not exist", not os.path.isdir(args.run)),
        (f"{args.output} is not empty", os.path.isdir(args.output) and bool(os.listdir(args.output))),
        (f"{args.input} does not exist", "://" not in args.input and not os.path.exists(args.input)),
    ):
        if is_there:
            print(f"error: {problem}", file=sys.stderr)
            return 2
    cluster = None
    if args.trial_nodes:
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
        for _ in range(args.trial_nodes - 1):
            cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
    ray.init(address=cluster.address if cluster else args.address, log_to_driver=False)
    started = time.monotonic()
    try:
        nodes = sum(node["Alive"] for node in ray.nodes())
        rows = encode(args)
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    finally:
        ray.shutdown()
        if cluster:
            cluster.shutdown()
    seconds = time.monotonic() - started
    print(f"{rows} codes in {args.output}: {seconds:.1f} s, {rows / seconds:.0f} rows/s, {nodes} nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
