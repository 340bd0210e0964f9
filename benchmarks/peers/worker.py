"""One peer in a process of its own. Takes a line of JSON from standard input and answers with one.

python3 -m peers.worker '{"peer": "eager", "device": "cpu", "threads": 1, "tf32": false}'

With "evaluate", a folder that it may write to, it is asked for inference: see evaluation.py.
"""

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy

from .evaluation import questions
from .sizes import batches, sizes

# What a peer is: its class, and what more its constructor takes.
TRAINERS = {
    "eager": ("torch_steps", "Eager", {}),
    "compile": ("torch_steps", "Compiled", {"mode": "default"}),
    "compile_reduce_overhead": ("torch_steps", "Compiled", {"mode": "reduce-overhead"}),
    "compile_max_autotune": ("torch_steps", "Compiled", {"mode": "max-autotune"}),
    "graph": ("torch_steps", "WholeGraph", {}),
    "jax": ("jax_step", "JaxPeer", {}),
    "ddp": ("torch_ddp", "DataParallel", {}),
}
EVALUATORS = {
    "eager": ("torch_evaluators", "Eager", {}),
    "compile": ("torch_evaluators", "Compiled", {"mode": "default"}),
    "compile_max_autotune": ("torch_evaluators", "Compiled", {"mode": "max-autotune"}),
    "jax": ("jax_evaluators", "JaxEvaluator", {}),
    "onnxruntime": ("onnx_evaluators", "FromPython", {}),
    "onnxruntime_c": ("onnx_evaluators", "FromC", {}),
}
# A form is chosen by five turns as long as this, which takes a clock's noise from fast steps, or of
# two steps.
CHOICE_MS = 20


class Worker:
    def __init__(
        self, peer: str, device: str, threads: int, tf32: bool, evaluate: str | None = None
    ):
        module, kind, more = (EVALUATORS if evaluate else TRAINERS)[peer]
        make = getattr(importlib.import_module(f".{module}", __package__), kind)
        at = (threads, Path(evaluate)) if evaluate else (device, threads, tf32)
        self.peer = make(*at, **more)
        self.next = 0

    def facts(self) -> dict:
        return self.peer.facts()

    def weights(self, model: str, scale: str, file: str, rows: int | None = None) -> dict:
        """Keeps the initial weights that all peers begin with, running statistics included; and,
        for a peer that is not in Python, its parameters as plain numbers, with the batches."""
        of = sizes(model, scale)
        weights = self.peer.weights(of)
        numpy.savez(file, **weights)
        with open(f"{file}.f32", "wb") as plain:
            for name in self.peer.parameters(of):
                plain.write(weights[name].tobytes())
        with open(f"{file}.batches", "wb") as plain:
            for batch in batches(of) if rows is None else zip(questions(of, rows)):
                for array in batch:
                    plain.write(array.tobytes())
        return {}

    def prepare(self, model: str, scale: str, file: str, rows: int | None = None) -> dict:
        """For training steps or, of so many rows, for inference."""
        with numpy.load(file) as weights:
            start = time.perf_counter()
            at = () if rows is None else (rows,)
            self.peer.prepare(sizes(model, scale), dict(weights), *at)
        return {"compile_s": time.perf_counter() - start, "trouble": self.peer.trouble}

    def choose(self) -> dict:
        """Keeps the fastest of the peer's forms, where it has several."""

        def cost(form: str) -> float:
            self.peer.choose(form)
            steps = max(2, int(CHOICE_MS / self.time(3)["ms"]))
            own = statistics.median(self.time(steps)["ms"] for _ in range(5))
            # Ranks must choose alike.
            return self.peer.slowest(own) if hasattr(self.peer, "slowest") else own

        forms = list(self.peer.forms)
        costs = {form: cost(form) for form in forms} if len(forms) > 1 else {forms[0]: None}
        best = min(costs, key=costs.get)
        self.peer.choose(best)
        return {"form": best, "forms_ms": costs}

    def losses(self, count: int) -> dict:
        """Of the first steps."""
        self.peer.restore()
        self.next = 0
        return {"losses": self.peer.take(self.advance(count), count)}

    def outputs(self, count: int, into: str) -> dict:
        """Of inference: the answers to the first questions, as plain numbers."""
        self.peer.write_answers(count, into)
        return {}

    def time(self, steps: int) -> dict:
        """Milliseconds a step, with its loss or a number of its answer read after each."""
        return {"ms": self.peer.time(self.advance(steps), steps)}

    def alone(self, steps: int) -> dict:
        """The same without the other ranks."""
        chosen, self.peer.form = self.peer.form, self.peer.alone
        try:
            return self.time(steps)
        finally:
            self.peer.form = chosen

    def peak(self) -> dict:
        return {"peak_bytes": self.peer.peak_bytes()}

    def advance(self, steps: int) -> int:
        """The first of so many steps."""
        self.next += steps
        return self.next - steps


def serve(make: Callable) -> None:
    """Answers what `make(**options)` is asked for, where the program's argument has the options."""
    # Whatever a library prints goes to the error stream: answers alone go to the coordinator.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(call) -> bool:
        try:
            print(json.dumps(call()), file=answers)
            return True
        except Exception as error:
            text = " ".join(str(error).split())[:500]
            print(json.dumps({"error": f"{type(error).__name__}: {text}"}), file=answers)
            return False

    worker = None

    def start() -> dict:
        nonlocal worker
        worker = make(**json.loads(sys.argv[1]))
        return worker.facts()

    if not answer(start):
        return
    for line in sys.stdin:
        request = json.loads(line)
        answer(partial(getattr(worker, request.pop("do")), **request))


if __name__ == "__main__":
    serve(Worker)
