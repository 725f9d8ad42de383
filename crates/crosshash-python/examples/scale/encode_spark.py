"""Encodes Parquet files of any size into Parquet files of codes, with Spark.

Spark reads the files, splits them over its workers and writes the results; `crosshash.arrow_encoder` encodes the
Arrow batches in between. Every Python worker loads the model once. Needs pyspark 4, pyarrow and Java 17, and the
package crosshash in the Python of every worker.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

EXAMPLES = """\
examples:
  All cores of this machine:
    python encode_spark.py run raw/ codes/ --modality text --column caption --id sku

  A cluster for a trial, two workers with one core and 1 GB each:
    python encode_spark.py run raw/ codes/ --modality text --column caption --id sku \\
        --master 'local-cluster[2,1,1024]'

  A cluster; the run is a folder that every worker can read:
    python encode_spark.py /shared/run s3a://bucket/raw s3a://bucket/codes --modality image \\
        --column embedding --id sku --master spark://master:7077 --conf spark.executor.memory=4g

The output has the columns `id` and `code` (bytes, lowest bit first) and is read by `crosshash store push codes/
URL`. With --sort, the items are ordered by id over all files, so that item numbers do not depend on how Spark
split the work. The Python of the workers is that of this script, unless PYSPARK_PYTHON is set. Exit code 2 for
bad arguments.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description="Encode Parquet files into Parquet files of codes, with Spark.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("run", help="folder of a run (crosshash train), at the same path on every worker")
    made.add_argument("input", help="a Parquet file, a folder of them, or an address that Spark can read")
    made.add_argument("output", help="folder of the codes; must not exist")
    made.add_argument("--modality", required=True, metavar="NAME", help="modality of the items")
    made.add_argument("--column", required=True, metavar="NAME", help="column of the items: texts, or lists of numbers")
    made.add_argument("--id", default="id", metavar="NAME", help="column of the ids [default: id]")
    made.add_argument("--master", default="local[*]", metavar="URL", help="the cluster [default: local[*]]")
    made.add_argument("--batch", type=int, default=10_000, metavar="ROWS", help="rows per Arrow batch [default: 10000]")
    made.add_argument("--sort", action="store_true", help="order all items by id (a shuffle of ids and codes)")
    made.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark; can be repeated"
    )
    return made


def session(args: argparse.Namespace) -> Any:
    """Connects to the cluster."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("crosshash encode").master(args.master)
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", args.batch)
    # Spark runs one task per core: a task that used all cores would compete with the others.
    builder = builder.config("spark.executorEnv.RAYON_NUM_THREADS", "1")
    for setting in args.conf:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--conf {setting}: KEY=VALUE is needed")
        builder = builder.config(key, value)
    return builder.getOrCreate()


class Encoder:
    """Codes as binary of variable length, which is the type of the schema below."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in self.encoder(batches):
            columns = [batch.column("id"), batch.column("code").cast(pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "code"])


def encode(spark: Any, args: argparse.Namespace) -> None:
    """Reads, encodes, writes."""
    import crosshash
    from pyspark.sql import functions

    frame = spark.read.parquet(args.input)
    for option, name in (("--id", args.id), ("--column", args.column)):
        if name not in frame.columns:
            raise ValueError(f"{option}: no column named {name!r} in {args.input}; there are: {', '.join(frame.columns)}")
    items = frame.select(functions.col(args.id).alias("id"), functions.col(args.column).alias("item"))
    kind = items.schema["id"].dataType.simpleString()
    encoder = crosshash.arrow_encoder(args.run, args.modality, column="item", keep=["id"])
    codes = items.mapInArrow(Encoder(encoder), f"id {kind}, code binary")
    if args.sort:
        codes = codes.orderBy("id")
    codes.write.option("compression", "zstd").parquet(args.output)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    # before Spark starts: workers get the variable from here
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if args.master.startswith("local["):
        os.environ.setdefault("RAYON_NUM_THREADS", "1")  # the workers are children of this process
    try:
        from pyspark.errors import AnalysisException
    except ImportError as err:
        print(f"error: {err}; pip install 'pyspark>=4,<5' pyarrow", file=sys.stderr)
        return 2
    if not os.path.isdir(args.run):
        print(f"error: {args.run} is not the folder of a run: it does not exist", file=sys.stderr)
        return 2
    try:
        spark = session(args)
    except ValueError as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    started = time.monotonic()
    try:
        encode(spark, args)
        rows = spark.read.parquet(args.output).count()
    except (AnalysisException, ValueError) as err:  # no input, no such column, the output exists
        print(f"error: {err}", file=sys.stderr)
        return 2
    finally:
        spark.stop()
    seconds = time.monotonic() - started
    print(f"{rows} codes in {args.output}: {seconds:.1f} s, {rows / seconds:.0f} rows/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
