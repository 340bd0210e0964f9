"""The same models in PyTorch, JAX and ONNX Runtime: what Metronome is measured beside.

    python3 -m peers --help        (in benchmarks/; `./metronome peers` installs what it needs)

`sizes` says what the models are, `kinds` who takes part; `torch_models`, `torch_learners`,
`jax_models` and `jax_learners` declare them; `torch_steps` and `jax_step` take training steps.
With --evaluate, `torch_evaluators`, `jax_evaluators` and `onnx_evaluators` answer questions:
`evaluation` says which. Each peer runs in a process of its own (`worker`), so that one that is
missing, hangs or dies is a line in the report; `__main__` lets them take turns. `learner` measures
a whole learner beside RLtools, which is C++ as well. `modules` lets Metronome train what PyTorch
exported: `public_models` names architectures, `public_makers` makes modules of them, and
`module_worker` exports, trains and judges. `samples` compares single ops: `sample_rules` says which
are left out, `sample_calls` makes modules of torch.testing's samples, and `sample_worker` exports
and judges.
"""
