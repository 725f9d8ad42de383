"""The evaluation the field's papers use, in NumPy: distance by a matrix product, relevance
by a matrix product of the labels, a full argsort per query, MAP over the whole ranking, then
precision of the first N and precision-recall by Hamming radius. Written for this benchmark
after the public code of DCMH, AGAH, DADH, DCHMT; prints one JSON object."""
import json, sys, time
import numpy as np

query, database, query_labels, database_labels = (np.load(p) for p in sys.argv[1:5])
n_threads = sys.argv[5]
query = query.astype(np.float32)
database = database.astype(np.float32)
query_labels = query_labels.astype(np.float32)
database_labels = database_labels.astype(np.float32)

start = time.perf_counter()
cpu = time.process_time()
n_query, bits = query.shape
n_items = database.shape[0]
total_ap = 0.0
top = min(1000, n_items)
top_n = np.zeros(top)
precision = np.zeros(bits + 1)
recall = np.zeros(bits + 1)
ranks = np.arange(1, top + 1)
for q in range(n_query):
    relevant = (query_labels[q] @ database_labels.T > 0).astype(np.float32)
    distance = 0.5 * (bits - query[q] @ database.T)
    order = np.argsort(distance)
    ranked = relevant[order]
    n_relevant = int(relevant.sum())
    top_n += np.cumsum(ranked[:top]) / ranks
    if n_relevant == 0:
        continue
    count = np.linspace(1, n_relevant, n_relevant)
    places = np.asarray(np.where(ranked == 1)) + 1.0
    total_ap += np.mean(count / places)
    for radius in range(bits + 1):
        inside = distance <= radius
        n_inside = inside.sum()
        hits = (relevant * inside).sum()
        if n_inside:
            precision[radius] += hits / n_inside
        recall[radius] += hits / n_relevant
    if q % 200 == 199:
        done = time.perf_counter() - start
        print(f"numpy: {q + 1} of {n_query} queries in {done:.0f} s", file=sys.stderr, flush=True)
seconds = time.perf_counter() - start
# as ours is measured; ru_maxrss would begin with the peak of the process that started this one
peak = next(float(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
print(json.dumps({
    "seconds": seconds,
    "cpu_seconds": time.process_time() - cpu,
    "map": total_ap / n_query,
    "top": top_n[-1] / n_query,
    "precision_at_2": precision[min(2, bits)] / n_query,
    "peak_mib": peak,
    "version": "NumPy " + np.__version__ + ", " + n_threads + " threads",
}))
