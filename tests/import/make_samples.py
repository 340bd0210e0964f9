"""Makes the files of tests/import/samples: torch.testing's samples of ops, several in one program.

    PYTHON tests/import/make_samples.py [--choose FILE]

PYTHON is the path that `./metronome setup --python` prints, after `./metronome peers --samples` added expecttest.
sample_ops.txt has the samples, one a line: an op's name, and which of its samples. About CALLS of them are one module,
which calls them one after the other; its inputs are the tensors of all. Samples are dealt out to the files in turn, so
that each file has gradients: ops_01.pt2 and ops_01.safetensors, which make_programs.py describes. Only outputs of f32
have cotangents.

--choose writes sample_ops.txt anew. FILE is what `./metronome peers --samples --json FILE` wrote: each op gives one of
the samples that agreed, by the rule of `choose`. Made with torch 2.11.0.
"""

import argparse
import json
import math
import os
import pathlib
import sys
import warnings

import safetensors.torch
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))

from peers import sample_calls, samples  # noqa: E402

FOLDER = HERE / "samples"
LIST = HERE / "sample_ops.txt"
CALLS = 20
# A sample of fewer shows little; one of more makes a file large.
FEWEST, MOST = 4, 2000
# Half of what programs_test.cc allows beside the largest number of a tensor, which is at least SMALLEST.
TOLERANCE, SMALLEST = 1e-5, 1e-2
TYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)
# What a node knows of the Python that called it.
TRACES = ("from_node", "nn_module_stack", "source_fn_stack", "stack_trace", "torch_fn")


class Several(torch.nn.Module):
    """Calls in turn, each with its own part of the inputs."""

    def __init__(self, calls):
        super().__init__()
        self.calls = torch.nn.ModuleList(calls)
        self.counts = [len(call.tensors()) for call in calls]

    def forward(self, *tensors):
        outputs = []
        for call, count in zip(self.calls, self.counts, strict=True):
            outputs += call(*tensors[:count])
            tensors = tensors[count:]
        return outputs


class Sample:
    """One call with PyTorch's numbers in both precisions."""

    def __init__(self, op, index):
        self.call = sample_calls.calls_of(op, samples.MOST_SAMPLES)[index]
        self.tensors = self.call.tensors()
        cotangents = sample_calls.usable_cotangents(self.call, self.tensors)
        is_f32 = [each is not None and each.dtype == torch.float32 for each in cotangents]
        self.cotangents = [each if yes else None for each, yes in zip(cotangents, is_f32, strict=True)]
        self.own = sample_calls.eager(self.call, self.tensors, self.cotangents)
        self.exact = sample_calls.eager(self.call, self.tensors, self.cotangents, double=True)

    def gradients(self):
        """Of the inputs of f32 that have one, by their places: f32's and f64's."""
        both = zip(self.tensors, self.own.gradients, self.exact.gradients, strict=True)
        return {
            i: (own, exact)
            for i, (tensor, own, exact) in enumerate(both)
            if tensor.dtype == torch.float32 and exact is not None and exact.any()
        }

    def is_steady(self):
        """Whether f32 is near to f64 by the rules of programs_test.cc, which takes gradients from a step of size 1."""
        every = [*self.tensors, *self.own.outputs]
        if any(tensor.dtype not in TYPES or tensor.numel() == 0 for tensor in every):
            return False
        pairs = list(zip(self.own.outputs, self.exact.outputs, strict=True))
        for i, (own, exact) in self.gradients().items():
            pairs.append((self.tensors[i] - (self.tensors[i] - own), exact))
        return all(is_near(own, exact) for own, exact in pairs) and all(bool(each.isfinite().all()) for each in every)


def is_near(found, expected):
    largest = max(expected.double().abs().max().item(), SMALLEST)
    return (found.double() - expected.double()).abs().max().item() <= TOLERANCE * largest


def choose(report):
    """Of each op's samples that agreed, with finite numbers: those with gradients first, then those of FEWEST elements
    or more, then the smallest, then the first. The first that is steady is taken. Ops in the order of their names."""
    chosen = []
    for row in sorted(report["results"], key=lambda row: row["op"]):
        candidates = [
            (not each["gradients"], each["elements"] < FEWEST, each["elements"], each["sample"])
            for each in row["samples"]
            if each["result"] == samples.AGREES and each["finite"] and each["elements"] <= MOST
        ]
        for *_, index in sorted(candidates):
            if Sample(row["op"], index).is_steady():
                chosen.append((row["op"], index))
                break
        else:
            print(f"{row['op']}: none of {len(candidates)}", flush=True)
    return chosen


def listed():
    lines = LIST.read_text(encoding="utf-8").split("\n")
    return [(op, int(index)) for op, index in (line.split() for line in lines if line)]


def without_traces(program):
    """The program without what it knows of Python, which would be most of its file."""
    for node in program.graph.nodes:
        for trace in TRACES:
            node.meta.pop(trace, None)
    return program


def numbers_of(group):
    """The numbers of a file by name, of samples one after the other."""
    numbers = {}
    inputs = outputs = 0
    for sample in group:
        for i, tensor in enumerate(sample.tensors):
            numbers[f"input.{inputs + i}"] = tensor
        for i, (_, exact) in sample.gradients().items():
            numbers[f"input_gradient.{inputs + i}"] = exact
        for i, (output, cotangent) in enumerate(zip(sample.exact.outputs, sample.cotangents, strict=True)):
            numbers[f"output.{outputs + i}"] = output
            if cotangent is not None:
                numbers[f"cotangent.{outputs + i}"] = cotangent
        inputs += len(sample.tensors)
        outputs += len(sample.exact.outputs)
    return {name: tensor.detach().clone().contiguous() for name, tensor in numbers.items()}


def make(name, chosen):
    """Writes the two files of several samples, and returns their paths."""
    group = [Sample(op, index) for op, index in chosen]
    tensors = [tensor for sample in group for tensor in sample.tensors]
    exported = sample_calls.export(Several([sample.call for sample in group]).train(), tensors)
    program, expected = FOLDER / f"{name}.pt2", FOLDER / f"{name}.safetensors"
    torch.export.save(without_traces(exported), program)
    safetensors.torch.save_file(numbers_of(group), expected)
    return program, expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", type=pathlib.Path, metavar="FILE", help="write sample_ops.txt anew")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch.export's own code warns of each file
    if arguments.choose:
        chosen = choose(json.loads(arguments.choose.read_text(encoding="utf-8")))
        LIST.write_text("".join(f"{op} {index}\n" for op, index in chosen), encoding="utf-8")
        print(f"{LIST.name}  {len(chosen)} samples")
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    chosen = listed()
    count = math.ceil(len(chosen) / CALLS)
    for i in range(count):
        for file in make(f"ops_{i + 1:02}", chosen[i::count]):
            print(f"{file.name}  {file.stat().st_size} bytes", flush=True)
    return 0


if __name__ == "__main__":
    # Samples come in the order of sets, too, which is the peers' order with this seed.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
