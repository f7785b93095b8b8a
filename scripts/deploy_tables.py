"""Tables of docs/deploying.md, from the files in results/."""

from typing import Dict, List, Tuple

from speed_tables import RESULTS

from resmlp_mt.benchmark.timing import number
from resmlp_mt.files import read_json

Table = Tuple[List[str], List[List[str]]]
# of `resmlp-mt benchmark decode`: 6 + 6 layers of 512 channels, 3 + 3 of 256; sentences
SETTINGS = [("mid", 64), ("mid", 1), ("base", 1)]
SIZES = {"base": "6 + 6 layers, 512", "mid": "3 + 3 layers, 256"}
PRECISIONS = ("float32", "int8")


def _models() -> dict:
    return read_json(RESULTS / "deploying.json")["models"]


SAME = ["same, beam 1", "same, beam 4", "scores differ by at most"]


def _same(models: List[dict]) -> List[str]:
    """The cells below SAME: translations of some models together."""
    row, apart = [], 0.0
    for beam in ("beam 1", "beam 4"):
        same, lines = (sum(one[beam][what] for one in models) for what in ("same", "of"))
        apart = max(apart, *(one[beam]["scores_apart"] for one in models))
        row.append(f"{same:,} of {lines:,}")
    return [*row, f"{apart:.0e}"]


def models() -> Table:
    rows = []
    for name, of_model in _models().items():
        megabytes = [f"{of_model['megabytes'][precision]:.1f}" for precision in PRECISIONS]
        rows.append([name, *_same([of_model]), *megabytes])
    return ["model", *SAME, "MB, float32", "int8"], rows


def bleu() -> Table:
    rows = []
    kinds = [f"{precision}{ending}" for precision in PRECISIONS for ending in ("", ", shortlist")]
    for name, of_model in _models().items():
        for test, found in of_model["tests"].items():
            rows.append([f"{name}, {test}", *(f"{found[kind]['bleu']:.2f}" for kind in kinds)])
    return ["model, test", *kinds], rows


TEXTS = {
    "gated-3": "deploying-speed-1.json",
    "resmlp-3": "deploying-speed-resmlp-1.json",
    "mixed": "deploying-speed-mixed-1.json",
}


def text() -> Table:
    """Ours and CTranslate2: how many times as fast in batches and for one sentence."""
    rows = []
    for setting, name in TEXTS.items():
        systems = read_json(RESULTS / name)["systems"]
        for kind in (f"{p}{ending}" for p in PRECISIONS for ending in ("", ", shortlist")):
            both = [systems[f"{system}, {kind}"] for system in ("ours", "CTranslate2")]
            ours, theirs = (one["tokens_per_second"] for one in both)
            row = [f"{setting}, {kind}", number(ours), number(theirs), f"{ours / theirs:.2f}"]
            for one in both:
                times = one["sentence_ms"]
                row.append(f"{number(times['median'])} ({number(times['95%'])})")
            mine, other = (one["sentence_ms"]["median"] for one in both)
            rows.append([*row, f"{other / mine:.2f}"])
    head = ["", "tokens/s", "CTranslate2", "times as fast"]
    head += ["one sentence, ms (95%)", "CTranslate2", "times as fast"]
    return head, rows


def memory() -> Table:
    rows = []
    for system, found in read_json(RESULTS / "deploying-memory.json")["memory"].items():
        rows.append([system, *(f"{peak:.0f}" for peak in found["peak_mb"])])
    return ["MB at most in", "first quarter", "second", "third", "last"], rows


def decoding() -> Table:
    rows = []
    for size, sentences in SETTINGS:
        path = RESULTS / f"deploy-{size}-{sentences}-1.json"
        line = read_json(path)["lines"][0]
        for precision in PRECISIONS:
            ours, theirs = (
                line["columns"][f"{system} {precision}"]["ms_a_step"]["median"]
                for system in ("exported", "CTranslate2")
            )
            setting = f"{SIZES[size]}, {sentences} x {line['beam']}"
            rows.append(
                [f"{setting}, {precision}", number(ours), number(theirs), f"{theirs / ours:.2f}"]
            )
    return ["model, sentences x beam", "ours, ms a step", "CTranslate2", "times as fast"], rows


def environments() -> Table:
    found = read_json(RESULTS / "deploying-environments.json")["environments"]
    head = ["Python", "onnxruntime", "MB installed", "from start to translation, s of CPU"]
    rows = []
    for one in found:
        row = [one["python"], one["packages"]["onnxruntime"], f"{one['megabytes']:.0f}"]
        rows.append([*row, f"{one['cpu_seconds']:.2f}"])
    return head, rows


def kinds() -> Table:
    """Exported models of every kind of token mixing beside fairseq-generate."""
    found: Dict[str, List[dict]] = {}
    for model in read_json(RESULTS / "deploying-kinds.json")["models"]:
        found.setdefault(model["kind"], []).append(model)
    rows = [[f"`{kind}`", str(len(models)), *_same(models)] for kind, models in found.items()]
    return ["token mixing", "models", *SAME], rows


TABLES = {
    "exported environments": environments,
    "exported models": models,
    "exported kinds": kinds,
    "exported bleu": bleu,
    "exported text": text,
    "exported memory": memory,
    "exported decoding": decoding,
}
