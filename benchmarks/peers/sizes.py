"""The models by name: their sizes at each scale, and the batches that they are fed."""

from __future__ import annotations

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
MODELS = tuple(_FULL)


def sizes(model: str, scale: str) -> Sizes:
    """The small scale is the launch-bound one: batch 4, widths divided by 32 but at least 16;
    images of 16x16, convolutions of 8 channels and more; 16 tokens of 256. The medium scale lies
    between: batch 16 or 32, widths of 128 to 256; images of 32x32, 32 channels and more; 64 tokens
    of 2,048."""
    batch, width, hidden, *counts = _FULL[model]
    index = SCALES.index(scale)

    def at(small: int, medium: int, full: int) -> int:
        return (small, medium, full)[index]

    def wide(full: int) -> int:
        return at(max(full // 32, 16), min(full, max(128, min(full // 4, 256))), full)

    batch = at(4, max(16, min(batch // 8, 32)), batch)
    count = counts[index]
    if model in ("convnet", "conv_autoenc"):
        size = at(16, 32, 64)
        images = Array((batch, COLORS, size, size))
        target = Array((batch, wide(100))) if model == "convnet" else None
        by = at(8, 2, 1)
        return Sizes(model, scale, batch, width // by, hidden // by, images, target, count)
    width, hidden = wide(width), wide(hidden)
    rows = Array((batch, width))
    if model in ("gru_seq", "lstm_seq"):
        x = Array((batch, STEPS, width))
        return Sizes(model, scale, batch, width, hidden, x, rows, count)
    if model == "transformer":
        tokens = Array((batch, at(16, 64, 128)), at(256, 2048, 8192))
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
