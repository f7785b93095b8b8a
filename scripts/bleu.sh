#!/bin/bash
# A log of fairseq-generate to sacreBLEU, and with the languages to tokenized and compound-split BLEU.
#
#   scripts/bleu.sh LOG REF [LANGS]
#   scripts/bleu.sh generate.log test.de en-de
set -euo pipefail
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
exec resmlp-mt score --references "$2" --input "$1" ${3:+--language-pair "$3" --tokenized}
