#!/usr/bin/env bash
# Make the virtual environment that make, CI and README.md share:
#     scripts/make_env.sh DIR [PYTHON [TORCH]]
# PYTHON (python3) is 3.11, 3.12 or 3.13; TORCH another version of PyTorch than scripts/torch.txt has.
# pip finds PyTorch's build: on Linux that brings CUDA, unless pip also looks where CPU wheels are, as
# with PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu. All else must have a pinned hash.
# Where fairseq has no wheel (Python 3.11 and 3.13) it is built, with a C++ compiler, in three minutes.
set -euo pipefail
dir=${1:?usage: scripts/make_env.sh DIR [PYTHON [TORCH]]}
python=${2:-python3}
here=$(cd "$(dirname "$0")" && pwd)
torch=(-r "$here/torch.txt")
[ -z "${3:-}" ] || torch=("torch==$3")
die() { echo "make_env.sh: error: $*" >&2; exit 1; }

# hydra-core 1.3.2, which fairseq requires, does not start on Python 3.14
"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' ||
  die "$python is not Python 3.11, 3.12 or 3.13: name one, as in PYTHON=python3.11"
[ ! -e "$dir" ] || [ -e "$dir/.made-by-make_env.sh" ] ||
  die "$dir was not made by this script: name another folder or delete it"
[ ! -e "$dir/.complete" ] || { echo "$dir is complete"; exit 0; }
echo "making $dir (some minutes; log: $dir.log)"
rm -rf "$dir"
mkdir -p "$dir"
touch "$dir/.made-by-make_env.sh"

pins() { awk "/^[a-z]/ { keep = $1 } keep" "$here/requirements.txt"; }
checked() { "$dir/bin/uv" pip install --python "$dir/bin/python" --no-deps --require-hashes "$@"; }
exec 3>&2 >"$dir.log" 2>&1
trap 'echo "make_env.sh: error: $(grep -iE "error|failed" "$dir.log" | head -1) (log: $dir.log)" >&3' ERR
"$python" -m venv "$dir"
"$dir/bin/pip" install --no-deps --require-hashes -r <(pins '/^uv==/')
# no build is isolated, which would fetch PyTorch again and unpinned: first what a build needs
checked --only-binary :all: -r <(pins '!/^(antlr4-python3-runtime|fairseq-fixed)==/')
"$dir/bin/pip" install "${torch[@]}"
checked --no-build-isolation -r "$here/requirements.txt"
"$dir/bin/pip" install --no-deps --no-build-isolation -e "$here/.."
"$dir/bin/pip" check
touch "$dir/.complete"
