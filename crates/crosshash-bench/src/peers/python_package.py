"""The stages of `crosshash-bench python` with the package crosshash. Arguments: folder, epochs, bits, hidden
units, queries, k, items, batches, width. Prints one JSON object."""
import json, resource, sys, time
import numpy as np
import crosshash

folder = sys.argv[1]
epochs, bits, hidden, queries, k, items, batches, width = map(int, sys.argv[2:10])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clock(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


image = np.load(folder + "/image.npy", mmap_mode="r")
texts = open(folder + "/texts.txt", encoding="utf-8").read().splitlines()
labels = np.load(folder + "/labels.npy")
data = crosshash.Dataset({"image": image, "text": texts}, labels, split={"query": (0, queries)})
hasher = crosshash.CrossModalHasher(
    bits, "jcch", epochs=epochs, hidden=hidden, hidden_sparse=hidden, validation=0.05
)
_, fit = clock(lambda: hasher.fit(data, progress=False))
(image_codes, text_codes), encode = clock(
    lambda: (hasher.encode("image", image, progress=False), hasher.encode("text", texts, progress=False))
)
index = crosshash.Index(bits, kind="scan")
index.add(image_codes[queries:])
_, search = clock(lambda: index.search(text_codes[:queries], k=k))
report, evaluate = clock(
    lambda: crosshash.evaluate(
        text_codes[:queries], image_codes[queries:], labels[:queries], labels[queries:], bits=bits,
        layout="packed", progress=False,
    )
)
result = {
    "who": "Python package", "fit": fit, "encode": encode, "search": search, "evaluate": evaluate,
    "map": report.map.stable, "peak_mib": peak(),
}


def mixed(at):
    """The sequence of the Rust program."""
    with np.errstate(over="ignore"):
        x = at * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def codes(start, count):
    return mixed(np.arange(start, start + count, dtype=np.uint64)).view(np.uint8).reshape(-1, 8)


index = crosshash.Index(64, kind="scan")
index.add(codes(0, items))
asked = [codes((1 << 40) + batch * 1000, 1000) for batch in range(batches)]
_, result["large_search"] = clock(lambda: [index.search(batch, k=10) for batch in asked])


def rows(count):
    out = np.empty((count, width), dtype=np.float32)
    columns = np.arange(width) % 2
    out[0::2] = columns == 0
    out[1::2] = columns == 1
    return out


model = crosshash.CrossModalHasher(64, "pca").fit(rows(400), np.arange(400) % 2, progress=False)
many = rows(items)
before = peak()
_, result["large_encode"] = clock(lambda: model.encode("x", many, progress=False))
result["encode_extra_mib"] = peak() - before
result["encode_rows_mib"] = many.nbytes / 2**20
print(json.dumps(result))
