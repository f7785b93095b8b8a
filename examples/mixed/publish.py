#!/usr/bin/env python3
"""Make the folder of a model from a run of scripts/study.py, and measure it for its card.

    python examples/mixed/publish.py en-de/gated-ln-5.6-0.006-published.1/32000
    python examples/mixed/publish.py --card en-de

The run, named as in docs/results/results.jsonl, must have a score. The folder is examples/mixed/
model or model-en-fr, and its numbers go to the line model/PAIR of results.jsonl, for `make tables`;
with --model it is another one, which is not measured. --card measures a published model again.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "scripts"))

import damage
import results
import scoring
from study import MODELS, SIZES, resmlp_mt, side, test_sets

from resmlp_mt.checkpoints.files import options_of, read_checkpoint, write_checkpoint
from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.arguments import Parser
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import write_json
from resmlp_mt_runtime.lines import read_text, sha256_of, write_lines

# of the training: where the line model/PAIR says how it was trained
KEPT = ("system", "size", "updates", "parameters", "lenpen", "signatures")


def publish(name: str, out: Path, model: Path) -> dict:
    """The scored weights in float16, and all else that translates. Gives the training's result."""
    scored = results.load().get(name)
    if scored is None:
        raise UserError(f"results.jsonl has no {name}: study.py score makes it")
    numbers, (source, target) = scored["numbers"], name.split("/")[0].split("-")
    data = out / numbers["pair"] / f"data-{SIZES[numbers['size']][0]}" / "data-bin"
    model.mkdir(parents=True, exist_ok=True)
    weights = ("--inputs", out / name / "model.pt", "--output", model / "model.pt")
    resmlp_mt("average", *weights, "--float16")
    forget_folders(model / "model.pt")
    write_json(model / "search.json", {"lenpen": numbers["lenpen"]})
    for file in (f"dict.{source}.txt", f"dict.{target}.txt", "spm.model", "text.json"):
        shutil.copyfile(data / file, model / file)
    return scored


def measure(pair: str, out: Path, model: Path, trained: dict) -> None:
    """Scores of a model by its exports in float32 and int8, and damage by kind.
    *trained*: a result that says how it was trained."""
    source, target = pair.split("-")
    tests = test_sets(out / pair / "text", pair)
    found: dict[str, dict[str, list[str]]] = {}
    with TemporaryDirectory() as temporary:
        exported, int8, kinds = (Path(temporary, name) for name in ("exported", "int8", "kinds"))
        resmlp_mt("export", model, "--out", exported)
        resmlp_mt("export", model, "--out", int8, "--int8")
        write_lines(Path(f"{kinds}.{source}"), [line.text for line in damage.lines()])
        for name, folder in {"exported": exported, "int8": int8}.items():
            found[name] = {}
            for test, prefix in {**tests, "kinds": kinds}.items():
                output = Path(temporary, f"{name}.{test}")
                files = ("--input", f"{prefix}.{source}", "--output", output)
                resmlp_mt("translate", "--threads", 1, *files, "--path", folder)
                found[name][test] = read_text(output)
    scores = {
        name: {test: scoring.scores(of[test], side(tests[test], target)) for test in tests}
        for name, of in found.items()
    }
    files = [path for path in sorted(model.iterdir()) if path.suffix != ".md"]
    numbers = {
        **{key: trained["numbers"][key] for key in KEPT},
        "scores": scores.pop("exported"),
        "exports": {n: {test: s["bleu"] for test, s in of.items()} for n, of in scores.items()},
        "damage": damage.shares(found["exported"]["kinds"], target),
        "files": {p.name: {"bytes": p.stat().st_size, "sha256": sha256_of(p)} for p in files},
    }
    results.append(f"model/{pair}", numbers, trained["seed"])


def forget_folders(path: Path) -> None:
    """fairseq writes the folders of the training into a checkpoint: they are of one machine."""
    state = read_checkpoint(path)
    for group in ("model", "common", "checkpoint", "task"):
        options = options_of(state, group)
        options |= {n: None for n, value in options.items() if "/" in str(value)}
    write_checkpoint(state, path)


def main() -> None:
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("training", nargs="?", metavar="RESULT")
    add("--card", metavar="PAIR", help="measure the published model of that pair again")
    add("--model", type=Path, metavar="DIR")
    add("--out", type=Path, default=MODELS / "out", metavar="DIR", help="that of study.py")
    args = parser.parse_args()
    if bool(args.training) == bool(args.card):
        raise UserError("give a RESULT, or --card PAIR")
    pair = args.card or args.training.split("/")[0]
    model = args.model or MODELS / ("model" if pair == "en-de" else f"model-{pair}")
    if args.card:
        trained = results.load().get(f"model/{pair}")
        if trained is None:
            raise UserError(f"results.jsonl has no model/{pair}: publish it first")
    else:
        trained = publish(args.training, args.out, model)
    if args.card or not args.model:
        measure(pair, args.out, model, trained)


if __name__ == "__main__":
    sys.exit(run_main(main))
