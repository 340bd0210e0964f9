"""Inference in JAX: the answer in one jitted function."""

from functools import partial
from pathlib import Path

import jax
import numpy

from .evaluation import Evaluator, questions
from .jax_learners import POLICIES
from .jax_models import MODELS, from_torch
from .jax_step import JaxPeer, narrow
from .sizes import BATCHES, Sizes


class JaxEvaluator(Evaluator, JaxPeer):
    def __init__(self, threads: int, folder: Path):
        Evaluator.__init__(self, threads, folder)
        JaxPeer.__init__(self, "cpu", threads, tf32=False)

    def prepare(self, of: Sizes, weights: dict, rows: int) -> None:
        put = partial(jax.device_put, device=self.device)
        trained, statistics = from_torch(weights)
        kept = {name: put(w) for name, w in {**trained, **statistics}.items()}
        answer = {**MODELS, **POLICIES}[of.model]
        self.questions = [put(narrow(x)) for x in questions(of, rows)]
        self.try_forms(
            {
                "weights as arguments": lambda: partial(jax.jit(answer), kept),
                "weights as constants": lambda: jax.jit(partial(answer, kept)),
            }
        )

    def answer(self, index: int) -> numpy.ndarray:
        return numpy.asarray(self.form(self.questions[index % BATCHES]))
