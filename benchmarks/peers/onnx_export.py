"""The models as ONNX files."""

import copy
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from . import torch_models
from .sizes import HEADS, Sizes

# The newest set of operators that the exporter writes which needs no other package.
OPSET = 20


@dataclass(frozen=True)
class OnnxFile:
    """Its input is x, its output y."""

    path: Path
    answer: tuple[int, ...]  # the shape of y


class _Attention(torch.autograd.Function):
    """ONNX Runtime's own operator. In PyTorch it only has the right shape."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        return x.clone()

    @staticmethod
    def symbolic(g, x, weight, bias):
        y = g.op("com.microsoft::Attention", x, weight, bias, num_heads_i=HEADS)
        y.setType(x.type())
        return y


class _FusedAttention(torch.nn.Module):
    """Stands in the place of an nn.MultiheadAttention of x with itself."""

    def __init__(self, attention: torch.nn.MultiheadAttention):
        super().__init__()
        self.weight = torch.nn.Parameter(attention.in_proj_weight.t().contiguous())
        self.bias, self.out = attention.in_proj_bias, attention.out_proj

    def forward(self, x, *_, **__):
        return (self.out(_Attention.apply(x, self.weight, self.bias)),)


def _with_fused_attention(model: torch.nn.Module) -> torch.nn.Module:
    model = copy.deepcopy(model)
    for layer in model.layers:
        layer.attention = _FusedAttention(layer.attention)
    return model


def write(model: torch.nn.Module, form: str, x: torch.Tensor, path: Path) -> OnnxFile:
    if form == "fused attention":
        model = _with_fused_attention(model)
    with torch.no_grad():
        answer = tuple(model(x).shape)
    with warnings.catch_warnings():
        # PyTorch names another exporter, which needs another package, and sizes that are fixed.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (x,),
            path,
            input_names=["x"],
            output_names=["y"],
            opset_version=OPSET,
            custom_opsets={"com.microsoft": 1} if form == "fused attention" else None,
            dynamo=False,
        )
    return OnnxFile(path, answer)


def forms_of(of: Sizes) -> Iterable[str]:
    return ("as exported", "fused attention") if of.model == "transformer" else ("as exported",)


def export(of: Sizes, weights: dict, form: str, x, folder: Path) -> OnnxFile:
    """Writes the model for questions of x's shape."""
    model = torch_models.answering(torch_models.with_weights(of, weights), of)
    return write(model, form, torch.from_numpy(x), folder / f"{form.replace(' ', '_')}.onnx")
