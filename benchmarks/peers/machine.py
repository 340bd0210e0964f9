"""The machine that a measurement was taken on."""

import os
import platform
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def cores() -> int:
    return len(os.sched_getaffinity(0))


def driver() -> str | None:
    """The GPU driver's version."""
    if shutil.which("nvidia-smi") is None:
        return None
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip().splitlines()[0] if said.strip() else None


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp() -> dict:
    """The commit that is measured, as METRONOME_COMMIT names it, and the time."""
    return {"commit": os.environ.get("METRONOME_COMMIT", "unknown"), "date": now()}


def this_machine() -> dict:
    """`load`: processes that wanted to run, over the last minute: near 0 on a quiet machine."""
    machine = {
        "cpu": cpu_name(),
        "cores": cores(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    if found := driver():
        machine["driver"] = found
    return machine
