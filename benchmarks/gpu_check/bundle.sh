#!/usr/bin/env bash
# Puts the GPU checks into a folder that runs on another machine, and packs it.
#
#   bundle.sh FOLDER GPU_KERNELS PROGRAM...    makes FOLDER and FOLDER.tar.gz; gpu_programs is one of them
#
# What programs load beside libtorch and the C and C++ libraries goes along; libtorch is the other
# machine's own. GPU_KERNELS, which stays here, compiles what the models' steps would compile there.
# Its last line tells the archive's size, and how long all of it took.
set -euo pipefail

# It must travel by mail-sized ways.
readonly MOST_MIB=40

here=$(dirname "${BASH_SOURCE[0]}")
folder=$1
kernels=$2
shift 2

if [[ -n $(ls -A "$folder" 2>/dev/null) && ! -e $folder/run.sh ]]; then
  echo "bundle.sh: $folder is there already and is no bundle" >&2
  exit 1
fi
rm -rf "$folder" "$folder.tar.gz"
mkdir -p "$folder"/{bin,lib,peers,kernels}

# Own libraries of a program: the rest comes from torch, from CUDA and from the system.
libraries_of() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' |
    grep -vE '/torch/lib/|/nvidia/|/cuda[^/]*/|^lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|gomp)\.so'
}

for program in "$@"; do
  cp -L "$program" "$folder/bin/"
  while read -r name file; do
    [[ -e $folder/lib/$name ]] || cp -L "$file" "$folder/lib/$name"
  done < <(libraries_of "$program" || true)
done
chmod -R u+w "$folder"
strip --strip-all "$folder"/bin/* "$folder"/lib/*
# They share most of their code, so they are one program.
for name in gpu_allocations gpu_conformance gpu_device gpu_models metronome_peer; do
  ln -s gpu_programs "$folder/bin/$name"
done
LD_LIBRARY_PATH=$folder/lib "$folder/bin/gpu_conformance" --list >"$folder/ops"
LD_LIBRARY_PATH=$folder/lib "$folder/bin/gpu_models" --list >"$folder/models"
cp -L "$here"/*.py "$here/run.sh" "$folder/"
cp -L "$here"/../peers/*.py "$folder/peers/"
chmod +x "$folder/run.sh"
# What `metronome train` learns from; a task whose data are not here reports itself as unavailable.
mkdir "$folder/data"
if [[ -e ${METRONOME_DIGITS:-} ]]; then cp -L "$METRONOME_DIGITS" "$folder/data/digits.csv"; fi
if [[ -e ${METRONOME_MNIST:-} ]]; then cp -L "$METRONOME_MNIST" "$folder/data/mnist.csv"; fi
if [[ -e ${METRONOME_TEXT:-} ]]; then cp -rL "$METRONOME_TEXT" "$folder/data/text"; fi
printf '%s\n' "${METRONOME_COMMIT:-unknown}" >"$folder/commit"
"${METRONOME_PYTHON:-python3}" -c 'import importlib.metadata as m; print(m.version("torch"))' >"$folder/torch"
"$kernels" "$folder/kernels" || (($? == 3)) # a build without CUDA has none

tar -C "$(dirname "$folder")" --sort=name --owner=0 --group=0 -cf - "$(basename "$folder")" |
  gzip >"$folder.tar.gz"
size=$(stat -c %s "$folder.tar.gz")
tenths=$(((size * 10 + 1048575) / 1048576))
if ((tenths > 10 * MOST_MIB)); then
  echo "bundle.sh: $folder.tar.gz has $((tenths / 10)).$((tenths % 10)) MiB, more than $MOST_MIB" >&2
  exit 1
fi
printf 'measured: the bundle has %d.%d of at most %d MiB, and was packed in %d.%d min\n' \
  $((tenths / 10)) $((tenths % 10)) $MOST_MIB $((SECONDS / 60)) $((SECONDS % 60 / 6))
