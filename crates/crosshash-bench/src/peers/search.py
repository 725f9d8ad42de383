"""FAISS or USearch beside our indexes, on the same codes. Peers: flat, ivf, hnsw, multihash (FAISS
IndexBinaryFlat, IVF, HNSW, MultiHash) and usearch-exact, usearch-hnsw. Settings and the true k-th
distances come from ask.json in the folder argv[1]; prints a JSON list of rows. CPU time by the process
clock, the best of some rounds, as on our side. Approximate peers run with the cheapest setting that
reaches a recall of 0.95, by distance."""
import json, sys, time
import numpy as np

folder = sys.argv[1]
ask = json.load(open(folder + "/ask.json"))
database, queries = np.load(folder + "/d.npy", mmap_mode="r"), np.load(folder + "/q.npy")
database = np.ascontiguousarray(database)
n, bits = database.shape[0], database.shape[1] * 8
SETTINGS = {
    "ivf": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    "hnsw": [16, 32, 64, 128, 256, 512, 1024, 2048],
    "multihash": [0, 1, 2, 3],
    "usearch-hnsw": [16, 32, 64, 128, 256, 512, 1024, 2048],
}
EXACT = ("flat", "usearch-exact")


def recall(found, truth):
    """The share of hits that are no farther than the true k-th; missing hits are none."""
    found = np.asarray(found)
    limit = np.array(truth)[: len(found), None]
    return float(((found <= limit) & (found >= 0)).mean())


class Faiss:
    def __init__(self, name):
        import faiss

        self.faiss, self.name = faiss, name
        faiss.omp_set_num_threads(max(ask["threads"]))
        start = time.perf_counter()
        if name == "flat":
            index = faiss.IndexBinaryFlat(bits)
        elif name == "ivf":
            lists = next(count for most, count in ((2e6, 1024), (2e7, 4096), (1e18, 16384)) if n <= most)
            lists = ask.get("lists") or lists
            self.quantizer = faiss.IndexBinaryFlat(bits)
            index = faiss.IndexBinaryIVF(self.quantizer, bits, lists)
            rows = np.random.default_rng(1).permutation(n)[: 40 * lists]
            index.train(database[np.sort(rows)])
        elif name == "multihash":
            width = 16 if n <= 2_000_000 else 20
            index = faiss.IndexBinaryMultiHash(bits, bits // width, width)
        else:
            index = faiss.IndexBinaryHNSW(bits, 16)
            index.hnsw.efConstruction = 40
        index.add(database)
        self.index, self.seconds = index, time.perf_counter() - start
        try:
            self.bytes = faiss.serialize_index_binary(index).nbytes / n
        except RuntimeError:
            self.bytes = float("nan")

    def set(self, value):
        if self.name == "ivf":
            self.index.nprobe = value
            return f"{self.index.nlist} lists, nprobe {value}"
        if self.name == "multihash":
            self.index.nflip = value
            return f"nflip {value}"
        self.index.hnsw.efSearch = value
        return f"efSearch {value}"

    def threads(self, count):
        self.faiss.omp_set_num_threads(count)

    def search(self, codes, k):
        return self.index.search(codes, k)[0]


class USearch:
    def __init__(self, name):
        from usearch.index import Index

        self.exact, self.count = name == "usearch-exact", 1
        start = time.perf_counter()
        self.index = Index(ndim=bits, metric="hamming", dtype="b1")
        self.index.add(np.arange(n), database, threads=max(ask["threads"]))
        self.seconds = time.perf_counter() - start
        self.bytes = self.index.memory_usage / n

    def set(self, value):
        self.index.expansion_search = value
        return f"expansion {value}"

    def threads(self, count):
        self.count = count

    def search(self, codes, k):
        found = self.index.search(codes, k, exact=self.exact, threads=self.count)
        distances = np.asarray(found.distances)
        return distances.reshape(len(codes), -1) if distances.ndim == 1 else distances


def tune(peer, name, k, truth):
    """The cheapest setting with a recall of 0.95, or the best there is."""
    note = ""
    for value in SETTINGS.get(name, []):
        if name.endswith("hnsw"):
            value = max(value, k)
        note = peer.set(value)
        if recall(peer.search(queries[:200], k), truth) >= 0.95:
            break
    return note


rows = []
for name in ask["peers"]:
    print(f"{name}: building", file=sys.stderr)
    peer = (USearch if name.startswith("usearch") else Faiss)(name)
    slow = name in EXACT
    for threads in ask["threads"]:
        peer.threads(threads)
        for k, truth in zip(ask["k"], ask["truth"]):
            note = tune(peer, name, k, truth)
            for batch in ask["batch"]:
                singles = 1 if batch > 1 else (100 if n < 5_000_000 or not slow else 10)
                if name == "usearch-exact":
                    singles = min(singles, 10)
                cpu = wall = float("inf")
                begun, rounds = time.perf_counter(), 0
                while rounds < 1 or time.perf_counter() - begun < 1.0:
                    w, c = time.perf_counter(), time.process_time()
                    for i in range(singles):
                        found = peer.search(queries[i * batch : (i + 1) * batch], k)
                    cpu = min(cpu, (time.process_time() - c) / singles / batch)
                    wall = min(wall, (time.perf_counter() - w) / singles / batch)
                    rounds += 1
                checked = peer.search(queries[:200], k) if not slow else found
                rows.append(
                    {
                        "index": name if name.startswith("usearch") else "faiss " + name,
                        "threads": threads,
                        "batch": batch,
                        "k": k,
                        "queries_per_second": 1 / wall,
                        "cpu_us": cpu * 1e6,
                        "recall": recall(checked, truth) if not slow else 1.0,
                        "build_seconds": peer.seconds,
                        "bytes_per_item": peer.bytes,
                        "note": note,
                    }
                )
    del peer
print(json.dumps(rows))
