"""FAISS beside our indexes: IndexBinaryFlat, IndexBinaryIVF, IndexBinaryHNSW on the same codes.
Settings and the true k-th distances come from ask.json in the folder argv[1]; prints a JSON list
of rows. CPU time by the process clock, the best of some rounds, as on our side."""
import json, sys, time
import faiss
import numpy as np

folder = sys.argv[1]
ask = json.load(open(folder + "/ask.json"))
database, queries = np.load(folder + "/d.npy"), np.load(folder + "/q.npy")
n, bits = database.shape[0], database.shape[1] * 8


def recall(found, truth):
    """The share of hits that are no farther than the true k-th."""
    return float((found <= np.array(truth)[: len(found), None]).mean())


def build(name):
    start = time.perf_counter()
    if name == "flat":
        index = faiss.IndexBinaryFlat(bits)
    elif name == "ivf":
        lists = 4096 if n <= 2_000_000 else 16384
        quantizer = faiss.IndexBinaryFlat(bits)
        index = faiss.IndexBinaryIVF(quantizer, bits, lists)
        index.keep = quantizer
        rows = np.random.default_rng(1).permutation(n)[: 40 * lists]
        index.train(database[np.sort(rows)])
    else:
        index = faiss.IndexBinaryHNSW(bits, 16)
        index.hnsw.efConstruction = 40
    index.add(database)
    return index, time.perf_counter() - start


def tune(name, index, k, truth):
    """The cheapest setting with a recall of 0.95, or the best there is."""
    if name == "flat":
        return ""
    for value in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        if name == "ivf":
            index.nprobe, note = value, f"nprobe {value}"
        else:
            index.hnsw.efSearch, note = max(value * 4, k), f"efSearch {max(value * 4, k)}"
        if recall(index.search(queries[:200], k)[0], truth) >= 0.95:
            break
    return note


rows = []
for name in ask["peers"]:
    faiss.omp_set_num_threads(max(ask["threads"]))
    print(f"FAISS {name}: building", file=sys.stderr)
    index, seconds = build(name)
    size = faiss.serialize_index_binary(index).nbytes / n
    for threads in ask["threads"]:
        faiss.omp_set_num_threads(threads)
        for k, truth in zip(ask["k"], ask["truth"]):
            note = tune(name, index, k, truth)
            for batch in ask["batch"]:
                singles = 100 if batch == 1 and n < 5_000_000 else (10 if batch == 1 else 1)
                cpu = wall = float("inf")
                begun, rounds = time.perf_counter(), 0
                while rounds < 1 or time.perf_counter() - begun < 1.0:
                    w, c = time.perf_counter(), time.process_time()
                    for i in range(singles):
                        found = index.search(queries[i * batch : (i + 1) * batch], k)[0]
                    cpu = min(cpu, (time.process_time() - c) / singles / batch)
                    wall = min(wall, (time.perf_counter() - w) / singles / batch)
                    rounds += 1
                checked = index.search(queries[: max(batch, 100)], k)[0] if name != "flat" else found
                rows.append(
                    {
                        "index": "faiss " + name,
                        "threads": threads,
                        "batch": batch,
                        "k": k,
                        "queries_per_second": 1 / wall,
                        "cpu_us": cpu * 1e6,
                        "recall": recall(checked, truth) if name != "flat" else 1.0,
                        "build_seconds": seconds,
                        "bytes_per_item": size,
                        "note": note,
                    }
                )
    del index
print(json.dumps(rows))
