"""Training steps in PyTorch: eager, compiled, and captured whole into a CUDA graph."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from . import torch_models
from .forms import Forms
from .sizes import Objective, Sizes, batches

# The inputs -> the first objective's loss, on the device.
Form = Callable[..., torch.Tensor]


def channels_last(form: Form) -> Form:
    """Images pixel by pixel, which convolutions, norms and pools keep to."""

    def laid_out(tensor):
        if tensor.dim() != 4:
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)

    return lambda *inputs: form(*map(laid_out, inputs))


def without_onednn(form: Form) -> Form:
    """PyTorch's own recurrent layers on a CPU."""

    def step(*inputs):
        with torch.backends.mkldnn.flags(enabled=False):
            return form(*inputs)

    return step


@dataclass
class Part:
    """What a step does for one objective."""

    loss_of: Callable
    zero: Callable
    update: Callable


def step_of(parts: list[Part]) -> Form:
    """One part after the other: a loss is of the weights that the parts before have updated."""

    def step(*inputs):
        losses = []
        for part in parts:
            part.zero(set_to_none=True)
            losses.append(part.loss_of(*inputs))
            losses[-1].backward()
            part.update()
        return losses[0]

    return step


def below(model: torch.nn.Module, path: str) -> list[torch.nn.Parameter]:
    return [p for name, p in model.named_parameters() if name.startswith(path)]


def adam_of(objective: Objective, model: torch.nn.Module, **options) -> torch.optim.Optimizer:
    groups = [
        {"params": below(model, path), "lr": rate} for path, rate in objective.rates.items()
    ]
    return torch.optim.Adam(groups, betas=(0.9, 0.999), eps=objective.eps, **options)


def update_of(
    objective: Objective, model: torch.nn.Module, adam: torch.optim.Optimizer
) -> Callable[[], None]:
    """Clips gradients, takes Adam's step and lets targets follow, where the objective says so."""
    trained = [parameter for path in objective.rates for parameter in below(model, path)]
    follow = objective.follow
    if follow:
        targets, sources = (
            [parameter.detach() for parameter in below(model, path)]
            for path in (follow.target, follow.source)
        )

    def update() -> None:
        if objective.clip_norm:
            torch.nn.utils.clip_grad_norm_(trained, objective.clip_norm)
        adam.step()
        if follow:
            torch._foreach_lerp_(targets, sources, follow.rate)

    return update


class TorchPeer(Forms):
    """What the three have in common: weights, batches, and the way back to the first step."""

    def __init__(self, device: str, threads: int, tf32: bool):
        self.device = torch.device(device)
        if device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("PyTorch finds no GPU")
        torch.set_num_threads(threads)
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32

    def facts(self) -> dict:
        facts = {
            "torch": torch.__version__,
            "isa": torch.backends.cpu.get_cpu_capability().lower(),
        }
        if self.device.type == "cuda":
            facts["device"] = torch.cuda.get_device_name(self.device)
        return facts

    def weights(self, s: Sizes) -> dict:
        return {name: w.numpy() for name, w in torch_models.make(s).state_dict().items()}

    def parameters(self, s: Sizes) -> list[str]:
        """The names of the weights, those that follow others included, in Metronome's order."""
        return [name for name, _ in torch_models.make(s).named_parameters()]

    def prepare(self, s: Sizes, weights: dict) -> None:
        """Makes the model and takes the first steps of every form."""
        self.model = torch_models.with_weights(s, weights).to(self.device)
        self.objectives = s.objectives
        self.losses = torch_models.losses_of(self.model, s)
        self.first = [p.detach().clone() for p in self.model.parameters()]
        self.optimizers: list[torch.optim.Optimizer] = []
        self.batches = [tuple(map(self.host, batch)) for batch in batches(s)]
        self.try_forms(self.makers())

    def host(self, array) -> torch.Tensor:
        """A batch as a careful user keeps it: page-locked where it is copied to a GPU."""
        tensor = torch.from_numpy(array)
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def step_with(
        self, losses: list[Callable], through: Callable = lambda update: update, **options
    ) -> Form:
        """The step of these losses, with an Adam of these options for each. `through` may make
        something faster of an update."""
        parts = []
        for objective, loss_of in zip(self.objectives, losses, strict=True):
            adam = adam_of(objective, self.model, **options)
            self.optimizers.append(adam)
            update = update_of(objective, self.model, adam)
            parts.append(Part(loss_of, adam.zero_grad, through(update)))
        return step_of(parts)

    def makers(self) -> dict[str, Callable[[], Form]]:
        raise NotImplementedError

    def has(self, *kinds: type) -> bool:
        return any(isinstance(module, kinds) for module in self.model.modules())

    def has_images(self) -> bool:
        return self.has(torch.nn.Conv2d, torch.nn.ConvTranspose2d)

    def images_too(self, fused: Callable[[], Form]) -> dict[str, Callable[[], Form]]:
        """The fused step as it comes and, of a model of images, with their other layout."""
        forms = {"fused Adam": fused}
        if self.has_images():
            forms["fused Adam, channels_last"] = lambda: channels_last(fused())
        return forms

    @torch.no_grad()
    def restore(self) -> None:
        """Back to the first step, in place: what was captured keeps its addresses. Running
        statistics, which no loss of a training step reads, stay as they are."""
        for parameter, first in zip(self.model.parameters(), self.first, strict=True):
            parameter.copy_(first)
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                for moment in state.values():
                    moment.zero_()

    def step(self, index: int) -> float:
        batch = self.batches[index % len(self.batches)]
        to = {"device": self.device, "non_blocking": True}
        return self.form(*[tensor.to(**to) for tensor in batch]).item()

    def peak_bytes(self) -> int | None:
        """Most bytes of tensors in two steps."""
        if self.device.type != "cuda":
            return None
        torch.cuda.reset_peak_memory_stats()
        for i in range(2):
            self.step(i)
        return torch.cuda.max_memory_allocated()


class Eager(TorchPeer):
    def makers(self):
        def fused() -> Form:
            return self.step_with(self.losses, fused=True)

        forms = self.images_too(fused)
        if self.device.type == "cpu" and self.has(torch.nn.RNNBase):
            forms["fused Adam, without oneDNN"] = lambda: without_onednn(fused())
        return forms


class Compiled(TorchPeer):
    """Losses and gradients through torch.compile; optimizers fused, or the updates compiled too."""

    def __init__(self, device: str, threads: int, tf32: bool, mode: str):
        super().__init__(device, threads, tf32)
        self.mode = mode

    def prepare(self, s: Sizes, weights: dict) -> None:
        torch._dynamo.reset()
        super().prepare(s, weights)

    def makers(self):
        losses = [torch.compile(loss_of, mode=self.mode) for loss_of in self.losses]

        on_gpu = self.device.type == "cuda"
        kept = losses
        if on_gpu and self.mode != "default":
            # These modes capture: the next graph writes over what the last one left in their pool.
            kept = [lambda *inputs, of=loss_of: of(*inputs).clone() for loss_of in losses]

        def fused() -> Form:
            # Of one objective no other graph comes before its loss is read.
            return self.step_with(losses if len(losses) == 1 else kept, fused=True)

        def compiled() -> Form:
            # Several updates are of one code, and would be compiled for any sizes.
            through = partial(torch.compile, mode=self.mode, dynamic=False)
            return self.step_with(kept, through, foreach=True, capturable=on_gpu)

        return {**self.images_too(fused), "compiled Adam": compiled}


class WholeGraph(TorchPeer):
    """Forward, backward and optimizers captured by hand: one launch a step."""

    def makers(self):
        if self.device.type != "cuda":
            raise RuntimeError("a CUDA graph needs a GPU")
        return {"capturable fused Adam": self.capture}

    def capture(self) -> Form:
        body = self.step_with(self.losses, fused=True, capturable=True)
        inputs = [tensor.to(self.device) for tensor in self.batches[0]]
        # On a stream of its own first, as PyTorch's guide asks: what is made once is made here.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                body(*inputs)
        torch.cuda.current_stream().wait_stream(side)
        # A gradient that is absent when the capture begins is written by each replay, not added to.
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = body(*inputs)

        def replay(*batch):
            for captured, new in zip(inputs, batch, strict=True):
                captured.copy_(new, non_blocking=True)
            graph.replay()
            return loss

        return replay

    def step(self, index: int) -> float:
        # The copy into the graph's own tensors is the copy to the GPU.
        return self.form(*self.batches[index % len(self.batches)]).item()
