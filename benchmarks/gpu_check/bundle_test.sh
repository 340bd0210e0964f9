#!/usr/bin/env bash
# The bundle is small enough; its script goes through all pieces on a device made of the host, with some
# that crash, hang and come too late; and without a GPU it reports every piece as unavailable:
# bundle_test.sh GPU_KERNELS PROGRAM...
set -euo pipefail

fail() {
  echo "bundle_test: $1" >&2
  exit 1
}

# refuses TEXT COMMAND...: status 2, and one line that holds the text.
refuses() {
  local text=$1 status=0 said
  shift
  said=$("$@" 2>&1) || status=$?
  [[ $status == 2 && $said == *"$text"* && $said != *$'\n'* ]] ||
    fail "$* ends with status $status, and not with one line that says \"$text\": $said"
}

# For one kind of device here, which makes the bundle a MiB smaller than `./metronome gpu-check` does;
# //tests:gpu_model_limits_test compiles them for both.
kernels=$TEST_TMPDIR/kernels_of_one
printf '#!/bin/sh\nexec %q "$@" --architecture sm_90\n' "$PWD/$1" >"$kernels"
chmod +x "$kernels"
shift

bundle=$TEST_TMPDIR/metronome-gpu-check
said=$(METRONOME_COMMIT=a-commit benchmarks/gpu_check/bundle.sh "$bundle" "$kernels" "$@")
printf '%s\n' "$said" # CI shows what was measured
grep -qE '^measured: the bundle has [0-9]+\.[0-9] of at most 40 MiB, and was packed in [0-9]+\.[0-9] min$' <<<"$said" ||
  fail "bundle.sh does not tell the size: $said"
tar -tzf "$bundle.tar.gz" >/dev/null || fail "the archive is damaged"

# As if it had been unpacked elsewhere.
there=$TEST_TMPDIR/elsewhere
mv "$bundle" "$there"
run=$there/run.sh

without=$("$there/bin/gpu_models") || true
if [[ $without == "this build has no CUDA"* ]]; then
  echo "skipped: the checks of a GPU in a bundle ($without)"
  exit 0
fi

dry=$("$run" --dry --host tests/on_host) || fail "the dry run failed: $dry"
grep -q '^dry run: 0 wrong$' <<<"$dry" || fail "the dry run ends otherwise: $dry"
for said in \
  'ok     crash: failed: ended by SIGSEGV; its last line: before' \
  'ok     hang: failed: hangs: it took more than 2 s; its last line: before' \
  'ok     come-late: unfinished: not begun: it takes about 4000 s, ' \
  'ok     op-layer_norm: passed: ' 'ok     small-feedback_adaptive-every: passed: ' \
  'ok     memcheck-layer_norm: passed: ' 'ok     profile-small-mlp: passed: ' \
  'ok     the page shows where each model' 'ok     what must be there is reckoned to take ' \
  'note   peers           ' 'note   reckoned: the small models'; do
  grep -qF "$said" <<<"$dry" || fail "the dry run does not say \"$said\": $dry"
done
cd /

# A library that only this machine has; a program that is none and knows none of its arguments.
mv "$there/lib/libdnnl.so.3" "$there/bin/gpu_models" "$TEST_TMPDIR"
printf '#!/bin/sh\nexit 1\n' >"$there/bin/gpu_models"
chmod +x "$there/bin/gpu_models"
if dry=$("$run" --dry models-small); then fail "a dry run passes without a library and a program: $dry"; fi
for wrong in 'finds its libraries, libdnnl.so.3: ' 'gpu_models holds kernels' 'small-mlp-masked is und'; do
  grep -q "^WRONG .*$wrong" <<<"$dry" || fail "the dry run does not find wrong \"$wrong\": $dry"
done
mv "$TEST_TMPDIR/libdnnl.so.3" "$there/lib"
mv -f "$TEST_TMPDIR/gpu_models" "$there/bin"

refuses 'there is no part "speed": say device, probe, conformance, ' "$run" speed
refuses 'unrecognized arguments: --fast' "$run" --fast
refuses 'cannot be written (Not a directory): say --results FOLDER' "$run" --results /dev/null/x
refuses 'there is no /no/python: name a Python that has torch' env METRONOME_PYTHON=/no/python "$run"
printf '1.2.3\n' >"$there/other"
mv "$there/torch" "$TEST_TMPDIR/torch"
mv "$there/other" "$there/torch"
refuses 'and these programs are linked to 1.2.3' "$run"
mv "$TEST_TMPDIR/torch" "$there/torch"

if command -v nvidia-smi >/dev/null; then
  echo "bundle_test: this machine has a GPU: ./metronome gpu-check runs the rest"
  exit 0
fi
results=$TEST_TMPDIR/results
said=$("$run" --results "$results") || fail "without a GPU it fails: $said"
grep -qE '^0 passed, 0 failed, [1-9][0-9]* unavailable, 0 unfinished$' <<<"$said" ||
  fail "it ends otherwise: $said"
grep -q '"commit": "a-commit"' "$results/gpu-check.jsonl" || fail "the JSON lacks its commit"
grep -q '^No GPU; .* commit a-commit, bundle ' "$results/gpu-check.md" || fail "the page lacks its head"
echo "# changed" >>"$there/page.py"
echo another >"$there/commit"
refuses "(commit a-commit), and this is " "$run" --results "$results"

# Programs say in their last line what is missing.
for program in gpu_device gpu_models gpu_allocations 'gpu_conformance add'; do
  status=0
  # shellcheck disable=SC2086  # a program and its argument
  said=$(LD_LIBRARY_PATH=$there/lib "$there"/bin/$program) || status=$?
  [[ $status == 3 && $said == *NVIDIA* ]] || fail "$program ends with status $status: $said"
done
