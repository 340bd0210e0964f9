"""The processes of the peers: started, asked, and given up when they fail or take too long."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from .machine import cores


# The modules of peers that are not asked for models of the table.
WORKERS = {"eager_module": "module_worker", "eager_samples": "sample_worker"}


class Unavailable(Exception):
    """Why a peer cannot take part."""


class Refusal(Unavailable):
    """An answer that is an error. The process itself goes on."""


class Process:
    """One of them. Every call raises Unavailable, in one sentence, once anything failed."""

    def __init__(self, name: str, errors: Path, variables: dict, **options):
        self.errors = errors
        command = program(name) + [json.dumps({"peer": name, **options})]
        with errors.open("wb") as log:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=Path(__file__).parent.parent,
                    env={**os.environ, **variables},
                    start_new_session=True,  # a compiler's own processes end with it
                )
            except OSError as error:
                raise Unavailable(f"{command[0]} does not start: {error.strerror}") from None
        self.unread = b""

    def has_answered(self) -> bool:
        return b"\n" in self.unread

    def read(self) -> None:
        """What stands in its stream, which must not be empty."""
        piece = os.read(self.process.stdout.fileno(), 1 << 16)
        if not piece:
            raise Unavailable(self.last_words())
        self.unread += piece
        if self.has_answered() and "error" in json.loads(self.unread):
            raise Refusal(self.answer()["error"])

    def answer(self) -> dict:
        line, self.unread = self.unread, b""
        return json.loads(line)

    def say(self, do: str, **arguments) -> None:
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            raise Unavailable(self.last_words()) from None

    def last_words(self) -> str:
        self.stop()
        lines = self.errors.read_text(errors="replace").strip().splitlines() or ["nothing"]
        return f"it ended with status {self.process.returncode}: {lines[-1][:300]}"

    def signal(self, number: int) -> None:
        """To it and the programs that it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass  # the next question tells of it

    def stop(self) -> None:
        if self.process.stdin.closed:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Peer:
    """A worker process, or one for each of `ranks` that train together: all are asked at once, and
    answer as one; or one that is asked for inference, where `evaluate` says so. Every call raises
    Unavailable, in one sentence, once anything failed."""

    def __init__(
        self,
        name: str,
        folder: Path,
        cache: Path | None = None,
        ranks: int = 1,
        evaluate: bool = False,
        **options,
    ):
        variables = environment(name, cache or folder, **options)
        if evaluate:
            own = folder / name
            own.mkdir(exist_ok=True)
            options["evaluate"] = str(own)
        self.processes: list[Process] = []
        port = free_port()
        for rank in range(ranks):
            errors = folder / (f"{name}.errors" if ranks == 1 else f"{name}.{rank}.errors")
            own = {} if ranks == 1 else variables_of(rank, ranks, port)
            try:
                self.processes.append(Process(name, errors, {**variables, **own}, **options))
            except Unavailable:
                self.stop()
                raise

    def hear(self, seconds: float) -> dict:
        """The next answer."""
        return self.of_all(self.processes, seconds)

    def ask(self, seconds: float, do: str, **arguments) -> dict:
        return self.of_all(self.processes, seconds, do, **arguments)

    def ask_first(self, seconds: float, do: str, **arguments) -> dict:
        """Rank 0 alone."""
        return self.of_all(self.processes[:1], seconds, do, **arguments)

    def attempt(self, seconds: float, do: str, **arguments) -> dict:
        """Asks one process, whose answer may be {"error": ...}: it may be asked again."""
        try:
            return self.answers(self.processes, seconds, do, **arguments)
        except Refusal as refusal:
            return {"error": str(refusal)}
        except Unavailable:
            self.stop()
            raise

    def of_all(self, asked: list[Process], seconds: float, do: str = "", **arguments) -> dict:
        try:
            return self.answers(asked, seconds, do, **arguments)
        except Unavailable:
            self.stop()
            raise

    def answers(self, asked: list[Process], seconds: float, do: str, **arguments) -> dict:
        end = time.monotonic() + seconds
        for each in asked:
            if do:
                each.say(do, **arguments)
        while waiting := {e.process.stdout: e for e in asked if not e.has_answered()}:
            ready, _, _ = select.select(waiting, [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Unavailable(f"it took more than {seconds:.0f} s")
            for stream in ready:
                waiting[stream].read()
        return joint([each.answer() for each in asked])

    def pause(self) -> None:
        """Out of its turn: no thread of it spins beside another's."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        for each in self.processes:
            each.signal(number)

    def stop(self) -> None:
        for each in self.processes:
            each.stop()


def joint(answers: list[dict]) -> dict:
    """What ranks answer together: the slowest's times, the mean of their losses, else rank 0's."""
    answer = dict(answers[0])
    for time_taken in ("ms", "compile_s"):
        if time_taken in answer:
            answer[time_taken] = max(each[time_taken] for each in answers)
    if "losses" in answer:
        of_each = zip(*(each["losses"] for each in answers), strict=True)
        answer["losses"] = [sum(losses) / len(losses) for losses in of_each]
    return answer


def free_port() -> int:
    with socket.socket() as any_free:
        any_free.bind(("127.0.0.1", 0))
        return any_free.getsockname()[1]


def variables_of(rank: int, ranks: int, port: int) -> dict:
    """What torchrun would set, for ranks that meet on this machine."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }


def program(name: str) -> list[str]:
    """How a peer's process is started."""
    if name == "metronome":
        variable, found = "METRONOME_PEER", os.environ.get("METRONOME_PEER")
    elif name == "metronome_import":
        variable, found = "METRONOME_IMPORTED_PEER", os.environ.get("METRONOME_IMPORTED_PEER")
    else:
        worker = WORKERS.get(name, "worker")
        return [sys.executable, "-m", f"{__package__}.{worker}"]
    if found is None:
        raise Unavailable(f"{variable} names no program: ./metronome peers builds one")
    return [found]


def environment(name: str, folder: Path, device: str, threads: int, tf32: bool) -> dict:
    """What a peer must know before its library is loaded. Compilers keep what they made in
    `folder`."""
    own = folder / name
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(own / "inductor"),
        "TRITON_CACHE_DIR": str(own / "triton"),
        "OMP_NUM_THREADS": str(threads),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "JAX_PLATFORMS": device,
        "NPROC": str(threads),  # the threads of JAX's CPU client
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # samples of torch.testing come in the order of sets, too
        # The C library keeps what is freed, so that a step's large tensors are no new pages each time: eager
        # takes 1.1 s in place of 1.55 for a step of convnet at full scale.
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    }
    if name in ("metronome", "metronome_import"):
        # Where its libraries lie: not those of another peer's process.
        found = os.environ.get("METRONOME_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
        variables["LD_LIBRARY_PATH"] = found
        if device == "cuda":
            # libtorch's CUDA half page-locks the batches, and Metronome itself does not load it.
            variables["LD_PRELOAD"] = "libtorch_cuda.so"
    if device == "cuda":
        variables["JAX_PLATFORMS"] = "cuda,cpu"
        # Several peers compile at once there, each with processes of its own.
        variables["TORCHINDUCTOR_COMPILE_THREADS"] = str(max(1, cores() // 4))
    elif threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        variables["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return variables
