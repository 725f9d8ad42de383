# The peer of `crosshash-bench coefficients`: Algorithm 1 of the JCCH paper in NumPy, line by line,
# with all items as anchors. The only liberty: q_is = sum_t Q_i[s, t] is taken at once, so that the
# n matrices of C x C are never kept.
#
#   python3 peer_coefficients.py labels.npy OUT   (labels: n x C of 0/1, no empty rows)
import json
import sys
import time

import numpy as np

Y = np.load(sys.argv[1]).astype(np.float64)
started = time.perf_counter()
n, C = Y.shape
size = Y.sum(1, keepdims=True)
Yn = Y / size
S = (Y.astype(np.float32) @ Y.T.astype(np.float32)) > 0
q = np.zeros((n, C))
u = np.zeros((n, C))
for i in range(n):
    p, m = np.flatnonzero(S[i]), np.flatnonzero(~S[i])
    L = Y[i] * Y[p]
    L /= L.sum(1, keepdims=True)
    q[i] = L.sum(0) * Yn[m].sum()
for i in range(n):
    p, m = np.flatnonzero(S[i]), np.flatnonzero(~S[i])
    L = Y[i] * Y[p]
    L /= L.sum(1, keepdims=True)
    u[p] += len(m) * L
    u[m] += len(p) * Yn[m]
M = q.sum() / size.sum()
q /= M
u /= M
seconds = time.perf_counter() - started
np.save(sys.argv[2] + "/q.npy", q)
np.save(sys.argv[2] + "/u.npy", u)
print(json.dumps({"seconds": seconds, "numpy": np.__version__}))
