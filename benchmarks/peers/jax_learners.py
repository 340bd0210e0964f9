"""The learners in JAX: for each objective a loss of all weights and all inputs."""

import math

import jax
import jax.numpy as jnp

from .jax_models import linear
from .sizes import CLIP, DISCOUNT, ENTROPY, ENTROPY_WEIGHT, LEAST, MOST, VALUE_WEIGHT


def network(w: dict, name: str, x, activation):
    for i in (0, 2):
        x = activation(linear(w, f"{name}.{i}", x))
    return linear(w, f"{name}.4", x)


def twins(w: dict, name: str, state, action):
    """Two critics of a state and an action."""
    pair = jnp.concatenate([state, action], 1)
    return [network(w, f"{name}.{i}", pair, jax.nn.relu) for i in range(2)]


def choose(w: dict, state, noise):
    """tanh of normal numbers, of which `noise` are the draws, and its log density."""
    loc, wide = jnp.split(network(w, "actor", state, jax.nn.relu), 2, 1)
    scale = jnp.exp(LEAST + 0.5 * (MOST - LEAST) * (jnp.tanh(wide) + 1))
    drawn = loc + scale * noise
    normal = -0.5 * jnp.square((drawn - loc) / scale) - jnp.log(scale)
    normal = normal - 0.5 * math.log(2 * math.pi)
    slope = 2 * (math.log(2) - drawn - jax.nn.softplus(-2 * drawn))
    return jnp.tanh(drawn), (normal - slope).sum(1, keepdims=True)


def sac_critics(w: dict, state, action, reward, next_state, done, noise, next_noise):
    later, log_prob = choose(w, next_state, next_noise)
    price = jnp.exp(w["price.log"])
    worth = jnp.minimum(*twins(w, "target", next_state, later)) - price * log_prob
    aim = reward + DISCOUNT * (1 - done) * worth
    one, other = twins(w, "critics", state, action)
    return jnp.square(one - aim).mean() + jnp.square(other - aim).mean()


def sac_actor_and_price(w: dict, state, action, reward, next_state, done, noise, next_noise):
    """Two losses of which neither reaches the weights of the other."""
    now, log_prob = choose(w, state, noise)
    price, judged = jnp.exp(w["price.log"]), jnp.minimum(*twins(w, "critics", state, now))
    of_actor = jax.lax.stop_gradient(price) * log_prob - judged
    return of_actor.mean() - price * (jax.lax.stop_gradient(log_prob).mean() + ENTROPY)


def mean_action(w: dict, state):
    """What the actor of soft actor-critic does in a state, without noise."""
    return jnp.tanh(jnp.split(network(w, "actor", state, jax.nn.relu), 2, 1)[0])


def logits(w: dict, state):
    """Of the actions that proximal policy optimization may take in a state."""
    return network(w, "actor", state, jnp.tanh)


def ppo(w: dict, state, action, before, gained, aim, valued):
    value = network(w, "critic", state, jnp.tanh)[:, 0]
    log_p = jax.nn.log_softmax(logits(w, state))
    ratio = jnp.exp(jnp.take_along_axis(log_p, action[:, None], 1)[:, 0] - before)
    advantage = (gained - gained.mean()) / (gained.std(ddof=1) + 1e-8)
    gain = jnp.minimum(advantage * ratio, advantage * jnp.clip(ratio, 1 - CLIP, 1 + CLIP))
    near = valued + jnp.clip(value - valued, -CLIP, CLIP)
    off = 0.5 * jnp.maximum(jnp.square(value - aim), jnp.square(near - aim)).mean()
    entropy = -(jnp.exp(log_p) * log_p).sum(1).mean()
    return VALUE_WEIGHT * off - gain.mean() - ENTROPY_WEIGHT * entropy


POLICIES = {"sac": mean_action, "ppo": logits}
LOSSES = {"sac": (sac_critics, sac_actor_and_price), "ppo": (ppo,)}
