"""One peer in a process of its own. Takes a line of JSON from standard input and answers with one.

python3 -m peers.worker '{"peer": "eager", "device": "cpu", "threads": 1, "tf32": false}'
"""

import importlib
import json
import os
import statistics
import sys
import time
from functools import partial

import numpy

from .sizes import batches, sizes

# What a peer is: its class, and what more its constructor takes.
PEERS = {
    "eager": ("torch_steps", "Eager", {}),
    "compile": ("torch_steps", "Compiled", {"mode": "default"}),
    "compile_reduce_overhead": ("torch_steps", "Compiled", {"mode": "reduce-overhead"}),
    "compile_max_autotune": ("torch_steps", "Compiled", {"mode": "max-autotune"}),
    "graph": ("torch_steps", "WholeGraph", {}),
    "jax": ("jax_step", "JaxPeer", {}),
    "ddp": ("torch_ddp", "DataParallel", {}),
}


class Worker:
    def __init__(self, peer: str, device: str, threads: int, tf32: bool):
        module, kind, more = PEERS[peer]
        module = importlib.import_module(f".{module}", __package__)
        self.peer = getattr(module, kind)(device, threads, tf32, **more)
        self.next = 0

    def facts(self) -> dict:
        return self.peer.facts()

    def weights(self, model: str, scale: str, file: str) -> dict:
        """Keeps the initial weights that all peers begin with, running statistics included; and,
        for a peer that is not in Python, its parameters as plain numbers, with the batches."""
        of = sizes(model, scale)
        weights = self.peer.weights(of)
        numpy.savez(file, **weights)
        with open(f"{file}.f32", "wb") as plain:
            for name in self.peer.parameters(of):
                plain.write(weights[name].tobytes())
        with open(f"{file}.batches", "wb") as plain:
            for batch in batches(of):
                for array in batch:
                    plain.write(array.tobytes())
        return {}

    def prepare(self, model: str, scale: str, file: str) -> dict:
        with numpy.load(file) as weights:
            start = time.perf_counter()
            self.peer.prepare(sizes(model, scale), dict(weights))
        return {"compile_s": time.perf_counter() - start, "trouble": self.peer.trouble}

    def choose(self) -> dict:
        """Keeps the fastest of the peer's forms, where it has several."""

        def cost(form: str) -> float:
            self.peer.choose(form)
            self.time(3)
            own = statistics.median(self.time(5)["ms"] for _ in range(5))
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
        return {"losses": [self.take() for _ in range(count)]}

    def time(self, steps: int) -> dict:
        """Milliseconds a step, the loss read after each."""
        start = time.perf_counter()
        for _ in range(steps):
            self.take()
        return {"ms": (time.perf_counter() - start) * 1e3 / steps}

    def alone(self, steps: int) -> dict:
        """The same without the other ranks."""
        chosen, self.peer.form = self.peer.form, self.peer.alone
        try:
            return self.time(steps)
        finally:
            self.peer.form = chosen

    def peak(self) -> dict:
        return {"peak_bytes": self.peer.peak_bytes()}

    def take(self) -> float:
        self.next += 1
        return self.peer.step(self.next - 1)


def main() -> None:
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
        worker = Worker(**json.loads(sys.argv[1]))
        return worker.facts()

    if not answer(start):
        return
    for line in sys.stdin:
        request = json.loads(line)
        answer(partial(getattr(worker, request.pop("do")), **request))


if __name__ == "__main__":
    main()
