#!/usr/bin/env bash
# The text of WMT14: scripts/wmt14_text.sh en-de|en-fr DIR writes DIR/train.LANG, valid.LANG, test.LANG
# The archives stay in DIR/archives. A transfer that is cut off resumes, and each file is checked.
# MIRROR=URL takes them from another server.
set -euo pipefail
pair=${1:?usage: scripts/wmt14_text.sh en-de|en-fr DIR} out=${2:?usage: wmt14_text.sh en-de|en-fr DIR}
target=${pair#en-}
archives=$out/archives
die() { echo "wmt14_text.sh: error: $*" >&2; exit 1; }
[[ $pair = en-de || $pair = en-fr ]] || die "$pair: choose en-de or en-fr"

# ARCHIVE FOLDER SHA256 (published by TensorFlow Datasets)
files="training-parallel-europarl-v7.tgz wmt13 0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7
training-parallel-commoncrawl.tgz wmt13 c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5
training-parallel-nc-v9.tgz wmt14 cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485
dev.tgz wmt19/translation-task 7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7"
[ "$pair" = en-de ] || files+="
training-parallel-un.tgz wmt13 29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47
training-giga-fren.tar wmt10 3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a"

fetch() { # ARCHIVE FOLDER SHA256
  local path=$archives/$1 url=${MIRROR:-http://data.statmt.org/$2}/$1
  [[ $2 = wmt19* ]] || url=${MIRROR:-http://www.statmt.org/$2}/$1
  if [ ! -e "$path" ]; then
    said=$(curl -sSfL --retry 3 -C - -o "$path.part" "$url" 2>&1) ||
      die "cannot fetch $url (${said##*$'\n'}): put it at $path by hand, or delete $path.part, and start again"
    mv "$path.part" "$path"
  fi
  [ "$(sha256sum <"$path")" = "$3  -" ] || die "$path is damaged: delete it and start again"
}

for program in curl sha256sum tar gzip; do command -v $program >/dev/null || die "$program is missing"; done
python -c "import sacremoses" || die "python has no sacremoses: source .venv/bin/activate"
mkdir -p "$archives"
while read -r archive folder checksum; do fetch "$archive" "$folder" "$checksum"; done <<<"$files"

member() { # 141: what reads it has ended, and says why
  tar -xOf "$archives/$1" "$2" || [ $? = 141 ] || die "$archives/$1 has no $2"
}
segments() { sed -nE 's/^ *<seg[^>]*> *(.*[^ ]) *<\/seg>.*/\1/p'; } # the lines of an .sgm file
train_text() { # LANG
  member training-parallel-europarl-v7.tgz "training/europarl-v7.$target-en.$1"
  member training-parallel-commoncrawl.tgz "commoncrawl.$target-en.$1"
  member training-parallel-nc-v9.tgz "training/news-commentary-v9.$target-en.$1"
  [ "$pair" = en-fr ] || return 0
  member training-parallel-un.tgz "un/undoc.2000.fr-en.$1"
  member training-giga-fren.tar "giga-fren.release2.fixed.$1.gz" | gzip -dc
}
valid_text() { # LANG
  [ "$pair" = en-de ] || member dev.tgz "dev/newstest2012.$1"
  member dev.tgz "dev/newstest2013.$1"
}
test_text() { # LANG; the same lines in both directions
  local side=src
  [ "$1" = en ] && side=ref
  member dev.tgz "dev/newstest2014-${target}en-$side.$1.sgm" | segments
}
# The program sacremoses reads all lines into memory, and ends where a byte is not UTF-8.
normalise='import sys; from sacremoses import MosesPunctNormalizer
kept = {"encoding": "utf-8", "errors": "surrogateescape", "newline": "\n"}
sys.stdin.reconfigure(**kept); sys.stdout.reconfigure(**kept)
moses = MosesPunctNormalizer(sys.argv[1])
sys.stdout.writelines(moses.normalize(line.strip()) + "\n" for line in sys.stdin)'
plain() { # LANG; punctuation as in fairseq's recipes, but not of the references
  if [ "$split.$1" = "test.$target" ]; then cat; else python -c "$normalise" "$1"; fi
}
for split in train valid test; do
  for language in en "$target"; do
    [ ! -e "$out/$split.$language" ] || continue # hours for the training text of En-Fr
    "${split}_text" "$language" | plain "$language" >"$out/part"
    mv "$out/part" "$out/$split.$language"
  done
  lines=$(wc -l <"$out/$split.en")
  [ "$lines" = "$(wc -l <"$out/$split.$target")" ] || die "$out/$split.*: the sides differ in length"
  echo "$out/$split: $lines lines"
done
