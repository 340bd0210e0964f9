#!/usr/bin/env bash
# Ranks that torchrun starts meet through its store: torchrun_test.sh PROGRAM
set -euo pipefail

folder=$TEST_TMPDIR/ranks
mkdir "$folder"

if said=$("$METRONOME_PYTHON" -c 'import torch.distributed.run' 2>&1); then
  "$METRONOME_PYTHON" -m torch.distributed.run --standalone --no-python --nproc-per-node 2 "$1" "$folder" meet
else
  echo "skipped: ranks that torchrun starts (the Python here cannot import it: ${said##*$'\n'})"
  # The variables that it sets, but for its store: rank 0 keeps one.
  export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost TORCHELASTIC_RESTART_COUNT=0 OMP_NUM_THREADS=1
  MASTER_PORT=$("$METRONOME_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  export MASTER_PORT
  RANK=1 LOCAL_RANK=1 "$1" "$folder" meet &
  RANK=0 LOCAL_RANK=0 "$1" "$folder" meet
  wait $!
fi
for rank in 0 1; do
  grep -q "^rank $rank of 2, [1-9][0-9]* thread(s)$" "$folder/$rank" || {
    echo "torchrun_test: rank $rank says: $(cat "$folder/$rank")" >&2
    exit 1
  }
done
