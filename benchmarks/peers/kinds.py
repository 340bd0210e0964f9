"""Who takes part: in training steps, and in inference."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    label: str
    times_itself: bool = False  # chooses by timing while it compiles: such a one compiles alone
    without_gpu: str = ""  # why it takes no part there
    ranks: str = "one"  # or "several", or "any": what it can train on


TRAINERS = {
    "eager": Kind("PyTorch eager, fused Adam"),
    "compile": Kind("torch.compile"),
    "compile_reduce_overhead": Kind(
        "torch.compile, reduce-overhead", without_gpu="on a CPU it is the default mode"
    ),
    "compile_max_autotune": Kind("torch.compile, max-autotune", times_itself=True),
    "graph": Kind("PyTorch, whole step in a CUDA graph", without_gpu="CUDA graphs need a GPU"),
    "jax": Kind("JAX jit", times_itself=True),
    "ddp": Kind("PyTorch DDP over Gloo, fused Adam", ranks="several"),
    "metronome": Kind("Metronome, planned", times_itself=True, ranks="any"),
}
EVALUATORS = {
    "eager": Kind("PyTorch eager, inference mode"),
    "compile": TRAINERS["compile"],
    "compile_max_autotune": TRAINERS["compile_max_autotune"],
    "jax": TRAINERS["jax"],
    "onnxruntime": Kind("ONNX Runtime from Python"),
    "onnxruntime_c": Kind("ONNX Runtime from C++"),
    "metronome": TRAINERS["metronome"],
}
NAMES = tuple(dict.fromkeys([*TRAINERS, *EVALUATORS]))
# What the others are measured beside: it gives the weights.
BASELINES = {"one": "eager", "several": "ddp"}
