"""Evaluations in exported libraries, ONNX Runtime and libtorch: `PYTHON benchmarks/exported/beside.py`, of a Python that
has torch, onnx and onnxruntime, after `bazel build //benchmarks:metronome //benchmarks:libtorch_program`.

Each model is a program of its own: in C with the exported library, through ONNX Runtime's C API with the library of its
wheel (benchmarks/peers/onnx_peer.cc), and in C++ with libtorch and a TorchScript file. A start is from exec to the end
of a program that makes one evaluation. Programs take turns, each on one thread; numbers are medians.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import measure
import numpy
import onnxruntime
import torch
from torch import nn

sys.path.insert(0, str(measure.ROOT / "benchmarks"))
from peers import onnx_export, torch_models  # noqa: E402
from peers.sizes import sizes  # noqa: E402

HERE = pathlib.Path(__file__).parent
STARTS, ROUNDS = 15, 5


def digits():
    """models/images/digits.cc in evaluation, where dropout does nothing."""
    blocks = [torch_models.Residual(nn.Sequential(nn.Linear(128, 128), nn.BatchNorm1d(128), nn.GELU())) for _ in range(4)]
    return nn.Sequential(nn.Linear(64, 128), *blocks, nn.Linear(128, 10)), torch.randn(64, 64)


def asked(model):
    """A model as a module, what it is asked, and its form as an ONNX file."""
    if model == "digits":
        module, x = digits()
        return module.eval(), x, "as exported"
    of = sizes(model, "small")
    array = of.inputs[0]
    x = torch.randn(array.shape) if array.vocabulary is None else torch.randint(array.vocabulary, array.shape)
    return torch_models.answering(torch_models.make(of), of), x, onnx_export.forms_of(of)[-1]


class Library:
    def __init__(self, model, module, x, form, place):
        measure.export(model, False, place / "net")
        self.program = measure.build(place / "net", False, place)
        measure.run("strip", self.program)
        self.bytes = self.program.stat().st_size

    def start(self):
        subprocess.run([self.program], check=True)

    def step(self):
        return measure.steps_of(self.program)["evaluate"]


class OnnxRuntime:
    """A process of onnx_peer.cc, which ends with its input."""

    @staticmethod
    def library():
        (library,) = pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
        return library

    @staticmethod
    def compile(folder):
        measure.run("g++", "-std=c++20", "-O2", HERE.parent / "peers" / "onnx_peer.cc", "-ldl", "-o", folder / "onnx_peer")

    def __init__(self, model, module, x, form, place):
        file = onnx_export.write(module, form, x, place / "net.onnx")
        questions = place / "questions"
        questions.write_bytes(x.numpy().tobytes())
        shapes = ["x".join(map(str, shape)) for shape in (x.shape, file.answer)]
        program = place.parents[1] / "onnx_peer"
        self.command = [program, self.library(), file.path, "1", questions, str(x.numpy().dtype), *shapes]
        self.bytes = sum(each.stat().st_size for each in (program, self.library(), file.path))
        self.once = place / "once"
        self.once.write_text("time bound 0 1\n")
        measure.run(*self.command, input=f"write bound 1 {place / 'answer'}\n")
        answer = numpy.fromfile(place / "answer", numpy.float32).reshape(file.answer)
        with torch.no_grad():
            numpy.testing.assert_allclose(answer, module(x).numpy(), rtol=1e-3, atol=1e-4)

    def start(self):
        with self.once.open() as words:
            subprocess.run(self.command, stdin=words, stdout=subprocess.DEVNULL, check=True)

    def step(self):
        rounds = "time bound 0 100\n" + "time bound 0 500\n" * 9
        told = measure.run(*self.command, input=rounds).split()  # "ready", the first round, nine more
        return 1e-3 * statistics.median(map(float, told[2:]))


class Libtorch:
    program = measure.ROOT / "bazel-bin/benchmarks/libtorch_program"

    def libraries(self):
        """Those beside the system's, which the program brings with it."""
        found = re.findall(r"=> (\S+) \(", measure.run("ldd", self.program))
        return [pathlib.Path(file).resolve() for file in found if not file.startswith(("/lib", "/usr/lib"))]

    def __init__(self, model, module, x, form, place):
        with torch.no_grad():
            torch.jit.freeze(torch.jit.trace(module, x)).save(place / "net.pt")
        self.command = [self.program, place / "net.pt", str(x.numpy().dtype), "x".join(map(str, x.shape))]
        self.bytes = sum(file.stat().st_size for file in [self.program, place / "net.pt", *self.libraries()])

    def start(self):
        subprocess.run(self.command, check=True)

    def step(self):
        return float(measure.run(*self.command, "steps"))


PEERS = {"library": Library, "ONNX Runtime": OnnxRuntime, "libtorch": Libtorch}


def timed(start):
    begin = time.perf_counter()
    start()
    return 1e3 * (time.perf_counter() - begin)


def compare(model, folder):
    """By peer: bytes, milliseconds of a start, seconds of an evaluation."""
    question = asked(model)
    programs = {}
    for name, peer in PEERS.items():
        place = folder / model / peer.__name__
        place.mkdir(parents=True)
        programs[name] = peer(model, *question, place)
    starts, steps = ({name: [] for name in programs} for _ in range(2))
    for _ in range(STARTS):
        for name, program in programs.items():
            starts[name].append(timed(program.start))
    for _ in range(ROUNDS):
        for name, program in programs.items():
            steps[name].append(program.step())
    return {name: (programs[name].bytes, statistics.median(starts[name]), statistics.median(steps[name])) for name in programs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=measure.MODELS)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(f"{measure.processor()}; one thread; ONNX Runtime {onnxruntime.__version__}, libtorch {torch.__version__}")
    print(f"{'evaluation':16}{'':14}{'kB shipped':>12}{'start ms':>10}{'step us':>10}")
    with tempfile.TemporaryDirectory() as folder:
        OnnxRuntime.compile(pathlib.Path(folder))
        for model in arguments.models:
            for name, (size, start, step) in compare(model, pathlib.Path(folder)).items():
                print(f"{model:16}{name:14}{size / 1e3:12.0f}{start:10.2f}{1e6 * step:10.1f}", flush=True)
                model = ""
    return 0


if __name__ == "__main__":
    sys.exit(main())
