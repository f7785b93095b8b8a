#!/usr/bin/env bash
# Make the virtual environment that make, CI and README.md share: scripts/make_env.sh DIR [PYTHON]
# It needs Python 3.11 or 3.12 and, for 3.11, a C++ compiler (fairseq is built from source there,
# some three minutes). PyTorch is the registry's own build: on Linux that brings CUDA unless pip is
# pointed at CPU wheels, for example PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
set -euo pipefail
dir=${1:?usage: scripts/make_env.sh DIR [PYTHON]}
python=${2:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)

die() { echo "make_env.sh: error: $*" >&2; exit 1; }
command -v "$python" >/dev/null || die "$python: not found: name a Python, PYTHON=python3.11"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "$("$python" --version) is too old: 3.11 or later is needed, PYTHON=python3.11"
[ -e "$dir/.complete" ] && { echo "$dir is complete"; exit 0; }

echo "making $dir with $("$python" --version) (some minutes; log: $dir.log)"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
# the constraint also holds in pip's isolated builds: fairseq's would fetch a PyTorch of its own
export PIP_CONSTRAINT="$here/scripts/requirements.txt" PIP_DISABLE_PIP_VERSION_CHECK=1
{
  "$python" -m venv "$dir"
  "$dir/bin/python" -m pip install torch
  "$dir/bin/python" -m pip install -e "$here[test]"
} >"$dir.log" 2>&1 || die "pip failed: $(grep -iE '^ *error' "$dir.log" | head -1) (whole log: $dir.log)"
touch "$dir/.complete"
echo "$dir is complete"
