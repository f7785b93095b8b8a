"""Tables of speed, of memory and of preparing WMT14, from the files in results/."""

from pathlib import Path
from typing import Dict, List, Tuple

from resmlp_mt.benchmark.timing import Spread, number, ratio, spread_text
from resmlp_mt.files import read_json

RESULTS = Path(__file__).resolve().parent / "results"
Table = Tuple[List[str], List[List[str]]]
OURS, THEIRS = "resmlp_mt_6", "transformer"


def lines(name: str) -> List[dict]:
    """A line for each setting that a file of ``decode`` or ``train`` has."""
    return read_json(RESULTS / f"{name}.json")["lines"]


def columns(name: str) -> Dict[str, dict]:
    """What was measured, by system, in a file of one setting."""
    return lines(name)[0]["columns"]


def decoded(line: dict) -> str:
    """Sentences, beam and words of a line of ``decode``."""
    return f"{line['sentences']} x {line['beam']}, {line['target_words']}"


def milliseconds(column: dict) -> str:
    return number(column["ms_a_step"]["median"])


def speed(column: dict) -> str:
    return number(column["speed"]["median"])


def speeds(column: dict) -> List[str]:
    """Speed with its spread, and the counted one."""
    return [spread_text(Spread(**column["speed"])), number(column["counted"]["speed"])]


def times(name: str, system: str, baseline: str) -> str:
    """How many times as fast as another system, repeat by repeat: the median."""
    found = columns(name)
    return f"{ratio(found[baseline]['seconds'], found[system]['seconds']).median:.1f}"


def decoding() -> Table:
    """CTranslate2 had a run of its own, of which only its own rows are taken."""
    rows = []
    files = [f"decode-{name}" for name in ("25", "25-ctranslate2", "100", "200")]
    for name in (*files, "decode-1", "decode-1-ctranslate2", "decode-1-tiny"):
        for line in lines(name):
            setting = decoded(line)
            for label, column in line["columns"].items():
                if "ctranslate2" in name and not label.startswith("CTranslate2"):
                    continue
                rows.append(
                    [
                        setting + (", `tiny`" if "tiny" in name else ""),
                        label,
                        number(column["tokens_per_second"]),
                        milliseconds(column),
                        *speeds(column),
                    ]
                )
    return ["", "", "tokens/s", "ms a step", "speed", "counted"], rows


def training() -> Table:
    rows = []
    for layers in (6, 12):
        for label, column in columns(f"train-{layers}").items():
            cells = [number(column["tokens_per_second"]), milliseconds(column), *speeds(column)]
            rows.append([f"{layers} + {layers}", label, *cells])
    return ["layers", "", "tokens/s", "ms a step", "speed", "counted"], rows


def megabytes_and_ratio(line: dict, kind: str) -> List[str]:
    """MB of ours and of the Transformer, and ours divided by theirs."""
    ours, theirs = (line["columns"][system][kind] for system in (OURS, THEIRS))
    return [number(ours / 1e6), number(theirs / 1e6), number(ours / theirs)]


def sixteen_bits() -> Table:
    """The first updates at the recipe of the paper, in float32 and in float16."""
    from resmlp_mt.benchmark.gpu import least_headroom, loss_range

    rows = []
    found = read_json(RESULTS / "gpu-training-on-a-cpu.json")["training"]
    for precision in ("float32", "float16"):
        column = found[precision]
        name, headroom = least_headroom(column["headroom"])
        cells = [precision, f"{column['updates']} ({column['skipped']})"]
        cells.append(loss_range(column["losses"]))
        rows.append([*cells, f"{number(headroom)} (`{name}`)"])
    return ["", "updates (skipped)", "loss, first .. last", "headroom"], rows


def compiled() -> Table:
    """A small model with and without ``--torch-compile``."""
    rows = []
    for setting, name in (("training step", "train"), ("decoding step", "decode")):
        found = columns(f"compile-{name}")
        ours, plain = found["resmlp_mt_tiny"], found["resmlp_mt_tiny (baseline)"]
        cells = [milliseconds(plain), milliseconds(ours), spread_text(Spread(**ours["speed"]))]
        rows.append([setting, *cells])
    return ["", "ms", "compiled, ms", "times as fast"], rows


def memory() -> Table:
    found = read_json(RESULTS / "memory.json")
    rows = [
        [
            str(trained["length"]),
            *megabytes_and_ratio(trained, "saved"),
            *megabytes_and_ratio(decoded, "held"),
        ]
        for trained, decoded in zip(found["training"], found["decoding"], strict=True)
    ]
    head = ["words", "training: ours", "Transformer", "ratio"]
    return [*head, "decoding: ours", "Transformer", "ratio"], rows


def architectures() -> Table:
    rows = []
    for name in ("6", "toeplitz_6", "gated_6", "conv_6"):
        cells = []
        for mode, ours in (("decode", "decode-25"), ("train", "train-6")):
            file = ours if name == "6" else f"architectures-{mode}-{name}"
            column = columns(file)[f"resmlp_mt_{name}"]
            cells += [milliseconds(column), *speeds(column)]
        rows.append([f"resmlp_mt_{name}", *cells])
    head = ["", "decoding, ms a step", "speed", "counted"]
    return [*head, "training, ms a step", "speed", "counted"], rows


def front() -> Table:
    """The comparison with the Transformer for the front page."""
    settings = {
        "decoding step, 64 sentences": ("decode-25", "architectures-decode-gated_6"),
        "decoding step, one sentence": ("decode-1", None),
        "training step, 4,082 tokens": ("train-6", "architectures-train-gated_6"),
    }
    rows = []
    for setting, (name, gated) in settings.items():
        found = columns(name)
        cells = [f"{milliseconds(found[label])} ms" for label in (THEIRS, OURS)]
        of_gate = speed(columns(gated)["resmlp_mt_gated_6"]) if gated else ""
        rows.append([setting, *cells, speed(found[OURS]), of_gate])
    return ["", "Transformer", "ResMLP", "times as fast", "with a gate"], rows


def packing() -> str:
    """What the packed products gave on this CPU."""
    plain, packed = (columns(f"decode-25{name}")[OURS] for name in ("-not-packed", ""))
    return (
        f"{speed(plain)} times as fast as the Transformer at 64 sentences and 25 words, where this "
        f"one is {speed(packed)} times as fast"
    )


def intel() -> Table:
    """The same on a CPU of Intel."""
    rows = []
    for name in ("decode-25", "decode-100", "decode-200", "decode-1", "train-6", "train-12"):
        line = lines(f"intel/{name}")[0]
        setting = "training, 12 + 12" if "12" in name else "training, 6 + 6"
        if "decode" in name:
            setting = decoded(line)
        for label, column in line["columns"].items():
            rows.append([setting, label, milliseconds(column), *speeds(column)])
    return ["", "", "ms a step", "speed", "counted"], rows


def length() -> str:
    """Time for a token of the longest target, relative to the shortest one's."""
    grown = []
    for system in (OURS, THEIRS):
        taken = [columns(f"decode-{words}")[system]["ms_a_step"]["median"] for words in (25, 200)]
        grown.append(f"{taken[1] / taken[0]:.2f}")
    return (
        f"at 200 words takes {grown[0]} times as long as one at 25 words, the Transformer "
        f"{grown[1]} times"
    )


def precision() -> str:
    int8, bfloat16 = (times("decode-25", f"{OURS} {name}", OURS) for name in ("int8", "bfloat16"))
    ctranslate2 = times("decode-25-ctranslate2", "CTranslate2 float32", THEIRS)
    return (
        f"At 64 sentences int8 is {int8} times and bfloat16 {bfloat16} times as fast as our own "
        f"float32.\nCTranslate2 runs the same Transformer {ctranslate2} times as fast as fairseq "
        "does, and our model is faster. In int8 the ranges of the two overlap. Small models are in "
        "[deploying](deploying.md#beside-ctranslate2)."
    )


def precision_cost() -> Table:
    """BLEU in float32, and what other arithmetic changes of it."""
    rows = []
    for row in read_json(RESULTS / "precision.json")["rows"]:
        whole = row["systems"]["float32"]["bleu"]["score"]
        cells = [f"{row['model']}: {row['text']}", f"{whole:.2f}"]
        for name in ("int8", "bfloat16"):
            found = row["systems"][name]["bleu"]
            change = f"{found['score'] - whole:+.2f}"
            # of equal translations a bootstrap says nothing
            same = found["score"] == whole
            cells.append("the same" if same else f"{change} (p = {found['p_value']:.2f})")
        rows.append(cells)
    return ["model, text", "float32, sacreBLEU", "int8", "bfloat16"], rows


def preparing() -> str:
    """What preparing millions of pairs took."""
    found = read_json(RESULTS / "wmt14" / "prepare.json")
    small, large = found["measured"]
    learning = large["peak_bytes"]["subwords"]["rss"]
    before, after = (round(peak / 1e6) for peak in found["peak_rss_without_vocabulary"])
    return (
        f"{found['workers']} cores of an {found['processor']}, not idle, prepared "
        f"{large['pairs']:,} pairs in {large['wall_seconds']:.1f} s, "
        f"{large['pairs_per_second']:,.0f} pairs a second. Learning the subwords took "
        f"{learning / 1e6:,.0f} MB of memory,\nthe rest {after} MB ({before} MB with "
        f"{small['pairs']:,} pairs)."
    )


def projection() -> Table:
    """What preparing the whole corpora would take, projected."""
    rows = []
    for pair, made in zip(
        ("En-De", "En-Fr"), read_json(RESULTS / "wmt14" / "prepare.json")["projected"], strict=True
    ):
        seconds = sum(made["seconds"].values())
        size = made["text_and_data_bin_gigabytes"]
        rows.append([pair, f"{made['pairs']:,}", f"{seconds:.0f} s", f"{size:.2f} GB"])
    preparing = "prepare without the download, 16 cores (projected from 2)"
    return ["", "pairs", preparing, "text and data on disk"], rows


def of_the_paper() -> Table:
    """Table 5 of the paper: tokenized BLEU on newstest2014."""
    names = ["GNMT", "ConvS2S", "Transformer (base)", "ResMLP-6", "ResMLP-12"]
    rows = [["en-de", "24.6", "25.2", "27.3", "26.4", "26.8"]]
    rows += [["en-fr", "39.9", "40.5", "38.1", "40.3", "40.6"]]
    return ["", *names], rows


# by the names of their marks
TABLES = {
    "speed": front,
    "decoding": decoding,
    "length": length,
    "packing": packing,
    "intel": intel,
    "precision": precision,
    "precision cost": precision_cost,
    "training": training,
    "memory": memory,
    "16 bits": sixteen_bits,
    "compiled": compiled,
    "architectures": architectures,
    "wmt14 paper": of_the_paper,
    "wmt14 prepare": preparing,
    "wmt14 projection": projection,
}
