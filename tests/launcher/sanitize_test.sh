#!/usr/bin/env bash
# How `./metronome test --sanitize` asks Bazel for a build of its own, and counts what came of it: with a
# Bazel that writes down what it is asked for.
set -euo pipefail
source tests/launcher/fakes.sh

mkdir "$place/bin"
cat >"$place/bin/bazel" <<EOF
#!/bin/sh
echo "\$*" >"$place/asked"
echo "//tests:one_test   PASSED in 0.1s"
echo "//tests:two_test   \$TWO in 0.1s"
EOF
chmod +x "$place/bin/bazel"

# A log of the plain build and one of the other: the counts tell which was read.
log() {
  mkdir -p "$1/tests/$2"
  echo "[doctest] test cases: 9 | $3 passed | 0 failed | 0 skipped" >"$1/tests/$2/test.log"
}
log "$clone/bazel-testlogs" one_test 1
log "$clone/.metronome/address-testlogs" one_test 30

# says STATUS ASKED LAST ARGUMENT...: `test` with these ends with that line, having asked Bazel so.
says() {
  local expected=$1 asked=$2 last=$3 status=0 said
  shift 3
  said=$(env "${good[@]}" CI= PATH="$place/bin:$PATH" "$clone/metronome" test "$@" 2>/dev/null) || status=$?
  said=$(tail -n 1 <<<"$said" | sed -E 's/[0-9]+\.[0-9] minutes/T minutes/')
  [[ $status == "$expected" && $said == "$last" ]] || fail "test $* ends with status $status: $said"
  [[ $(<"$place/asked") == *" $asked" ]] || fail "test $* asked for: $(<"$place/asked")"
}

export TWO=PASSED
says 0 '--keep_going --test_summary=short -- //tests/...' '2 passed, 0 failed' //tests/...
says 0 '--config=address -- //tests:address' \
  '31 passed, 0 failed in T minutes with the sanitizer address' --sanitize address
says 0 '--config=address -- //tests:address_short' \
  '31 passed, 0 failed in T minutes with the sanitizer address' //tests:address_short --sanitize=address
export TWO=FAILED
says 1 '--config=address -- //tests:address' \
  '30 passed, 1 failed in T minutes with the sanitizer address' --sanitize address
