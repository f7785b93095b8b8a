"""Tables of docs/deploying.md, from the files in results/."""

from typing import List, Tuple

from speed_tables import RESULTS

from resmlp_mt.benchmark.timing import number
from resmlp_mt.files import read_json

Table = Tuple[List[str], List[List[str]]]
# settings of `resmlp-mt benchmark decode`: 6 + 6 layers of 512 channels, 3 + 3 of 256; threads
SETTINGS = [("mid", 64, 1), ("mid", 64, 2), ("mid", 1, 1), ("base", 1, 1)]
SIZES = {"base": "6 + 6 layers, 512", "mid": "3 + 3 layers, 256"}
PRECISIONS = ("float32", "int8")


def _models() -> dict:
    return read_json(RESULTS / "deploying.json")["models"]


def models() -> Table:
    rows = []
    for name, of_model in _models().items():
        row = [name]
        for beam in ("beam 1", "beam 4"):
            row.append(f"{of_model[beam]['same']:,} of {of_model[beam]['of']:,}")
        row.append(f"{max(of_model[b]['scores_apart'] for b in ('beam 1', 'beam 4')):.0e}")
        row += [f"{of_model['megabytes'][precision]:.1f}" for precision in PRECISIONS]
        rows.append(row)
    head = ["model", "same, beam 1", "same, beam 4", "scores differ by at most"]
    return [*head, "MB, float32", "int8"], rows


def bleu() -> Table:
    rows = []
    kinds = [f"{precision}{ending}" for precision in PRECISIONS for ending in ("", ", shortlist")]
    for name, of_model in _models().items():
        for test, found in of_model["tests"].items():
            rows.append([f"{name}, {test}", *(f"{found[kind]['bleu']:.2f}" for kind in kinds)])
    return ["model, test", *kinds], rows


def _texts() -> dict:
    return {n: read_json(RESULTS / f"deploying-speed-{n}.json") for n in (1, 2)}


def text() -> Table:
    found = _texts()
    rows = []
    for system in found[1]["systems"]:
        row = [system]
        for of_threads in found.values():
            one = of_threads["systems"][system]
            row.append(number(one["tokens_per_second"]))
            row += [number(one["sentence_ms"][which]) for which in ("median", "95%")]
        rows.append(row)
    each = ["tokens/s", "one sentence, ms", "95%"]
    return ["system", *(f"{name}, {n} threads" for n in found for name in each)], rows


def ratios() -> Table:
    """How many times the tokens of CTranslate2 a second, and which part of its time for one
    sentence."""
    rows = []
    for threads, found in _texts().items():
        for kind in (f"{p}{ending}" for p in PRECISIONS for ending in ("", ", shortlist")):
            ours, theirs = (found["systems"][f"{x}, {kind}"] for x in ("ours", "CTranslate2"))
            speed = ours["tokens_per_second"] / theirs["tokens_per_second"]
            part = ours["sentence_ms"]["median"] / theirs["sentence_ms"]["median"]
            rows.append([f"{kind}, {threads} threads", f"{speed:.2f}", f"{part:.2f}"])
    return ["", "batches: times its tokens/s", "one sentence: part of its time"], rows


def memory() -> Table:
    rows = []
    for system, found in read_json(RESULTS / "deploying-memory.json")["memory"].items():
        rows.append([system, *(f"{peak:.0f}" for peak in found["peak_mb"])])
    return ["MB at most in", "first quarter", "second", "third", "last"], rows


def decoding() -> Table:
    rows = []
    for size, sentences, threads in SETTINGS:
        path = RESULTS / f"deploy-{size}-{sentences}-{threads}.json"
        line = read_json(path)["lines"][0]
        for precision in PRECISIONS:
            ours, theirs = (
                line["columns"][f"{system} {precision}"]["ms_a_step"]["median"]
                for system in ("exported", "CTranslate2")
            )
            setting = f"{SIZES[size]}, {sentences} x {line['beam']}, {threads} threads"
            rows.append(
                [f"{setting}, {precision}", number(ours), number(theirs), f"{theirs / ours:.2f}"]
            )
    return ["model, sentences x beam", "ours, ms a step", "CTranslate2", "times as fast"], rows


def environments() -> Table:
    found = read_json(RESULTS / "deploying-environments.json")["environments"]
    head = ["Python", "MB installed", "from start to translation, s of CPU"]
    return head, [
        [one["python"], f"{one['megabytes']:.0f}", f"{one['cpu_seconds']:.2f}"] for one in found
    ]


TABLES = {
    "exported environments": environments,
    "exported models": models,
    "exported bleu": bleu,
    "exported text": text,
    "exported ratios": ratios,
    "exported memory": memory,
    "exported decoding": decoding,
}
