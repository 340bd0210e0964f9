"""Training steps of several ranks in PyTorch: DistributedDataParallel over Gloo."""

import copy

import torch
from torch import distributed

from .forms import WARM_UP
from .torch_steps import Form, Part, TorchPeer, adam_of, step_of

# In MiB: PyTorch's own, a small one that begins early, and one for all gradients.
BUCKETS = (25, 1, 1024)


class DataParallel(TorchPeer):
    """The best of three sizes of buckets. Batch norm's statistics are each rank's own, as
    Metronome's are."""

    def __init__(self, device: str, threads: int, tf32: bool):
        super().__init__(device, threads, tf32)
        distributed.init_process_group("gloo")
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def prepare(self, s, weights: dict) -> None:
        self.copies: list[torch.nn.Module] = []
        super().prepare(s, weights)
        self.form = self.alone = self.with_model(self.copy())
        self.take(0, WARM_UP)
        self.choose(next(iter(self.forms)))

    def makers(self):
        # Each rank its own rows.
        self.batches = self.batches[self.rank :: self.size]

        def with_buckets(mib: int) -> Form:
            model = torch.nn.parallel.DistributedDataParallel(
                self.copy(),
                bucket_cap_mb=mib,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                static_graph=True,
            )
            return self.with_model(model)

        return {f"buckets of {mib} MiB": lambda mib=mib: with_buckets(mib) for mib in BUCKETS}

    def copy(self) -> torch.nn.Module:
        """The hooks of one form must not run in another's steps."""
        self.copies.append(copy.deepcopy(self.losses[0]))
        return self.copies[-1]

    def with_model(self, model: torch.nn.Module) -> Form:
        adam = adam_of(self.objectives[0], model, fused=True)
        self.optimizers.append(adam)
        return step_of([Part(model, adam.zero_grad, adam.step)])

    @torch.no_grad()
    def restore(self) -> None:
        for model in self.copies:
            for parameter, first in zip(model.parameters(), self.first, strict=True):
                parameter.copy_(first)
        super().restore()

    def slowest(self, ms: float) -> float:
        """Of all ranks."""
        all_of = torch.tensor(ms)
        distributed.all_reduce(all_of, distributed.ReduceOp.MAX)
        return all_of.item()

