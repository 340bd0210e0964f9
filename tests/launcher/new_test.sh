#!/usr/bin/env bash
# What `./metronome new` makes and refuses, and how `test` asks Bazel for the tests of example/ from
# outside: with a Bazel that writes down what it is asked for, and where.
set -euo pipefail
source tests/launcher/fakes.sh

cp -RL example "$clone"
mkdir "$place/bin"
cat >"$place/bin/bazel" <<EOF
#!/bin/sh
echo "\$PWD: \$*" >>"$place/asked"
case "\$*" in
  *shutdown*) exit 0 ;;
  *--nobuild*) echo "\$SAYS" && exit 1 ;;
esac
echo "//:one_test   \$ONE in 0.1s"
mkdir -p bazel-testlogs/one_test
echo "[doctest] test cases: 5 | \$CASES failed | 0 skipped" >bazel-testlogs/one_test/test.log
echo "measured: it has 3 MiB" >>bazel-testlogs/one_test/test.log
[ "\$ONE" = PASSED ]
EOF
chmod +x "$place/bin/bazel"

# says STATUS TEXT ARGUMENT...: the launcher ends so, with TEXT on both streams.
says() {
  local expected=$1 text=$2 status=0 said
  shift 2
  said=$(env "${good[@]}" CI= PATH="$place/bin:$PATH" "$clone/metronome" "$@" 2>&1 </dev/null) || status=$?
  said=$(sed "/has no bin.nvcc, as a CUDA 13 toolkit has/d; /^built in /d" <<<"$said")
  [[ $status == "$expected" && $said == "$text" ]] || fail "\"$*\" ends with status $status: $said"
}

# --- A workspace of a user's own.
mine=$place/mine
says 0 "metronome: $mine depends on $clone; begin there with: bazel run //:train (the first build takes some minutes)" new "$mine"
diff -r -x WORKSPACE -x .bazelrc "$clone/example" "$mine" || fail "$mine is not as example/ is"
grep -qxF "    path = \"$clone\"," "$mine/WORKSPACE" || fail "WORKSPACE: $(<"$mine/WORKSPACE")"
grep -qxF "try-import $clone/.metronome/outside.bazelrc" "$mine/.bazelrc" ||
  fail ".bazelrc: $(<"$mine/.bazelrc")"
[[ $(<"$clone/.metronome/outside.bazelrc") == "# Written by ./metronome setup, for the .bazelrc of workspaces that use Metronome.
import $clone/third_party/flags.bazelrc
import $clone/.metronome/bazelrc" ]] || fail "outside.bazelrc: $(<"$clone/.metronome/outside.bazelrc")"

says 2 "metronome: $mine is there already, and is not empty: name another folder." new "$mine"
touch "$place/file"
says 2 "metronome: $place/file is there already, and is not empty: name another folder." new "$place/file"
says 1 "metronome: /proc/mine cannot be written: name a folder where you may write." new /proc/mine
says 2 "metronome: new takes one folder, which it fills with a workspace." new
says 2 "metronome: new takes one folder, which it fills with a workspace." new "$place/a" "$place/b"
says 2 "metronome: new knows no --fly: it takes a folder, or --help." new --fly
[[ ! -e $place/asked ]] || fail "new asked Bazel: $(<"$place/asked")"

# --- The tests of example/, in a workspace that is not of the tree.
export ONE=PASSED CASES='5 passed | 0' SAYS="Error in fail: libtorch: no Python with torch is set up here: \
run $clone/metronome setup, and let this workspace's .bazelrc say \"import $clone/.metronome/outside.bazelrc\"."
# told WITHOUT_SETUP ONE_TEST
told() {
  printf '%-56s %s\n' "example without setup" "$1" "example//:one_test" "$2 in 0.1s"
  echo "  measured: it has 3 MiB"
}
says 0 "$(told PASSED PASSED)
6 passed, 0 failed" test example
asked=$(<"$place/asked")
[[ $asked == *"/example: --output_base="*" test "*" --define=metronome_isa=avx"*" -- //..."*" shutdown "* ]] || fail "test example: $asked"
[[ $asked != *"$clone"* ]] || fail "test example runs in the tree: $asked"
# The tests of the tree leave it out.
rm "$place/asked"
says 0 "$(printf '%-56s %s\n' //:one_test 'PASSED in 0.1s')
  measured: it has 3 MiB
5 passed, 0 failed" test
[[ $(<"$place/asked") == "$clone: build "*" --build_tests_only --keep_going -- //...
$clone: test "*" --build_tests_only --keep_going --test_summary=short -- //..." ]] || fail "test asked for: $(<"$place/asked")"
export ONE=FAILED CASES='3 passed | 2'
says 1 "$(told PASSED FAILED)
4 passed, 2 failed" test example
SAYS="Error in fail: torch?"
says 1 "$SAYS
$(told FAILED FAILED)
3 passed, 3 failed" test example
says 2 'metronome: test --sanitize does not take example, which is built without sanitizers.' \
  test --sanitize address example
