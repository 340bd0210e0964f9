"""Inference in PyTorch: eager and compiled."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from . import torch_models
from .evaluation import Evaluator, questions
from .sizes import BATCHES, Sizes
from .torch_steps import TorchPeer, channels_last, without_onednn

# A question -> its answer.
Form = Callable[[torch.Tensor], torch.Tensor]


def without_fast_path(form: Form) -> Form:
    """PyTorch has a second way through attention in inference, which is not always the faster."""

    def answer(x):
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            return form(x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)

    return answer


class TorchEvaluator(Evaluator, TorchPeer):
    def __init__(self, threads: int, folder: Path):
        Evaluator.__init__(self, threads, folder)
        TorchPeer.__init__(self, "cpu", threads, tf32=False)

    def prepare(self, of: Sizes, weights: dict, rows: int) -> None:
        self.model = torch_models.with_weights(of, weights)
        self.answering = torch_models.answering(self.model, of)
        self.questions = [torch.from_numpy(x) for x in questions(of, rows)]
        self.try_forms(self.makers())

    def scope(self) -> AbstractContextManager:
        return torch.inference_mode()

    def answer(self, index: int):
        return self.form(self.questions[index % BATCHES]).numpy()

    def with_pixels_together(self) -> torch.nn.Module:
        return copy.deepcopy(self.answering).to(memory_format=torch.channels_last)


class Eager(TorchEvaluator):
    def makers(self):
        forms = {"as declared": lambda: self.answering}
        if self.has_images():
            forms["channels_last"] = lambda: channels_last(self.with_pixels_together())
        if self.has(torch.nn.RNNBase):
            forms["without oneDNN"] = lambda: without_onednn(self.answering)
        if self.has(torch.nn.MultiheadAttention):
            forms["without attention's fast path"] = lambda: without_fast_path(self.answering)
        return forms


class Compiled(TorchEvaluator):
    def __init__(self, threads: int, folder: Path, mode: str):
        super().__init__(threads, folder)
        self.mode = mode

    def prepare(self, of: Sizes, weights: dict, rows: int) -> None:
        torch._dynamo.reset()
        super().prepare(of, weights, rows)

    def compiled(self, model: torch.nn.Module, **options: bool) -> Form:
        of_mode = torch._inductor.list_mode_options(self.mode)
        return torch.compile(model, options={**of_mode, **options}, dynamic=False)

    def frozen(self, model: torch.nn.Module) -> Form:
        """Its weights are constants, laid out once, and its kernels are called from C++."""
        return self.compiled(model, freezing=True, cpp_wrapper=True)

    def makers(self):
        forms = {
            "as declared": lambda: self.compiled(self.answering),
            "frozen": lambda: self.frozen(self.answering),
        }
        if self.has_images():
            forms["frozen, channels_last"] = lambda: channels_last(
                self.frozen(self.with_pixels_together())
            )
        return forms
