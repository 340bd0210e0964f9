#!/usr/bin/env bash
# What verbs of `./metronome` say to what they cannot do: one sentence, and before anything is installed
# or built.
set -euo pipefail

metronome=$PWD/tests/launcher/metronome
export METRONOME_CACHE=$TEST_TMPDIR/cache

# refuses STATUS SENTENCE ARGUMENT...
refuses() {
  local expected=$1 sentence=$2 status=0 said
  shift 2
  said=$("$metronome" "$@" 2>&1) || status=$?
  if [[ $status != "$expected" || $said != "metronome"*": $sentence" ]]; then
    echo "verbs_test: \"$*\" ends with status $status: $said" >&2
    exit 1
  fi
}

refuses 2 'gpu-check knows no --fly: it takes a folder, --dry or --help.' gpu-check --fly
mkdir "$TEST_TMPDIR/mine"
touch "$TEST_TMPDIR/mine/file"
refuses 2 "$TEST_TMPDIR/mine is there already and is no bundle of gpu-check, which would replace it: name another folder." \
  gpu-check "$TEST_TMPDIR/mine"
refuses 2 "$TEST_TMPDIR/mine/file/x cannot be made: name a folder where you may write." \
  gpu-check "$TEST_TMPDIR/mine/file/x"
METRONOME_CUDA=/no/toolkit refuses 1 \
  'gpu-check needs a CUDA 13 toolkit, and METRONOME_CUDA=/no/toolkit is none.' \
  gpu-check "$TEST_TMPDIR/bundle"

refuses 2 'install needs a folder: say --prefix DIR, such as --prefix ~/metronome.' install
refuses 2 '--prefix needs a folder.' install --prefix
refuses 2 'install knows no --fly: it takes --prefix DIR, or --help.' install --fly
refuses 2 "$TEST_TMPDIR/mine/file/x cannot be written: name a folder where you may write." \
  install --prefix "$TEST_TMPDIR/mine/file/x"

say_address='say address, which finds what is undefined, too.'
refuses 2 "test --sanitize knows no \"thread\": $say_address" test --sanitize thread
refuses 2 "test --sanitize knows no \"thread\": $say_address" test --sanitize=thread
refuses 2 "test --sanitize knows no \"\": $say_address" test --sanitize
refuses 2 'test knows no --fly: it takes folders, Bazel targets such as //tests/graph/..., --changed, --sanitize or --help.' \
  test --sanitize address --fly
"$metronome" test --help | grep -qF './metronome test --sanitize address' || {
  echo 'verbs_test: "test --help" does not tell of --sanitize' >&2
  exit 1
}

if command -v python3 >/dev/null; then
  refuses 2 'unrecognized arguments: --fly' peers --fly
  refuses 2 '--rounds: 3 are too few, say 7 or more' peers --rounds 3
  refuses 2 '--tf32 needs --device cuda: a CPU has no TF32' peers --tf32
  refuses 2 '--modules does not go with --evaluate, so leave one out: it trains exported modules beside PyTorch, in f32 on one CPU' \
    peers --evaluate --modules
  refuses 2 '--samples does not go with --rounds, so leave one out: it compares single ops with PyTorch eager, untimed, in f32 on one thread of a CPU' \
    peers --samples --rounds 9
else
  echo "skipped: what the verb peers refuses (there is no python3 here)"
fi

[[ ! -e $METRONOME_CACHE ]] || {
  echo "verbs_test: something was installed before the mistake was told" >&2
  exit 1
}
