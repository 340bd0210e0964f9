"""Inference: what a model is asked, who answers, and how far two answers lie apart.

A model in evaluation mode answers with what its loss would take: `y`, and a learner's policy for a
state. Soft actor-critic answers with the tanh of the mean action, and proximal policy optimization
with the logits of its actions.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .forms import Forms
from .sizes import BATCHES, Sizes, batches, sizes

if TYPE_CHECKING:
    import numpy

CHECKED_ANSWERS = 4
# Of `difference`.
TOLERANCE = 1e-5


def row_counts(model: str, scale: str) -> tuple[int, int]:
    """One row, and the model's batch."""
    return 1, sizes(model, scale).batch


def questions(of: Sizes, rows: int) -> "list[numpy.ndarray]":
    """What the model is asked in turn: the first of its inputs, with so many rows."""
    asked = replace(of.inputs[0], shape=(rows, *of.inputs[0].shape[1:]))
    return [x for (x,) in batches(replace(of, inputs=(asked,)))]


class Evaluator(Forms):
    """What answers, in a process of its own, on a CPU."""

    def __init__(self, threads: int, folder: Path):
        """It may keep what it makes in `folder`."""
        self.threads, self.folder = threads, folder

    def answer(self, index: int) -> "numpy.ndarray":
        """To a question, asked in the form that is chosen."""
        raise NotImplementedError

    def scope(self) -> AbstractContextManager:
        """Where questions are asked."""
        return nullcontext()

    def restore(self) -> None:
        """No answer depends on those before."""

    def step(self, index: int) -> float:
        # One number of the answer, so that nobody returns before it is there.
        return self.answer(index).item(0)

    def take(self, first: int, count: int) -> list[float]:
        with self.scope():
            return super().take(first, count)

    def write_answers(self, count: int, into: str) -> None:
        with self.scope(), open(into, "wb") as plain:
            for index in range(count):
                plain.write(self.answer(index).tobytes())


def read_answers(file: Path) -> "numpy.ndarray":
    """Of all questions that are checked, one after the other."""
    import numpy  # here, so that --help needs none

    return numpy.fromfile(file, numpy.float32)


def difference(answers: "numpy.ndarray", expected: "numpy.ndarray") -> float:
    """The largest |a - b| of an answer over its largest |b|, of the answer where that is most."""
    a, b = (of.reshape(CHECKED_ANSWERS, -1) for of in (answers, expected))
    apart = abs(a - b).max(axis=1) / abs(b).max(axis=1)
    return float(apart.max())
