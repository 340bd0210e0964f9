#!/usr/bin/env bash
# The installed package as users have it, outside of the tree: plain CMake and Ninja, pkg-config, a shared
# library with a C interface, a moved prefix, two packages side by side, and what it refuses.
set -euo pipefail

tree=$PWD
readonly ISA_TEST=$tree/third_party/isa_test.sh
# In a cmake of another instance nothing of the build's own is to be found.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for tool in cmake ninja pkg-config; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed here"
    exit 0
  fi
done

# Where torch lies, without importing it.
torch=$("$METRONOME_PYTHON" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("torch").origin))')
onednn=$METRONOME_ONEDNN
failures=0

check() {
  local what=$1
  shift
  if ! "$@" >"$work/log" 2>&1; then
    echo "FAILED: $what"
    tail -n 30 "$work/log"
    failures=$((failures + 1))
  fi
}

# expect WHAT TEXT COMMAND...: the command fails, and says so.
expect() {
  local what=$1 text=$2 said
  shift 2
  if "$@" >"$work/log" 2>&1; then
    echo "FAILED: $what: it did not fail"
    failures=$((failures + 1))
    return
  fi
  # CMake breaks and indents its lines.
  said=$(tr -s ' \n' ' ' <"$work/log")
  if [[ $said != *"$text"* ]]; then
    echo "FAILED: $what: it does not say \"$text\""
    tail -n 30 "$work/log"
    failures=$((failures + 1))
  fi
}

install_into() { "$tree/third_party/package/install.sh" "$tree" "$1" "$torch" "$onednn"; }

check "install" install_into "$work/prefix"
[[ -e $work/prefix/include/metronome/metronome.h ]] || {
  echo "FAILED: no header was installed"
  exit 1
}

# ---- a program of ten lines ---------------------------------------------------------------------
mkdir -p "$work/program"
cat >"$work/program/main.cc" <<'EOF'
#include "metronome/metronome.h"

#include <cstdio>
#include <vector>
namespace mt = metronome;

int main() {
  mt::Graph g("line");
  mt::Value x = g.input("x", mt::f32, {8, 4}), t = g.input("t", mt::f32, {8, 1});
  g.minimize(mt::mse_loss(x.through(mt::linear(16)).through(mt::gelu).through(mt::linear(1)), t), mt::Adam{.lr = 1e-2});
  mt::Executable step = mt::compile(g);
  std::vector<float> rows(32, 0.5F), aims(8, 2.0F);
  for (int i = 0; i < 300; ++i) step.run({{x, mt::from_span(rows, {8, 4})}, {t, mt::from_span(aims, {8, 1})}});
  std::printf("loss %.3f\n", step.read_scalar(g.loss()));
}
EOF
cat >"$work/program/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.24)
project(line CXX)
find_package(metronome REQUIRED)
add_executable(line main.cc)
target_link_libraries(line metronome::metronome)
EOF

# configure SOURCE BUILD OPTION...
configure() { cmake -G Ninja -S "$1" -B "$2" "${@:3}"; }
prints_loss() { [[ $("$1") == "loss 0.0"* ]]; }

for type in Release Debug; do
  check "configure ($type)" configure "$work/program" "$work/$type" -DCMAKE_BUILD_TYPE=$type \
    -DCMAKE_PREFIX_PATH="$work/prefix"
  check "build ($type)" ninja -C "$work/$type"
  check "run ($type)" prints_loss "$work/$type/line"
done
if command -v clang++ >/dev/null; then
  check "configure (clang)" configure "$work/program" "$work/clang" -DCMAKE_CXX_COMPILER=clang++ \
    -DCMAKE_PREFIX_PATH="$work/prefix"
  check "build (clang)" ninja -C "$work/clang"
  check "run (clang)" prints_loss "$work/clang/line"
fi
check "instruction sets, as CMake links" "$ISA_TEST" "$work/Release/line"

with_pkg_config() {
  export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
  # shellcheck disable=SC2046
  g++ -O2 $(pkg-config --cflags metronome) "$work/program/main.cc" -o "$work/by_pkg_config" \
    $(pkg-config --libs metronome)
}
check "build by pkg-config" with_pkg_config
check "run what pkg-config built" prints_loss "$work/by_pkg_config"

# ---- parts, and a shared library with a C interface -----------------------------------------------
mkdir -p "$work/parts"
cat >"$work/parts/parts.cc" <<'EOF'
#include "metronome/device.h"
#include "metronome/distributed.h"
#include "metronome/import.h"
#include "metronome/metronome.h"
#include "metronome/op.h"

#include <cmath>
#include <cstdio>
namespace mt = metronome;

int main(int, char** arguments) {
  mt::Graph imported("imported");
  const mt::Value seen = imported.input("seen", mt::f32, {2, 3});
  imported.output("action", seen.through(mt::program(arguments[1], {.model = "act"})));
  mt::Executable acts = mt::compile(imported, mt::cpu_replay(), {.modes = {mt::evaluate}});
  acts.evaluate({{seen, mt::from_span(std::vector<float>(6, 1), {2, 3})}});
  const mt::World world = mt::World::from_environment();
  mt::Graph g("parts");
  mt::Value x = g.input("x", mt::f32, {4});
  mt::Value y = mt::sum(mt::square(x));
  g.output("y", y);
  const std::vector<float> numbers = {1, 2, 3, 4};
  double sums[2];
  int i = 0;
  for (const mt::Target& target : {mt::cpu_replay(), mt::eager()}) {
    mt::Executable step = mt::compile(g, target, {.modes = {mt::evaluate}});
    step.evaluate({{x, mt::from_span(numbers, {4})}});
    sums[i++] = step.read_scalar(y);
  }
  mt::Executable noted = mt::compile(g, mt::null(), {.modes = {mt::evaluate}});
  std::printf("%d rank, %g, %g, %s, %s\n", world.size(), sums[0], sums[1], noted.report().target.c_str(),
              acts.get("weight").numel() == 3 ? "imported" : "wrong");
}
EOF
cat >"$work/parts/policy.cc" <<'EOF'
// A policy as a shared library, for programs in C and whatever calls C.
#include "metronome/metronome.h"

#include <cstdio>
#include <memory>
#include <span>
namespace mt = metronome;

struct policy {
  mt::Graph g{"policy"};
  mt::Value seen = g.input("seen", mt::f32, {1, 3});
  mt::Value action = mt::tanh(seen.through(mt::linear(2)));
  std::unique_ptr<mt::Executable> step;
};

extern "C" {
policy* policy_open(void) try {
  auto made = std::make_unique<policy>();
  made->g.output("action", made->action);
  made->step = std::make_unique<mt::Executable>(
      mt::compile(made->g, mt::cpu_replay(), {.modes = {mt::evaluate}, .threads = 1}));
  return made.release();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return nullptr;
}
int policy_act(policy* p, const float* seen, float* action) try {
  p->step->evaluate({{p->seen, mt::from_span(std::span(seen, 3), {1, 3})}});
  const mt::Tensor result = p->step->read_tensor(p->action);
  std::copy_n(reinterpret_cast<const float*>(result.data), 2, action);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
void policy_close(policy* p) { delete p; }
}
EOF
cat >"$work/parts/main.c" <<'EOF'
#include <stdio.h>
struct policy;
struct policy* policy_open(void);
int policy_act(struct policy*, const float*, float*);
void policy_close(struct policy*);
int main(void) {
  struct policy* p = policy_open();
  const float seen[3] = {0.1f, 0.2f, 0.3f};
  float action[2] = {9, 9};
  if (p == NULL || policy_act(p, seen, action) != 0) return 1;
  policy_close(p);
  printf("%s\n", action[0] > -1 && action[0] < 1 && action[1] > -1 && action[1] < 1 ? "acted" : "wrong");
  return 0;
}
EOF
cat >"$work/parts/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.24)
project(parts C CXX)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
find_package(metronome 0.1 REQUIRED COMPONENTS import)
add_executable(parts parts.cc)
target_link_libraries(parts metronome::metronome metronome::eager metronome::cuda metronome::distributed
  metronome::import)
add_library(policy SHARED policy.cc)
set_source_files_properties(policy.cc PROPERTIES COMPILE_OPTIONS -fvisibility=default)
target_link_libraries(policy PRIVATE metronome::metronome)
target_link_options(policy PRIVATE -Wl,--exclude-libs,ALL)
add_executable(main main.c)
target_link_libraries(main policy)
EOF
# The same package in another place, and another one beside it.
mv "$work/prefix" "$work/moved"
check "a second package" install_into "$work/second"
check "configure with a moved prefix" configure "$work/parts" "$work/parts-build" \
  -Dmetronome_ROOT="$work/moved" -DCMAKE_PREFIX_PATH="$work/second"
check "build parts" ninja -C "$work/parts-build"
check "the moved package is the one that was named" grep -q "$work/moved/lib/libmetronome.a" \
  "$work/parts-build/build.ninja"
says() {
  local expected=$1
  shift
  [[ $("$@") == "$expected" ]] || { "$@" && false; }
}
check "run parts" says "1 rank, 30, 30, null, imported" "$work/parts-build/parts" "$tree/tests/import/programs/several.pt2"
check "run C with a shared library" says "acted" "$work/parts-build/main"

# ---- the program that `./metronome new` begins ----------------------------------------------------------
cp -RL "$tree/example" "$work/example"
check "configure example/" configure "$work/example" "$work/example-build" -DCMAKE_PREFIX_PATH="$work/moved"
check "build example/" ninja -C "$work/example-build"
check "test example/" ctest --test-dir "$work/example-build"
if command -v clang++ >/dev/null; then
  check "configure example/ (clang)" configure "$work/example" "$work/example-clang" \
    -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_PREFIX_PATH="$work/moved"
  check "build example/ (clang)" ninja -C "$work/example-clang" soft_cap_test
fi

# ---- what is refused --------------------------------------------------------------------------------
refusal() { configure "$work/program" "$work/refused" -DCMAKE_PREFIX_PATH="$work/moved" "$@"; }
expect "no torch" "/nowhere has no include/ATen: set METRONOME_TORCH to the folder of torch 2.11.0" \
  refusal -DMETRONOME_TORCH=/nowhere
mkdir -p "$work/other/include"
ln -s "$torch/include/ATen" "$torch/include/c10" "$work/other/include"
ln -s "$torch/lib" "$work/other/lib"
echo "__version__ = '2.9.1'" >"$work/other/version.py"
expect "another torch" "is another torch than 2.11.0, with which Metronome was built: __version__ = '2.9.1'" \
  refusal -DMETRONOME_TORCH="$work/other"
expect "no oneDNN" "/nowhere has no lib/libdnnl.so: set METRONOME_ONEDNN" \
  refusal -DMETRONOME_TORCH="$torch" -DMETRONOME_ONEDNN=/nowhere
sed 's/^find_package/set(CMAKE_VERSION 3.22.1)\nfind_package/' "$work/program/CMakeLists.txt" >"$work/CMakeLists.old"
mkdir -p "$work/old" && cp "$work/program/main.cc" "$work/old" && mv "$work/CMakeLists.old" "$work/old/CMakeLists.txt"
expect "an old CMake" "Metronome needs CMake 3.24 or newer, which links some parts whole, and this is 3.22.1" \
  configure "$work/old" "$work/refused-old" -DCMAKE_PREFIX_PATH="$work/moved"
sed 's/find_package(metronome/find_package(metronome 0.2/' "$work/program/CMakeLists.txt" >"$work/old/CMakeLists.txt"
expect "another version" 'compatible with requested version "0.2"' configure "$work/old" "$work/refused-version" -DCMAKE_PREFIX_PATH="$work/moved"
expect "the tree as a folder" "./metronome install --prefix" configure "$tree" "$work/refused-tree"
expect "a torch of a relative path" "nowhere has no include/ATen" refusal -DMETRONOME_TORCH=../nowhere
touch "$work/file"
mkdir -p "$work/own/include/metronome"
touch "$work/own/include/metronome/mine.h"
expect "a folder that is somebody's" "is no package of Metronome, which would replace it" install_into "$work/own"
[[ -e $work/own/include/metronome/mine.h ]] || {
  echo "FAILED: somebody's folder was replaced"
  failures=$((failures + 1))
}
expect "a prefix that is a file" "cannot be written: name a folder where you may write" \
  install_into "$work/file/prefix"

if ((failures > 0)); then
  echo "$failures checks failed"
  exit 1
fi
echo "all checks passed"
