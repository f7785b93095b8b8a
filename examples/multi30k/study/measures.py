"""What is read off the runs of the study: comparisons, lengths, repetitions,
long sentences, pruning, speed.

Each measure reads the translations or the models that ``run`` left, and writes one result file.
What that file has of runs that are gone stays in it.
"""

from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder, read_json, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.text.lines import check_same_lines, read_lines, read_parallel, write_lines
from study.plan import TEST, rows, table5
from study.result_files import MEASURES, earlier
from study.runs import text_file

BASELINE = "transformer-3"
EDGES = (8, 11, 14, 18)  # words of the source: a fifth of the sentences in each, nearly
REPEATED = 3  # words that stand twice in a line that repeats
SIZES = (3, 4)  # of --no-repeat-ngram-size, in pieces
REPEATING = (BASELINE, "resmlp-3", "toeplitz-3", "conv-3")
MOST = 4  # sentences in a line
REACHES = (16, 24, 32)  # of an extended A, tried on lines of three sentences
EXTENDED = ("resmlp-3", "toeplitz-3")
LONG = tuple(
    f"{table}.en-de.{system}.1"
    for table in ("table5", "concatenated")
    for system in (BASELINE, *EXTENDED, "conv-3")
)
Pairs = List[Tuple[str, str]]
Save = Callable[[dict], None]  # writes the result file with what stands beside its rows


def translations(out: Path, name: str) -> Path:
    """The translations of a row of the test set, as ``resmlp-mt run`` leaves them."""
    return out / name / "translations" / f"test.{rows()[name].target}"


def sides(name: str, split: str = TEST) -> Tuple[List[str], List[str]]:
    """The sources and the references of a text of the corpus, in the languages of a row."""
    target = rows()[name].target
    pairs = read_parallel(text_file(split, "en", target), text_file(split, target))
    return tuple(map(list, zip(*pairs)))


def translated(out: Path, name: str) -> Tuple[List[str], List[str]]:
    """The translations of a row of the test set, and the references.

    Raises:
        UserError: naming the file, if they are not as many as the references.
    """
    path, file = translations(out, name), text_file(TEST, rows()[name].target)
    lines, references = list(read_lines(path)), list(read_lines(file))
    check_same_lines(path, len(lines), file, len(references))
    return lines, references


def translate(
    out: Path,
    name: str,
    sources: List[str],
    file: Path,
    overrides: Optional[dict] = None,
    model: Optional[Path] = None,
    **search,
) -> List[str]:
    """Translations by the model of a row, with beam 4 and the length penalty that the run chose.

    Args:
        out: folder of the runs.
        name: of the row.
        sources: one line each.
        file: to write the translations to.
        overrides: options of the model in place of its own.
        model: a checkpoint in place of that of the row.
        search: more of ``SearchOptions``.
    """
    from resmlp_mt.translate.driver import translate as translate_file
    from resmlp_mt.translate.translator import SearchOptions

    folder = out / name
    options = SearchOptions(
        paths=(model or folder / "model" / "model.pt",),
        data=folder / "model",
        lenpen=read_json(folder / "scores.json")["lenpen"]["chosen"],
        cpu=True,
        threads=1,
        overrides=overrides or {},
        **search,
    )
    make_folder(file.parent)
    text = file.with_name(f"{file.name}.source")
    write_lines(text, sources)
    translate_file(options, text, file)
    return list(read_lines(file))


def bleu(texts: List[str], references: List[str]) -> float:
    from resmlp_mt.score.sacre import score

    return score(texts, references)["bleu"]


def bleu_signature() -> str:
    from resmlp_mt.score.sacre import score

    return score(["x"], ["x"])["bleu_signature"]


def found_rows(out: Path, table: str = "") -> List[str]:
    """Rows whose translations are there, of one table or of all.

    Raises:
        UserError: if there are none.
    """
    found = [
        name
        for name, row in rows().items()
        if table in ("", row.table) and translations(out, name).exists()
    ]
    if not found:
        raise UserError(f"{out}: no translations there: python -m study run makes them")
    return found


def against() -> Dict[str, str]:
    """Each row that is compared, with the row that it is compared with."""
    found = {}
    for name, row in rows().items():
        if row.table in ("table5", "distilled", "concatenated", "higher-rate"):
            other = f"table5.en-{row.target}.{BASELINE}.{row.seed}"
            if row.table != "table5":  # with the same system there
                other = name.replace(row.table, "table5", 1)
            if other != name:
                found[name] = other
    return found


def tested(baseline: List[str], system: List[str], references: List[str]) -> Dict[str, dict]:
    """A paired bootstrap of BLEU and chrF. Samples and seed are in the signature."""
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest

    systems = [("baseline", baseline), ("system", system)]
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    signatures, scores = PairedTest(systems, metrics, [references], test_type="bs")()
    return {
        metric: {
            **{name: round(float(scores[key][i].score), 6) for i, (name, _) in enumerate(systems)},
            "p_value": float(scores[key][1].p_value),
            "signature": str(signatures[key]),
        }
        for metric, key in zip(metrics, signatures)
    }


def compare(out: Path, made: dict, save: Save) -> None:
    """Every row of :func:`against` and the row that it is compared with: paired bootstrap."""
    there = set(found_rows(out))
    todo = {name: other for name, other in against().items() if {name, other} <= there}
    if not todo:
        raise UserError(f"{out}: no translations of two rows to compare: see python -m study list")
    for name, other in todo.items():
        (system, references), (baseline, _) = translated(out, name), translated(out, other)
        made["rows"][name] = {"against": other, **tested(baseline, system, references)}
        test = made["rows"][name]["bleu"]
        change = test["system"] - test["baseline"]
        print(f"{name:34} {change:+.1f} BLEU, p = {test['p_value']:.3f}", flush=True)
    save({"test": TEST})


def lengths(out: Path, made: dict, save: Save) -> None:
    """BLEU of the systems of Table 5 on short, middling and long sentences."""
    from study.by_length import bleu_by_length

    buckets: List[dict] = []
    for name in found_rows(out, "table5"):
        texts, references = translated(out, name)
        buckets = bleu_by_length(texts, references, sides(name)[0], EDGES)
        made["rows"][name] = [bucket.pop("bleu") for bucket in buckets]
        print(name, *made["rows"][name], flush=True)
    head = {"test": TEST, "signature": bleu_signature(), "words_of": "source"}
    save({**head, "buckets": buckets})


def repeats(line: str) -> bool:
    """Whether the same :data:`REPEATED` words stand twice in a line."""
    words = line.split()
    runs = list(zip(*(words[start:] for start in range(REPEATED))))
    return len(set(runs)) < len(runs)


def counted(texts: List[str], references: List[str]) -> Dict[str, float]:
    """Share of lines that repeat, and the number of words relative to the references'."""
    words = [sum(len(line.split()) for line in lines) for lines in (texts, references)]
    return {"repeats": sum(map(repeats, texts)) / len(texts), "words": words[0] / words[1]}


def forbid(name: str, out: Path, file: Path) -> dict:
    """Translate without repetitions into *file*; gives the size that is forbidden and scores."""
    from resmlp_mt.score.sacre import score

    sources, references = sides(name, "val")
    on_valid = {}
    for size in SIZES:
        tried = file.with_name(f"valid.{size}")
        texts = translate(out, name, sources, tried, no_repeat_ngram_size=size)
        on_valid[size] = bleu(texts, references)
    best = max(on_valid, key=on_valid.get)
    sources, references = sides(name)
    texts = translate(out, name, sources, file, no_repeat_ngram_size=best)
    scores = score(texts, references)
    return {"size": best, "valid_bleu": on_valid, **counted(texts, references), **scores}


def repetitions(out: Path, made: dict, save: Save) -> None:
    """Translations that say something twice, and what ``--no-repeat-ngram-size`` gives."""
    texts = {name: translated(out, name) for name in found_rows(out)}
    for name, (lines, references) in texts.items():
        row = rows()[name]
        made["references"][row.target] = counted(references, references)["repeats"]
        found = {**made["rows"].get(name, {}), **counted(lines, references)}
        if row.table == "table5" and row.label in REPEATING:
            file = out / name / "no-repeat" / f"test.{row.target}"
            other = out / against().get(name, "") / "no-repeat" / file.name
            if "forbidden" not in found or not file.exists():
                found["forbidden"] = forbid(name, out, file)
            if name in against() and other.exists():
                both = (list(read_lines(path)) for path in (other, file))
                found["forbidden"]["against"] = tested(*both, references)
        made["rows"][name] = found
        print(f"{name:34} {found['repeats']:.1%}", flush=True)
        save({"test": TEST, "references": made["references"]})


def joined(pairs: Pairs, number: int) -> Pairs:
    """Every *number* sentences that follow each other, in one line; fewer at the end are left."""
    groups = zip(*[iter(pairs)] * number)
    return [tuple(" ".join(side) for side in zip(*group)) for group in groups]


def long_rows(name: str, out: Path, valid: Pairs, tests: List[Pairs]) -> Dict[str, List[float]]:
    """BLEU by number of sentences, for each way to use the model of a run."""

    def score(pairs: Pairs, reach: int) -> float:
        sources, references = map(list, zip(*pairs))
        file = out / name / "long" / f"{len(pairs)}.{reach}"
        overrides = {"token_mixing_reach": reach} if reach else None
        return bleu(translate(out, name, sources, file, overrides), references)

    found = {"as it is": [score(pairs, 0) for pairs in tests]}
    if rows()[name].label in EXTENDED:
        on_valid = {reach: score(joined(valid, 3), reach) for reach in REACHES}
        reach = max(on_valid, key=on_valid.get)
        found[f"extended from {reach}"] = [score(pairs, reach) for pairs in tests]
    return found


def long_sentences(out: Path, made: dict, save: Save) -> None:
    """One to four sentences of the test set in one line."""
    there = [name for name in LONG if name in rows() and (out / name / "scores.json").exists()]
    if not there and not made["rows"]:
        raise UserError(f"{out}: no trained models there: python -m study run 'table5.en-de.*-3.1'")
    pairs = list(zip(*sides((there or LONG)[0])))
    tests = [joined(pairs, number) for number in range(1, MOST + 1)]
    words = [sum(len(source.split()) for source, _ in test) / len(test) for test in tests]
    for name in there:
        if name not in made["rows"]:
            made["rows"][name] = long_rows(name, out, list(zip(*sides(name, "val"))), tests)
            for how, scores in made["rows"][name].items():
                print(f"{name:34} {how:18} {' '.join(f'{s:5.1f}' for s in scores)}", flush=True)
            save({"signature": bleu_signature(), "test": TEST, "words": words})


PRUNED = "table5.en-de.resmlp-3.1"
MATRICES = {"A": ["A"], "B": ["B"], "C": ["C"], "all": ["A", "B", "C"]}
THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)  # shares of the largest weight of a matrix


def pruning(out: Path, made: dict, save: Save) -> None:
    """BLEU of a ResMLP whose small weights are zero, without another training."""
    from study.pruning import Count, prune_checkpoint

    sources, references = sides(PRUNED)
    model = out / PRUNED / "model" / "model.pt"
    points = [("none", 0.0, [])]
    points += [(which, t, kinds) for which, kinds in MATRICES.items() for t in THRESHOLDS]
    for which, threshold, kinds in points:
        name = f"{which} {threshold:g}"
        if name in made["rows"]:
            continue
        folder = out / "pruned" / name
        make_folder(folder)
        counts = prune_checkpoint(model, folder / "model.pt", threshold, kinds)
        removed = sum((counts[kind] for kind in kinds), Count(0, 0))
        texts = translate(out, PRUNED, sources, folder / "test", model=folder / "model.pt")
        made["rows"][name] = {
            "which": which,
            "threshold": threshold,
            "removed": round(removed.share, 4) if kinds else 0.0,
            "bleu": bleu(texts, references),
        }
        print(f"{name:8} {removed.small:9,} weights, {made['rows'][name]['bleu']:.2f}", flush=True)
        save({"signature": bleu_signature(), "test": TEST})


SENTENCES, BATCH, REPEATS = 256, 64, 5


def speed(out: Path, made: dict, save: Save) -> None:
    """Decoding speed of the En-De models of Table 5, in turn on one thread as fairseq-generate."""
    import torch

    from resmlp_mt.benchmark.timing import alternate, ratio, spread

    torch.set_num_threads(1)
    labels = [row for row in table5() if row.target == "de" and row.seed == 1]
    there = {row.label: row.name for row in labels if (out / row.name / "scores.json").exists()}
    if BASELINE not in there:
        raise UserError(f"{out}: no model of {BASELINE}: python -m study run 'table5.en-de.*.1'")
    subwords: Dict[str, int] = {}
    runs = {label: _decoder(out / name, label, subwords) for label, name in there.items()}
    seconds = alternate(runs, warmup=1, repeats=REPEATS)
    made["rows"].clear()  # speeds are of one run
    for label, taken in seconds.items():
        relative = ratio(seconds[BASELINE], taken)
        made["rows"][label] = {
            "sentences_a_second": spread([SENTENCES / time for time in taken])._asdict(),
            "relative": relative._asdict(),
            "subwords": subwords[label],
            "seconds": taken,
        }
        print(f"{label:14} {relative.median:.2f} times as fast as the Transformer", flush=True)
    sizes = {"sentences": SENTENCES, "batch": BATCH, "beam": 4, "repeats": REPEATS}
    save({"threads": 1, **sizes})


def _decoder(folder: Path, label: str, subwords: Dict[str, int]) -> Callable[[], None]:
    """What translates the first sentences of the test set, and notes the subwords it wrote."""
    import torch

    from resmlp_mt.text.settings import TextSettings
    from resmlp_mt.translate.translator import SearchOptions, Translator

    data = folder / "model"
    settings = TextSettings.load(data)
    lines = list(read_lines(text_file(TEST, "en")))[:SENTENCES]
    sentences = sorted((settings.encode_source(line).split() for line in lines), key=len)
    batches = [sentences[start : start + BATCH] for start in range(0, len(sentences), BATCH)]
    options = SearchOptions((data / "model.pt",), data, lenpen=1.0, cpu=True, threads=1)
    translator = Translator(options, torch.device("cpu"))

    def decode() -> None:
        found = (translator.search(batch) for batch in batches)
        subwords[label] = sum(len(beam[0]["tokens"]) for some in found for beam in some)

    return decode


KINDS = {
    "compare": compare,
    "lengths": lengths,
    "repetitions": repetitions,
    "long-sentences": long_sentences,
    "pruning": pruning,
    "speed": speed,
}


def measure(kind: str, out: Path, results: Path) -> Path:
    """Make one of :data:`KINDS`; gives its result file."""
    file = results / f"{kind.replace('-', '_')}.json"
    assert file.stem in MEASURES, file
    before = earlier(file)
    made = {"rows": dict(before["rows"]), "references": dict(before.get("references", {}))}
    command = {"command": f"python -m study measure {kind}", "versions": versions()}

    def save(head: dict) -> None:
        make_folder(results)
        write_json(file, {**command, **head, "rows": made["rows"]})

    KINDS[kind](out, made, save)
    return file
