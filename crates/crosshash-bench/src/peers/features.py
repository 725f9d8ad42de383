"""Features by onnxruntime in Python: decoding by Pillow in threads, then the network alone.

arguments: zip, file of names, network, output, recipe (JSON), threads, batch
"""

import concurrent.futures
import io
import json
import resource
import sys
import time
import zipfile

import numpy as np
import onnxruntime
from PIL import Image

place, names, network, output, recipe, threads, batch = sys.argv[1:]
recipe, threads, batch = json.loads(recipe), int(threads), int(batch)
names = open(names, encoding="utf-8").read().splitlines()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
given = session.get_inputs()[0].name
filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "area": Image.BOX, "lanczos": Image.LANCZOS}
size, archive = recipe["size"], zipfile.ZipFile(place)
mean = np.array(recipe["mean"] or [0], dtype=np.float32)
std = np.array(recipe["std"] or [1], dtype=np.float32)


def prepare(data):
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    picture = picture.resize((size, size), filters[recipe["filter"]])
    values = (np.asarray(picture, dtype=np.float32) * np.float32(recipe["scale"]) - mean) / std
    return values.transpose(2, 0, 1)


def batches():
    for start in range(0, len(names), batch):
        yield [archive.read(name) for name in names[start : start + batch]]


def run(inputs):
    return session.run([output], {given: np.stack(inputs)})[0]


first = [prepare(data) for data in next(batches())]
run(first)  # warms up

# all of it: the next batch is decoded while the network works on this one
pool = concurrent.futures.ThreadPoolExecutor(threads)
started = time.perf_counter()
rows, waiting = [], None
for files in batches():
    coming = [pool.submit(prepare, data) for data in files]
    if waiting is not None:
        rows.append(run([one.result() for one in waiting]))
    waiting = coming
rows.append(run([one.result() for one in waiting]))
whole = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

# the network alone, on inputs that are there
started = time.perf_counter()
for start in range(0, len(names), batch):
    run(first[: min(batch, len(names) - start)])
alone = time.perf_counter() - started
rows = np.concatenate(rows)
json.dump(
    {
        "seconds": whole,
        "network_seconds": alone,
        "peak_mib": peak,
        "version": onnxruntime.__version__,
        "norms": np.linalg.norm(rows, axis=1).astype(float).tolist(),
        "first": rows[0].astype(float).tolist(),
    },
    sys.stdout,
)
