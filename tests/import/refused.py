"""The modules whose programs cannot be imported, each for another reason; they are models of one archive."""

import torch
from torch import nn


class WritesCopy(nn.Module):
    def forward(self, x):
        y = x.t().reshape(-1)
        y.zero_()
        return x + 1


class WritesExpanded(nn.Module):
    def forward(self, x):
        y = torch.zeros(1, 3)
        y.expand(2, 3)[:, 0].fill_(1)
        return x + y


class WritesParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            self.linear.weight[0].mul_(0.5)
        return self.linear(x)


class Unknown(nn.Module):
    """Two functions without a counterpart, one of them in two lines."""

    def forward(self, x):
        y = x.lgamma()
        z = torch.special.bessel_j0(x)
        return y + z + y.lgamma()


class PutsSeveral(nn.Module):
    def forward(self, x):
        return x.index_put((torch.ones(2, dtype=torch.bool),), x)


class Open(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, x * y[:, None]])


class WritesWithoutGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            y[0].mul_(2)
        return y


class WritesDetached(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        y.detach().copy_(y.round())
        return y


class Counted(nn.Module):
    def forward(self, x):
        return x.masked_select(x > 0)


class Bits(nn.Module):
    def forward(self, x):
        return x.long() & 3


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, bias=False).to(torch.bfloat16)

    def forward(self, x):
        return self.linear(x.bfloat16())


class DividesByZero(nn.Module):
    """It divides by 0 where x is 0, which PyTorch refuses of whole numbers; and by more than 2^53 holds."""

    def forward(self, x):
        n = x.long()
        return 7 // n, n * (1 << 53) % 5


REFUSED = {
    "copy": WritesCopy,
    "expanded": WritesExpanded,
    "parameter": WritesParameter,
    "puts_several": PutsSeveral,
    "unknown": Unknown,
    "counted": Counted,
    "bits": Bits,
    "divides_by_zero": DividesByZero,
    "halves": Halves,
    "without_grad": WritesWithoutGrad,
    "detached": WritesDetached,
}
