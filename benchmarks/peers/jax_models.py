"""The models in JAX: functions of their weights, which have the names that PyTorch gives them."""

import jax
import jax.numpy as jnp

from .sizes import Sizes


def linear(w: dict, name: str, x):
    # A weight is kept [inputs, outputs], as JAX's users do: see `from_torch`.
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def layer_norm(w: dict, name: str, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return normal * w[f"{name}.weight"] + w[f"{name}.bias"]


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def block(w: dict, name: str, x):
    return layer_norm(w, f"{name}.norm", gelu(linear(w, f"{name}.linear", x)))


def mlp(w: dict, x):
    for i in range(4):
        x = block(w, f"blocks.{i}", x)
    return linear(w, "out", x)


def residual_tower(w: dict, x):
    x = linear(w, "into", x)
    for i in range(12):
        x = x + block(w, f"tower.{i}.body", x)
    return linear(w, "out", x)


def gated_routing(w: dict, x):
    x = gelu(linear(w, "into.linear", x))
    weights = jax.nn.softmax(linear(w, "gate.router", x), -1)
    results = jnp.stack([block(w, f"gate.experts.{i}", x) for i in range(8)], 1)
    return linear(w, "out", (weights[..., None] * results).sum(1))


def refining(w: dict, x, times: int):
    x = block(w, "into", x)
    for _ in range(times):
        x = x + block(w, "loop.body.body", x)
    return linear(w, "out", x)


MODELS = {
    "mlp": mlp,
    "residual_tower": residual_tower,
    "gated_routing": gated_routing,
    "iterative_refine": lambda w, x: refining(w, x, 8),
    "feedback_fixed": lambda w, x: refining(w, x, 10),
}


def loss_of(s: Sizes):
    """(weights, x, target) -> the mean squared error."""
    model = MODELS[s.model]
    return lambda w, x, target: jnp.square(model(w, x) - target).mean()


def from_torch(weights: dict) -> dict:
    """PyTorch keeps a linear layer's weight [outputs, inputs]."""
    return {name: w.T.copy() if w.ndim == 2 else w for name, w in weights.items()}
