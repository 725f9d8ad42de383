"""Writes DoodleNet as ONNX, with outputs `features` (512) and `logits` (345), from the TensorFlow.js
files of ml5 (model.json and its shards).

    git clone --depth 1 https://github.com/ml5js/ml5-data-and-models
    pip install numpy onnx
    python doodlenet.py ml5-data-and-models/models/doodlenet doodlenet.onnx
"""

import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder, out = pathlib.Path(sys.argv[1]), sys.argv[2]
arrays = []
for group in json.loads((folder / "model.json").read_text())["weightsManifest"]:
    data = b"".join((folder / shard).read_bytes() for shard in group["paths"])
    at = 0
    for weight in group["weights"]:
        assert weight["dtype"] == "float32", weight
        count = int(np.prod(weight["shape"]))
        arrays.append(np.frombuffer(data, "<f4", count, at).reshape(weight["shape"]))
        at += 4 * count
kernels = [a for a in arrays if a.ndim == 4]
dense = [a for a in arrays if a.ndim == 2]
biases = [a for a in arrays if a.ndim == 1]
assert [k.shape[3] for k in kernels] == [16, 16, 32, 32, 64, 64], "not DoodleNet"
assert [d.shape for d in dense] == [(576, 512), (512, 345)], "not DoodleNet"

nodes, kept, last = [], [], "input"


def keep(name, array):
    kept.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
    return name


def node(kind, *inputs, **attributes):
    global last
    name = f"{kind.lower()}_{len(nodes)}"
    nodes.append(helper.make_node(kind, [last, *inputs], [name], **attributes))
    last = name


for k, kernel in enumerate(kernels):
    weight = keep(f"conv{k}.weight", kernel.transpose(3, 2, 0, 1))
    node("Conv", weight, keep(f"conv{k}.bias", biases[k]), pads=[1, 1, 1, 1])
    node("Relu")
    if k % 2 == 1:
        node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
node("Flatten")
# TensorFlow flattens rows x columns x channels, ONNX channels x rows x columns
first = dense[0].reshape(3, 3, 64, 512).transpose(2, 0, 1, 3).reshape(576, 512)
node("Gemm", keep("dense0.weight", first), keep("dense0.bias", biases[6]))
node("Tanh")
nodes.append(helper.make_node("Identity", [last], ["features"]))
node("Gemm", keep("dense1.weight", dense[1]), keep("dense1.bias", biases[7]))
nodes.append(helper.make_node("Identity", [last], ["logits"]))
info = helper.make_tensor_value_info
graph = helper.make_graph(
    nodes,
    "doodlenet",
    [info("input", TensorProto.FLOAT, ["N", 1, 28, 28])],
    [info("features", TensorProto.FLOAT, ["N", 512]), info("logits", TensorProto.FLOAT, ["N", 345])],
    kept,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
model.ir_version = 8
onnx.checker.check_model(model)
onnx.save(model, out)
