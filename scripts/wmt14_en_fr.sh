#!/bin/bash
# WMT14 En-Fr, from the corpora to the BLEU of newstest2014: the setup of the paper.
#
#   scripts/wmt14_en_fr.sh                                  fetch 40 million pairs and train
#   OUT=/data/wmt14 FROM=/data/text scripts/wmt14_en_fr.sh    the text is in FROM
#   ARCH=transformer_wmt_en_de scripts/wmt14_en_fr.sh       the baseline
#   LIMIT=20000 VOCAB_SIZE=8000 MAX_UPDATE=20000 scripts/wmt14_en_fr.sh      to try it out
#
# The same command again resumes where it was stopped. Options of fairseq-train may follow, such as
# --dropout 0.2.
set -euo pipefail
OUT=${OUT:-wmt14-en-fr}     # folder for all results
FROM=${FROM:-$OUT/text}     # folder of raw text: train.LANG, valid.LANG, test.LANG, plain or .gz
ARCH=${ARCH:-resmlp_mt_6}   # or resmlp_mt_12
LIMIT=${LIMIT:-}            # pairs of each corpus, VOCAB_SIZE pieces and MAX_UPDATE updates: for a
VOCAB_SIZE=${VOCAB_SIZE:-}  # trial; empty, all of them
MAX_UPDATE=${MAX_UPDATE:-}
RUN=$OUT/$ARCH

# Downloads what is not there.
compgen -G "$FROM/train.en*" >/dev/null || "$(dirname "$0")/wmt14_text.sh" en-fr "$FROM"

# Joint BPE of 40,000 pieces, punctuation normalised, repeated and unfit pairs left out.
resmlp-mt prepare -s en -t fr --trainpref "$FROM/train" --validpref "$FROM/valid" \
    --testpref "$FROM/test" --vocab-size "${VOCAB_SIZE:-40000}" --character-coverage 0.99999 \
    --normalise --drop-duplicates --skip-invalid --max-ratio 1.5 ${LIMIT:+--limit "$LIMIT"} \
    --out "$OUT/data"

# 300,000 updates of 32,768 tokens, on all GPUs of this machine. For several machines see
# scripts/slurm.
resmlp-mt train "$OUT/data/data-bin" --recipe paper --arch "$ARCH" --out "$RUN" \
    ${MAX_UPDATE:+--max-update "$MAX_UPDATE"} -- "$@"

resmlp-mt average --inputs "$RUN" --num-update-checkpoints 10 --output "$RUN/averaged.pt"

# Beam 4 and length penalty 0.6.
resmlp-mt translate --path "$RUN/averaged.pt" --data "$OUT/data/data-bin" \
    --input "$OUT/data/text/test.en" --output "$RUN/test.fr"

# sacreBLEU, and tokenized BLEU as in Table 5.
resmlp-mt score --references "$OUT/data/text/test.fr" --input "$RUN/test.fr" \
    --language-pair en-fr --tokenized | tee "$RUN/scores.txt"
