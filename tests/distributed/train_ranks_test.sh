#!/usr/bin/env bash
# The shipped training on several ranks, as users start it: train_ranks_test.sh PROGRAM
set -euo pipefail

program=$1 folder=$TEST_TMPDIR
cd "$folder"
program=$OLDPWD/$program

fail() {
  echo "train_ranks_test: $*" >&2
  exit 1
}

# expect TEXT STATUS ARGUMENT...: the program ends so, and says so.
expect() {
  local text=$1 status=$2 said
  shift 2
  said=$("$program" train "$@" 2>&1) && got=0 || got=$?
  ((got == status)) || fail "$* ended with $got, not $status: $said"
  [[ $said == *"$text"* ]] || fail "$* says: $said"
}

for ranks in 1 2; do
  said=$("$program" train digits --ranks $ranks --epochs 4 --checkpoint "$ranks.safetensors" --no-compare 2>"errors")
  # A busy machine is told of, and is no fault of theirs.
  complaints=$(grep -v "kernels are timed while other programs" errors) || true
  [[ -z $complaints ]] || fail "$ranks ranks complain: $complaints"
  # Rank 0 alone speaks.
  (($(grep -c '^test    ' <<<"$said") == 1)) || fail "$ranks ranks say: $said"
  [[ $said =~ test\ +([0-9]+)\.[0-9]+\ %\ right\ \([0-9]+\ of\ 360\) ]] || fail "no score: $said"
  ((BASH_REMATCH[1] >= 90)) || fail "$ranks ranks learn little: $said"
  [[ -s $ranks.safetensors ]] || fail "$ranks ranks save nothing"
done
[[ $said == *"each epoch leaves out 29, which are no whole batch of 64"* ]] || fail "$said"

pace='ranks   [0-9]+ steps of [0-9.]+ ms: exchanges hold up rank [01], the slowest, for [0-9.]+ ms of each,'
[[ $said =~ $pace ]] || fail "no pace: $said"

# A checkpoint of two ranks goes on with one, two and four.
for ranks in 1 2 4; do
  expect "epoch  5/5" 0 digits --ranks $ranks --epochs 5 --resume 2.safetensors --no-save --no-compare
done

# The variables of a launcher, without one.
export WORLD_SIZE=2 MASTER_ADDR=localhost
MASTER_PORT=$("$METRONOME_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
export MASTER_PORT
RANK=1 "$program" train digits --epochs 1 --no-save --no-compare >other &
RANK=0 "$program" train digits --epochs 1 --no-save --no-compare >first
wait $!
[[ ! -s other ]] || fail "rank 1 speaks: $(<other)"
grep -q '^test ' first || fail "rank 0 says: $(<first)"
unset WORLD_SIZE MASTER_ADDR MASTER_PORT

expect "a batch of 64 rows cannot be shared out evenly among 3 ranks: give --batch 66" 1 \
  digits --ranks 3 --epochs 1 --no-save --no-compare
expect "--ranks" 2 digits --ranks 0
RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=1 \
  expect "rank 0: --ranks is 2, but WORLD_SIZE is 1: leave --ranks out where a launcher starts the ranks" 1 \
  digits --ranks 2 --no-save
expect "cannot be written" 1 digits --ranks 2 --epochs 1 --checkpoint /no/folder/x.safetensors
