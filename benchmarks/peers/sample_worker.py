"""PyTorch's side of `--samples`, in a process of its own: exports a sample of an op, and tells how
far Metronome's numbers are from its own. It is asked as worker.py is, with "eager_samples" for the
peer.
"""

import math
import warnings

import numpy
import torch
from torch import Tensor

from . import sample_calls
from .sample_calls import OPS, Numbers
from .worker import serve

# Beside these, the numbers may be so many times as far from f64 as PyTorch's own f32 is in that
# tensor.
ABSOLUTE, RELATIVE, TIMES = 1e-5, 1e-5, 4


def type_of(tensor: Tensor) -> list:
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def plain(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()


def difference(found: Tensor, f32: Tensor, f64: Tensor) -> str | None:
    """What is wrong with a tensor of Metronome's, beside PyTorch's of both precisions."""
    if type_of(found) != type_of(f32):
        return f"{type_of(found)} in place of {type_of(f32)}"
    a, own, exact = found.double(), f32.double(), f64.double()
    same = (a == exact) | (a.isnan() & exact.isnan()) | (a == own) | (a.isnan() & own.isnan())
    rounding = (own - exact).abs()
    rounding = rounding[rounding.isfinite()]
    allowed = ABSOLUTE + RELATIVE * exact.abs()
    if rounding.numel():
        allowed = allowed + TIMES * rounding.max()
    wrong = ~same & ~((a - exact).abs() <= allowed)
    if not wrong.any():
        return None
    first = wrong.flatten().nonzero()[0].item()
    return (
        f"{int(wrong.sum())} of {a.numel()} numbers, number {first} is "
        f"{a.flatten()[first].item():.9g}, not {exact.flatten()[first].item():.9g}"
    )


def trouble_with(numbers: Numbers) -> str | None:
    """Tensors that no file of numbers holds."""
    for tensor in (*numbers.outputs, *numbers.gradients):
        if tensor is None:
            continue
        if tensor.layout != torch.strided:
            return "a sparse tensor"
        if tensor.is_complex():
            return "a complex tensor"
        if tensor.is_quantized:
            return "a quantized tensor"
    return None


class SampleWorker:
    def __init__(self, peer: str, device: str, threads: int, tf32: bool):
        warnings.simplefilter("ignore")  # torch.export warns of its own code
        torch.set_num_threads(threads)

    def facts(self) -> dict:
        return {"torch": torch.__version__}

    def names(self) -> dict:
        return {"names": sorted(OPS)}

    def sample(self, op: str, most: int) -> dict:
        """Takes up an op, and answers how many samples it has."""
        self.calls = sample_calls.calls_of(op, most)
        return {"samples": len(self.calls)}

    def export(self, sample: int, program: str, feeds: str) -> dict:
        """Writes a sample's program, and its inputs and cotangents as plain numbers. Their types
        are answered; or that it draws numbers, or why it has no file."""
        call = self.calls[sample]
        tensors = call.tensors()
        cotangents = sample_calls.usable_cotangents(call, tensors)
        self.own = sample_calls.eager(call, tensors, cotangents)
        self.exact = sample_calls.eager(call, tensors, cotangents, double=True)
        if trouble := trouble_with(self.exact):
            raise TypeError(f"it returns {trouble}")
        exported = sample_calls.export(call, tensors)
        if sample_calls.draws(exported):
            return {"draws": True}
        torch.export.save(exported, program)
        self.tensors = tensors
        with open(feeds, "wb") as file:
            for tensor in (*tensors, *(each for each in cotangents if each is not None)):
                file.write(plain(tensor))
        told = [*self.own.outputs, *self.exact.outputs]
        told += [each for each in self.exact.gradients if each is not None]
        return {
            "inputs": [type_of(tensor) for tensor in tensors],
            "outputs": [type_of(c) if c is not None else None for c in cotangents],
            "elements": sum(t.numel() for t in (*tensors, *self.own.outputs)),
            "finite": all(bool(tensor.isfinite().all()) for tensor in told),
        }

    def judge(self, types: list, into: str) -> dict:
        """What is wrong with Metronome's numbers, which stand in the file `into`."""
        told = []
        with open(into, "rb") as file:
            for name, shape in types:
                dtype = numpy.dtype(name)
                raw = bytearray(file.read(math.prod(shape) * dtype.itemsize))
                told.append(torch.from_numpy(numpy.frombuffer(raw, dtype)).reshape(shape))
        return {"apart": self.difference(told)}

    def difference(self, told: list[Tensor]) -> str | None:
        count = len(self.own.outputs)
        pairs = list(zip(self.own.outputs, self.exact.outputs, strict=True))
        names = [f"output {i}" for i in range(count)]
        if len(told) > count:
            gradients = zip(self.tensors, self.own.gradients, self.exact.gradients, strict=True)
            for i, (tensor, own, exact) in enumerate(gradients):
                if tensor.is_floating_point():
                    zero = torch.zeros_like(tensor)
                    pairs.append((zero if own is None else own, zero if exact is None else exact))
                    names.append(f"gradient {i}")
        if len(told) != len(pairs):
            return f"{len(told)} tensors in place of {len(pairs)}"
        no_slope = any(tensor.isnan().any() for tensor in self.exact.outputs)
        for name, found, (own, exact) in zip(names, told, pairs, strict=True):
            # A result that is no number has no gradient to compare, and PyTorch's may be none.
            if name.startswith("gradient") and (no_slope or exact.isnan().any()):
                continue
            if wrong := difference(found, own, exact):
                return f"{name}: {wrong}"
        return None


if __name__ == "__main__":
    serve(SampleWorker)
