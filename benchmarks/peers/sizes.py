"""The models by name: their sizes at each scale, the batches that they are fed, and how they are
trained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

SCALES = ("small", "medium", "full")
BATCHES = 50


@dataclass(frozen=True)
class Array:
    """What a step is fed: f32, standard normal; or i64 below `vocabulary`, where there is one."""

    shape: tuple[int, ...]
    vocabulary: int | None = None


@dataclass(frozen=True)
class Follow:
    """Weights below `target` go `rate` of the way to those below `source`."""

    target: str
    source: str
    rate: float


@dataclass(frozen=True)
class Objective:
    """One loss of a step, and the Adam that lowers it."""

    rates: dict[str, float]  # learning rates of the weights below each path; "" is all
    eps: float = 1e-8
    clip_norm: float | None = None  # the most that the norm of all its gradients may be
    follow: Follow | None = None  # after its update

    def rates_of(self, weights: Iterable[str]) -> dict[str, float]:
        """The learning rate of each of these that it trains."""
        names = list(weights)
        return {n: rate for path, rate in self.rates.items() for n in names if n.startswith(path)}


@dataclass(frozen=True)
class Sizes:
    """A model at one scale."""

    model: str
    scale: str
    batch: int
    width: int  # features of its ends; of the first convolution, the channels that it makes
    hidden: int  # of the widest layer
    # In the order of Metronome's graph. But for learners they are x and its target, or x alone,
    # which is then its own target.
    inputs: tuple[Array, ...]
    parameters: int  # that are trained
    objectives: tuple[Objective, ...] = (Objective({"": 1e-3}),)  # in the order of a step


COLORS, HEADS, STEPS = 3, 8, 50
# Of soft actor-critic. The bounds are of the logarithm of an action's deviation.
DISCOUNT, ENTROPY, LEAST, MOST = 0.99, -3, -5, 2
# Of proximal policy optimization.
CLIP, ENTROPY_WEIGHT, VALUE_WEIGHT = 0.2, 0.01, 0.5

#        model             batch  width  hidden  parameters: small, medium, full
_FULL = {
    "mlp": (256, 1024, 2048, 17_184, 331_008, 16_802_816),
    "residual_tower": (256, 1024, 1024, 15_552, 927_232, 14_718_976),
    "gated_routing": (256, 512, 512, 3_112, 168_200, 2_638_856),
    "iterative_refine": (256, 1024, 1024, 3_296, 198_400, 3_152_896),
    "feedback_fixed": (128, 512, 512, 880, 50_048, 790_016),
    "convnet": (128, 64, 512, 62_864, 1_005_668, 3_965_028),
    "conv_autoenc": (64, 64, 512, 87_315, 1_381_443, 5_515_395),
    "gru_seq": (128, 256, 512, 1_904, 115_584, 1_314_048),
    "lstm_seq": (128, 256, 512, 4_624, 280_704, 3_809_536),
    "transformer": (32, 512, 2048, 21_824, 1_064_448, 21_071_872),
}

# Of reinforcement learning. At small, medium and full scale: batch, width, parameters.
_LEARNERS = {
    "sac": ((4, 16, 1_625), (100, 64, 15_689), (256, 256, 210_185)),
    "ppo": ((4, 16, 755), (32, 64, 9_155), (128, 64, 9_155)),
}
LEARNERS = tuple(_LEARNERS)
MODELS = (*_FULL, *LEARNERS)


def sizes(model: str, scale: str) -> Sizes:
    """The small scale is the launch-bound one: batch 4, widths divided by 32 but at least 16;
    images of 16x16, convolutions of 8 channels and more; 16 tokens of 256. The medium scale lies
    between: batch 16 or 32, widths of 128 to 256; images of 32x32, 32 channels and more; 64 tokens
    of 2,048."""
    index = SCALES.index(scale)
    if model in LEARNERS:
        batch, width, count = _LEARNERS[model][index]
        inputs, objectives = {"sac": _sac, "ppo": _ppo}[model](batch)
        return Sizes(model, scale, batch, width, width, inputs, count, objectives)
    batch, width, hidden, *counts = _FULL[model]

    def at(small: int, medium: int, full: int) -> int:
        return (small, medium, full)[index]

    def wide(full: int) -> int:
        return at(max(full // 32, 16), min(full, max(128, min(full // 4, 256))), full)

    batch = at(4, max(16, min(batch // 8, 32)), batch)
    count = counts[index]
    if model in ("convnet", "conv_autoenc"):
        size = at(16, 32, 64)
        images = Array((batch, COLORS, size, size))
        inputs = (images, Array((batch, wide(100)))) if model == "convnet" else (images,)
        by = at(8, 2, 1)
        return Sizes(model, scale, batch, width // by, hidden // by, inputs, count)
    width, hidden = wide(width), wide(hidden)
    rows = Array((batch, width))
    if model in ("gru_seq", "lstm_seq"):
        x = Array((batch, STEPS, width))
        return Sizes(model, scale, batch, width, hidden, (x, rows), count)
    if model == "transformer":
        tokens = Array((batch, at(16, 64, 128)), at(256, 2048, 8192))
        slow = (Objective({"": 1e-4}),)
        return Sizes(model, scale, batch, width, hidden, (tokens,), count, slow)
    return Sizes(model, scale, batch, width, hidden, (rows, rows), count)


def _sac(batch: int) -> tuple[tuple[Array, ...], tuple[Objective, ...]]:
    """State, action, reward, next state, whether it was the last, and noise for an action in each
    state. The critics learn first, and the actor and its price by them."""
    state, action, one = Array((batch, 11)), Array((batch, 3)), Array((batch, 1))
    done = Array((batch, 1), 2)
    critics = Objective({"critics.": 1e-3}, follow=Follow("target.", "critics.", 0.005))
    actor = Objective({"actor.": 3e-4, "price.": 1e-3})
    return (state, action, one, state, done, action, action), (critics, actor)


def _ppo(batch: int) -> tuple[tuple[Array, ...], tuple[Objective, ...]]:
    """State, action, its log density then, its advantage, the return, and the value then."""
    state, each = Array((batch, 4)), Array((batch,))
    action = Array((batch,), 2)
    return (state, action, *[each] * 4), (Objective({"": 2.5e-4}, eps=1e-5, clip_norm=0.5),)


def batches(of: Sizes) -> list[tuple[numpy.ndarray, ...]]:
    """What fifty steps are fed, the same in every process."""
    import numpy  # here, so that --help needs none

    draw = numpy.random.default_rng(1)

    def drawn(array: Array) -> numpy.ndarray:
        if array.vocabulary is not None:
            return draw.integers(array.vocabulary, size=array.shape)
        return draw.standard_normal(array.shape, dtype=numpy.float32)

    return [tuple(drawn(array) for array in of.inputs) for _ in range(BATCHES)]
