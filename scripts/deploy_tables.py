"""Tables of docs/deploying.md, from the files in results/."""

from typing import List, Tuple

from speed_tables import RESULTS

from resmlp_mt.benchmark.timing import number
from resmlp_mt.files import read_json

Table = Tuple[List[str], List[List[str]]]
# settings of `resmlp-mt benchmark decode`: 6 + 6 layers of 512 channels, 3 + 3 of 256
SETTINGS = [("mid", 64), ("mid", 1), ("base", 1)]
SYSTEMS = {
    "exported float32": "ours, exported float32",
    "CTranslate2 float32": "CTranslate2 float32",
    "exported int8": "ours, exported int8",
    "CTranslate2 int8": "CTranslate2 int8",
}


def _models() -> dict:
    return read_json(RESULTS / "deploying.json")["models"]


def models() -> Table:
    found = _models()
    tests = list(next(iter(found.values()))["tests"])
    rows = []
    for name, of_model in found.items():
        row = [name]
        for beam in ("beam 1", "beam 4"):
            row.append(f"{of_model[beam]['same']:,} of {of_model[beam]['of']:,}")
        row.append(f"{max(of_model[b]['scores_apart'] for b in ('beam 1', 'beam 4')):.0e}")
        for test in tests:
            float32, int8 = (of_model["tests"][test][p]["bleu"] for p in ("float32", "int8"))
            row.append(f"{float32:.2f}, {int8:.2f}")
        rows.append(row)
    head = ["model", "same, beam 1", "same, beam 4", "scores differ by at most", *tests]
    return head, rows


def speed() -> Table:
    rows = []
    for name, of_model in _models().items():
        for precision, size in of_model["megabytes"].items():
            found = of_model[f"speed {precision}"]
            times = found["sentence_ms"]
            rows.append(
                [
                    f"{name} {precision}",
                    f"{size:.1f}",
                    f"{found['words_a_second']:,.0f}",
                    number(times["median"]),
                    number(times["95%"]),
                ]
            )
    return ["model", "MB", "words a second", "one sentence, ms: median", "95%"], rows


def memory() -> str:
    said = []
    for name, of_model in _models().items():
        found = of_model["memory int8"]
        peaks = ", ".join(f"{peak:.0f}" for peak in found["peak_mb"])
        said.append(f"{name} {peaks}")
    return (
        f"Peak MB of the int8 program in each quarter of {found['lines']:,} lines: "
        f"{'. '.join(said)}."
    )


def decoding() -> Table:
    rows = []
    for size, sentences in SETTINGS:
        lines = read_json(RESULTS / f"deploy-{size}-{sentences}.json")["lines"][0]
        base = lines["columns"]
        layers = {"base": "6 + 6 layers, 512", "mid": "3 + 3 layers, 256"}[size]
        for system, name in SYSTEMS.items():
            found = base[system]
            rows.append(
                [
                    f"{layers}, {sentences} x {lines['beam']}",
                    name,
                    number(found["tokens_per_second"]),
                    number(found["ms_a_step"]["median"]),
                ]
            )
    return ["model, sentences x beam", "", "tokens/s", "ms a step"], rows


def environments() -> Table:
    found = read_json(RESULTS / "deploying-environments.json")["environments"]
    head = ["Python", "MB installed", "from start to translation, s of CPU"]
    return head, [
        [one["python"], f"{one['megabytes']:.0f}", f"{one['cpu_seconds']:.2f}"] for one in found
    ]


TABLES = {
    "exported environments": environments,
    "exported models": models,
    "exported speed": speed,
    "exported memory": memory,
    "exported decoding": decoding,
}
