"""The models by name: their sizes at both scales, and the batches that they are fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

SCALES = ("small", "full")
BATCHES = 50


@dataclass(frozen=True)
class Array:
    """What a step is fed: f32, standard normal; or i64 below `vocabulary`, where there is one."""

    shape: tuple[int, ...]
    vocabulary: int | None = None


@dataclass(frozen=True)
class Sizes:
    """A model at one scale."""

    model: str
    scale: str
    batch: int
    width: int  # features of its ends; of the first convolution, the channels that it makes
    hidden: int  # of the widest layer
    x: Array
    target: Array | None  # None: x itself
    parameters: int
    learning_rate: float = 1e-3


COLORS, HEADS, STEPS = 3, 8, 50

#        model             batch  width  hidden  parameters: small, full
_FULL = {
    "mlp": (256, 1024, 2048, 17_184, 16_802_816),
    "residual_tower": (256, 1024, 1024, 15_552, 14_718_976),
    "gated_routing": (256, 512, 512, 3_112, 2_638_856),
    "iterative_refine": (256, 1024, 1024, 3_296, 3_152_896),
    "feedback_fixed": (128, 512, 512, 880, 790_016),
    "convnet": (128, 64, 512, 62_864, 3_965_028),
    "conv_autoenc": (64, 64, 512, 87_315, 5_515_395),
    "gru_seq": (128, 256, 512, 1_904, 1_314_048),
    "lstm_seq": (128, 256, 512, 4_624, 3_809_536),
    "transformer": (32, 512, 2048, 21_824, 21_071_872),
}
MODELS = tuple(_FULL)


def sizes(model: str, scale: str) -> Sizes:
    """The small scale is the launch-bound one: batch 4, widths divided by 32 but at least 16;
    images of 16x16, convolutions of 8 channels and more; 16 tokens of 256."""
    batch, width, hidden, small_count, full_count = _FULL[model]
    small = scale == "small"
    batch = 4 if small else batch

    def at(full: int) -> int:
        return max(full // 32, 16) if small else full

    count = small_count if small else full_count
    if model in ("convnet", "conv_autoenc"):
        size = 16 if small else 64
        images = Array((batch, COLORS, size, size))
        target = Array((batch, at(100))) if model == "convnet" else None
        by = 8 if small else 1
        return Sizes(model, scale, batch, width // by, hidden // by, images, target, count)
    width, hidden = at(width), at(hidden)
    rows = Array((batch, width))
    if model in ("gru_seq", "lstm_seq"):
        x = Array((batch, STEPS, width))
        return Sizes(model, scale, batch, width, hidden, x, rows, count)
    if model == "transformer":
        tokens = Array((batch, 16 if small else 128), 256 if small else 8192)
        return Sizes(model, scale, batch, width, hidden, tokens, None, count, 1e-4)
    return Sizes(model, scale, batch, width, hidden, rows, rows, count)


def batches(of: Sizes) -> list[tuple[numpy.ndarray, numpy.ndarray]]:
    """Fifty pairs of x and target, the same in every process."""
    import numpy  # here, so that --help needs none

    draw = numpy.random.default_rng(1)

    def drawn(array: Array) -> numpy.ndarray:
        if array.vocabulary is not None:
            return draw.integers(array.vocabulary, size=array.shape)
        return draw.standard_normal(array.shape, dtype=numpy.float32)

    pairs = []
    for _ in range(BATCHES):
        x = drawn(of.x)
        pairs.append((x, x if of.target is None else drawn(of.target)))
    return pairs
