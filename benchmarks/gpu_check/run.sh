#!/usr/bin/env bash
# Runs the GPU checks of this folder: no Bazel, no network, no root. `./run.sh --help` says more.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${METRONOME_PYTHON:-python3}

stop() {
  echo "run.sh: $*" >&2
  exit 2
}

python=$(command -v "$python") ||
  stop "there is no ${METRONOME_PYTHON:-python3}: name a Python that has torch in METRONOME_PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  stop "$python is no Python 3.10 or newer: name one that has torch in METRONOME_PYTHON"

# libtorch and the CUDA libraries that lie beside it, found without importing torch.
found=$("$python" - <<'PY'
import glob, importlib.metadata, importlib.util, os
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin is not None:
    torch = os.path.dirname(spec.origin)
    folders = [os.path.join(torch, "lib")]
    nvidia = importlib.util.find_spec("nvidia")
    for root in nvidia.submodule_search_locations if nvidia else []:
        folders += sorted(glob.glob(os.path.join(root, "*", "lib")))
    print(importlib.metadata.version("torch"), ":".join(folders))
PY
) || stop "$python cannot say where its torch lies"
version=${found%% *} folders=${found#* }
[[ -n $found ]] || stop "$python has no torch: name a Python that has it in METRONOME_PYTHON"
linked=$(<"$here/torch")
[[ ${version%.*} == "${linked%.*}" ]] ||
  stop "$python has torch $version, and these programs are linked to $linked: name another in METRONOME_PYTHON"

# For the programs of this folder alone: the peers' Python knows its own.
export METRONOME_LIBRARIES=$folders:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Where compute-sanitizer lies on machines that have the toolkit, and containers keep the driver.
export PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
METRONOME_LIBRARIES+=:/usr/local/cuda/lib64:/usr/local/nvidia/lib64
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$here/check.py" "$@"
