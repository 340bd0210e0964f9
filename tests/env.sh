#!/bin/sh
# Runs a test program with variables set: env.sh NAME=VALUE PROGRAM
exec env "$@"
