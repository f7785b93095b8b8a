#!/usr/bin/env bash
# Make the virtual environment that make, CI and README.md share:
#     scripts/make_env.sh DIR [PYTHON [TORCH]]
# PYTHON (python3) is 3.11 or later, TORCH another version of PyTorch than that of scripts/torch.txt.
# Where fairseq has no wheel, as for 3.11, it is built from source: that takes a C++ compiler and
# some three minutes. PyTorch is the registry's own build: on Linux that brings CUDA unless pip is
# pointed at CPU wheels, for example PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
set -euo pipefail
dir=${1:?usage: scripts/make_env.sh DIR [PYTHON [TORCH]]}
python=${2:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
torch=(-r "$here/scripts/torch.txt")
[ -z "${3:-}" ] || torch=("torch==$3")

die() { echo "make_env.sh: error: $*" >&2; exit 1; }
command -v "$python" >/dev/null || die "$python: not found: name a Python, PYTHON=python3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "$("$python" --version) is too old: 3.11 or later is needed, PYTHON=python3.11"
[ -e "$dir/.complete" ] && { echo "$dir is complete"; exit 0; }

echo "making $dir with $("$python" --version) (some minutes; log: $dir.log)"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
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
