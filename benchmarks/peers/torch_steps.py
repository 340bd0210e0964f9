"""Training steps in PyTorch: eager, compiled, and captured whole into a CUDA graph."""

from collections.abc import Callable

import torch

from . import torch_models
from .sizes import Sizes, batches

# x, target -> the loss, on the device.
Form = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# The first steps of a form compile, allocate and record; these many leave nothing of that to do.
WARM_UP = 5


def channels_last(form: Form) -> Form:
    """Images pixel by pixel, which convolutions, norms and pools keep to."""

    def laid_out(tensor):
        if tensor.dim() != 4:
            return tensor
        return tensor.contiguous(memory_format=torch.channels_last)

    return lambda x, target: form(laid_out(x), laid_out(target))


def without_onednn(form: Form) -> Form:
    """PyTorch's own recurrent layers on a CPU."""

    def step(x, target):
        with torch.backends.mkldnn.flags(enabled=False):
            return form(x, target)

    return step


def step_of(loss_of: torch.nn.Module, zero: Callable, update: Callable) -> Form:
    def step(x, target):
        zero(set_to_none=True)
        loss = loss_of(x, target)
        loss.backward()
        update()
        return loss

    return step


class TorchPeer:
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
        """The names of those weights that are trained."""
        return [name for name, _ in torch_models.make(s).named_parameters()]

    def prepare(self, s: Sizes, weights: dict) -> None:
        """Makes the model and takes the first steps of every form."""
        model = torch_models.make(s)
        model.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
        self.model = torch_models.WithLoss(model, s).to(self.device)
        self.learning_rate = s.learning_rate
        self.first = [p.detach().clone() for p in self.model.parameters()]
        self.optimizers: list[torch.optim.Optimizer] = []
        self.batches = [(self.host(x), self.host(target)) for x, target in batches(s)]
        self.trouble: dict[str, str] = {}
        self.forms: dict[str, Form] = {}
        for name, make in self.makers().items():
            try:
                self.form = make()
                for i in range(WARM_UP):
                    self.step(i)
                self.forms[name] = self.form
            except Exception as error:  # the others may do; the report says what failed
                self.trouble[name] = f"{type(error).__name__}: {error}"
        if not self.forms:
            raise RuntimeError("; ".join(self.trouble.values()))
        self.choose(next(iter(self.forms)))

    def host(self, array) -> torch.Tensor:
        """A batch as a careful user keeps it: page-locked where it is copied to a GPU."""
        tensor = torch.from_numpy(array)
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def adam(self, **options) -> torch.optim.Optimizer:
        options = {"lr": self.learning_rate, "betas": (0.9, 0.999), "eps": 1e-8, **options}
        self.optimizers.append(torch.optim.Adam(self.model.parameters(), **options))
        return self.optimizers[-1]

    def makers(self) -> dict[str, Callable[[], Form]]:
        raise NotImplementedError

    def has(self, *kinds: type) -> bool:
        return any(isinstance(module, kinds) for module in self.model.modules())

    def images_too(self, fused: Callable[[], Form]) -> dict[str, Callable[[], Form]]:
        """The fused step as it comes and, of a model of images, with their other layout."""
        forms = {"fused Adam": fused}
        if self.has(torch.nn.Conv2d, torch.nn.ConvTranspose2d):
            forms["fused Adam, channels_last"] = lambda: channels_last(fused())
        return forms

    def choose(self, name: str) -> None:
        self.form = self.forms[name]
        self.restore()

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
        x, target = self.batches[index % len(self.batches)]
        to = {"device": self.device, "non_blocking": True}
        return self.form(x.to(**to), target.to(**to)).item()

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
            adam = self.adam(fused=True)
            return step_of(self.model, adam.zero_grad, adam.step)

        forms = self.images_too(fused)
        if self.device.type == "cpu" and self.has(torch.nn.RNNBase):
            forms["fused Adam, without oneDNN"] = lambda: without_onednn(fused())
        return forms


class Compiled(TorchPeer):
    """Loss and gradients through torch.compile; the optimizer fused, or compiled too."""

    def __init__(self, device: str, threads: int, tf32: bool, mode: str):
        super().__init__(device, threads, tf32)
        self.mode = mode

    def prepare(self, s: Sizes, weights: dict) -> None:
        torch._dynamo.reset()
        super().prepare(s, weights)

    def makers(self):
        loss_of = torch.compile(self.model, mode=self.mode)

        def fused() -> Form:
            adam = self.adam(fused=True)
            return step_of(loss_of, adam.zero_grad, adam.step)

        def compiled() -> Form:
            adam = self.adam(foreach=True, capturable=self.device.type == "cuda")
            update = torch.compile(lambda: adam.step(), mode=self.mode)
            # Of modes that capture, the next graph writes over what the last one left in their pool.
            kept = loss_of if self.mode == "default" else lambda *batch: loss_of(*batch).clone()
            return step_of(kept, adam.zero_grad, update)

        return {**self.images_too(fused), "compiled Adam": compiled}


class WholeGraph(TorchPeer):
    """Forward, backward and optimizer captured by hand: one launch a step."""

    def makers(self):
        if self.device.type != "cuda":
            raise RuntimeError("a CUDA graph needs a GPU")
        return {"capturable fused Adam": self.capture}

    def capture(self) -> Form:
        adam = self.adam(fused=True, capturable=True)
        body = step_of(self.model, adam.zero_grad, adam.step)
        x, target = (tensor.to(self.device) for tensor in self.batches[0])
        # On a stream of its own first, as PyTorch's guide asks: what is made once is made here.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                body(x, target)
        torch.cuda.current_stream().wait_stream(side)
        # A gradient that is absent when the capture begins is written by each replay, not added to.
        adam.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = body(x, target)

        def replay(new_x, new_target):
            x.copy_(new_x, non_blocking=True)
            target.copy_(new_target, non_blocking=True)
            graph.replay()
            return loss

        return replay

    def step(self, index: int) -> float:
        # The copy into the graph's own tensors is the copy to the GPU.
        return self.form(*self.batches[index % len(self.batches)]).item()
