"""Inference in ONNX Runtime: from Python, and from a C++ program that this compiles."""

import subprocess
import sys
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path

import numpy

try:
    import onnx
    import onnxruntime
except ImportError as error:
    way_out = f"install it by {sys.executable} -m pip install onnx onnxruntime"
    raise ImportError(f"{error}: {way_out}") from None

from . import onnx_export
from .evaluation import Evaluator, questions
from .onnx_export import OnnxFile
from .sizes import BATCHES, Sizes

ERRORS_ONLY = 3  # of what ONNX Runtime logs


class OnnxEvaluator(Evaluator):
    """Exports the model. A session of each file can be asked in two ways."""

    def facts(self) -> dict:
        return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__}

    def prepare(self, of: Sizes, weights: dict, rows: int) -> None:
        self.questions = questions(of, rows)
        makers = {}
        for name in onnx_export.forms_of(of):
            file = onnx_export.export(of, weights, name, self.questions[0], self.folder)
            for way, make in self.ways(file).items():
                makers[f"{name}, {way}"] = make
        self.try_forms(makers)

    @abstractmethod
    def ways(self, file: OnnxFile) -> dict[str, Callable]:
        """To ask a session of this file."""


class FromPython(OnnxEvaluator):
    def session(self, file: OnnxFile) -> onnxruntime.InferenceSession:
        onnxruntime.set_default_logger_severity(ERRORS_ONLY)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        return onnxruntime.InferenceSession(
            file.path, options, providers=["CPUExecutionProvider"]
        )

    def ways(self, file: OnnxFile) -> dict[str, Callable]:
        session = self.session(file)

        def arrays():
            return lambda index: session.run(["y"], {"x": self.questions[index % BATCHES]})[0]

        def bound():
            """A binding for each question, to the memory of arrays. All answers have the same."""
            y = numpy.empty(file.answer, numpy.float32)
            bindings = [session.io_binding() for _ in self.questions]
            for binding, x in zip(bindings, self.questions, strict=True):
                binding.bind_input("x", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
                binding.bind_output("y", "cpu", 0, y.dtype, y.shape, y.ctypes.data)

            def answer(index: int) -> numpy.ndarray:
                session.run_with_iobinding(bindings[index % BATCHES])
                return y

            return answer

        return {"arrays": arrays, "IO binding": bound}

    def answer(self, index: int) -> numpy.ndarray:
        return self.form(index)


class Program:
    """onnx_peer.cc with a session, in a process that ends with this one."""

    def __init__(self, command: list):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.answer()

    def ask(self, *words) -> str:
        print(*words, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self) -> str:
        said = self.process.stdout.readline().strip()
        if not said or said.startswith("error "):
            raise RuntimeError(said.removeprefix("error ") or "onnx_peer.cc's program has ended")
        return said


class FromC(OnnxEvaluator):
    """Its program takes the steps, and times them."""

    def __init__(self, threads: int, folder: Path):
        super().__init__(threads, folder)
        self.program = folder / "onnx_peer"
        source = Path(__file__).parent / "onnx_peer.cc"
        command = ["g++", "-std=c++20", "-O2", source, "-ldl", "-o", self.program]
        try:
            made = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            raise RuntimeError(
                "g++, which compiles onnx_peer.cc, is not here: install Debian's g++"
            ) from None
        if made.returncode != 0:
            raise RuntimeError(f"g++ cannot compile onnx_peer.cc: {made.stderr}")

    def ways(self, file: OnnxFile) -> dict[str, Callable]:
        (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
        asked = file.path.with_suffix(".questions")
        asked.write_bytes(b"".join(x.tobytes() for x in self.questions))
        x = self.questions[0]
        shapes = ["x".join(map(str, shape)) for shape in (x.shape, file.answer)]
        command = [self.program, library, file.path, str(self.threads), asked, str(x.dtype)]
        program = Program([*command, *shapes])
        return {"Run": lambda: (program, "run"), "IO binding": lambda: (program, "bound")}

    def take(self, first: int, count: int) -> list:
        self.time(first, count)
        return []

    def time(self, first: int, count: int) -> float:
        program, way = self.form
        return float(program.ask("time", way, first, count))

    def write_answers(self, count: int, into: str) -> None:
        program, way = self.form
        program.ask("write", way, count, into)
