"""The stages of `crosshash-bench python` with the package crosshash. Arguments: the task and the part as JSON.
Prints one JSON object."""
import json, sys, time
import numpy as np
import crosshash

task, part = json.loads(sys.argv[1]), json.loads(sys.argv[2])
folder, queries, items, width = task["folder"], task["queries"], task["items"], task["width"]


def memory(field):
    """MiB; as Rust is measured: ru_maxrss would begin with the peak of the process that started this one."""
    return next(float(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith(field))


def clock(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def train():
    image = np.load(folder + "/image.npy", mmap_mode="r")
    texts = open(folder + "/texts.txt", encoding="utf-8").read().splitlines()
    labels = np.load(folder + "/labels.npy")
    weights = {name: task[name] for name in ("lambda", "mu", "alpha", "beta")}
    hasher = crosshash.CrossModalHasher(
        task["bits"], "jcch-b", epochs=task["epochs"], batch_size=task["batch"], hidden=task["hidden"],
        hidden_sparse=task["hidden"], learning_rate=task["rate"], validation=0.0, settings={"jcch": weights},
    )
    split = {"query": (0, queries), "train": (queries, queries + task["train"])}
    _, fit = clock(
        lambda: hasher.fit({"image": image, "text": texts}, labels=labels, split=split, progress=False)
    )
    (image_codes, text_codes), encode = clock(
        lambda: (hasher.encode("image", image, progress=False), hasher.encode("text", texts, progress=False))
    )
    index = crosshash.Index(task["bits"], kind="scan")
    index.add(image_codes[queries:])
    found, search = clock(lambda: index.search(text_codes[:queries], k=task["k"]))
    assert len(found) == queries
    report, evaluate = clock(
        lambda: crosshash.evaluate(
            text_codes[:queries], image_codes[queries:], labels[:queries], labels[queries:], bits=task["bits"],
            layout="packed", progress=False,
        )
    )
    return {
        "fit": fit, "encode": encode, "search": search, "evaluate": evaluate, "map": report.map.stable,
        "peak_mib": memory("VmHWM"),
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


def rows(count):
    out = np.empty((count, width), dtype=np.float32)
    columns = np.arange(width) % 2
    out[0::2] = columns == 0
    out[1::2] = columns == 1
    return out


def large():
    model = crosshash.CrossModalHasher(64, "pca-sign").fit(rows(400), np.arange(400) % 2, progress=False)
    many = rows(items)
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # the present memory becomes the peak
    before = memory("VmRSS")
    found, encode = clock(lambda: model.encode("x", many, progress=False))
    extra = memory("VmHWM") - before
    assert len(found) == items
    size = many.nbytes / 2**20
    del many, found
    index = crosshash.Index(64, kind="scan")
    index.add(codes(0, items))
    asked = [codes((1 << 40) + batch * 1000, 1000) for batch in range(task["batches"])]
    passes = [clock(lambda: [len(index.search(batch, k=10)) for batch in asked]) for _ in range(task["passes"])]
    assert all(results == [1000] * len(asked) for results, _ in passes)
    return {"search": min(seconds for _, seconds in passes), "encode": encode, "rows_mib": size, "extra_mib": extra}


measured = train() if part == "train" else large()
print(json.dumps({"who": f"Python {sys.version_info.major}.{sys.version_info.minor}, package", **measured}))
