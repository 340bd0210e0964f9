#!/usr/bin/env bash
# Layouts that the planner program finds, writes, and refuses.
set -euo pipefail

planner=$PWD/benchmarks/planner
cd "$TEST_TMPDIR"

fail() {
  echo "planner_test: $*" >&2
  exit 1
}
# ends STATUS SENTENCE ARGUMENT...: what it says, but for the seconds
ends() {
  local expected=$1 sentence=$2 status=0 said
  shift 2
  said=$("$planner" "$@" 2>&1) || status=$?
  said=$(sed -E 's/, [0-9.]+ s$//' <<<"$said")
  [[ $status == "$expected" && $said == "$sentence" ]] ||
    fail "\"$*\" ends with status $status: $said"
}

printf 'id,lower,upper,size\na,0,3,64\nb,1,2,64\nc,2,5,128\n' >blocks.csv
found='blocks.csv: 3 blocks, height 192, bound 192, ratio 1.0000, optimal'
ends 0 "$found" --csv blocks.csv
ends 0 "$found" --csv blocks.csv --capacity 192
ends 1 "$found
blocks.csv: does not fit into 191 bytes, and cannot" --csv blocks.csv --capacity 191

ends 0 "$found" --csv blocks.csv --offsets found.csv
printf 'id,lower,upper,size,offset\na,0,3,64,128\nb,1,2,64,0\nc,2,5,128,0\n' >expected.csv
cmp found.csv expected.csv || fail "offsets: $(cat found.csv)"

cp blocks.csv kept.csv
ln -s blocks.csv link.csv
ends 2 'planner: --offsets ./blocks.csv would replace what it reads' --csv blocks.csv --offsets ./blocks.csv
ends 2 'planner: --offsets link.csv would replace what it reads' --csv blocks.csv --offsets link.csv
ends 2 'planner: no/found.csv: cannot be saved: No such file or directory' --csv blocks.csv --offsets no/found.csv
(
  ulimit -f 0
  trap '' XFSZ
  ends 2 'planner: found.csv: cannot be saved: File too large' --csv blocks.csv --offsets found.csv
) || exit 1
cmp found.csv expected.csv || fail "offsets that could not be written: $(cat found.csv)"
cmp blocks.csv kept.csv || fail "the input has changed"
[[ -z $(find . -name '*.partial*') ]] || fail "half a file is left"
mkfifo pipe
ends 2 'planner: pipe: cannot be saved: it is a device, a pipe or a socket' --csv blocks.csv --offsets pipe

ends 2 'planner: no.csv: cannot be read' --csv no.csv
ends 2 'planner: .: cannot be read' --csv .
ends 2 'planner: --offsets is for one file' --csv blocks.csv blocks.csv --offsets found.csv
for option in --capacity --work; do
  for number in -1 99999999999999999999999 x; do
    "$planner" --csv blocks.csv "$option" "$number" &>said && fail "$option $number is taken"
    grep -q -- "$option" said || fail "$option $number: $(cat said)"
  done
done
