#!/usr/bin/env bash
# Which tests `./metronome test` asks Bazel for, by folder and by what has changed, and what it says of
# where the time went: with a Bazel that writes down what it is asked for.
set -euo pipefail
source tests/launcher/fakes.sh
command -v git >/dev/null || {
  echo "skipped: which tests the launcher selects (there is no git here)"
  exit 0
}

mkdir "$place/bin"
cat >"$place/bin/bazel" <<EOF
#!/bin/sh
echo "\$*" >>"$place/asked"
case "\$1" in
  build) echo "INFO: 40 processes: 12 disk cache hit, 8 internal, 20 linux-sandbox." ;;
  query) echo "//tests:ops_pooling_test" ;;
  test)
    echo "//tests:quick_test   PASSED in 0.1s"
    echo "//tests:kept_test   (cached) PASSED in 77.0s"
    echo "//tests:slow_test   \$SLOW in 62.5s"
    ;;
esac
EOF
chmod +x "$place/bin/bazel"

mkdir -p "$clone"/{ops/{pool,softmax},graph/plan,tests/{ops/{kernels,language,layers},graph/{plan,builder},gpu}}
echo '  static constexpr std::string_view name = "max_pool";' >"$clone/ops/pool/max_pool.h"
echo '  static constexpr std::string_view name = "max_pool_grad";' >>"$clone/ops/pool/max_pool.h"
echo '  static constexpr std::string_view name = "softmax";' >"$clone/ops/softmax/softmax.h"
touch "$clone"/graph/plan/planner.h "$clone"/tests/ops/{layers/pooling,kernels/softmax,kernels/conformance}_test.cc
touch "$clone/tests/gpu/host_conformance_test.cc" "$clone"/tests/graph/{builder/print,plan/orders}_test.cc
echo '#include "graph/plan/planner.h"' | tee "$clone"/tests/{graph/plan/schedule,ops/language/each}_test.cc >"$clone/tests/graph/builder/waits_test.cc"
printf '_ROOMS = [\n    "graph",\n    "ops",\n]\nOF_THEIR_OWN = [\n    "ops/language/each_test.cc",\n]\n' >"$clone/tests/tests.bzl"

export SLOW=PASSED
# says STATUS LAST ARGUMENT...: `test` with these ends with that, on both streams, and asks Bazel anew.
says() {
  local expected=$1 text=$2 status=0 said
  shift 2
  rm -f "$place/asked"
  said=$(env "${good[@]}" CI= PATH="$place/bin:$PATH" "$clone/metronome" test "$@" 2>&1 </dev/null) || status=$?
  said=$(grep -vE 'has no bin.nvcc, as a CUDA 13 toolkit has|^//tests:' <<<"$said")
  [[ $status == "$expected" && $said == "$text" ]] || fail "test $* ends with status $status: $said"
}
asked() { [[ $(grep '^test ' "$place/asked") == *" $1" ]] || fail "$2 asked for: $(<"$place/asked")"; }

# --- The browser that all tests want, and others do without.
cp "$clone/metronome" "$place/with-browser"
printf '#!/bin/sh\necho "apt-get: nothing can be reached"\nexit 100\n' >"$place/bin/apt-get"
printf '#!/bin/sh\nexit 1\n' >"$place/bin/sudo"
chmod +x "$place/bin"/{apt-get,sudo}
rmdir "$tensorboard"
no_reader="metronome: installing TensorBoard's reader for tests
metronome: TensorBoard's reader cannot be installed, so the test that reads with it is skipped: pip: nothing can be reached"
# says_of_browser EUID TEXT
says_of_browser() {
  local said
  sed -e 's/^readonly BROWSERS=.*/readonly BROWSERS=(no-such-browser)/' -e "s/EUID/$1/" "$place/with-browser" >"$clone/metronome"
  said=$(env "${good[@]}" CI= PATH="$place/bin:$PATH" "$clone/metronome" test 2>&1 >/dev/null </dev/null | grep -iE 'chromium|tensorboard') || true
  [[ $said == "$2
$no_reader" ]] || fail "without a browser: $said"
}
no_browser='metronome: Chromium cannot be installed, so the tests that draw pages are skipped:'
says_of_browser 0 "metronome: installing Chromium for the tests of pages (0.1 GB to download)
$no_browser apt-get: nothing can be reached"
says_of_browser 1000 "$no_browser that takes root: run apt-get install chromium"
said=$(env "${good[@]}" CI= PATH="$place/bin:$PATH" "$clone/metronome" test ops/pool 2>&1 </dev/null)
! grep -qiE 'chromium|tensorboard' <<<"$said" || fail "a part wants a browser: $said"
cp "$place/with-browser" "$clone/metronome"
rm "$place/bin"/{apt-get,sudo}
mkdir "$tensorboard"

readonly TIMES='built in 0.0 min (40 actions, 12 of them from the cache), ran in 0.0 min; longest: //tests:slow_test 62.5 s, //tests:quick_test 0.1 s'
says 0 "$TIMES
3 passed, 0 failed" ops/pool
asked '--test_env=METRONOME_OPS=max_pool,max_pool_grad --test_env=METRONOME_TEST_FILES=*tests/ops/kernels/conformance_test.cc,*tests/ops/layers/pooling_test.cc -- //tests:gpu_host_conformance_test //tests:ops_conformance_avx2_test //tests:ops_test' \
  "a folder of ops"
says 0 "$TIMES
3 passed, 0 failed" graph/plan/
asked '--test_env=METRONOME_TEST_FILES=*tests/graph/builder/waits_test.cc,*tests/graph/plan/orders_test.cc,*tests/graph/plan/schedule_test.cc -- //tests:graph_test //tests:ops_each_test' "a folder of no op"
says 0 "$TIMES
3 passed, 0 failed" graph
asked '--test_summary=short -- //tests:graph_test' "a room"
says 0 "$TIMES
3 passed, 0 failed" graph/plan //tests:graph_test
asked '--test_summary=short -- //tests:graph_test //tests:ops_each_test //tests:graph_test' "a program and files of it"
says 2 'metronome: test knows no "ops/softmix"; near it: ops/softmax.' ops/softmix
says 2 'metronome: test knows no "planer"; near it: graph/plan.' planer
says 2 'metronome: test knows no "xyz"; near it: graph, executor, ops, models, benchmarks, or a folder of one, such as ops/convolution.' xyz

# --- What has changed since everything passed.
nothing="metronome: no tree of this clone has passed all tests yet, so there is nothing to compare with: run $clone/metronome test."
says 2 "$nothing" --changed
printf '/.metronome/\n' >"$clone/.gitignore"
git -C "$clone" init -q
says 2 "$nothing" --changed
export SLOW=FAILED
says 1 "$TIMES
2 passed, 1 failed"
says 2 "$nothing" --changed
export SLOW=PASSED
says 0 "$TIMES
3 passed, 0 failed"
says 0 'metronome: no test depends on what has changed since all passed.
built in 0.0 min (0 actions, 0 of them from the cache), ran in 0.0 min
0 passed, 0 failed' --changed
echo >>"$clone/ops/pool/max_pool.h"
says 0 "$TIMES
3 passed, 0 failed" --changed
asked '-- //tests:ops_pooling_test' "a change"
grep -qF 'set( ops/pool/max_pool.h)' "$place/asked" || fail "a change is queried by: $(<"$place/asked")"
# It has passed now; a file that is gone is its package's change.
rm "$clone/ops/pool/max_pool.h"
says 0 "$TIMES
3 passed, 0 failed" --changed
grep -qF 'set( ops/pool:all)' "$place/asked" || fail "a file that is gone is queried by: $(<"$place/asked")"
touch "$clone/ops/BUILD.bazel" "$clone/ops/rules.bzl"
says 0 "$TIMES
3 passed, 0 failed" --changed
asked '-- //...' "a change of the build"
says 2 'metronome: test --changed finds its tests by itself: name none, and no sanitizer, beside it.' --changed graph
