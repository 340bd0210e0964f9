"""Writes expected_distributions.h: logarithms of densities, entropies, divergences, and gradients, by
torch.distributions. `python expected_distributions.py > expected_distributions.h`, with torch 2.11.0,
then clang-format; f64. distributions_test.cc has the same numbers.
"""

import torch
from torch import distributions as D


def line(start, end, *shape):
    count = torch.Size(shape).numel()
    return torch.linspace(start, end, count, dtype=torch.float64).reshape(shape)


def of(p, q, value, parameters):
    """All of them, one after the other; parts that torch lacks are left out."""
    for parameter in parameters:
        parameter.requires_grad_()
    made = [p().log_prob(value)]
    try:
        made.append(p().entropy())
    except NotImplementedError:
        pass
    if q is not None:
        made.append(D.kl_divergence(p(), q))
    sum(part.sum() * weight for part, weight in zip(made, (1.0, 0.3, 0.7))).backward()
    made += [parameter.grad for parameter in parameters]
    return [number for part in made for number in part.detach().flatten().tolist()]


def parameters():
    return line(-3, 3, 2, 4), line(-2, 2, 2, 4).exp()


def normal():
    loc, scale = parameters()
    return of(lambda: D.Normal(loc, scale), OTHER, VALUE, [loc, scale])


def diagonal_normal():
    loc, scale = parameters()
    p, q = lambda: D.Independent(D.Normal(loc, scale), 1), D.Independent(OTHER, 1)
    return of(p, q, VALUE, [loc, scale])


def squashed_normal():
    loc, scale = parameters()

    def p():
        base = D.TransformedDistribution(D.Normal(loc, scale), [D.TanhTransform()])
        return D.Independent(base, 1)

    return of(p, None, (VALUE / 4).tanh(), [loc, scale])


def categorical(mask=None):
    logits = line(-9, 7, 3, 5).sin() * 4

    def p():
        legal = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
        return D.Categorical(logits=legal)

    q = D.Categorical(logits=line(3, -2, 3, 5)) if mask is None else None
    return of(p, q, torch.tensor([0, 3, 2]), [logits])


def bernoulli():
    logits = line(-30, 30, 2, 4)
    bits = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 0]], dtype=torch.float64)
    return of(lambda: D.Bernoulli(logits=logits), D.Bernoulli(logits=line(2, -1, 2, 4)), bits, [logits])


OTHER = D.Normal(line(1, -2, 2, 4), line(1.5, -1, 2, 4).exp())
VALUE = line(4, -4, 2, 4)
MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
ROWS = {
    "normal": normal(),
    "diagonal_normal": diagonal_normal(),
    "squashed_normal": squashed_normal(),
    "categorical": categorical(),
    "masked_categorical": categorical(MASK),
    "bernoulli": bernoulli(),
}

print("// Written by expected_distributions.py; of torch.distributions, f64.")
print("#pragma once\n\n#include <map>\n#include <string>\n#include <vector>\n")
print("namespace metronome {\n")
print("inline const std::map<std::string, std::vector<double>> kExpectedDistributions = {")
for name, numbers in ROWS.items():
    print(f'    {{"{name}", {{{", ".join(repr(number) for number in numbers)}}}}},')
print("};\n\n}  // namespace metronome")
