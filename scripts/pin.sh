#!/usr/bin/env bash
# Make scripts/requirements.txt anew from setup.py and scripts/torch.txt: scripts/pin.sh [OPTIONS]
# Pins stay as they are unless OPTIONS, which go to uv, say otherwise: --upgrade for all of them,
# --upgrade-package NAME for one. It needs uv (pip install uv) and a package registry.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=scripts/requirements.txt

new=$(mktemp)
trap 'rm "$new"' EXIT
cp "$pins" "$new"
# for each Python from 3.11 and every platform, with the hash of every file of a release
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links --no-annotate --extra test --output-file "$new" \
  --no-emit-package resmlp-mt-runtime "$@" setup.py scripts/torch.txt - <<<./runtime
{
  cat <<END
# What scripts/make_env.sh installs, PyTorch apart (scripts/torch.txt), with the hashes of each
# release's files. Made from setup.py by scripts/pin.sh: do not edit, run that.
END
  # neither PyTorch, nor the CUDA libraries that only some of its builds need
  awk '/^[a-z]/ { keep = !/^(torch|triton|(cuda|nvidia)-[a-z0-9-]+)==/ } keep' "$new"
} >"$pins"
echo "$pins: $(grep -c == "$pins") pins"
