"""The learners in PyTorch: their networks, and a loss of all inputs for each objective."""

import copy
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import mse_loss, softplus

from .sizes import CLIP, DISCOUNT, ENTROPY, ENTROPY_WEIGHT, LEAST, MOST, VALUE_WEIGHT, Sizes


def network(inputs: int, width: int, outputs: int, activation: type[nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width),
        activation(),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, outputs),
    )


def frozen(module: nn.Module) -> nn.Module:
    """The module with the very same weights, which no gradient reaches through this one."""
    view = copy.deepcopy(module).requires_grad_(False)
    for seen, own in zip(view.parameters(), module.parameters(), strict=True):
        seen.data = own.data
    return view


class Twins(nn.ModuleList):
    """Two critics of a state and an action."""

    def forward(self, state, action):
        pair = torch.cat([state, action], 1)
        return [critic(pair) for critic in self]


class Price(nn.Module):
    """What entropy is worth. As a module it stands in its place among the weights."""

    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.zeros(()))

    def forward(self):
        return self.log.exp()


def choose(of, noise):
    """tanh of normal numbers, of which `noise` are the draws, and its log density."""
    loc, wide = of.chunk(2, 1)
    scale = torch.exp(LEAST + 0.5 * (MOST - LEAST) * (wide.tanh() + 1))
    drawn = loc + scale * noise
    normal = -0.5 * ((drawn - loc) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
    slope = 2 * (math.log(2) - drawn - softplus(-2 * drawn))
    return drawn.tanh(), (normal - slope).sum(1, keepdim=True)


class MeanAction(nn.Module):
    """What an actor does in a state, without noise."""

    def __init__(self, actor: nn.Module):
        super().__init__()
        self.actor = actor

    def forward(self, state):
        return self.actor(state).chunk(2, 1)[0].tanh()


class Sac(nn.Module):
    """Soft actor-critic."""

    def __init__(self, s: Sizes):
        super().__init__()
        seen, actions = s.inputs[0].shape[1], s.inputs[1].shape[1]

        def critic() -> nn.Module:
            return network(seen + actions, s.width, 1, nn.ReLU)

        critics = Twins([critic(), critic()])
        self.actor = network(seen, s.width, 2 * actions, nn.ReLU)
        self.price = Price()
        self.target = copy.deepcopy(critics).requires_grad_(False)
        self.critics = critics

    def losses(self) -> list[Callable]:
        judge = frozen(self.critics)

        def of_critics(state, action, reward, next_state, done, noise, next_noise):
            with torch.no_grad():
                later, log_prob = choose(self.actor(next_state), next_noise)
                worth = torch.minimum(*self.target(next_state, later)) - self.price() * log_prob
                aim = reward + DISCOUNT * (1 - done) * worth
            one, other = self.critics(state, action)
            return mse_loss(one, aim) + mse_loss(other, aim)

        def of_actor_and_price(state, action, reward, next_state, done, noise, next_noise):
            """Two losses of which neither reaches the weights of the other: one pass backwards."""
            now, log_prob = choose(self.actor(state), noise)
            price = self.price()
            of_actor = price.detach() * log_prob - torch.minimum(*judge(state, now))
            return of_actor.mean() - price * (log_prob.detach().mean() + ENTROPY)

        return [of_critics, of_actor_and_price]

    def policy(self) -> nn.Module:
        return MeanAction(self.actor)


class Ppo(nn.Module):
    """Proximal policy optimization."""

    def __init__(self, s: Sizes):
        super().__init__()
        seen, actions = s.inputs[0].shape[1], s.inputs[1].vocabulary

        def orthogonal(outputs: int, gain: float) -> nn.Module:
            layers = network(seen, s.width, outputs, nn.Tanh)
            for i, of in ((0, math.sqrt(2)), (2, math.sqrt(2)), (4, gain)):
                nn.init.orthogonal_(layers[i].weight, of)
                nn.init.zeros_(layers[i].bias)
            return layers

        self.critic = orthogonal(1, 1)
        self.actor = orthogonal(actions, 0.01)

    def forward(self, state, action, before, gained, aim, valued):
        value = self.critic(state).squeeze(1)
        log_p = self.actor(state).log_softmax(1)
        log_prob = log_p.gather(1, action.unsqueeze(1)).squeeze(1)
        ratio = torch.exp(log_prob - before)
        advantage = (gained - gained.mean()) / (gained.std() + 1e-8)
        gain = torch.minimum(advantage * ratio, advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
        near = valued + (value - valued).clamp(-CLIP, CLIP)
        off = 0.5 * torch.maximum((value - aim).square(), (near - aim).square()).mean()
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        return VALUE_WEIGHT * off - gain.mean() - ENTROPY_WEIGHT * entropy

    def losses(self) -> list[Callable]:
        return [self]

    def policy(self) -> nn.Module:
        """The logits of the actions in a state."""
        return self.actor


LEARNERS = {"sac": Sac, "ppo": Ppo}
