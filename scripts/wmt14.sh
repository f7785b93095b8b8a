#!/bin/bash
# WMT14, from the corpora to the BLEU of newstest2014: the setup of the paper.
#
#   scripts/wmt14.sh en-de                                      fetch 4.5 million pairs and train
#   scripts/wmt14.sh en-fr                                      40 million pairs
#   ARCH=transformer_wmt_en_de scripts/wmt14.sh en-de           the baseline
#   LIMIT=20000 VOCAB_SIZE=8000 MAX_UPDATE=50 scripts/wmt14.sh en-de          a test; then delete OUT/data and RUN
#
# The same command again resumes where it was stopped. Options of fairseq-train may follow, such as
# --dropout 0.2: give each choice its own RUN.
set -euo pipefail
pair=${1:-}
target=${pair#en-}
case $pair in
    en-de) pieces=32000 ;;
    en-fr) pieces=40000 ;;
    *) sed '1d; /^[^#]/,$d; s/^# \{0,1\}//' "$0" >&2; exit 2 ;;
esac
shift
OUT=${OUT:-wmt14-$pair}     # folder for all; OUT/text has train.LANG, valid.LANG, test.LANG
ARCH=${ARCH:-resmlp_mt_6}   # or resmlp_mt_12
LIMIT=${LIMIT:-}            # first pairs of the training text; empty: all
VOCAB_SIZE=${VOCAB_SIZE:-$pieces}
MAX_UPDATE=${MAX_UPDATE:-}  # empty: those of the recipe
RUN=${RUN:-$OUT/$ARCH}      # folder of the model; others with the same OUT share its text

# Downloads what is not there; the test set comes last.
[ -e "$OUT/text/test.$target" ] || [ -e "$OUT/text/test.$target.gz" ] || "$(dirname "$0")/wmt14_text.sh" "$pair" "$OUT/text"

# Joint BPE; repeated and unfit pairs are left out.
resmlp-mt prepare -s en -t "$target" --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" \
    --testpref "$OUT/text/test" --vocab-size "$VOCAB_SIZE" --character-coverage 0.99999 \
    --drop-duplicates --skip-invalid --max-ratio 1.5 ${LIMIT:+--limit "$LIMIT"} \
    --out "$OUT/data"

# 300,000 updates of 32,768 tokens, on all GPUs of this machine. For several machines see
# docs/training.md.
resmlp-mt train "$OUT/data/data-bin" --recipe paper --arch "$ARCH" --out "$RUN" \
    ${MAX_UPDATE:+--max-update "$MAX_UPDATE"} -- "$@"

resmlp-mt average --inputs "$RUN" --num-update-checkpoints 10 --output "$RUN/averaged.pt"

# Beam 4 and length penalty 0.6.
resmlp-mt translate --path "$RUN/averaged.pt" --data "$OUT/data/data-bin" \
    --input "$OUT/data/text/test.en" --output "$RUN/test.$target"

# sacreBLEU, and tokenized BLEU as in Table 5, for German with compounds split.
resmlp-mt score --references "$OUT/data/text/test.$target" --input "$RUN/test.$target" \
    --target-lang "$target" --tokenized | tee "$RUN/scores.txt"
