#!/bin/sh
# Runs a test program once more, with variables set: env.sh NAME=VALUE PROGRAM. What it skips, its first
# run has told.
exec env METRONOME_RERUN=1 "$@"
