#!/bin/sh
# Bazel builds what a test's data name, so that this one has the programs built that no other test runs:
# built.sh PROGRAM...
for program; do
  [ -x "$program" ] || {
    echo "$program is no program" >&2
    exit 1
  }
done
