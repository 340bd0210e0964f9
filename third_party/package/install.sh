#!/usr/bin/env bash
# install.sh TREE PREFIX TORCH ONEDNN: copies what //third_party/package built into PREFIX, as CMake's
# find_package and pkg-config find it. TREE is this tree or a test's copy of it, TORCH the folder of an
# installed torch, ONEDNN that of oneDNN: where programs look for them unless they are told another place.
#
#   PREFIX/include/metronome/*.h              what programs include, as metronome/metronome.h
#   PREFIX/include/metronome/tree/...         what those include
#   PREFIX/lib/libmetronome*.a
#   PREFIX/lib/cmake/metronome/*.cmake
#   PREFIX/lib/pkgconfig/*.pc
#   PREFIX/lib/metronome-torch                links to libtorch's headers, for pkg-config
#
# A package of before is replaced; other files of PREFIX stay.
set -euo pipefail

tree=$1 prefix=$2 torch=$3 onednn=$4
readonly VERSION=0.1.0
readonly LIBRARIES=(metronome metronome_eager metronome_cuda)

fail() {
  printf 'metronome: %s\n' "$*" >&2
  exit 1
}

# A file of the tree, or one that the build made.
find_file() {
  local file
  for file in "$tree/$1" "$tree/bazel-bin/$1"; do
    if [[ -e $file ]]; then
      printf '%s' "$file"
      return
    fi
  done
  fail "$1 is not built."
}

mkdir -p "$prefix" 2>/dev/null && [[ -w $prefix ]] ||
  fail "$prefix cannot be written: name a folder where you may write, --prefix ~/metronome for one."
# A folder of that name that is no package of before is somebody's.
if [[ -e $prefix/include/metronome && ! -e $prefix/include/metronome/tree/executor/metronome.h ]]; then
  fail "$prefix/include/metronome is there, and is no package of Metronome, which would replace it: name another folder."
fi
partial=$(mktemp -d "$prefix/.metronome-partial-XXXXXX")
trap 'rm -rf "$partial"' EXIT

headers=$partial/include/metronome
mkdir -p "$headers/tree" "$partial/lib/cmake/metronome" "$partial/lib/pkgconfig"
while read -r header; do
  case $header in
    include/metronome/*) cp "$(find_file "$header")" "$headers/${header##*/}" ;;
    *)
      mkdir -p "$headers/tree/${header%/*}"
      cp "$(find_file "$header")" "$headers/tree/$header"
      ;;
  esac
done <"$(find_file third_party/package/headers.txt)"

for library in "${LIBRARIES[@]}"; do
  cp "$(find_file "third_party/package/lib$library.a")" "$partial/lib"
done

for file in metronomeConfig.cmake metronomeConfigVersion.cmake; do
  sed -e "s|@TORCH@|$torch|g" -e "s|@ONEDNN@|$onednn|g" -e "s|@VERSION@|$VERSION|g" \
    "$(find_file "third_party/package/$file.in")" >"$partial/lib/cmake/metronome/$file"
done

# CUDA's libraries that libtorch itself loads.
cuda=()
for file in "${torch%/torch}"/nvidia/*/lib/{libcudart,libcupti}.so.*; do
  [[ -e $file ]] || continue
  folder=${file%/*}
  [[ " ${cuda[*]-} " == *" $folder "* ]] || cuda+=("$folder")
done
paths=''
for folder in "$torch/lib" "$onednn/lib" ${cuda[@]+"${cuda[@]}"}; do
  paths+=" -Wl,-rpath,$folder -Wl,-rpath-link,$folder"
done
# pkg-config has no word for the headers that libtorch's folder may not show: a folder of links does.
mkdir -p "$partial/lib/metronome-torch"
for header in ATen c10 caffe2 torch sleef.h; do
  ln -s "$torch/include/$header" "$partial/lib/metronome-torch/$header"
done
cat >"$partial/lib/pkgconfig/metronome.pc" <<EOF
prefix=\${pcfiledir}/../..
Name: metronome
Description: Training steps, planned ahead of time and replayed
Version: $VERSION
Cflags: -std=c++20 -DAT_PER_OPERATOR_HEADERS -I\${prefix}/include -isystem \${prefix}/include/metronome/tree -isystem \${prefix}/lib/metronome-torch -isystem \${prefix}/lib/metronome-torch/torch/csrc/api/include
Libs:$paths -L\${prefix}/lib -lmetronome -L$torch/lib -ltorch_cpu -lc10 -L$onednn/lib -ldnnl -lfmt -lspdlog -Wl,--push-state,--as-needed -lcpp-httplib -Wl,--pop-state -lgomp -ldl -lpthread
EOF

cat >"$partial/lib/pkgconfig/metronome-import.pc" <<EOF
Name: metronome-import
Description: Models that PyTorch exported, as layers
Version: $VERSION
Requires: metronome
Libs: -Wl,--push-state,--no-as-needed -lzip -Wl,--pop-state
EOF

rm -rf "$prefix/include/metronome" "$prefix/lib/cmake/metronome" "$prefix/lib/metronome-torch"
mkdir -p "$prefix/include" "$prefix/lib/cmake" "$prefix/lib/pkgconfig"
mv "$headers" "$prefix/include/metronome"
mv "$partial/lib/cmake/metronome" "$prefix/lib/cmake/metronome"
mv "$partial/lib/metronome-torch" "$prefix/lib/metronome-torch"
mv "$partial"/lib/*.a "$prefix/lib"
mv "$partial"/lib/pkgconfig/* "$prefix/lib/pkgconfig"
