#!/usr/bin/env bash
# Make the virtual environment that make, CI and README.md share:
#     scripts/make_env.sh DIR [PYTHON [TORCH]]
# PYTHON (python3) is 3.11, 3.12 or 3.13, TORCH another version of PyTorch than that of
# scripts/torch.txt. fairseq has a wheel for 3.12 alone. For the others it is built from source, which
# takes a C++ compiler and some three minutes. PyTorch is the build of the registry: on Linux that
# brings CUDA unless pip has CPU wheels, as by
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
set -euo pipefail
dir=${1:?usage: scripts/make_env.sh DIR [PYTHON [TORCH]]}
python=${2:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
torch=(-r "$here/scripts/torch.txt")
[ -z "${3:-}" ] || torch=("torch==$3")
mark=$dir/.made-by-make_env.sh # written first, so that an interrupted environment has it too

die() { echo "make_env.sh: error: $*" >&2; exit 1; }
command -v "$python" >/dev/null || die "$python: not found: name a Python, PYTHON=python3.11"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ||
  die "$python does not run: name another Python, PYTHON=python3.11"
case $version in
  3.11 | 3.12 | 3.13) ;;
  3.1[4-9]) die "Python $version: its argparse stops hydra-core 1.3.2, which fairseq needs" \
    "(facebookresearch/hydra#3121): use 3.11, 3.12 or 3.13, PYTHON=python3.13" ;;
  *) die "Python $version is too old: use 3.11, 3.12 or 3.13, PYTHON=python3.11" ;;
esac
if [ -e "$dir" ] && [ ! -e "$mark" ] && [ -n "$(ls -A "$dir")" ]; then
  die "$dir is not empty, and no environment of this script: name another folder or delete it"
fi
[ -e "$dir/.complete" ] && { echo "$dir is complete"; exit 0; }

echo "making $dir with Python $version (some minutes; log: $dir.log)"
rm -rf "$dir"
mkdir -p "$dir"
touch "$mark"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_REQUIRE_HASHES PIP_NO_DEPS

# Nothing is taken from the registry whose hash is not in requirements.txt, PyTorch apart. So no
# build is isolated: pip would fetch what it builds with, PyTorch too, unpinned. First come wheels
# (of all but these two), then PyTorch, then what is built with both.
built='^(antlr4-python3-runtime|fairseq-fixed)=='
wheels() { awk -v built="$built" '/^[a-z]/ { keep = $0 !~ built } keep' "$here/scripts/requirements.txt"; }
checked() { "$dir/bin/python" -m pip install --require-hashes --no-deps "$@"; }
install() {
  "$python" -m venv "$dir" &&
    checked --only-binary :all: -r <(wheels) &&
    "$dir/bin/python" -m pip install "${torch[@]}" &&
    checked --no-build-isolation -r "$here/scripts/requirements.txt" &&
    "$dir/bin/python" -m pip install --no-deps --no-build-isolation -e "$here" &&
    "$dir/bin/python" -m pip check
}
install >"$dir.log" 2>&1 ||
  die "pip failed: $(grep -iE '^ *error' "$dir.log" | head -1) (whole log: $dir.log)"
touch "$dir/.complete"
echo "$dir is complete"
