"""The models in PyTorch, with its default initialisation, and what their steps lower."""

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn

from .sizes import COLORS, HEADS, Sizes
from .torch_learners import LEARNERS


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


def convolved(convolution: nn.Module, channels: int) -> nn.Sequential:
    return named(convolution=convolution, norm=nn.BatchNorm2d(channels), relu=nn.ReLU())


def convnet(s: Sizes) -> nn.Module:
    widths = [COLORS] + [s.width << i for i in range(4)]

    def seen(inputs: int, outputs: int) -> nn.Sequential:
        return convolved(nn.Conv2d(inputs, outputs, 3, padding=1), outputs)

    halved = [
        named(seen=seen(inputs, outputs), pool=nn.MaxPool2d(2))
        for inputs, outputs in zip(widths, widths[1:], strict=False)
    ]
    return named(
        halved=nn.Sequential(*halved),
        last=seen(widths[-1], widths[-1]),
        pool=nn.AdaptiveAvgPool2d(1),
        flat=nn.Flatten(),
        out=nn.Linear(widths[-1], s.inputs[1].shape[1]),
    )


def conv_autoenc(s: Sizes) -> nn.Module:
    widths = [COLORS] + [s.width << i for i in range(4)]
    down = [
        convolved(nn.Conv2d(inputs, outputs, 4, stride=2, padding=1), outputs)
        for inputs, outputs in zip(widths, widths[1:], strict=False)
    ]
    back = widths[:0:-1]
    up = [
        convolved(nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), outputs)
        for inputs, outputs in zip(back, back[1:], strict=False)
    ]
    return named(
        down=nn.Sequential(*down),
        up=nn.Sequential(*up),
        out=nn.ConvTranspose2d(s.width, COLORS, 4, stride=2, padding=1),
        tanh=nn.Tanh(),
    )


class LastOf(nn.Module):
    """The output of a recurrent layer at the last step."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0][:, -1]


def gru_seq(s: Sizes) -> nn.Module:
    layer = nn.GRU(s.width, s.hidden, batch_first=True)
    return named(last=LastOf(layer), out=nn.Linear(s.hidden, s.width))


def lstm_seq(s: Sizes) -> nn.Module:
    layer = nn.LSTM(s.width, s.hidden, num_layers=2, batch_first=True)
    return named(last=LastOf(layer), out=nn.Linear(s.hidden, s.width))


class Positions(nn.Module):
    def __init__(self, length: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, width))

    def forward(self, x):
        return x + self.weight


class EncoderLayer(nn.Module):
    """nn.TransformerEncoderLayer without dropout, its weights in the order of their use."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, HEADS, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.narrow(nn.functional.gelu(self.wide(x))))


def transformer(s: Sizes) -> nn.Module:
    length, vocabulary = s.inputs[0].shape[1], s.inputs[0].vocabulary
    return named(
        embedding=nn.Embedding(vocabulary, s.width),
        positions=Positions(length, s.width),
        layers=nn.Sequential(*[EncoderLayer(s.width, s.hidden) for _ in range(4)]),
        out=nn.Linear(s.width, vocabulary),
    )


MODELS = {
    "mlp": mlp,
    "residual_tower": residual_tower,
    "gated_routing": gated_routing,
    "iterative_refine": lambda s: refining(s, 8),
    "feedback_fixed": lambda s: refining(s, 10),
    "convnet": convnet,
    "conv_autoenc": conv_autoenc,
    "gru_seq": gru_seq,
    "lstm_seq": lstm_seq,
    "transformer": transformer,
    **LEARNERS,
}


class WithLoss(nn.Module):
    """x and target, or x as its own target, to the loss."""

    def __init__(self, model: nn.Module, s: Sizes):
        super().__init__()
        self.model = model
        self.classifies = s.inputs[0].vocabulary is not None

    def forward(self, *inputs):
        x, target = inputs[0], inputs[-1]
        y = self.model(x)
        if self.classifies:
            return nn.functional.cross_entropy(y.flatten(0, -2), target.flatten())
        return nn.functional.mse_loss(y, target)


def make(s: Sizes) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[s.model](s)
    found = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if found != s.parameters:
        raise ValueError(f"{s.model} has {found} parameters at {s.scale} scale, not {s.parameters}")
    return model


def with_weights(s: Sizes, weights: dict) -> nn.Module:
    """The model of these arrays by name, running statistics included."""
    model = make(s)
    model.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    return model


def answering(model: nn.Module, s: Sizes) -> nn.Module:
    """What answers in evaluation mode: a learner's policy, else the model."""
    return (model.policy() if s.model in LEARNERS else model).eval()


def losses_of(model: nn.Module, s: Sizes) -> list[Callable]:
    """A function of the inputs for each objective, once the model is on its device."""
    return model.losses() if s.model in LEARNERS else [WithLoss(model, s)]
