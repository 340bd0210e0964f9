"""The models by name: their sizes at both scales, and the batches that they are fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy

SCALES = ("small", "full")
BATCHES = 50
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """A model at one scale: x and target are f32 [batch, width]."""

    model: str
    scale: str
    batch: int
    width: int
    hidden: int  # of the widest layer
    parameters: int


#        model             batch  width  hidden  parameters: small, full
_FULL = {
    "mlp": (256, 1024, 2048, 17_184, 16_802_816),
    "residual_tower": (256, 1024, 1024, 15_552, 14_718_976),
    "gated_routing": (256, 512, 512, 3_112, 2_638_856),
    "iterative_refine": (256, 1024, 1024, 3_296, 3_152_896),
    "feedback_fixed": (128, 512, 512, 880, 790_016),
}
MODELS = tuple(_FULL)


def sizes(model: str, scale: str) -> Sizes:
    """The small scale is the launch-bound one: batch 4, widths divided by 32 but at least 16."""
    batch, width, hidden, small, full = _FULL[model]
    if scale == "full":
        return Sizes(model, scale, batch, width, hidden, full)
    return Sizes(model, scale, 4, max(width // 32, 16), max(hidden // 32, 16), small)


def batches(of: Sizes) -> list[tuple[numpy.ndarray, numpy.ndarray]]:
    """Fifty pairs of x and target, standard normal, the same in every process."""
    import numpy  # here, so that --help needs none

    draw = numpy.random.default_rng(1)
    shape = (of.batch, of.width)

    def normal() -> numpy.ndarray:
        return draw.standard_normal(shape, dtype=numpy.float32)

    return [(normal(), normal()) for _ in range(BATCHES)]
