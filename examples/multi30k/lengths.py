#!/usr/bin/env python3
"""Quality by length: BLEU of Table 5's systems on short, middling and long sentences.

    MULTI30K=DIR python examples/multi30k/lengths.py

reads the translations of test_2016_flickr that study.py left in out/study/ and writes
results/lengths.json. What that file has of runs whose translations are gone stays in it.
"""

import sys
from typing import Dict, List

from compare import TEST, translated, translations
from fetch import find_corpora
from plan import rows
from result_files import earlier
from run import HERE
from study import folder_options

from resmlp_mt.analysis.by_length import bleu_by_length
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.scoring import score
from resmlp_mt.text.lines import read_lines

EDGES = (8, 11, 14, 18)  # words of the source: a fifth of the sentences in each, nearly


def main() -> None:
    args = folder_options(__doc__).parse_args()
    file = args.results / "lengths.json"
    made: Dict[str, List[float]] = earlier(file)["rows"]
    buckets: List[dict] = []
    for name, row in rows().items():
        if row.table != "table5" or not translations(args.out, name).exists():
            continue
        texts, references = translated(args.out, name)
        sources = list(read_lines(find_corpora(row.target, HERE / "corpus")[TEST][0]))
        found = bleu_by_length(texts, references, sources, EDGES)
        made[name] = [bucket.pop("bleu") for bucket in found]
        buckets, signature = found, score(references, references)["bleu_signature"]
        print(name, *(f"{b['from']}: {bleu}" for b, bleu in zip(found, made[name])), flush=True)
    if not buckets:
        raise UserError(f"{args.out}: no translations there: study.py run 'table5.*'")
    make_folder(args.results)
    head = {"command": "examples/multi30k/lengths.py", "versions": versions(), "test": TEST}
    head |= {"signature": signature, "words_of": "source", "buckets": buckets}
    write_json(file, {**head, "rows": made})


if __name__ == "__main__":
    sys.exit(run_main(main))
