"""A whole learner beside RLtools', whose code is not part of this tree: the user names a checkout.

Both train soft actor-critic on RLtools' pendulum, its environment, replay buffer and draws
included: 10,000 steps on one thread, an update a step from a batch of 100, and two hidden layers of
64 in each network.
"""

import argparse
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from . import rounds
from .crew import Peer, Unavailable, environment

MODEL = "sac_pendulum"
STEPS = 10_000
ROUNDS, FEWEST_ROUNDS = 7, 3
LABELS = {"rltools": "RLtools", "metronome": "Metronome"}

TRAINING = Path("src/rl/environments/pendulum/sac/cpu/training.h")
# Those of RLtools' own rl_environments_pendulum_sac_benchmark, with OpenBLAS.
FLAGS = (
    "-std=c++17 -Ofast -march=native -DRL_TOOLS_BACKEND_ENABLE_OPENBLAS "
    "-DRL_TOOLS_BACKEND_ENABLE_BLAS -DRL_TOOLS_DISABLE_HDF5 -DRL_TOOLS_DISABLE_TENSORBOARD "
    "-DBENCHMARK"
).split()
# training.h's run() ignores its seed, so this does the same with one; then come 100 episodes. Its
# weights are drawn before the clock starts, as Metronome's are.
PROGRAM = f"""\
#include "{TRAINING}"

#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int, char** argv) {{
  DEVICE device;
  LOOP_STATE state;
  rlt::malloc(device, state);
  rlt::init(device, state, static_cast<TI>(std::atoi(argv[1])));
  const auto start = std::chrono::steady_clock::now();
  while (!rlt::step(device, state)) {{
  }}
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;

  namespace evaluation = rlt::rl::utils::evaluation;
  evaluation::Result<evaluation::Specification<TYPE_POLICY, TI, ENVIRONMENT, 100,
                                               ENVIRONMENT::EPISODE_STEP_LIMIT>>
      result;
  ENVIRONMENT environment;
  rlt::rl::environments::DummyUI ui;
  rlt::evaluate(device, environment, ui, rlt::get_actor(state), result, state.rng,
                rlt::Mode<rlt::mode::Evaluation<>>{{}});
  std::printf("%lu %.6f %.3f\\n", static_cast<unsigned long>(state.step), taken.count(),
              static_cast<double>(result.returns_mean));
}}
"""


def refusal(folder: Path) -> str | None:
    """Why RLtools cannot be measured from this folder, as far as that is known before a compile."""
    checkout = "name a checkout of github.com/rl-tools/rl_tools"
    if not folder.is_dir():
        return f"there is no folder {folder} to look for {TRAINING} in: {checkout}"
    if not (folder / TRAINING).is_file():
        return f"{folder} holds no {TRAINING}: {checkout}"
    if shutil.which("g++") is None:
        return "g++, which compiles RLtools, is not here: install Debian's g++"
    return None


@contextmanager
def told_as(label: str) -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        raise Unavailable(f"{label}: {reason}") from None


def run(command: list, folder: Path, variables: dict, seconds: float) -> tuple[int, str, str]:
    """Its status, output and errors. Processes of its own end with it."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"it took more than {seconds:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said, errors


class RLtools:
    def __init__(self, checkout: Path, folder: Path, seconds: float):
        """Compiles it in `folder`."""
        self.folder = folder
        source = folder / "rltools.cc"
        source.write_text(PROGRAM)
        command = ["g++", *FLAGS, "-I", checkout, "-I", checkout / "include"]
        command += [source, "-lopenblas", "-o", folder / "rltools"]
        start = time.perf_counter()
        with told_as("g++"):
            # Its errors are searched for English words.
            status, _, errors = run(command, folder, {"LC_ALL": "C"}, seconds)
        self.compile_s = time.perf_counter() - start
        if status != 0:
            raise Unavailable(compile_error(checkout, errors))

    def learn(self, seed: int, seconds: float) -> dict:
        variables = environment("rltools", self.folder, device="cpu", threads=1, tf32=False)
        variables["OPENBLAS_NUM_THREADS"] = "1"
        status, said, errors = run(
            [self.folder / "rltools", str(seed)], self.folder, variables, seconds
        )
        if status != 0:
            lines = errors.strip().splitlines() or ["nothing"]
            raise Unavailable(f"it ended with status {status}: {lines[-1][:300]}")
        # What RLtools itself logs stands above.
        moves, taken, mean_return = said.splitlines()[-1].split()
        return {
            "moves": int(moves),
            "seconds": float(taken),
            "compile_s": self.compile_s,
            "return": float(mean_return),
        }


def compile_error(checkout: Path, errors: str) -> str:
    if "-lopenblas" in errors:
        return "RLtools needs OpenBLAS, which g++ does not find: install Debian's libopenblas-dev"
    words = ("error:", "undefined reference", "cannot find")
    lines = errors.strip().splitlines() or ["it says nothing"]
    first = next((line for line in lines if any(word in line for word in words)), lines[0])
    return (
        f"g++ cannot compile RLtools in {checkout}, so name a checkout of another commit: "
        f"{first.strip()[:300]}"
    )


def first_line(*command) -> str | None:
    """Of what it says, or None if it fails."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return (said.stdout.splitlines() or [None])[0]


def commit_of(checkout: Path) -> str | None:
    """None outside of git, or where the folder is only part of another repository."""
    if not (checkout / ".git").exists():
        return None
    return first_line("git", "-C", checkout, "rev-parse", "HEAD")


def take_turns(learners: dict[str, Callable], count: int) -> dict[str, list[dict]]:
    """Each round has a seed of its own, which both learn from."""
    answers: dict[str, list[dict]] = {name: [] for name in learners}
    for seed in range(count):
        for name in rounds.order(list(learners), seed):
            with told_as(LABELS[name]):
                answer = learners[name](seed)
                if answer["moves"] != STEPS:
                    raise Unavailable(f"it took {answer['moves']} steps, not {STEPS}")
            answers[name].append(answer)
    return answers


def result_of(answers: dict[str, list[dict]]) -> dict:
    """What they took, and what they had learned then: the mean return of 100 episodes."""
    seconds = {name: [each["seconds"] for each in answers[name]] for name in answers}
    ratios = [a / b for a, b in zip(seconds["rltools"], seconds["metronome"], strict=True)]
    rows = [
        {
            "peer": name,
            "label": LABELS[name],
            "s": rounds.samples(seconds[name]),
            # Compiled later, parts of it may be known already.
            "compile_s": answers[name][0]["compile_s"],
            "returns": [each["return"] for each in answers[name]],
        }
        for name in answers
    ]
    return {"ratio": rounds.samples(ratios), "peers": rows}


def answers_of_both(
    args: argparse.Namespace, folder: Path, left: Callable[[], float]
) -> dict[str, list[dict]]:
    peer = Peer("metronome", folder, device="cpu", threads=1, tf32=False)
    try:
        with told_as(LABELS["metronome"]):
            peer.hear(min(120, left()))
        rltools = RLtools(args.learner, folder, left())
        learners = {
            "rltools": lambda seed: rltools.learn(seed, left()),
            "metronome": lambda seed: peer.ask(left(), "learn", seed=seed),
        }
        return take_turns(learners, args.rounds)
    finally:
        peer.stop()


def measure(args: argparse.Namespace, folder: Path, end: float) -> dict:
    """Raises Unavailable, in one sentence, if either cannot be measured."""

    def left() -> float:
        return max(0.0, end - time.monotonic())

    try:
        answers = answers_of_both(args, folder, left)
    except Unavailable:
        if left() > 0:
            raise
        raise Unavailable("no time was left: give --limit more seconds") from None
    return {
        "model": MODEL,
        "device": "cpu",
        "threads": 1,
        "steps": STEPS,
        "rounds": args.rounds,
        "compiler": first_line("g++", "--version"),
        "flags": " ".join(FLAGS),
        "rltools_commit": commit_of(args.learner),
        **result_of(answers),
    }


def show(machine: dict, result: dict) -> None:
    def spread(of: dict) -> str:
        return f"{of['median']:10.4f} +- {1.4826 * of['mad']:.4f}"

    commit = result["rltools_commit"]
    print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.2f}; "
        f"{result['steps']} steps on 1 thread, {result['rounds']} rounds; "
        "times are medians +- spreads\n"
        f"RLtools{f' of commit {commit}' if commit else ''}: "
        f"{result['compiler']}, {result['flags']}\n"
        f"{result['model']}"
    )
    for row in result["peers"]:
        returns = " ".join(f"{each:.1f}" for each in row["returns"])
        print(
            f"  {row['label']:<20} {spread(row['s'])} s  ready in {row['compile_s']:7.3f} s  "
            f"mean returns {returns}"
        )
    print(f"  {'RLtools / Metronome':<20} {spread(result['ratio'])}", flush=True)
