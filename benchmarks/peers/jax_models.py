"""The models in JAX: functions of their weights, which have the names that PyTorch gives them."""

import jax
import jax.numpy as jnp

from .sizes import HEADS, Sizes

# Images are kept as XLA's CPU kernels take them; PyTorch's come as NCHW.
_IMAGES = ("NHWC", "HWIO", "NHWC")


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


def batch_norm(w: dict, name: str, x, kept: dict | None):
    if kept is None:
        mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
    else:
        mean = x.mean((0, 1, 2))
        variance = jnp.square(x - mean).mean((0, 1, 2))
        count = x.size // x.shape[-1]
        seen = {"running_mean": mean, "running_var": variance * (count / (count - 1))}
        for statistic, value in seen.items():
            key = f"{name}.{statistic}"
            kept[key] = 0.9 * w[key] + 0.1 * jax.lax.stop_gradient(value)
    normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return normal * w[f"{name}.weight"] + w[f"{name}.bias"]


def conv(w: dict, name: str, x, stride: int = 1, padding: int = 1):
    y = jax.lax.conv_general_dilated(
        x, w[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2, dimension_numbers=_IMAGES
    )
    return y + w[f"{name}.bias"]


def conv_transpose(w: dict, name: str, x):
    """4x4, stride 2, padding 1: a convolution of x with zeros between its numbers."""
    weight = w[f"{name}.weight"]
    y = jax.lax.conv_general_dilated(
        x, weight, (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2), dimension_numbers=_IMAGES
    )
    return y + w[f"{name}.bias"]


def convnet(w: dict, x, kept: dict | None = None):
    def seen(name: str, x):
        y = conv(w, f"{name}.convolution", x)
        return jax.nn.relu(batch_norm(w, f"{name}.norm", y, kept))

    x = x.transpose(0, 2, 3, 1)
    for i in range(4):
        x = seen(f"halved.{i}.seen", x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return linear(w, "out", seen("last", x).mean((1, 2)))


def conv_autoenc(w: dict, x, kept: dict | None = None):
    x = x.transpose(0, 2, 3, 1)
    for i in range(4):
        y = conv(w, f"down.{i}.convolution", x, stride=2)
        x = jax.nn.relu(batch_norm(w, f"down.{i}.norm", y, kept))
    for i in range(3):
        y = conv_transpose(w, f"up.{i}.convolution", x)
        x = jax.nn.relu(batch_norm(w, f"up.{i}.norm", y, kept))
    return jnp.tanh(conv_transpose(w, "out", x)).transpose(0, 3, 1, 2)


def over_steps(cell, state, inputs):
    """`inputs` [rows, steps, n], made for all steps at once; the states' outputs [rows, steps, n]."""
    _, outputs = jax.lax.scan(cell, state, inputs.swapaxes(0, 1))
    return outputs.swapaxes(0, 1)


def gates(w: dict, layer: int, x, which: str):
    weight = w[f"last.layer.weight_{which}_l{layer}"]
    return x @ weight + w[f"last.layer.bias_{which}_l{layer}"]


def gru_seq(w: dict, x):
    def cell(h, made):
        r1, z1, n1 = jnp.split(made, 3, -1)
        r2, z2, n2 = jnp.split(gates(w, 0, h, "hh"), 3, -1)
        r, z = jax.nn.sigmoid(r1 + r2), jax.nn.sigmoid(z1 + z2)
        h = (1 - z) * jnp.tanh(n1 + r * n2) + z * h
        return h, h

    start = jnp.zeros((x.shape[0], w["out.weight"].shape[0]), x.dtype)
    return linear(w, "out", over_steps(cell, start, gates(w, 0, x, "ih"))[:, -1])


def lstm_seq(w: dict, x):
    for layer in range(2):

        def cell(state, made, layer=layer):
            h, c = state
            i, f, g, o = jnp.split(made + gates(w, layer, h, "hh"), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((x.shape[0], w["out.weight"].shape[0]), x.dtype)
        x = over_steps(cell, (start, start), gates(w, layer, x, "ih"))
    return linear(w, "out", x[:, -1])


def attention(w: dict, name: str, x):
    rows, length, width = x.shape
    joined = x @ w[f"{name}.in_proj_weight"] + w[f"{name}.in_proj_bias"]
    q, k, v = (part.reshape(rows, length, HEADS, -1) for part in jnp.split(joined, 3, -1))
    y = jax.nn.dot_product_attention(q, k, v).reshape(rows, length, width)
    return linear(w, f"{name}.out_proj", y)


def transformer(w: dict, x):
    x = w["embedding.weight"][x] + w["positions.weight"]
    for i in range(4):
        name = f"layers.{i}"
        x = layer_norm(w, f"{name}.norm1", x + attention(w, f"{name}.attention", x))
        change = linear(w, f"{name}.narrow", gelu(linear(w, f"{name}.wide", x)))
        x = layer_norm(w, f"{name}.norm2", x + change)
    return linear(w, "out", x)


# Of weights and x. In training, those with running statistics also fill the dictionary of what
# they become; without one they use them.
MODELS = {
    "mlp": mlp,
    "residual_tower": residual_tower,
    "gated_routing": gated_routing,
    "iterative_refine": lambda w, x: refining(w, x, 8),
    "feedback_fixed": lambda w, x: refining(w, x, 10),
    "convnet": convnet,
    "conv_autoenc": conv_autoenc,
    "gru_seq": gru_seq,
    "lstm_seq": lstm_seq,
    "transformer": transformer,
}


def is_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def loss_of(s: Sizes):
    """(weights, statistics, x, its target if it has one) -> the loss, and what the statistics
    become."""
    model = MODELS[s.model]

    def loss(w: dict, statistics: dict, *inputs):
        x, target, kept = inputs[0], inputs[-1], {}
        more = {"kept": kept} if statistics else {}
        y = model(w | statistics, x, **more)
        if s.inputs[0].vocabulary is None:
            return jnp.square(y - target).mean(), kept
        right = jnp.take_along_axis(jax.nn.log_softmax(y), target[..., None], -1)
        return -right.mean(), kept

    return loss


def from_torch(weights: dict) -> tuple[dict, dict]:
    """Weights and running statistics, laid out as above. PyTorch keeps a linear layer's weight
    [outputs, inputs], a convolution's [outputs, inputs, rows, columns] and a transposed one's
    [inputs, outputs, rows, columns], which is to be read backwards."""

    def turned(name: str, w):
        if w.ndim == 4:
            backwards = name.startswith(("up.", "out."))
            return (w[:, :, ::-1, ::-1].transpose(2, 3, 0, 1) if backwards
                    else w.transpose(2, 3, 1, 0)).copy()
        as_is = w.ndim != 2 or name.startswith(("embedding.", "positions."))
        return w if as_is else w.T.copy()

    trained = {name: turned(name, w) for name, w in weights.items() if not is_statistic(name)}
    statistics = {
        name: w
        for name, w in weights.items()
        if is_statistic(name) and not name.endswith("num_batches_tracked")
    }
    return trained, statistics
