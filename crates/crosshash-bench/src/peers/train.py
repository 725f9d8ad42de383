"""The training step of JCCH in PyTorch eager with its fused SGD, written plainly for this
benchmark: two towers, unary loss with coefficients, classifier, quantisation and pair term.
Arguments: folder, epochs, batch, bits, hidden of image, hidden of text, rate, threads. Prints
one JSON object."""
import json, sys, time
import numpy as np
import torch

folder = sys.argv[1]
epochs, batch, bits, hidden_image, hidden_text = map(int, sys.argv[2:7])
rate, threads = float(sys.argv[7]), int(sys.argv[8])
torch.set_num_threads(threads)
torch.manual_seed(1)
LAMBDA, MU, ALPHA, BETA = 0.002, 0.1, 0.1, 0.1

image = np.load(folder + "/image.npy", mmap_mode="r")
text = np.load(folder + "/text.npy")
labels = torch.from_numpy(np.load(folder + "/labels.npy").astype(np.float32))
q = torch.from_numpy(np.load(folder + "/q.npy").astype(np.float32))
u = torch.from_numpy(np.load(folder + "/u.npy").astype(np.float32))
n, classes = labels.shape
shares = labels / labels.sum(1, keepdim=True)


class Tower(torch.nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.hidden = torch.nn.Linear(width, hidden)
        self.heads = torch.nn.Linear(hidden, bits + classes)
        torch.nn.init.normal_(self.heads.weight, std=0.01)
        torch.nn.init.zeros_(self.heads.bias)

    def forward(self, x):
        out = self.heads(torch.relu(self.hidden(x)))
        return out[:, :bits], out[:, bits:]


towers = [Tower(image.shape[1], hidden_image), Tower(text.shape[1], hidden_text)]
centres = torch.nn.Parameter(torch.randn(classes, bits) * 0.5)
parameters = [p for tower in towers for p in tower.parameters()] + [centres]
sgd = torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=1e-4, fused=True)


def quantisation(f):
    f = f.abs()
    return (1 - f.mean(1) / (f**3).mean(1).clamp_min(1e-12) ** (1 / 3)).mean()


def unary(f, rows):
    d2 = (f * f).sum(1, keepdim=True) + (centres * centres).sum(1) - 2 * f @ centres.T
    d = d2.clamp_min(1e-12).sqrt()
    classification = -(torch.log_softmax(-d, 1) * q[rows]).sum(1).mean()
    return classification + LAMBDA * (d * u[rows]).sum(1).mean()


def step(rows):
    xs = [image[rows.numpy()], text[rows.numpy()].astype(np.float32)]
    loss, codes = 0.0, []
    for tower, x in zip(towers, xs):
        f, z = tower(torch.from_numpy(np.ascontiguousarray(x)))
        codes.append(f)
        classifier = -(torch.log_softmax(z, 1) * shares[rows]).sum(1).mean()
        loss = loss + unary(f, rows) + MU * classifier + ALPHA * quantisation(f)
    loss = loss + BETA * (1 - torch.cosine_similarity(codes[0], codes[1])).mean()
    sgd.zero_grad(set_to_none=True)
    loss.backward()
    sgd.step()
    return loss.item()


seconds, cpus, losses = [], [], []
for epoch in range(epochs):
    order = torch.randperm(n)
    begun, cpu = time.perf_counter(), time.process_time()
    losses.append(float(np.mean([step(rows) for rows in order.split(batch)])))
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
