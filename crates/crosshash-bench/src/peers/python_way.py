"""The stages of `crosshash-bench python` with the usual tools: the training step of JCCH in PyTorch (dense bags of
the 4,096 most frequent words), FAISS IndexBinaryFlat, and the MAP loop of many papers in NumPy. Arguments as
for python_package.py. Prints one JSON object."""
import collections, json, re, resource, sys, time
import faiss
import numpy as np
import torch

folder = sys.argv[1]
epochs, bits, hidden, queries, k = map(int, sys.argv[2:7])
torch.manual_seed(0)
WORDS, BATCH, RATE = 4096, 128, 0.1
LAMBDA, MU = 0.002, 0.1


def clock(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


image = np.load(folder + "/image.npy")
texts = open(folder + "/texts.txt", encoding="utf-8").read().splitlines()
labels = np.load(folder + "/labels.npy")


def bags():
    words = [re.findall(r"\w+", text.lower()) for text in texts]
    counts = collections.Counter(word for text in words[queries:] for word in set(text))
    column = {word: at for at, (word, _) in enumerate(counts.most_common(WORDS))}
    out = np.zeros((len(texts), len(column)), dtype=np.float32)
    for row, text in enumerate(words):
        for word in text:
            if word in column:
                out[row, column[word]] = 1
    return out / np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)


def tower(width):
    return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, bits))


def fit():
    text = bags()
    scaled = (image - image[queries:].mean(0)) / (image[queries:].std(0) + 1e-6)
    x = [torch.from_numpy(np.ascontiguousarray(v, dtype=np.float32)) for v in (scaled, text)]
    towers = [tower(v.shape[1]) for v in x]
    centres = torch.nn.Parameter(torch.randn(labels.shape[1], bits) * 0.5)
    y = torch.from_numpy(labels.astype(np.float32))
    q = y / y.sum(1, keepdim=True).clamp_min(1)
    parameters = [p for one in towers for p in one.parameters()] + [centres]
    sgd = torch.optim.SGD(parameters, lr=RATE, momentum=0.9, weight_decay=1e-4, fused=True)
    for _ in range(epochs):
        for rows in (torch.randperm(len(y) - queries) + queries).split(BATCH):
            loss = 0.0
            for one, values in zip(towers, x):
                f = one(values[rows])
                d2 = (f * f).sum(1, keepdim=True) + (centres * centres).sum(1) - 2 * f @ centres.T
                d = d2.clamp_min(1e-12).sqrt()
                loss = loss - (torch.log_softmax(-d, 1) * q[rows]).sum(1).mean()
                loss = loss + LAMBDA * (d * y[rows]).sum(1).mean() + MU * (f.abs() - 1).pow(2).mean()
            sgd.zero_grad()
            loss.backward()
            sgd.step()
    return towers, x


(towers, x), fit_seconds = clock(fit)


def encode():
    found = []
    with torch.no_grad():
        for one, values in zip(towers, x):
            outputs = torch.cat([one(block) for block in values.split(4096)]).numpy()
            found.append(np.packbits(outputs >= 0, axis=1, bitorder="little"))
    return found


(image_codes, text_codes), encode_seconds = clock(encode)
index = faiss.IndexBinaryFlat(bits)
index.add(np.ascontiguousarray(image_codes[queries:]))
_, search_seconds = clock(lambda: index.search(np.ascontiguousarray(text_codes[:queries]), k))


def mean_average_precision():
    database = np.unpackbits(image_codes[queries:], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    asked = np.unpackbits(text_codes[:queries], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    total = 0.0
    for row in range(queries):
        relevant = labels[queries:] @ labels[row] > 0
        order = np.argsort((bits - database @ asked[row]) / 2, kind="stable")
        ranks = np.flatnonzero(relevant[order]) + 1
        if len(ranks):
            total += np.mean(np.arange(1, len(ranks) + 1) / ranks)
    return total / queries


found, evaluate_seconds = clock(mean_average_precision)
print(json.dumps({
    "who": f"PyTorch {torch.__version__}, FAISS, NumPy", "fit": fit_seconds, "encode": encode_seconds,
    "search": search_seconds, "evaluate": evaluate_seconds, "map": float(found),
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
