"""The stages of `crosshash-bench python` with the usual tools: JCCH-B in PyTorch (the step of `train.py`), FAISS
IndexBinaryFlat, and the MAP loop of many papers in NumPy. Arguments as for python_package.py. Prints one JSON
object."""
import json, os, sys, time
import faiss
import numpy as np
import torch

task = json.loads(sys.argv[1])
folder, queries, train, bits, hidden = (task[name] for name in ("folder", "queries", "train", "bits", "hidden"))
threads = int(os.environ["OMP_NUM_THREADS"])
torch.set_num_threads(threads)
faiss.omp_set_num_threads(threads)
torch.manual_seed(0)


def clock(work):
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


image = np.load(folder + "/image.npy")
texts = open(folder + "/texts.txt", encoding="utf-8").read().splitlines()
labels = np.load(folder + "/labels.npy")
classes = labels.shape[1]
trained = slice(queries, queries + train)


def bags():
    """Dense bags of the words of the training texts, one byte each."""
    words = [set(text.split()) for text in texts]
    column = {word: at for at, word in enumerate(sorted(set().union(*words[trained])))}
    out = np.zeros((len(texts), len(column)), dtype=np.uint8)
    for row, found in enumerate(words):
        out[row, [column[word] for word in found if word in column]] = 1
    return out


class Tower(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = torch.nn.Linear(width, hidden)
        self.heads = torch.nn.Linear(hidden, bits + classes)
        torch.nn.init.normal_(self.heads.weight, std=0.01)
        torch.nn.init.zeros_(self.heads.bias)

    def forward(self, x):
        out = self.heads(torch.relu(self.hidden(x.float())))
        return out[:, :bits], out[:, bits:]


def quantisation(f):
    f = f.abs()
    return (1 - f.mean(1) / (f**3).mean(1).clamp_min(1e-12) ** (1 / 3)).mean()


def fit():
    scaled = (image - image[trained].mean(0)) / (image[trained].std(0) + 1e-6)
    x = [torch.from_numpy(scaled), torch.from_numpy(bags())]
    y = torch.from_numpy(labels[trained].astype(np.float32))
    q = shares = y / y.sum(1, keepdim=True).clamp_min(1)
    towers = [Tower(values.shape[1]) for values in x]
    centres = torch.nn.Parameter(torch.randn(classes, bits) * 0.5)
    parameters = [p for one in towers for p in one.parameters()] + [centres]
    sgd = torch.optim.SGD(parameters, lr=task["rate"], momentum=0.9, weight_decay=1e-4, fused=True)
    steps = max(1, round(train / task["batch"]))
    for epoch in range(task["epochs"]):
        done = 100 * epoch / task["epochs"]
        for group in sgd.param_groups:
            group["lr"] = task["rate"] * (0.01 if done >= 85 else 0.1 if done >= 60 else 1)
        for rows in torch.randperm(train).tensor_split(steps):
            loss, codes = 0.0, []
            for tower, values in zip(towers, x):
                f, z = tower(values[queries + rows])
                codes.append(f)
                d2 = (f * f).sum(1, keepdim=True) + (centres * centres).sum(1) - 2 * f @ centres.T
                d = d2.clamp_min(1e-12).sqrt()
                loss = loss - (torch.log_softmax(-d, 1) * q[rows]).sum(1).mean()
                loss = loss + task["lambda"] * (d * y[rows]).sum(1).mean()
                loss = loss - task["mu"] * (torch.log_softmax(z, 1) * shares[rows]).sum(1).mean()
                loss = loss + task["alpha"] * quantisation(f)
            loss = loss + task["beta"] * (1 - torch.cosine_similarity(codes[0], codes[1])).mean()
            sgd.zero_grad(set_to_none=True)
            loss.backward()
            sgd.step()
    return towers, x


(towers, x), fit_seconds = clock(fit)


def encode():
    found = []
    with torch.no_grad():
        for tower, values in zip(towers, x):
            outputs = torch.cat([tower(block)[0] for block in values.split(4096)]).numpy()
            found.append(np.packbits(outputs >= 0, axis=1, bitorder="little"))
    return found


(image_codes, text_codes), encode_seconds = clock(encode)
asked, database = np.ascontiguousarray(text_codes[:queries]), np.ascontiguousarray(image_codes[queries:])


def search():
    index = faiss.IndexBinaryFlat(bits)
    index.add(database)
    return index.search(asked, task["k"])


_, search_seconds = clock(search)


def mean_average_precision():
    signs = [np.unpackbits(codes, axis=1, bitorder="little").astype(np.float32) * 2 - 1 for codes in (asked, database)]
    wanted = [part.astype(np.float32) for part in (labels[:queries], labels[queries:])]
    total = 0.0
    for row in range(queries):
        relevant = wanted[1] @ wanted[0][row] > 0
        order = np.argsort(0.5 * (bits - signs[1] @ signs[0][row]), kind="stable")
        ranks = np.flatnonzero(relevant[order]) + 1
        if len(ranks):
            total += np.mean(np.arange(1, len(ranks) + 1) / ranks)
    return total / queries


found, evaluate_seconds = clock(mean_average_precision)
# as ours is measured; ru_maxrss would begin with the peak of the process that started this one
peak = next(float(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
print(json.dumps({
    "who": f"PyTorch {torch.__version__}, FAISS, NumPy", "fit": fit_seconds, "encode": encode_seconds,
    "search": search_seconds, "evaluate": evaluate_seconds, "map": float(found), "peak_mib": peak,
}))
