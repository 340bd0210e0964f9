#!/bin/sh
# Runs a test written in Python: python.sh FILE
PYTHONDONTWRITEBYTECODE=1 exec "${METRONOME_PYTHON:-python3}" "$@"
