"""The processes of the peers: started, asked, and given up when they fail or take too long."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from .machine import cores


class Unavailable(Exception):
    """Why a peer cannot take part."""


class Peer:
    """A worker process. Every call raises Unavailable, in one sentence, once anything failed."""

    def __init__(self, name: str, folder: Path, cache: Path | None = None, **options):
        self.name = name
        self.errors = folder / f"{name}.errors"
        command = program(name) + [json.dumps({"peer": name, **options})]
        with self.errors.open("wb") as errors:
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=Path(__file__).parent.parent,
                    env={**os.environ, **environment(name, cache or folder, **options)},
                    start_new_session=True,  # a compiler's own processes end with it
                )
            except OSError as error:
                raise Unavailable(f"{command[0]} does not start: {error.strerror}") from None
        self.unread = b""

    def hear(self, seconds: float) -> dict:
        """The next answer."""
        end = time.monotonic() + seconds
        stream = self.process.stdout
        while b"\n" not in self.unread:
            ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
            if not ready:
                self.stop()
                raise Unavailable(f"it took more than {seconds:.0f} s")
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                raise Unavailable(self.last_words())
            self.unread += piece
        line, _, self.unread = self.unread.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            self.stop()
            raise Unavailable(answer["error"])
        return answer

    def ask(self, seconds: float, do: str, **arguments) -> dict:
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            raise Unavailable(self.last_words()) from None
        return self.hear(seconds)

    def last_words(self) -> str:
        self.stop()
        lines = self.errors.read_text(errors="replace").strip().splitlines() or ["nothing"]
        return f"it ended with status {self.process.returncode}: {lines[-1][:300]}"

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def program(name: str) -> list[str]:
    """How a peer's process is started."""
    if name != "metronome":
        return [sys.executable, "-m", f"{__package__}.worker"]
    if "METRONOME_PEER" not in os.environ:
        raise Unavailable("METRONOME_PEER names no program: ./metronome peers builds one")
    return [os.environ["METRONOME_PEER"]]


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
    }
    if name == "metronome":
        # Where its libraries lie: not those of another peer's process.
        found = os.environ.get("METRONOME_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
        variables["LD_LIBRARY_PATH"] = found
    if device == "cuda":
        variables["JAX_PLATFORMS"] = "cuda,cpu"
        # Several peers compile at once there, each with processes of its own.
        variables["TORCHINDUCTOR_COMPILE_THREADS"] = str(max(1, cores() // 4))
    elif threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        variables["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return variables
