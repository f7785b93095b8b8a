"""Small checkpoints that are kept, and what their models answer: does today's code still load them?

``tests/fixtures/`` holds those of the version that it was made with, one for every layout of the
parameters. ``tests/soak/compatibility.py`` has each environment write such a folder for the others.
"""

import json
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Dict, List

import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq_programs import load, preprocess, train
from helpers import pad_batch, randomize_, shift, translate
from omegaconf import DictConfig
from torch import Tensor

from resmlp_mt.checkpoints import rebuild
from resmlp_mt.files import read_json
from resmlp_mt.provenance import versions

FIXTURES = Path(__file__).parent / "fixtures"
ANSWERS = "answers.json"
DICTIONARIES = ("dict.xx.txt", "dict.yy.txt")
WHOLE = "linear"  # keeps its optimizer
TOLERANCE = 1e-5  # of log-probabilities and scores, relative where they are above 1

# every layout of the parameters: options of fairseq-train by the checkpoint's name
LAYOUTS = {
    WHOLE: (),
    "linear-heads": ("--token-mixing-heads", 2, "--no-token-mixing-bias"),
    "toeplitz": ("--token-mixing", "toeplitz", "--token-mixing-heads", 2),
    "gated": ("--token-mixing", "gated", "--token-mixing-heads", 2),
    "conv": ("--token-mixing", "conv"),
    "none": ("--token-mixing", "none", "--token-positional-embeddings"),
    "layernorm": ("--normalization", "layernorm", "--share-all-embeddings"),
}
TINY = (
    *("--source-lang", "xx", "--target-lang", "yy", "--max-update", 2, "--batch-size", 4),
    *("--encoder-layers", 1, "--decoder-layers", 1),
    *("--encoder-embed-dim", 8, "--encoder-ffn-embed-dim", 12),
    *("--decoder-embed-dim", 8, "--decoder-ffn-embed-dim", 12),
    *("--max-source-positions", 10, "--max-target-positions", 10),
)
TEXT = ["b a", "a c d", "e", "d c b a", "c e", "a b c d e", "d", "e a"]
SOURCES = ["a b c", "e d", "c a d b e a d"]
TARGETS = ["c a", "b e d a", "d"]


def _local(value):
    """*value* without this machine's folders: every absolute path by its last part."""
    if isinstance(value, str):
        return Path(value).name if value.startswith("/") else value
    if isinstance(value, Namespace):
        return Namespace(**_local(vars(value)))
    if isinstance(value, (dict, DictConfig)):
        return {key: _local(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_local(inner) for inner in value)
    return value


def binarize(folder: Path) -> Path:
    """Write a corpus of a few words to *folder*; returns the folder of its binary form."""
    for split in ("train", "valid"):
        for language, side in (("xx", TEXT), ("yy", TEXT[::-1])):
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in side))
    return preprocess(folder / "data-bin", train=folder / "train", valid=folder / "valid")


def write(folder: Path) -> None:
    """Write a checkpoint of each layout to *folder*, and what its model answers.

    Each is one that fairseq-train saved after two updates, its weights then drawn at random.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        data = binarize(Path(name))
        for dictionary in DICTIONARIES:
            shutil.copy(data / dictionary, folder)
        for layout, options in LAYOUTS.items():
            saved = Path(name) / layout
            train(data, saved, *TINY, *options)
            state = _local(load(saved / "checkpoint_last.pt"))
            model = rebuild(state)
            torch.manual_seed(sorted(LAYOUTS).index(layout))
            randomize_(model)
            state["model"] = model.state_dict()
            if layout != WHOLE:
                del state["last_optimizer_state"]
            torch.save(state, folder / f"{layout}.pt")
    found = {layout: answers(folder, layout) for layout in LAYOUTS}
    kept = json.dumps({"versions": versions(), "answers": found}).replace(
        '"log_prob', '\n"log_prob'
    )
    (folder / ANSWERS).write_text(f"{kept}\n", encoding="utf-8")


def _digits(values: Tensor) -> list:
    """As lists, with the decimal digits that float32 holds."""
    if values.dim() > 0:
        return [_digits(inner) for inner in values]
    return float(f"{values.item():.7g}")


@torch.no_grad()
def answers(folder: Path, layout: str) -> Dict[str, list]:
    """What the model in ``folder/LAYOUT.pt`` says to the sentences above, as JSON values.

    Returns:
        ``log_probabilities``: of every word of the vocabulary (V) at every position of each target
        (T), sentence after sentence, ``[sum of T][V]``; ``translations`` of ``model`` as it is for
        inference: of every sentence the best four, each with its ``tokens`` and ``score``.
    """
    path = folder / f"{layout}.pt"
    (model,), cfg, task = load_model_ensemble_and_task([str(path)], {"data": str(folder)})
    model.eval()
    words = task.source_dictionary

    def encode(lines: List[str]) -> List[Tensor]:
        return [words.encode_line(line, add_if_not_exist=False).long() for line in lines]

    sources, targets = encode(SOURCES), encode(TARGETS)
    logits = model(
        pad_batch(sources, words, left=True),
        torch.tensor([len(source) for source in sources]),
        pad_batch([shift(target) for target in targets], words),
    )
    log_probabilities = model.get_normalized_probs(logits, log_probs=True)
    rows = [log_probabilities[i, : len(target)] for i, target in enumerate(targets)]
    model.prepare_for_inference_(cfg)
    found = translate(model, words, sources, max_len=8)
    return {
        "log_probabilities": _digits(torch.cat(rows)),
        "translations": [
            [{"tokens": h["tokens"].tolist(), "score": _digits(h["score"])} for h in hypotheses]
            for hypotheses in found
        ],
    }


def _gap(some: list, others: list) -> float:
    a, b = torch.tensor(some), torch.tensor(others)
    if a.shape != b.shape or not (torch.isfinite(a).all() and torch.isfinite(b).all()):
        return float("inf")
    return ((a - b).abs() / b.abs().clamp(min=1)).max().item()


def differences(folder: Path, layout: str) -> List[str]:
    """A line for each of today's answers that is not the one kept in *folder*: none if all are."""
    kept = read_json(folder / ANSWERS)["answers"][layout]
    now = answers(folder, layout)
    said = []
    gap = _gap(now["log_probabilities"], kept["log_probabilities"])
    if gap > TOLERANCE:
        said.append(f"{layout}: log-probabilities differ by {gap:.1e}")
    for number, (new, old) in enumerate(zip(now["translations"], kept["translations"])):
        if [h["tokens"] for h in new] != [h["tokens"] for h in old]:
            said.append(f"{layout}: another translation of sentence {number}")
        elif (gap := _gap([h["score"] for h in new], [h["score"] for h in old])) > TOLERANCE:
            said.append(f"{layout}: scores of sentence {number} differ by {gap:.1e}")
    return said
