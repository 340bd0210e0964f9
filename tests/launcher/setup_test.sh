#!/usr/bin/env bash
# What `./metronome setup` says of an environment that cannot serve, and of a cache that was damaged.
set -euo pipefail
source tests/launcher/fakes.sh

fake_torch "$place/old" 2.4.1
fake_torch "$place/headless" "$torch"
rm -r "$place/headless/torch/include/ATen"

# says STATUS TEXT [NAME=VALUE]...: setup with `options` and these variables ends so, and TEXT is all it says.
options=()
says() {
  local expected=$1 text=$2 status=0 said
  shift 2
  said=$(env "${good[@]}" "$@" "$clone/metronome" setup "${options[@]}" 2>&1 </dev/null) || status=$?
  said=$(sed -E 's/\([0-9.]+ s\)/(T)/; s/: [0-9]+\.[0-9] s$/: T/' <<<"$said")
  [[ $status == "$expected" && $said == "$text" ]] ||
    fail "setup ${options[*]} with \"$*\" ends with status $status: $said"
}

# --- Where all is well, but for CUDA, which is told of each time that setup is asked.
no_cuda="metronome: METRONOME_CUDA=$place/none has no bin/nvcc, as a CUDA 13 toolkit has: this build is without CUDA."
well="$no_cuda
metronome: everything is in place (T), in $cache"
says 0 "$well"
says 0 "$well"
grep -qxF "build --disk_cache=$cache/bazel-disk" "$clone/.metronome/bazelrc" || fail "no bazelrc"

# --- A Python that imports torch: METRONOME_PYTHON, to which nothing is added, or one of the cache's own.
options=(--python)
says 0 "$well
$(type -P python3)"
mkdir -p "$cache/python-torch-$torch/bin" "$place/fails"
printf '#!/bin/sh\nPYTHONPATH=%s exec python3 "$@"\n' "$site" >"$cache/python-torch-$torch/bin/python"
chmod +x "$cache/python-torch-$torch/bin/python"
touch "$cache/python-torch-$torch/with-cuda"
cat >"$place/fails/python3" <<EOF
#!/bin/sh
case "\$*" in *venv*/*) echo "no venv today" >&2 && exit 1 ;; esac
exec $(type -P python3) "\$@"
EOF
chmod +x "$place/fails/python3"
installing="metronome: installing torch $torch for Python (2 GB to download)"
says 1 "$no_cuda
$installing
no venv today
$installing failed (its last lines are above)." METRONOME_PYTHON= PATH="$place/fails:$PATH"
mkdir -p "$cache/python-tools-torch-$torch"
cp -r "$cache/python-torch-$torch/bin" "$cache/python-tools-torch-$torch"
says 0 "$well
$cache/python-tools-torch-$torch/bin/python" METRONOME_PYTHON=
options=(--python --fly)
says 2 "metronome: setup takes no --fly, only --cuda, --python and --help."
options=()
fake_cache
says 0 "$well"

# --- A Python that gives no libtorch, though nothing else changed.
wants="name a Python that has torch $torch, or unset it."
python="metronome: METRONOME_PYTHON=python3"
says 1 "metronome: METRONOME_PYTHON=/no/python is no program: $wants" METRONOME_PYTHON=/no/python
says 1 "metronome: METRONOME_PYTHON=$place is no program: $wants" METRONOME_PYTHON="$place"
says 1 "metronome: METRONOME_PYTHON=/bin/true does not run as Python 3: $wants" METRONOME_PYTHON=/bin/true
says 1 "$python has torch 2.4.1: $wants" PYTHONPATH="$place/old"
says 1 "$python has a torch without $place/headless/torch/include/ATen: $wants" PYTHONPATH="$place/headless"
cat >"$place/empty" <<EOF
#!/bin/sh
exec python3 -I -S "\$@"
EOF
chmod +x "$place/empty"
says 1 "metronome: METRONOME_PYTHON=$place/empty has no torch: $wants" METRONOME_PYTHON="$place/empty"
# Not what lies in the folder from which it was started.
(cd "$site" && says 1 "metronome: METRONOME_PYTHON=$place/empty has no torch: $wants" \
  METRONOME_PYTHON="$place/empty")

# --- A torch whose CUDA half cannot be loaded: told before anything is built.
lacks="metronome: METRONOME_PYTHON=python3 has a torch whose CUDA half cannot be loaded ($site/torch/lib/libtorch_cuda.so: cannot open shared object file: No such file or directory): install the libraries that it asks for with \"python3 -m pip install torch==$torch\", or unset METRONOME_PYTHON."
for words in "setup --cuda" "compare mlp --device cuda" "plan --device=cuda mlp" "train digits --device cuda"; do
  status=0
  # shellcheck disable=SC2086
  said=$(env "${good[@]}" "$clone/metronome" $words 2>&1 </dev/null) || status=$?
  [[ $status == 1 && $said == "$lacks" ]] || fail "$words ends with status $status: $said"
done

# --- A rank of a launcher, which builds nothing.
# says_to_rank PROGRAM ARGUMENTS FIRST: what `train` with these says where that program is missing.
says_to_rank() {
  local status=0 said
  # shellcheck disable=SC2086
  said=$(env "${good[@]}" RANK=3 "$clone/metronome" train digits $2 2>&1 </dev/null) || status=$?
  [[ $status == 1 && $said == "metronome: rank 3: where RANK is set nothing is installed or built, and $clone/bazel-bin/$1 is not there yet: say ./metronome train MODEL $3 without RANK first." ]] ||
    fail "train digits $2 of rank 3 ends with status $status: $said"
}
says_to_rank models/train_ranks "" "--ranks 1"
says_to_rank models/train_cuda "--device cuda" "--ranks 1 --device cuda"

# --- A cache that cannot be.
says 1 "metronome: /proc/nowhere cannot be written: set METRONOME_CACHE to a folder that can." \
  METRONOME_CACHE=/proc/nowhere
touch "$place/file"
says 1 "metronome: $place/file cannot be written: set METRONOME_CACHE to a folder that can." \
  METRONOME_CACHE="$place/file"
unfit="the build takes no path with a blank, a quote or one of \\ \$ # ; & ( ) ~: name another."
says 1 "metronome: METRONOME_CACHE=$place/a b: $unfit" METRONOME_CACHE="$place/a b"
says 1 "metronome: METRONOME_CACHE=$PWD/~/cache: $unfit" METRONOME_CACHE='~/cache'
says 1 "metronome: METRONOME_CUDA=/opt/my cuda: $unfit" METRONOME_CUDA='/opt/my cuda'
(cd "$place" && says 0 "$well" METRONOME_CACHE=cache)

# --- A cache that was damaged: what is not whole is fetched again.
damaged() {
  local what=$1 folder=$2 title=$3
  rm -r "$what"
  says 1 "metronome: $folder is damaged, and is made anew
metronome: $title
pip: nothing can be reached
metronome: $title failed (its last lines are above)."
  fake_cache
}
damaged "$onednn/include" "$onednn" "installing oneDNN $(version_of ONEDNN)"
damaged "$onednn/lib/libdnnl.so.3" "$onednn" "installing oneDNN $(version_of ONEDNN)"
damaged "$digits/digits.csv" "$digits" "installing the digits data set"
damaged "$mnist/mnist.csv" "$mnist" "installing MNIST's digits"
damaged "$format/bin/clang-format" "$format" "installing clang-format $(version_of CLANG_FORMAT)"
python_home=$cache/python-torch-$torch
mkdir -p "$python_home/bin" "$place/bin"
ln -s "$place/empty" "$python_home/bin/python"
cat >"$place/bin/python3" <<'EOF'
#!/bin/sh
case "$*" in *venv*/*) echo "no venv today" >&2 && exit 1 ;; esac
EOF
chmod +x "$place/bin/python3"
says 1 "metronome: $python_home is damaged, and is made anew
metronome: installing torch $torch (0.5 GB to download)
no venv today
metronome: installing torch $torch (0.5 GB to download) failed (its last lines are above)." \
  METRONOME_PYTHON= PATH="$place/bin:$PATH"

# --- A user who is not root.
sed 's/EUID/1000/' "$clone/metronome" >"$place/other" && mv "$place/other" "$clone/metronome"
chmod +x "$clone/metronome"

# Everything but `train text` goes without a text, for which nothing is done as root.
mkdir "$place/apt"
cat >"$place/apt/apt-get" <<EOF
#!/bin/sh
echo "\$*" >>"$place/asked"
echo "apt-get: nothing can be reached"
exit 100
EOF
cp "$place/apt/apt-get" "$place/apt/sudo"
chmod +x "$place/apt"/{apt-get,sudo}
rm -r "$text"
no_text="metronome: fetching the text of Debian's fortunes
metronome: Debian's fortunes cannot be fetched, so \`train text\` has no text: apt-get: nothing can be reached"
for try in first second; do  # setup asks each time
  says 0 "$no_text
$well" PATH="$place/apt:$PATH"
done
[[ $(<"$place/asked") == "-q download fortunes
-q download fortunes" ]] || fail "apt-get or sudo was asked for: $(<"$place/asked")"
grep -qxF "test --test_env=METRONOME_TEXT=" "$clone/.metronome/bazelrc" || fail "no empty METRONOME_TEXT"
fake_cache

# One who may not install packages.
sed 's|^readonly NEEDED=(|&/no/such/file:one-package /no/other:another|' \
  "$clone/metronome" >"$place/other" && mv "$place/other" "$clone/metronome"
chmod +x "$clone/metronome"
refusal="metronome: one-package another must be installed, which takes root or sudo: run apt-get install one-package another as root."
printf '#!/bin/sh\nexit 1\n' >"$place/bin/sudo"
printf '#!/bin/sh\necho "apt-get must not be run" >&2\n' >"$place/bin/apt-get"
chmod +x "$place/bin"/{sudo,apt-get}
rm "$place/bin/python3"
says 1 "$refusal" PATH="$place/bin:$PATH"

# --- Without HOME, or with an empty one, the cache is where the system says that this user is at home.
home=$(unset HOME && echo ~)
for how in "env -u HOME" "env HOME="; do
  said=$(cd "$place" && $how "$clone/metronome" --help)
  grep -qF "(now $home/.cache/metronome)" <<<"$said" || fail "$how: $said"
done
