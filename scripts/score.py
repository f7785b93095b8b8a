#!/usr/bin/env python3
"""sacreBLEU and chrF, with signatures, of translations or of fairseq-generate's own output.

score.py --hypotheses FILE --references FILE      (plain or .gz, one sentence a line)
score.py --generated LOG --references FILE
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.pipeline.corpus import read_lines
from resmlp_mt.pipeline.scoring import read_generated, score
from resmlp_mt.pipeline.terminal import run_main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--hypotheses", type=Path, help="translations, one a line")
    given.add_argument("--generated", type=Path, help="output of fairseq-generate")
    parser.add_argument("--references", type=Path, required=True, help="references, one a line")
    args = parser.parse_args()
    if args.generated:
        hypotheses = read_generated(args.generated)
    else:
        hypotheses = list(read_lines(args.hypotheses))
    result = score(hypotheses, list(read_lines(args.references)))
    for name, title in (("bleu", "BLEU"), ("chrf", "chrF")):
        print(f"{title} {result[name]:.2f}  {result[name + '_signature']}")


if __name__ == "__main__":
    sys.exit(run_main(main))
