"""Writes expected_updates.h: parameters after 100 updates by PyTorch's optimizers, or by their
authors' formulas where PyTorch has none. `python expected_updates.py > expected_updates.h`, with torch
2.11.0 and schedulefree 1.4.1, then clang-format; f64. The problem is that of optimizers_test.cc.
"""

import math

import schedulefree
import torch

UPDATES = 100


def problem(maximize=False):
    a = torch.linspace(-2, 2, 15, dtype=torch.float64).reshape(3, 5).requires_grad_()
    b = torch.linspace(1, -1, 7, dtype=torch.float64).requires_grad_()
    ramp = torch.linspace(0, 1, 15, dtype=torch.float64).reshape(3, 5)

    def loss(t):
        value = 0.5 * ((a - ramp * (1.2 * math.sin(0.3 * t))) ** 2).sum() + (0.3 * b).exp().sum()
        return -value if maximize else value

    return a, b, loss


def by_torch(make, maximize=False, schedule=None):
    a, b, loss = problem(maximize)
    optimizer = make([a, b])
    scheduler = schedule(optimizer) if schedule else None
    for t in range(UPDATES):
        optimizer.zero_grad()
        loss(t).backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
    return a.detach(), b.detach()


def schedule_free(average, **options):
    """Where gradients are taken, or the average."""

    def make(parameters):
        optimizer = schedulefree.AdamWScheduleFree(parameters, lr=0.02, weight_decay=0.1, **options)
        optimizer.train()
        return optimizer

    a, b, loss = problem()
    optimizer = make([a, b])
    for t in range(UPDATES):
        optimizer.zero_grad()
        loss(t).backward()
        optimizer.step()
    if average:
        optimizer.eval()
    return a.detach(), b.detach()


class Authors(torch.optim.Optimizer):
    """A formula step(p, g, state, t) for each parameter."""

    def __init__(self, parameters, formula):
        super().__init__(parameters, {})
        self.formula, self.t = formula, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for p in self.param_groups[0]["params"]:
            self.formula(p, p.grad, self.state[p], self.t)


def lion(p, g, state, t, lr=0.01, beta1=0.9, beta2=0.99, decay=0.1):
    m = state.setdefault("m", torch.zeros_like(p))
    p.mul_(1 - lr * decay)
    p.add_(torch.sign(beta1 * m + (1 - beta1) * g), alpha=-lr)
    m.mul_(beta2).add_(g, alpha=1 - beta2)


def lamb(p, g, state, t, lr=0.01, beta1=0.9, beta2=0.999, eps=1e-6, decay=0.1):
    m = state.setdefault("m", torch.zeros_like(p))
    v = state.setdefault("v", torch.zeros_like(p))
    m.mul_(beta1).add_(g, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    r = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + eps) + decay * p
    sizes = p.norm(), r.norm()
    trust = sizes[0] / sizes[1] if sizes[0] > 0 and sizes[1] > 0 else 1.0
    p.add_(r, alpha=-float(lr * trust))


def muon(p, g, state, t, lr=0.02, momentum=0.95, decay=0.1, steps=5):
    buffer = state.setdefault("b", torch.zeros_like(p))
    buffer.lerp_(g, 1 - momentum)
    x = g.lerp(buffer, momentum)
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        s = x @ x.T
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    x = x.T if tall else x
    p.mul_(1 - lr * decay)
    p.add_(x, alpha=-lr * max(1, p.size(0) / p.size(1)) ** 0.5)


def muon_of_matrices():
    a, b, loss = problem()
    tall = a.detach().T.contiguous().requires_grad_()
    ramp = torch.linspace(0, 1, 15, dtype=torch.float64).reshape(3, 5).T
    optimizer = Authors([a, tall], muon)
    for t in range(UPDATES):
        optimizer.zero_grad()
        target = ramp * (1.2 * math.sin(0.3 * t))
        (0.5 * ((a - target.T) ** 2).sum() + 0.5 * ((tall - target) ** 2).sum()).backward()
        optimizer.step()
    return a.detach(), tall.detach()


O, S = torch.optim, torch.optim.lr_scheduler
ROWS = {
    "rmsprop": by_torch(lambda p: O.RMSprop(p, lr=0.01, weight_decay=0.1)),
    "rmsprop_centered": by_torch(lambda p: O.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.5, centered=True)),
    "adagrad": by_torch(
        lambda p: O.Adagrad(p, lr=0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.2)
    ),
    "adadelta": by_torch(lambda p: O.Adadelta(p, lr=1.0, rho=0.8, weight_decay=0.1)),
    "adamax": by_torch(lambda p: O.Adamax(p, lr=0.02, weight_decay=0.1)),
    "radam": by_torch(lambda p: O.RAdam(p, lr=0.02, weight_decay=0.1)),
    "radam_decoupled": by_torch(
        lambda p: O.RAdam(p, lr=0.02, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True)
    ),
    "nadam": by_torch(lambda p: O.NAdam(p, lr=0.02, weight_decay=0.1)),
    "nadam_decoupled": by_torch(
        lambda p: O.NAdam(p, lr=0.02, weight_decay=0.1, momentum_decay=0.01, decoupled_weight_decay=True)
    ),
    "adam_amsgrad": by_torch(lambda p: O.Adam(p, lr=0.02, betas=(0.9, 0.9), weight_decay=0.1, amsgrad=True)),
    "adamw_amsgrad": by_torch(lambda p: O.AdamW(p, lr=0.02, betas=(0.9, 0.9), weight_decay=0.1, amsgrad=True)),
    "adam_maximize": by_torch(lambda p: O.Adam(p, lr=0.02, weight_decay=0.1, maximize=True), True),
    "sgd_maximize": by_torch(lambda p: O.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.1, maximize=True), True),
    "nadam_maximize": by_torch(lambda p: O.NAdam(p, lr=0.02, weight_decay=0.1, maximize=True), True),
    "lion": by_torch(lambda p: Authors(p, lion)),
    "lamb": by_torch(lambda p: Authors(p, lamb)),
    "muon": muon_of_matrices(),
    "schedule_free": schedule_free(False),
    "schedule_free_average": schedule_free(True),
    "schedule_free_warmed_up": schedule_free(False, warmup_steps=30, betas=(0.8, 0.99)),
    "schedule_free_warmed_up_average": schedule_free(True, warmup_steps=30, betas=(0.8, 0.99)),
}


def rates(schedule, updates=40, lr=0.1, **options):
    optimizer = O.SGD([torch.zeros(1, requires_grad=True)], lr=lr, **options)
    scheduler = schedule(optimizer)
    made = []
    for _ in range(updates):
        made.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return made


RATES = {
    "exponential": rates(lambda o: S.ExponentialLR(o, 0.9)),
    "polynomial": rates(lambda o: S.PolynomialLR(o, total_iters=25, power=2.0)),
    "multi_step": rates(lambda o: S.MultiStepLR(o, [5, 12, 30], 0.3)),
    "cosine_restarts": rates(lambda o: S.CosineAnnealingWarmRestarts(o, T_0=10, eta_min=0.01)),
    "cosine_restarts_longer": rates(lambda o: S.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2, eta_min=0.01)),
    "one_cycle": rates(lambda o: S.OneCycleLR(o, max_lr=0.4, total_steps=41, cycle_momentum=False)),
    "one_cycle_linear": rates(
        lambda o: S.OneCycleLR(
            o, max_lr=0.4, total_steps=41, pct_start=0.25, anneal_strategy="linear", cycle_momentum=False,
            div_factor=10, final_div_factor=100,
        )
    ),
    "cyclic": rates(lambda o: S.CyclicLR(o, 0.1, 0.4, step_size_up=6, step_size_down=9, cycle_momentum=False)),
    "cyclic_triangular2": rates(
        lambda o: S.CyclicLR(o, 0.1, 0.4, step_size_up=5, mode="triangular2", cycle_momentum=False)
    ),
    "cyclic_exponential": rates(
        lambda o: S.CyclicLR(o, 0.1, 0.4, step_size_up=5, mode="exp_range", gamma=0.95, cycle_momentum=False)
    ),
}


def listed(numbers, indent="   "):
    lines, line = [], indent
    for number in numbers:
        text = f" {float(number)!r},"
        if len(line) + len(text) > 96:
            lines.append(line)
            line = indent
        line += text
    return "\n".join([*lines, line])


print("// Written by expected_updates.py; of PyTorch's optimizers and schedules, f64.")
print("#pragma once\n\n#include <map>\n#include <string>\n#include <vector>\n")
print("namespace metronome {\n")
print("/// Both parameters after 100 updates, one after the other.")
print("inline const std::map<std::string, std::vector<double>> kExpectedParameters = {")
for name, (a, b) in ROWS.items():
    print(f'    {{"{name}",\n     {{\n{listed([*a.flatten().tolist(), *b.flatten().tolist()], "        ")}\n     }}}},')
print("};\n")
print("/// The rates of the first updates.")
print("inline const std::map<std::string, std::vector<double>> kExpectedRates = {")
for name, made in RATES.items():
    print(f'    {{"{name}",\n     {{\n{listed(made, "        ")}\n     }}}},')
print("};\n\n}  // namespace metronome")
