"""The models in PyTorch, with its default initialisation."""

from collections import OrderedDict

import torch
from torch import nn

from .sizes import Sizes


def named(**layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(layers))


def block(inputs: int, outputs: int) -> nn.Sequential:
    return named(linear=nn.Linear(inputs, outputs), gelu=nn.GELU(), norm=nn.LayerNorm(outputs))


class Residual(nn.Module):
    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


class Loop(nn.Module):
    """The same weights several times."""

    def __init__(self, body: nn.Module, times: int):
        super().__init__()
        self.body = body
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = self.body(x)
        return x


class Gate(nn.Module):
    """Every expert runs; a softmax router weighs them, row by row."""

    def __init__(self, width: int, experts: int):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(block(width, width) for _ in range(experts))

    def forward(self, x):
        weights = torch.softmax(self.router(x), -1)
        results = torch.stack([expert(x) for expert in self.experts], 1)
        return (weights.unsqueeze(-1) * results).sum(1)


def mlp(s: Sizes) -> nn.Module:
    widths = [s.width, s.hidden, s.hidden, s.hidden]
    return named(
        blocks=nn.Sequential(*[block(width, s.hidden) for width in widths]),
        out=nn.Linear(s.hidden, s.width),
    )


def residual_tower(s: Sizes) -> nn.Module:
    return named(
        into=nn.Linear(s.width, s.width),
        tower=nn.Sequential(*[Residual(block(s.width, s.width)) for _ in range(12)]),
        out=nn.Linear(s.width, s.width),
    )


def gated_routing(s: Sizes) -> nn.Module:
    return named(
        into=named(linear=nn.Linear(s.width, s.width), gelu=nn.GELU()),
        gate=Gate(s.width, 8),
        out=nn.Linear(s.width, s.width),
    )


def refining(s: Sizes, times: int) -> nn.Module:
    return named(
        into=block(s.width, s.width),
        loop=Loop(Residual(block(s.width, s.width)), times),
        out=nn.Linear(s.width, s.width),
    )


MODELS = {
    "mlp": mlp,
    "residual_tower": residual_tower,
    "gated_routing": gated_routing,
    "iterative_refine": lambda s: refining(s, 8),
    "feedback_fixed": lambda s: refining(s, 10),
}


class WithLoss(nn.Module):
    """x and target to the loss: what a step differentiates."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x, target):
        return nn.functional.mse_loss(self.model(x), target)


def make(s: Sizes) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[s.model](s)
    found = sum(parameter.numel() for parameter in model.parameters())
    if found != s.parameters:
        raise ValueError(f"{s.model} has {found} parameters at {s.scale} scale, not {s.parameters}")
    return model
