"""Calls of one op, from torch.testing's samples: modules whose inputs are the sample's tensors."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy
import torch
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree

# An op of whole numbers is sampled with those.
DTYPES = (torch.float32, torch.int64)


def name_of(info) -> str:
    """ "div.floor_rounding": an op, and which variant of it."""
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else info.name


OPS = {name_of(info): info for info in op_db}


class Call(nn.Module):
    """A call whose tensors are the module's inputs. One without tensors has an input that it does
    not read, as a program has one."""

    def __init__(self, op, fed: tuple):
        super().__init__()
        self.op = op
        self.leaves, self.spec = _pytree.tree_flatten(fed)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]

    def tensors(self) -> list[Tensor]:
        found = [self.leaves[i].detach().contiguous().clone() for i in self.places]
        return found or [torch.zeros(1)]

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        leaves = list(self.leaves)
        if self.places:
            for place, tensor in zip(self.places, tensors, strict=True):
                leaves[place] = tensor
        first, positional, named = _pytree.tree_unflatten(leaves, self.spec)
        outputs = _pytree.tree_leaves(self.op(first, *positional, **named))
        return [output for output in outputs if isinstance(output, Tensor)]


def calls_of(name: str, most: int) -> list[Call]:
    """An op's samples, evenly spaced if there are more: the same in all processes of one
    PYTHONHASHSEED."""
    info = OPS[name]
    dtype = next((each for each in DTYPES if each in info.dtypes), None)
    if dtype is None:
        raise TypeError(f"{name} takes neither f32 nor i64")
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    if len(samples) > most:
        samples = [samples[i * len(samples) // most] for i in range(most)]
    return [Call(info.op, (each.input, each.args, each.kwargs)) for each in samples]


@dataclass
class Numbers:
    """Outputs and gradients; None for an input that has no gradient."""

    outputs: list[Tensor]
    gradients: list[Tensor | None] = field(default_factory=list)


def is_differentiable(call: nn.Module, tensors: Sequence[Tensor]) -> bool:
    """Whether PyTorch has the op's derivative: it may have none, or write to an input."""
    try:
        eager(call, tensors, cotangents_of(call, tensors))
    except (RuntimeError, NotImplementedError) as error:
        reasons = ("derivative", "differentiable", "requires grad")
        if any(reason in str(error) for reason in reasons):
            return False
        raise
    return True


def copies(tensors: Sequence[Tensor], double: bool, grad: bool) -> list[Tensor]:
    made = []
    for tensor in tensors:
        copied = tensor.detach().clone()
        if tensor.is_floating_point():
            copied = (copied.double() if double else copied).requires_grad_(grad)
        made.append(copied)
    return made


def cotangents_of(call: nn.Module, tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Of the loss, which is the sum of outputs times these. None for an output without gradient."""
    torch.manual_seed(0)
    outputs = call(*copies(tensors, double=False, grad=True))
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(output.shape, generator=generator).to(output.dtype)
        if output.is_floating_point() and output.requires_grad
        else None
        for output in outputs
    ]


def eager(
    call: nn.Module,
    tensors: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    double: bool = False,
) -> Numbers:
    """What PyTorch computes, with the gradients of all floating inputs if there are cotangents."""
    grad = any(cotangent is not None for cotangent in cotangents)
    torch.manual_seed(0)
    fed = copies(tensors, double, grad)
    outputs = call(*fed)
    if grad:
        loss = sum(
            (output * cotangent).sum()
            for output, cotangent in zip(outputs, cotangents, strict=True)
            if cotangent is not None
        )
        loss.backward()
    return Numbers([o.detach().contiguous() for o in outputs], [tensor.grad for tensor in fed])


def usable_cotangents(call: nn.Module, tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """The cotangents, or none if PyTorch has no derivative, or all gradients are zero."""
    if is_differentiable(call, tensors):
        cotangents = cotangents_of(call, tensors)
        gradients = eager(call, tensors, cotangents, double=True).gradients
        if any(gradient is not None and gradient.any() for gradient in gradients):
            return cotangents
    torch.manual_seed(0)
    return [None] * len(call(*copies(tensors, double=False, grad=False)))


def export(call: nn.Module, tensors: Sequence[Tensor]) -> torch.export.ExportedProgram:
    return torch.export.export(call, tuple(tensors), strict=False)


def draws(program: torch.export.ExportedProgram) -> bool:
    """Whether a program draws what a dropout keeps."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        names = (argument.name for argument in schema.arguments)
        given = {**dict(zip(names, node.args)), **node.kwargs}
        if "dropout" in schema.name and given.get("p", 0) > 0 and given.get("train"):
            return True
        if given.get("dropout_p", 0) > 0:
            return True
    return False
