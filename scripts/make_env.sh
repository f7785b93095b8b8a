#!/usr/bin/env bash
# Make the virtual environment that make, CI and README.md share:
#     scripts/make_env.sh DIR [PYTHON [TORCH]]
# PYTHON is 3.11, 3.12 or 3.13 (default: python3, or what is installed of these); TORCH another
# version of PyTorch than that of scripts/torch.txt. All other packages must have a pinned hash.
# A C++ compiler builds fairseq, except on 3.12, which has a wheel, and the engine of the runtime.
set -Eeuo pipefail
dir=${1:?usage: scripts/make_env.sh DIR [PYTHON [TORCH]]}
python=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
torch=(-r "$here/torch.txt")
[ -z "${3:-}" ] || torch=("torch==$3")
die() { echo "make_env.sh: error: $*" >&2; exit 1; }
[[ $dir != -* ]] || die "$dir is no folder: see the head of this script"

[ ! -e "$dir" ] || [ -e "$dir/.made-by-make_env.sh" ] ||
  die "$dir was not made by this script: name another folder or delete it"
[ ! -e "$dir/.complete" ] || { echo "$dir is complete"; exit 0; }
compiler=$(command -v c++ g++ clang++ | head -1) || true
versions="3.11, 3.12 or 3.13" # hydra-core 1.3.2, which fairseq requires, does not start on 3.14
[ -n "$compiler" ] || versions="3.12 (others need a C++ compiler)"
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
suits() { [[ $versions = *"$(version "$1" 2>/dev/null || echo none)"* ]]; }
for each in python3 python3.12 python3.11 python3.13; do
  [ -n "$python" ] || ! suits $each || python=$each
done
command -v "${python:=python3}" >/dev/null || die "$python: there is no such program"
# such as a shim of pyenv for which no version was chosen
said=$(version "$python" 2>&1) || die "$python does not start: ${said%%$'\n'*}"
suits "$python" || die "$python is Python $said, not $versions: name one, as in PYTHON=python3.12"

echo "making $dir with Python $said: 1.6 GB, with PyTorch for a GPU 5 GB (log: $dir.log)"
rm -rf "$dir"
mkdir -p "$dir"
touch "$dir/.made-by-make_env.sh"
exec 3>&1 4>&2 >"$dir.log" 2>&1
failed() {
  echo "make_env.sh: $(grep -iE "error|failed|not created" "$dir.log" | head -1) (log: $dir.log)" >&4
}
trap failed ERR
step() { echo "  $*" >&3; }
pins() { awk "/^[a-z]/ { keep = $1 } keep" "$here/requirements.txt"; }
uv() { "$dir/bin/uv" pip "$@" --python "$dir/bin/python"; }
checked() { uv install --no-deps --require-hashes "$@"; }

step "pinned packages"
"$python" -m venv "$dir"
"$dir/bin/pip" install --no-deps --require-hashes -r <(pins '/^uv==/')
# no build is isolated, which would fetch PyTorch again and unpinned: first what a build needs
checked --only-binary :all: -r <(pins '!/^(antlr4-python3-runtime|fairseq-fixed)==/')

# Three of fairseq's six extensions take most of its build, as they compile PyTorch's headers, and
# nothing here loads them. With this module in place of PyTorch's they may fail, and do so at once:
# the headers come later, with PyTorch.
step "fairseq"
stand_in=$(cd "$dir" && pwd)/stand-in
mkdir -p "$stand_in/torch/utils"
cat >"$stand_in/torch/utils/cpp_extension.py" <<'END'
from functools import partial

from setuptools import Extension
from setuptools.command.build_ext import build_ext as BuildExtension

CppExtension = partial(Extension, optional=True)
END
# the setting, which nothing reads, keeps this build apart from others in uv's cache
PYTHONPATH=$stand_in checked --no-build-isolation -r "$here/requirements.txt" \
  --config-settings-package fairseq-fixed:without=torch

# uv chooses PyTorch's index by the GPU, if any; on Linux pip's choice brings gigabytes of CUDA
step "PyTorch"
UV_HTTP_RETRIES=1 uv install --torch-backend=auto "${torch[@]}" || {
  step "PyTorch's index is out of reach: as pip finds it, on Linux with CUDA (5 GB)"
  "$dir/bin/pip" install --no-compile "${torch[@]}"
}
step "resmlp_mt and its runtime${compiler:+, with the engine in C++}"
uv install --no-deps --no-build-isolation -e "$here/.." -e "$here/../runtime"
uv check
# what every command imports: with PYTHONDONTWRITEBYTECODE, as in many containers, each would compile
# it again, for ten seconds
env -u PYTHONDONTWRITEBYTECODE "$dir/bin/python" -c "from resmlp_mt.plugin import register; register()"
touch "$dir/.complete"
