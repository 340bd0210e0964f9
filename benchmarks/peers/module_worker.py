"""PyTorch's side of `--modules`, in a process of its own: exports an architecture, trains it in
eager, and tells how far Metronome's numbers are from its own. It is asked as worker.py is, with
"eager_module" for the peer.
"""

import contextlib
import copy
import math
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from unittest import mock

import numpy
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree

from .public_makers import LR, Example, make
from .worker import serve

DTYPES = {"f32": torch.float32, "f64": torch.float64}
# Metronome's names begin so.
SCOPE = "module."
FORMS: dict[str, Callable] = {
    "eager": lambda module: module,
    "compile": partial(torch.compile, dynamic=False),
}


def converted(example: Example, dtype: torch.dtype) -> Example:
    """A copy in another precision."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    fed = (example.positional, example.named)
    positional, named = _pytree.tree_map_only(torch.Tensor, convert, fed)
    return Example(copy.deepcopy(example.module).to(dtype), positional, named)


class Training:
    """Steps of plain SGD from the first weights on. `form` is applied to the module."""

    def __init__(self, example: Example, dtype: torch.dtype, form: Callable = lambda module: module):
        self.at = converted(example, dtype)
        self.module = form(self.at.module)
        self.optimizer = torch.optim.SGD(self.at.module.parameters(), lr=LR, foreach=True)

    def losses(self, steps: int, after_gradients: Callable = lambda: None) -> list[float]:
        """`after_gradients` is called in the first step, before the weights change."""
        losses = []
        for i in range(steps):
            self.optimizer.zero_grad()
            loss = self.module(*self.at.positional, **self.at.named)
            loss.backward()
            if i == 0:
                after_gradients()
            self.optimizer.step()
            losses.append(loss.item())
        return losses


@dataclass
class Numbers:
    """What a training is judged by: its losses, its first gradients, and the weights and buffers
    that it ends with."""

    losses: list[float]
    gradients: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]


@contextlib.contextmanager
def exact_hardsigmoid() -> Iterator[None]:
    """PyTorch's gradient of it multiplies by 1/6 in f32, for f64 too: it is off by 3e-8."""

    def formula(x: torch.Tensor) -> torch.Tensor:
        return F.relu6(x + 3) / 6

    with mock.patch.multiple(torch._C._nn, hardsigmoid=formula, hardsigmoid_=formula):
        yield


def numbers_of_eager(example: Example, dtype: torch.dtype, steps: int) -> Numbers:
    training = Training(example, dtype)
    module = training.at.module
    gradients = {}

    def keep_gradients() -> None:
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                gradients[name] = parameter.grad.clone()

    with exact_hardsigmoid() if dtype == torch.float64 else contextlib.nullcontext():
        losses = training.losses(steps, keep_gradients)
    state = {name: t for name, t in module.state_dict().items() if t.is_floating_point()}
    trained = dict(module.named_parameters(remove_duplicate=False))
    return Numbers(
        losses,
        gradients,
        parameters={name: tensor for name, tensor in state.items() if name in trained},
        buffers={name: tensor for name, tensor in state.items() if name not in trained},
    )


def distance(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """The largest difference of any number, beside the largest number. What is not found is 0."""
    most = largest = 0.0
    for name, tensor in expected.items():
        if tensor.numel() == 0:
            continue
        other = found.get(name, torch.zeros(()))
        if other.numel() == tensor.numel():
            other = other.reshape(tensor.shape)
        most = max(most, finite((other.double() - tensor.double()).abs().max().item()))
        largest = max(largest, tensor.double().abs().max().item())
    return most / (largest or 1.0)


def finite(number: float) -> float:
    """JSON has no infinity, and nothing is near to NaN."""
    return number if math.isfinite(number) else 1e300


def apart(found: Numbers, expected: Numbers) -> dict[str, float]:
    losses = list(zip(found.losses, expected.losses, strict=True))
    differences = [finite(abs(a - b)) for a, b in losses]
    return {
        "first_loss": differences[0] / abs(expected.losses[0]),
        "losses": max(differences) / max(abs(b) for _, b in losses),
        "gradients": distance(found.gradients, expected.gradients),
        "parameters": distance(found.parameters, expected.parameters),
        "buffers": distance(found.buffers, expected.buffers),
    }


class ModuleWorker:
    def __init__(self, peer: str, device: str, threads: int, tf32: bool):
        warnings.simplefilter("ignore")  # torch.export warns of its own code
        torch.set_num_threads(threads)

    def facts(self) -> dict:
        return {"torch": torch.__version__}

    def make(self, model: str) -> dict:
        self.example = make(model)
        self.timed: dict[str, Training] = {}
        count = sum(p.numel() for p in self.example.module.parameters())
        return {"lr": LR, "parameters": count}

    def export(self, dtype: str, program: str, feeds: str) -> dict:
        """Writes the program, and what it is fed, as plain numbers. Their types and shapes are
        answered."""
        at = converted(self.example, DTYPES[dtype])
        start = time.perf_counter()
        exported = torch.export.export(at.module, at.positional, at.named, strict=False)
        taken = time.perf_counter() - start
        torch.export.save(exported, program)
        tensors = _pytree.tree_leaves((at.positional, at.named))
        with open(feeds, "wb") as file:
            for tensor in tensors:
                file.write(tensor.contiguous().numpy().tobytes())
        shapes = [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors]
        return {"inputs": shapes, "export_s": taken}

    def train(self, steps: int) -> dict:
        """In f64, which all others are compared with, and in f32: how far that is."""
        self.expected = numbers_of_eager(self.example, torch.float64, steps)
        own = numbers_of_eager(self.example, torch.float32, steps)
        return {"apart": apart(own, self.expected)}

    def judge(self, dtype: str, losses: list[float], gradients: list[str], into: str) -> dict:
        """How far Metronome is: its losses, its files `into`.gradients, of these parameters, and
        `into`.safetensors."""
        first = self.gradients_of(dtype, gradients, f"{into}.gradients")
        state = safetensors.torch.load_file(f"{into}.safetensors")
        state = {name.removeprefix(SCOPE): tensor for name, tensor in state.items()}
        self.load(state, dtype)
        state = self.with_untouched(state)
        found = Numbers(losses, first, parameters=state, buffers=state)
        return {"apart": apart(found, self.expected)}

    def load(self, saved: dict[str, torch.Tensor], dtype: str) -> None:
        """Into a copy of the module: an error says what PyTorch does not take, or misses."""
        module = converted(self.example, DTYPES[dtype]).module
        expected = module.state_dict()
        untouched = {n: t for n, t in self.with_untouched(saved).items() if n in expected}
        loaded = OrderedDict(untouched | saved)
        loaded._metadata = expected._metadata  # versions of layouts, which some modules ask for
        module.load_state_dict(loaded, strict=True)

    def gradients_of(self, dtype: str, paths: list[str], file: str) -> dict[str, torch.Tensor]:
        """By PyTorch's names: a weight that is tied has several."""
        module = self.example.module
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        numbers = numpy.fromfile(file, numpy.float64 if dtype == "f64" else numpy.float32)
        gradients, at = {}, 0
        for path in paths:
            parameter = module.get_parameter(path.replace("/", ".").removeprefix(SCOPE))
            end = at + parameter.numel()
            gradients[names[id(parameter)]] = torch.from_numpy(numbers[at:end])
            at = end
        if at != len(numbers):
            raise RuntimeError(f"Metronome's gradients have {len(numbers)} numbers, not {at}")
        return gradients

    def with_untouched(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What no program mentions stays as it was; of tied weights one is kept."""
        module = self.example.module
        kept: dict[int, torch.Tensor] = {}
        tensors: dict[str, nn.Parameter | torch.Tensor] = dict(
            module.named_parameters(remove_duplicate=False)
        )
        tensors |= dict(module.named_buffers(remove_duplicate=False))
        for name, tensor in tensors.items():
            if name in state:
                kept[id(tensor)] = state[name]
        return {name: kept.get(id(t), t.detach()) for name, t in tensors.items()}

    def time(self, steps: int, form: str) -> dict:
        """Milliseconds of an f32 step of this form, with its loss read after each."""
        if form not in self.timed:
            self.expected = None
            self.timed[form] = Training(self.example, torch.float32, FORMS[form])
        start = time.perf_counter()
        self.timed[form].losses(steps)
        return {"ms": (time.perf_counter() - start) * 1e3 / steps}


if __name__ == "__main__":
    serve(ModuleWorker)
