#!/usr/bin/env bash
# Puts the GPU checks into a folder that runs on another machine, and packs it.
#
#   bundle.sh FOLDER PROGRAM...    makes FOLDER and FOLDER.tar.gz
#
# What programs load beside libtorch and the C and C++ libraries goes along; libtorch is the other
# machine's own.
set -euo pipefail

# It must travel by mail-sized ways.
readonly MOST_BYTES=$((40 * 1024 * 1024))

here=$(dirname "${BASH_SOURCE[0]}")
folder=$1
shift

if [[ -n $(ls -A "$folder" 2>/dev/null) && ! -e $folder/run.sh ]]; then
  echo "bundle.sh: $folder is there already and is no bundle" >&2
  exit 1
fi
rm -rf "$folder" "$folder.tar.gz"
mkdir -p "$folder/bin" "$folder/lib" "$folder/peers"

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
cp -L "$here"/{run.sh,check.py,dry.py,parts.py} "$folder/"
cp -L "$here"/../peers/*.py "$folder/peers/"
chmod +x "$folder/run.sh"
printf '%s\n' "${METRONOME_COMMIT:-unknown}" >"$folder/commit"
"${METRONOME_PYTHON:-python3}" -c 'import importlib.metadata as m; print(m.version("torch"))' >"$folder/torch"

tar -C "$(dirname "$folder")" --sort=name --owner=0 --group=0 -cf - "$(basename "$folder")" |
  gzip >"$folder.tar.gz"
size=$(stat -c %s "$folder.tar.gz")
if ((size > MOST_BYTES)); then
  echo "bundle.sh: $folder.tar.gz has $size bytes, more than $MOST_BYTES" >&2
  exit 1
fi
