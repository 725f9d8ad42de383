"""One epoch of DCMH in PyTorch eager, written plainly for this benchmark after the formulas of
Jiang and Li (CVPR 2017): two towers, buffers F and G, the pairwise likelihood of a batch against
the whole buffer, quantisation and balance, SGD. Arguments: folder, epochs, batch, bits, hidden of
image, hidden of text, rate, threads. Prints one JSON object."""
import json, sys, time
import numpy as np
import torch

folder = sys.argv[1]
epochs, batch, bits, hidden_image, hidden_text = map(int, sys.argv[2:7])
rate, threads = float(sys.argv[7]), int(sys.argv[8])
torch.set_num_threads(threads)
torch.manual_seed(1)

image = torch.from_numpy(np.load(folder + "/image.npy"))
text = torch.from_numpy(np.load(folder + "/text.npy").astype(np.float32))
labels = torch.from_numpy(np.load(folder + "/labels.npy").astype(np.float32))
n = len(labels)


def tower(width, hidden):
    heads = torch.nn.Linear(hidden, bits)
    torch.nn.init.normal_(heads.weight, std=0.01)
    torch.nn.init.zeros_(heads.bias)
    return torch.nn.Sequential(torch.nn.Linear(width, hidden), torch.nn.ReLU(), heads)


inputs = [image, text]
towers = [tower(image.shape[1], hidden_image), tower(text.shape[1], hidden_text)]
sgds = [torch.optim.SGD(t.parameters(), lr=rate, momentum=0.9, weight_decay=1e-4, fused=True)
        for t in towers]
with torch.no_grad():
    buffers = [torch.cat([t(x) for x in xs.split(1000)]) for t, xs in zip(towers, inputs)]
codes = torch.where(buffers[0] + buffers[1] >= 0, 1.0, -1.0)
ETA = 0.001  # as ours; with 1 the old buffer makes steps overshoot


def step(m):
    rows = torch.randperm(n)[:batch]
    f = towers[m](inputs[m][rows])
    buffers[m][rows] = f.detach()
    theta = 0.5 * f @ buffers[1 - m].T
    similar = (labels[rows] @ labels.T > 0).float()
    pairs = (torch.nn.functional.softplus(theta) - similar * theta).sum()
    quantisation = (codes[rows] - f).pow(2).sum()
    # the balance of the whole buffer, whose gradient reaches the rows of the batch
    balance = (buffers[m].sum(0) + f.sum(0) - f.detach().sum(0)).pow(2).sum()
    loss = (pairs + quantisation + ETA * balance) / (len(rows) * n)
    sgds[m].zero_grad(set_to_none=True)
    loss.backward()
    sgds[m].step()
    return loss.item()


seconds, cpus, losses = [], [], []
for epoch in range(epochs):
    begun, cpu = time.perf_counter(), time.process_time()
    steps = -(-n // batch)
    losses.append(float(np.mean([step(m) for m in (0, 1) for _ in range(steps)])))
    codes = torch.where(buffers[0] + buffers[1] >= 0, 1.0, -1.0)
    seconds.append(time.perf_counter() - begun)
    cpus.append(time.process_time() - cpu)
# as ours is measured; ru_maxrss would begin with the peak of the process that started this one
peak = next(float(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))
print(json.dumps({
    "seconds": seconds,
    "cpu_seconds": cpus,
    "losses": losses,
    "peak_mib": peak,
    "who": "PyTorch " + torch.__version__ + ", eager, fused SGD",
}))
