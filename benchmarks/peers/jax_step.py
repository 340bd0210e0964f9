"""The training step in JAX: losses, gradients and Adam in one jitted function."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy

from .forms import Forms
from .jax_learners import LOSSES
from .jax_models import from_torch, loss_of
from .sizes import Objective, Sizes, batches

BETA1, BETA2 = 0.9, 0.999


def losses_of(s: Sizes) -> list:
    """For each objective (weights, statistics, *inputs) -> the loss, and what the statistics
    become."""

    def learning(loss):
        return lambda w, statistics, *inputs: (loss(w, *inputs), statistics)

    return [learning(loss) for loss in LOSSES[s.model]] if s.model in LOSSES else [loss_of(s)]


def adam(objective: Objective, weights, gradients, first, second, count):
    """PyTorch's Adam (Kingma and Ba, 2015), to its order of operations, of those weights that have
    a gradient."""
    root = jnp.sqrt(1 - BETA2**count)
    weights, first, second = dict(weights), dict(first), dict(second)
    for name, rate in objective.rates_of(gradients).items():
        g = gradients[name]
        first[name] = BETA1 * first[name] + (1 - BETA1) * g
        second[name] = BETA2 * second[name] + (1 - BETA2) * g * g
        size = rate / (1 - BETA1**count)
        weights[name] -= size * first[name] / (jnp.sqrt(second[name]) / root + objective.eps)
    return weights, first, second


def clipped(gradients: dict, most: float) -> dict:
    """As torch.nn.utils.clip_grad_norm_ has them."""
    norm = jnp.sqrt(sum(jnp.square(g).sum() for g in gradients.values()))
    factor = jnp.minimum(most / (norm + 1e-6), 1)
    return {name: factor * g for name, g in gradients.items()}


def step_of(s: Sizes):
    """(state, *inputs) -> the next state, and the first objective's loss."""

    def step(state, *inputs):
        weights, first, second, count, statistics = state
        count = count + 1
        losses = []
        for objective, loss_of in zip(s.objectives, losses_of(s), strict=True):

            def of(trained, others=weights, seen=statistics, loss_of=loss_of):
                return loss_of(others | trained, seen, *inputs)

            trained = {name: weights[name] for name in objective.rates_of(weights)}
            (loss, statistics), gradients = jax.value_and_grad(of, has_aux=True)(trained)
            losses.append(loss)
            if objective.clip_norm:
                gradients = clipped(gradients, objective.clip_norm)
            weights, first, second = adam(objective, weights, gradients, first, second, count)
            if follow := objective.follow:
                for source in [name for name in weights if name.startswith(follow.source)]:
                    target = follow.target + source.removeprefix(follow.source)
                    weights[target] += follow.rate * (weights[source] - weights[target])
        return (weights, first, second, count, statistics), losses[0]

    return step


def narrow(array: numpy.ndarray) -> numpy.ndarray:
    """Whole numbers as JAX has them by default."""
    return array.astype(numpy.int32) if array.dtype == numpy.int64 else array


class JaxPeer(Forms):
    """Its forms are the batches, kept where each may wait."""

    def __init__(self, device: str, threads: int, tf32: bool):
        # Threads of a CPU are set before JAX starts: see crew.py.
        self.on_gpu = device == "cuda"
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        self.device = jax.devices("gpu" if self.on_gpu else "cpu")[0]

    def facts(self) -> dict:
        return {"jax": jax.__version__}

    def prepare(self, s: Sizes, weights: dict) -> None:
        self.first, self.statistics = from_torch(weights)
        self.trained = [name for each in s.objectives for name in each.rates_of(self.first)]
        self.restore()
        self.jitted = jax.jit(step_of(s), donate_argnums=0)
        drawn = [[narrow(array) for array in batch] for batch in batches(s)]

        def fed(feed) -> list[list]:
            return [[feed(array) for array in batch] for batch in drawn]

        self.try_forms({name: partial(fed, feed) for name, feed in self.feeds().items()})

    def feeds(self) -> dict:
        """Where batches wait: in JAX's own host memory, as PyTorch's do."""
        if not self.on_gpu:
            return {"host arrays": partial(jax.device_put, device=self.device)}
        pinned = jax.sharding.SingleDeviceSharding(self.device, memory_kind="pinned_host")
        return {
            "NumPy arrays": lambda array: array,
            "page-locked arrays": partial(jax.device_put, device=pinned),
        }

    def restore(self) -> None:
        put = partial(jax.device_put, device=self.device)

        def zeros() -> dict:
            return {name: put(numpy.zeros_like(self.first[name])) for name in self.trained}

        weights = {name: put(w) for name, w in self.first.items()}
        statistics = {name: put(w) for name, w in self.statistics.items()}
        self.state = (weights, zeros(), zeros(), put(numpy.float32(0)), statistics)

    def step(self, index: int) -> float:
        batch = self.form[index % len(self.form)]
        if self.on_gpu:
            batch = jax.device_put(batch, self.device)
        self.state, loss = self.jitted(self.state, *batch)
        return float(loss)

    def peak_bytes(self) -> None:
        return None
