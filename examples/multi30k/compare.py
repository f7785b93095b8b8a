#!/usr/bin/env python3
"""Every system of Table 5 against the Transformer of its language pair and seed: paired bootstrap.

    MULTI30K=DIR python examples/multi30k/compare.py

reads the translations that study.py left in out/study/ and writes results/compare.json. What that
file has of runs whose translations are gone stays in it.
"""

import sys
from pathlib import Path
from typing import Dict, List, Tuple

from fetch import find_corpora
from plan import TEST, rows
from result_files import earlier
from run import HERE
from study import folder_options

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.significance import paired_bootstrap
from resmlp_mt.text.lines import check_same_lines, read_lines

BASELINE = "transformer-3"


def pairs() -> Dict[str, str]:
    """Each row that is compared, with the row that it is compared with."""
    found = {}
    for name, row in rows().items():
        if row.table in ("table5", "distilled", "concatenated", "higher-rate"):
            against = f"table5.en-{row.target}.{BASELINE}.{row.seed}"
            if row.table != "table5":  # with the same system there
                against = name.replace(row.table, "table5", 1)
            if against != name:
                found[name] = against
    return found


def translations(out: Path, name: str) -> Path:
    return out / name / "generate" / f"{TEST}.{rows()[name].target}"


def translated(out: Path, name: str) -> Tuple[List[str], List[str]]:
    """A row's translations of the test set, and the references.

    Raises:
        UserError: naming the file, if they are not as many as the references.
    """
    _, file = find_corpora(rows()[name].target, HERE / "corpus")[TEST]
    path = translations(out, name)
    lines, references = list(read_lines(path)), list(read_lines(file))
    check_same_lines(path, lines, file, references, "translations")
    return lines, references


def tested(baseline: List[str], system: List[str], references: List[str]) -> Dict[str, dict]:
    """What :func:`paired_bootstrap` says of each score, but for the intervals; the number of
    samples and the seed are in the signature."""
    found = paired_bootstrap(baseline, system, references)
    return {
        metric: {
            **{name: round(found[metric][name], 6) for name in ("baseline", "system")},
            **{name: found[metric][name] for name in ("p_value", "signature")},
        }
        for metric in ("bleu", "chrf")
    }


def main() -> None:
    args = folder_options(__doc__).parse_args()
    file = args.results / "compare.json"
    made = earlier(file)["rows"]
    found = {
        name: against
        for name, against in pairs().items()
        if all(translations(args.out, row).exists() for row in (against, name))
    }
    if not found:
        raise UserError(f"{args.out}: no translations of two rows to compare: see study.py list")
    make_folder(args.results)
    texts = {row: translated(args.out, row) for pair in found.items() for row in pair}
    for name, against in found.items():
        baseline, _ = texts[against]
        made[name] = {"against": against, **tested(baseline, *texts[name])}
        bleu = made[name]["bleu"]
        difference = bleu["system"] - bleu["baseline"]
        print(f"{name:34} {difference:+.1f} BLEU, p = {bleu['p_value']:.3f}", flush=True)
    head = {"command": "examples/multi30k/compare.py", "versions": versions(), "test": TEST}
    write_json(file, {**head, "rows": made})


if __name__ == "__main__":
    sys.exit(run_main(main))
