"""A module of whole numbers; make_programs.py exports it."""

import torch
from torch import nn


class WholeNumbers(nn.Module):
    """Arithmetic of i64 and i32, of both signs."""

    def forward(self, x, n):
        d, small = 2 * n - 1, n.int()
        quotients = n // 2, n // d, 17 // d, n.div(3, rounding_mode="trunc"), n.div(d, rounding_mode="trunc"), small // 3
        rests = n % 3, n % d, 17 % d, torch.fmod(n, 3), torch.fmod(n, d), small % 5
        powers = n**0, n**1, n**2, n**5, small**3, ~n, ~small
        same = torch.floor(n), torch.ceil(n), torch.round(n), torch.trunc(n), n.square(), n.abs(), n.sign(), -n
        return quotients, rests, powers, same, n / 2, n.clamp(-1, 3), n.sum(), n.prod(), x * (n % 3)
