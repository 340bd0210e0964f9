"""The training step in JAX: loss, gradients and Adam in one jitted function."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy

from .jax_models import from_torch, loss_of
from .sizes import Sizes, batches

WARM_UP = 5
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def adam(rate, weights, gradients, first, second, count):
    """PyTorch's Adam (Kingma and Ba, 2015), to its order of operations."""
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)
    size = rate / (1 - BETA1**count)
    root = jnp.sqrt(1 - BETA2**count)

    def update(w, m, v):
        return w - size * m / (jnp.sqrt(v) / root + EPS)

    return jax.tree.map(update, weights, first, second), first, second


class JaxPeer:
    def __init__(self, device: str, threads: int, tf32: bool):
        # Threads of a CPU are set before JAX starts: see crew.py.
        self.on_gpu = device == "cuda"
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        self.device = jax.devices("gpu" if self.on_gpu else "cpu")[0]

    def facts(self) -> dict:
        return {"jax": jax.__version__}

    def prepare(self, s: Sizes, weights: dict) -> None:
        self.first, self.statistics = from_torch(weights)
        self.restore()
        loss = loss_of(s)

        @partial(jax.jit, donate_argnums=0)
        def step(state, x, target):
            weights, first, second, count, statistics = state
            both = jax.value_and_grad(loss, has_aux=True)
            (value, kept), gradients = both(weights, statistics, x, target)
            count = count + 1
            moved = adam(s.learning_rate, weights, gradients, first, second, count)
            return (*moved, count, kept), value

        self.jitted = step
        self.trouble: dict[str, str] = {}
        self.forms = {}
        pairs = batches(s)
        if s.x.vocabulary is not None:
            pairs = [(x.astype(numpy.int32), t.astype(numpy.int32)) for x, t in pairs]
        for name, feed in self.feeds().items():
            try:
                self.batches = [(feed(x), feed(target)) for x, target in pairs]
                for i in range(WARM_UP):
                    self.step(i)
                self.forms[name] = self.batches
            except Exception as error:  # the other way may do; the report says what failed
                self.trouble[name] = f"{type(error).__name__}: {error}"
        if not self.forms:
            raise RuntimeError("; ".join(self.trouble.values()))
        self.choose(next(iter(self.forms)))

    def feeds(self) -> dict:
        """Where batches wait: in JAX's own host memory, as PyTorch's do."""
        if not self.on_gpu:
            return {"host arrays": partial(jax.device_put, device=self.device)}
        pinned = jax.sharding.SingleDeviceSharding(self.device, memory_kind="pinned_host")
        return {
            "NumPy arrays": lambda array: array,
            "page-locked arrays": partial(jax.device_put, device=pinned),
        }

    def choose(self, name: str) -> None:
        self.batches = self.forms[name]
        self.restore()

    def restore(self) -> None:
        put = partial(jax.device_put, device=self.device)

        def zeros() -> dict:
            return {name: put(numpy.zeros_like(w)) for name, w in self.first.items()}

        weights = {name: put(w) for name, w in self.first.items()}
        statistics = {name: put(w) for name, w in self.statistics.items()}
        self.state = (weights, zeros(), zeros(), put(numpy.float32(0)), statistics)

    def step(self, index: int) -> float:
        x, target = self.batches[index % len(self.batches)]
        if self.on_gpu:
            x, target = jax.device_put((x, target), self.device)
        self.state, loss = self.jitted(self.state, x, target)
        return float(loss)

    def peak_bytes(self) -> None:
        return None
