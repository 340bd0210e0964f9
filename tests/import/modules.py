"""The modules that make_programs.py exports: one class a subject, and the table of them with their inputs."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn, randint, randn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from whole_numbers import WholeNumbers


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.inner = nn.Linear(16, 16)
        self.out = nn.Linear(16, 4)
        self.dropout = nn.Dropout(0.0)
        self.relu, self.silu = nn.ReLU(), nn.SiLU()
        self.gelu, self.gelu_of_tanh = nn.GELU(), nn.GELU(approximate="tanh")

    def forward(self, x):
        x = self.gelu(self.norm(self.into(x)))
        x = x + self.dropout(self.silu(self.inner(x)))
        return self.out(self.relu(x) + self.gelu_of_tanh(x))


class Convnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)
        self.last = nn.Conv2d(8, 6, (1, 3), stride=(1, 2), padding=(0, 1))
        self.most, self.mean = nn.MaxPool2d(2), nn.AvgPool2d(3, stride=1, padding=1)
        self.whole = nn.AdaptiveAvgPool2d((2, 1))
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.most(F.relu(self.norm(self.first(x))))
        x = self.last(self.mean(self.grouped(x)))
        return self.head(torch.flatten(self.whole(x), 1))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Conv1d(2, 4, 3, padding=1)
        self.volume = nn.Conv3d(1, 2, (1, 2, 2), padding=(0, 1, 0))
        self.up = nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1)
        self.same = nn.Conv2d(2, 4, 3, padding="same")
        self.group_norm = nn.GroupNorm(2, 4)
        self.instance_norm = nn.InstanceNorm2d(2, affine=True)

    def forward(self, line, image, volume):
        image = self.up(self.group_norm(self.same(self.instance_norm(image))))
        return self.line(line), image, self.volume(volume)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.lstm = nn.LSTM(10, 6)
        self.rnn = nn.RNN(6, 3)

    def forward(self, x, h0, c0):
        states, gru_last = self.gru(x)
        states, (h, c) = self.lstm(states.transpose(0, 1), (h0, c0))
        states, rnn_last = self.rnn(states)
        return states, gru_last, h, c, rnn_last


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        options = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "dropout": 0.0, "batch_first": True}
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(**options) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Attention(nn.Module):
    """Once with the mean of the heads' weights as an output, once with keys that count for nothing."""

    def __init__(self):
        super().__init__()
        self.first = nn.MultiheadAttention(8, 2, batch_first=True)
        self.second = nn.MultiheadAttention(8, 4, kdim=6, vdim=6, batch_first=True)

    def forward(self, x, keys, lengths):
        x, weights = self.first(x, x, x)
        padding = torch.arange(keys.shape[1]) >= lengths[:, None]
        attended, _ = self.second(x, keys, keys, key_padding_mask=padding, need_weights=False)
        return x + attended, weights


class Language(nn.Module):
    """The head's weight is the embedding's: one parameter of two names."""

    def __init__(self, words=20, width=16, longest=8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.positions = nn.Parameter(0.1 * torch.randn(longest, width))
        self.joint = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words, targets):
        x = self.embedding(words) + self.positions
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.joint(x).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        logits = self.head(x + attended.transpose(1, 2).flatten(2))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Elementwise(nn.Module):
    def forward(self, x, y):
        positive = x.abs() + 1
        unary = [positive, torch.exp(x), torch.log(positive), torch.sqrt(positive), torch.rsqrt(positive), x.sin()]
        unary += [x.cos(), x.tanh(), x.sigmoid(), F.relu(x), F.relu6(4 * x), F.hardswish(x), F.hardsigmoid(x), F.elu(x)]
        unary += [F.elu(x, alpha=0.5), F.selu(x), F.leaky_relu(x, 0.2), F.softplus(x), F.mish(x), F.logsigmoid(x)]
        unary += [x.clamp(-0.5, 0.5), x.clamp(min=0.25), -x, x.reciprocal(), x.square(), x.floor(), x.sign(), x.round()]
        binary = [x + y, torch.add(x, y, alpha=2), torch.sub(x, y, alpha=0.5), x - y, x * y, x / y, x**2, positive**0.5]
        binary += [positive**y, 2**y, torch.maximum(x, y), torch.minimum(x, y), torch.where(x > y, x, y), 1 - x, 2 / x]
        binary += [x + 1, x * 0.5, x / 4, 3 - (x - 1), x.masked_fill(y <= 0, -1.0), torch.where(x >= 0.5, x, 0.0)]
        orders = [x > 0, x >= y, x < y, x <= 0, x == y, x != 0, (x > 0) & (y > 0), (x > 0) | (y > 0)]
        orders += [torch.logical_and(x > 0, y > 0), torch.logical_or(x > 0, y > 0), torch.logical_not(x > 0)]
        orders += [~(y > 0), torch.logical_xor(x > 0, y > 0)]
        whole = (4 * x).to(torch.int64)
        promoted = [whole, whole + 1, whole * 0.5, whole / 2, whole + x, (x > 0) * y, (x > 0).to(torch.float32) + 1]
        return unary, binary, torch.stack(orders).long(), promoted


class ElementwiseMore(nn.Module):
    """Functions that are met less often than those of Elementwise."""

    def __init__(self):
        super().__init__()
        self.prelu = nn.PReLU(3)

    def forward(self, x, y):
        positive, small = x.abs() + 1, 0.9 * x.tanh()
        unary = [x.erf(), x.expm1(), positive.log1p(), positive.log2(), positive.log10(), x.exp2(), small.tan()]
        unary += [small.asin(), small.acos(), x.atan(), x.sinh(), x.cosh(), x.ceil(), x.trunc(), x.frac()]
        unary += [F.celu(x), F.softsign(x), F.hardtanh(x), F.softshrink(x), F.hardshrink(x), F.tanhshrink(x)]
        unary += [F.threshold(x, 0.1, -1.0), F.glu(x), self.prelu(x), torch.nan_to_num(x), x.clamp(max=0.25)]
        binary = [torch.atan2(x, y), torch.hypot(x, y), torch.lerp(x, y, 0.25), torch.addcmul(x, x, y, value=0.5)]
        binary += [torch.addcdiv(x, y, positive), torch.logaddexp(x, y), x.clamp(-positive, small)]
        binary += [torch.fmod(x, 0.5), x % 0.75, torch.remainder(x, positive), torch.div(x, y, rounding_mode="floor")]
        binary += [(4 * x.detach()) // 3, torch.isnan(x).long()]
        binary += [torch.isfinite(x / y).long(), torch.isclose(x, y).long()]
        return unary, binary


class Shapes(nn.Module):
    def forward(self, x, y, rows, columns):  # [4, 6], [2, 3, 4], [3] and [4, 2] whole numbers
        views = [x.view(2, 2, 6), x.view(-1), x.reshape(3, 8), x.t().reshape(-1), y.flatten(1), x.unflatten(1, (2, -1))]
        views += [y.permute(2, 0, 1), y.transpose(0, -1), x.t(), x.unsqueeze(1).squeeze(1), x[None, :, None], y.mT]
        views += [x[:, :1].expand(-1, 5), x.unsqueeze(0).expand(2, 4, 6), x.repeat(2, 1, 2), y.movedim(0, -1)]
        joins = [torch.cat([x, x.t().reshape(4, 6)], dim=1), torch.stack([x, 2 * x], dim=-1)]
        parts = [*x.split(4, dim=1), *x.split([1, 2, 3], dim=1), *x.chunk(2), *y.unbind(1), y.select(1, -1), x[-1]]
        parts += [x[1:3], x[:, -2:], x[:-1, 1:5], x[..., 2], x.narrow(1, 2, 3), x[:, ::2], y[1, :, -1]]
        moves = [x.index_select(0, rows), x.gather(1, columns), x[rows], x[:, rows], x.flip(0), x.flip([0, 1])]
        moves += [x.roll(2, 1), x.roll((1, -1), (0, 1)), x.tril(), x.triu(1), F.pad(x, (1, 2))]
        moves += [F.pad(x, (0, 1, 2, 0), value=1.5)]
        products = [torch.einsum("bij,kj->bik", y, x[:, :4]), torch.bmm(y, y.transpose(1, 2)), y @ x, y @ x[:, 0]]
        products += [x[0, :4] @ y[0].t(), x[:, 0] @ x[:, 1], y.unsqueeze(1) @ y.mT]
        products += [torch.outer(x[0], x[:, 0]), torch.mm(x, x.t())]
        return views, joins, parts, moves, products


class Made(nn.Module):
    """Tensors that forward makes from no input."""

    def forward(self, x):
        made = [torch.zeros(3), torch.ones(2, 3, dtype=torch.int64), torch.full((3,), 0.5), torch.arange(3)]
        made += [torch.eye(3), torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2), x.new_zeros(3)]
        made += [torch.arange(1, 7, 2), torch.linspace(0, 1, 3), torch.tensor([1.0, 2.0, 4.0])]
        made += [torch.zeros(3, device="cpu", layout=torch.strided), torch.scalar_tensor(0.25)]
        made += [torch.ones(3, 3).tril(), x.new_ones(3), x.detach()]
        return [x * each for each in made], torch.ones(2, 3, dtype=torch.int64)


class Reductions(nn.Module):
    def forward(self, x):  # [2, 3, 4]
        sums = [x.sum(), x.sum(1), x.sum((0, 2)), x.sum(-1, keepdim=True), x.mean()]
        sums += [x.mean(dim=(1, 2), keepdim=True), x.mean(0), x.amax(1), x.amin((0, 2), keepdim=True)]
        sums += [x.max(), x.min(), x[0, 0].prod(), x[0].prod(1)]
        pairs = [*x.max(dim=1), *x.min(dim=-1, keepdim=True)]
        places = [x.argmax(), x.argmax(dim=1), x.argmin(dim=-1, keepdim=True)]
        spread = [x.var(1), x.var(dim=(0, 2), unbiased=False), x.std(-1), x.std(-1, correction=0, keepdim=True)]
        spread += [x.var()]
        soft = [x.softmax(1), F.log_softmax(x, -1), torch.logsumexp(x, (1, 2)), torch.logsumexp(x, 0, keepdim=True)]
        norms = [x.norm(), x.norm(dim=1), x.norm(p=1, dim=-1), torch.linalg.vector_norm(x, dim=(1, 2))]
        norms += [F.normalize(x, dim=1)]
        orders = [x.cumsum(1), *x.topk(2, dim=-1), *x.sort(dim=1), *x.sort(descending=True), x.argsort(0)]
        counts = [(x > 0).sum(), (x > 0).any(1).long(), (x > -1).all(dim=2).long(), x.sum(0, dtype=torch.float32)]
        return sums, pairs, places, spread, soft, norms, orders, counts


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.tensor([0.5, 1.0, 2.0, 0.25]))

    def forward(self, x, y, classes):  # [6, 4], [6, 4], [6] of 4 classes
        distances = [F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.5)]
        distances += [F.huber_loss(x, y, delta=0.75), F.mse_loss(x, y, reduction="sum")]
        distances += [F.binary_cross_entropy_with_logits(x, y.sigmoid())]
        logs = x.log_softmax(-1)
        entropies = [F.cross_entropy(x, classes), F.cross_entropy(x, classes, label_smoothing=0.1)]
        entropies += [F.cross_entropy(x, classes, weight=self.weights), F.cross_entropy(x, y.softmax(-1))]
        entropies += [F.nll_loss(logs, classes), F.kl_div(logs, y.softmax(-1), reduction="batchmean")]
        return distances, entropies


class Frozen(nn.Module):
    """`scale` is a constant, and forward changes the buffers `count` and `mean`."""

    def __init__(self):
        super().__init__()
        self.fixed, self.trained = nn.Linear(4, 6), nn.Linear(6, 3)
        self.fixed.requires_grad_(False)
        self.register_buffer("shift", torch.randn(6))
        self.register_buffer("passing", torch.randn(6), persistent=False)
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("mean", torch.zeros(6))
        self.scale = torch.tensor([0.5, 2.0, -1.0])

    def forward(self, x):
        x = self.fixed(x) + self.shift * self.passing
        self.count.add_(1)
        self.mean.copy_(0.9 * self.mean + 0.1 * x.detach().mean(0))
        return self.trained(x - self.mean) * self.scale


class TiedBuffers(nn.Module):
    """`seen` and `also` are one buffer, which forward changes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("also", self.seen)

    def forward(self, x):
        self.seen.add_(1)
        return self.linear(x) * self.also + self.seen


class TwoInputs(nn.Module):
    """`y` is given by name. `factor` and `way` become constants. An input and a parameter are outputs too."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, factor, way, *, y):
        z = self.linear(x) * factor
        z = z + y["left"] if way == "add" else z
        return (z, y["right"][0] * x), {"x": x, "z_again": z, "bias": self.linear.bias, "sum": z.sum()}


class InPlace(nn.Module):
    """Writes through views: a row, a column, a slice and two picked rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)

    def forward(self, x, rows):
        x = self.linear(x).clone()
        x.add_(1)
        x = F.relu_(x) * 2
        x[:, 0] = 0
        x[0].mul_(2)
        x[1:3, 2:].copy_(x[0:2, 2:] * 0.5)
        x.view(-1)[3] = 0.25
        x[rows] = x[rows] + 1
        y = torch.zeros(6, 5)
        y[1:5] = x
        return x.exp_(), y, y.masked_fill_(y > 1, 0.0).t_()


class Writes(nn.Module):
    """What one write does to every name of its memory: results of writes, views of views, parts, a buffer's rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.quiet = nn.Dropout(0.0)
        self.register_buffer("ring", torch.zeros(3, 4))

    def forward(self, x):
        h = self.linear(x)
        same = h.add_(1)
        h.mul_(2)
        turned = h.t()
        turned[1:3].mul_(3)
        row = h.view(2, 10)[0]
        row[1::3] = row[::3][:3] * 0.5
        quiet = self.quiet(h)
        quiet.sub_(0.5)
        kept = h.clone()
        h.zero_()
        masked = torch.full((4, 5), 2.0)
        masked[:, -2:].unbind(1)[1].fill_(7)
        first, second = masked.split((1, 3))
        second[:, 0].sub_(first[0, 1])
        self.ring.copy_(self.ring.roll(1, 0))
        self.ring[0] = kept.detach()[:, 0]
        return same + kept, turned * 1, quiet - kept, first * second, masked * kept, self.ring.sum(0)


class Picks(nn.Module):
    """Reads and writes by tensors of indices, negative and of several axes, and windows."""

    def forward(self, x, i, j, mask):
        reads = [x[i], x[:, i], x[i, j], x[:, i, j], x[i, :, j], x[i[:, None], j], x[..., -j - 1], x[i, 1:, j]]
        reads += [x.take_along_dim((j + 1)[None, :, None], 1), x[0].index_select(1, j + 1), x.gather(2, (j + 1)[None, :, None])]
        puts = [x.index_put((i, j), x[0, :2, :].mean(1)[:, None].expand(2, 4)), x.index_put((i, j), x[1, :2, :], accumulate=True)]
        apart = x.transpose(0, 2).clone()
        apart[j, :, i] = x[:2, :, 0] * 2
        puts += [apart, x.index_put((i,), x[:1]), x.index_put((mask,), x.sum())]
        puts += [x.index_add(1, j + 1, x[:, :2], alpha=3), x.index_copy(2, j + 1, x[:, :, 2:]), x.index_fill(0, i[:1], 0.5)]
        repeats = [x.repeat_interleave(2, 1), x.repeat_interleave(3), x.diff(), x.diff(2, 0, prepend=x[:1], append=x[1:])]
        columns = F.unfold(x[None], (2, 3), dilation=(1, 1), padding=(1, 0), stride=(2, 1))
        windows = [x.unfold(2, 2, 1), x.unfold(1, 3, 2), columns]
        windows += [F.fold(columns, (3, 4), (2, 3), padding=(1, 0), stride=(2, 1)), x.max(x.flip(0)), x.min(x * 2)]
        return reads, puts, repeats, windows


class Resized(nn.Module):
    """Pads that are no constant, and images of another size, by size and by factor."""

    def forward(self, line, image, volume):
        pads = [F.pad(line, (2, 1), mode) for mode in ("reflect", "replicate", "circular")]
        pads += [F.pad(image, (1, 2, 3, 0), mode) for mode in ("reflect", "replicate", "circular")]
        sizes = [F.interpolate(image, (7, 3), mode=mode) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")]
        sizes += [F.interpolate(image, (7, 3), mode=mode, align_corners=True) for mode in ("bilinear", "bicubic")]
        sizes += [F.interpolate(image, scale_factor=1.7, mode=mode) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")]
        lines = [F.interpolate(line, size, mode="linear") for size in (3, 9)]
        lines += [F.interpolate(line, scale_factor=0.7, mode="linear", align_corners=True), F.interpolate(line, 9)]
        volumes = [F.interpolate(volume, (3, 2, 5), mode="trilinear"), F.interpolate(volume, scale_factor=2)]
        shuffles = [F.pixel_shuffle(image, 2), F.pixel_unshuffle(image, 2)]
        return pads, sizes, lines, volumes, shuffles


class WeightNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(2, 4, 3, groups=2), dim=2)
        self.linear = weight_norm(nn.Linear(4, 3))

    def forward(self, x):
        return self.linear(self.conv(x).mT)


class Layouts(nn.Module):
    """Weights whose strides are not row-major, and two parameters in one storage."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.linear = nn.Linear(4, 6)
        self.linear.weight = nn.Parameter(torch.randn(4, 6).t())
        both = torch.randn(9, 6)
        self.upper, self.lower = nn.Parameter(both[:4]), nn.Parameter(both[4:])
        self.register_buffer("even", torch.randn(6)[::2])

    def forward(self, x):
        x = self.conv(x.contiguous(memory_format=torch.channels_last)).mean((2, 3))
        x = self.linear(x)
        return x @ self.upper.t(), x @ self.lower.t(), x[:, :3] * self.even


class NoGrad(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.student = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x).softmax(-1)
            sharp = target.square()
        return F.mse_loss(self.student(x), target), sharp


class Autocast(nn.Module):
    """In f64, which autocast leaves alone, the region computes without rounding to bfloat16."""

    def __init__(self):
        super().__init__()
        self.linear, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = F.relu(self.linear(x))
        return self.head(x.to(self.head.weight.dtype))


class Conditional(nn.Module):
    """Takes each branch once, whatever x is."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        def above(x):
            return self.linear(x).sin()

        def below(x):
            return self.linear(x) * 2 - x

        return torch.cond(x.sum() > 0, above, below, (x,)), torch.cond(x.sum() <= 0, above, below, (x,))


class Dynamic(nn.Module):
    """The batch is of any size: its size is an argument of views, and a number that forward computes with."""

    def __init__(self):
        super().__init__()
        self.mlp = Mlp()

    def forward(self, x):
        batch = x.shape[0]
        y = self.mlp(x.reshape(batch, 8))
        twice = torch.cat([y, y]).view(2 * batch, 2, 2)
        return y, twice[:batch].sum() / batch, y + torch.zeros(batch, 1)


class Branches(nn.Module):
    """Several results, a branch within a branch, writes inside of one, and a branch of numbers alone."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        def above(x):
            y = self.first(x)
            y[:, 0].mul_(2)
            return y, torch.cond(x.mean() > 100, lambda x: x + 1, lambda x: self.second(x) * x, (x,))

        def below(x):
            return self.second(x).sin(), x * 2

        y, z = torch.cond(x.sum() > 0, above, below, (x,))
        v, w = torch.cond(x.sum() <= 0, above, below, (y,))
        number = torch.cond(x.sum() > 0, lambda: torch.ones(2), lambda: torch.zeros(2), ())
        return y * z, v - w, number


def scan(step, carried, sequences, dim=0, reverse=False):
    """PyTorch's, when it is exported; else a loop of Python: torch 2.11 gives another gradient than that."""
    if torch.compiler.is_exporting():
        return torch._higher_order_ops.scan(step, carried, sequences, dim=dim, reverse=reverse)
    parts = list(sequences.unbind(dim))
    rows = []
    for part in reversed(parts) if reverse else parts:
        carried, row = step(carried, part)
        rows.append(row)
    return carried, torch.utils._pytree.tree_map(lambda *each: torch.stack(each), *(rows[::-1] if reverse else rows))


def while_loop(condition, body, carried):
    """As `scan`: torch 2.11 gives another gradient where no iteration runs."""
    if torch.compiler.is_exporting():
        return torch._higher_order_ops.while_loop(condition, body, carried)
    while condition(*carried):
        carried = body(*carried)
    return carried


class Loops(nn.Module):
    """A loop that numbers end, after five iterations and after none, and scans from both ends."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, steps):
        def step(h, x):
            h = torch.tanh(self.cell(h) + x)
            return h, self.out(h)

        last, outputs = scan(step, torch.zeros_like(x[0]), x)
        (a, b), (sums, backwards) = scan(
            lambda c, x: ((c[0] + x, c[1] * 2), (c[0] * x, x.sin())), (last, torch.ones(3, 4, dtype=x.dtype)), steps, dim=1, reverse=True
        )
        count, y = while_loop(
            lambda n, y: n < 5, lambda n, y: (n + 1, torch.tanh(self.cell(y))), (torch.zeros((), dtype=torch.int64), last)
        )
        none, same = while_loop(lambda n, y: n < 0, lambda n, y: (n + 1, y * 2), (torch.zeros((), dtype=torch.int64), last))
        return outputs, a, b, sums, backwards, count, y, none, same


class UnseenWrites(nn.Module):
    """Writes that autograd does not see, to a constant and to buffers: no gradient comes of what they write."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("queue", torch.randn(6, 4))
        self.register_buffer("history", torch.zeros(2, 3, 4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        q, k = self.query(x), self.key(x)
        zeros = torch.zeros(3, 4)
        with torch.no_grad():
            self.queue[2:5] = k
            self.history[1] = q
            self.history[:, 0].copy_(k[:2])
            self.mean.mul_(0.9).add_(0.1 * q.mean(0))
            zeros[0] = k[0]
            zeros[1:].add_(q[1:])
        self.history.detach()[0, 1] = q[0]
        copy = q * 1
        copy[0] = k[0]
        return q @ self.queue.t(), k + zeros, q * self.mean, self.history * k, copy * q


@dataclasses.dataclass
class Case:
    """A module, the inputs of its export and of its expected numbers, and how it is exported."""

    module: Callable[[], nn.Module]
    inputs: Callable[[], tuple]
    named: Callable[[], dict] = dict  # the inputs given by name
    fed: Callable[[], tuple] | None = None  # the inputs of the expected numbers, if they are others
    dynamic: tuple | None = None
    decomposed: bool = False
    random: bool = False  # its outputs have no expected numbers
    tolerance: float = 1e-4  # of the exported program in f32, beside f64


def given_by_name():
    return {"y": {"left": randn(3, 4), "right": [randn(4)]}}


def image():
    return (randn(2, 3, 16, 16),)


CASES = {
    "mlp": Case(Mlp, lambda: (randn(3, 8),)),
    "convnet": Case(Convnet, image),
    "tied_buffers": Case(TiedBuffers, lambda: (randn(2, 4),), random=True),
    "convolutions": Case(Convolutions, lambda: (randn(2, 2, 7), randn(2, 2, 4, 4), randn(2, 1, 2, 3, 4))),
    "recurrent": Case(Recurrent, lambda: (randn(2, 3, 4), randn(1, 2, 6), randn(1, 2, 6))),
    "encoder": Case(Encoder, lambda: (randn(2, 5, 16),)),
    "attention": Case(Attention, lambda: (randn(2, 3, 8), randn(2, 4, 6), torch.tensor([4, 2]))),
    "language": Case(Language, lambda: (randint(20, (2, 8)), randint(20, (2, 8)))),
    "elementwise": Case(Elementwise, lambda: (randn(3, 4), randn(3, 4))),
    "elementwise_more": Case(ElementwiseMore, lambda: (randn(2, 3, 4), randn(2, 3, 4))),
    "shapes": Case(Shapes, lambda: (randn(4, 6), randn(2, 3, 4), randint(4, (3,)), randint(6, (4, 2)))),
    "made": Case(Made, lambda: (randn(3),)),
    "reductions": Case(Reductions, lambda: (randn(2, 3, 4),)),
    "losses": Case(Losses, lambda: (randn(6, 4), randn(6, 4), randint(4, (6,)))),
    "frozen": Case(Frozen, lambda: (randn(5, 4),)),
    "functional": Case(Convnet, image, decomposed=True),
    "two_inputs": Case(TwoInputs, lambda: (randn(3, 4), 0.5, "add"), named=given_by_name),
    "in_place": Case(InPlace, lambda: (randn(4, 5), torch.tensor([3, 1]))),
    "writes": Case(Writes, lambda: (randn(4, 5),)),
    "picks": Case(
        Picks,
        lambda: (randn(3, 3, 4), torch.tensor([2, -3]), torch.tensor([-1, 0]), torch.eye(3, dtype=torch.bool)),
    ),
    "resized": Case(Resized, lambda: (randn(2, 3, 5), randn(1, 4, 4, 6), randn(1, 1, 2, 3, 2))),
    "weight_normed": Case(WeightNormed, lambda: (randn(2, 2, 6),)),
    "dropout": Case(lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), lambda: (randn(3, 4),), random=True),
    "layouts": Case(Layouts, lambda: (randn(2, 3, 5, 5),)),
    "no_grad": Case(NoGrad, lambda: (randn(5, 4),)),
    "autocast": Case(Autocast, lambda: (randn(5, 4),), tolerance=0.05),
    "conditional": Case(Conditional, lambda: (randn(3, 4),)),
    "unseen_writes": Case(UnseenWrites, lambda: (randn(3, 4),)),
    "branches": Case(Branches, lambda: (randn(3, 4),)),
    "whole_numbers": Case(WholeNumbers, lambda: (randn(3, 4), randint(19, (3, 4)) - 9)),
    "loops": Case(Loops, lambda: (randn(6, 3, 4), randn(3, 2, 4))),
    "dynamic": Case(
        Dynamic, lambda: (randn(3, 2, 4),), fed=lambda: (randn(5, 2, 4),), dynamic=({0: torch.export.Dim("batch")},)
    ),
}
