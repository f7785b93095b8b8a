"""BLEU against the share of weights that are pruned: A, B, C, and all of them, by threshold."""

import shutil
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from resmlp_mt.analysis.pruning import KINDS, Count, check_threshold, prune_checkpoint
from resmlp_mt.checkpoints.inspection import check_matrices, load_ours, parameter_names
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, check_output, read_json, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.generated import read_generated
from resmlp_mt.score.sacre import score
from resmlp_mt.text.lines import check_same_lines, read_text, sha256_of
from resmlp_mt.train.programs import run_program

WHICH = (*KINDS, "all")
WHOLE = "none"  # the "which" of the point at which nothing is pruned
THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


class Sweep:
    """One checkpoint, one test set, any number of points, written down one by one.

    Args:
        checkpoint: of a ``resmlp_mt`` architecture.
        data_bin: what ``fairseq-preprocess`` made.
        references: the test set's references, one detokenized sentence a line.
        output: the JSON file. If it is there, the points in it are not made again.
        subset: fairseq's name of the test set: ``test``, ``valid``, ``test1`` ...
        beam, lenpen: of the search.
        length: T, see :func:`resmlp_mt.analysis.pruning.sparsity`.
        threads: CPU threads; None takes PyTorch's default.
        command: what is run, for the file.

    Raises:
        UserError: if *output* holds the points of something else or is not such a file.
    """

    def __init__(
        self,
        checkpoint: Path,
        data_bin: Path,
        references: Path,
        output: Path,
        subset: str = "test",
        beam: int = 4,
        lenpen: float = 0.6,
        length: int = 32,
        threads: Optional[int] = None,
        command: str = "",
    ):
        self.checkpoint, self.data_bin, self.output = checkpoint, data_bin, Path(output)
        check_output(self.output)
        self.references_path, self.references = references, read_text(references)
        self.threads = threads
        # what the points depend on
        self.head = {
            "checkpoint_sha256": sha256_of(checkpoint)[:16],
            "references_sha256": sha256_of(references)[:16],
            "subset": subset,
            "beam": beam,
            "lenpen": lenpen,
            "length": length,
        }
        self.result = {
            "command": command,
            "checkpoint": str(checkpoint),
            **self.head,
            "versions": versions(),
            "signature": {},
            "points": [],
        }
        if self.output.exists():
            self.result = read_sweep(self.output)
            made_with = {name: self.result.get(name) for name in self.head}
            remedy = "choose another file or delete this one"
            check_options(f"{output} holds points", made_with, self.head, remedy)

    def run(
        self,
        thresholds: Sequence[float] = THRESHOLDS,
        which: Optional[Sequence[str]] = None,
        on_point: Callable[[dict, bool], None] = lambda point, new: None,
    ) -> dict:
        """Make the points that are not there yet, and the one of the whole checkpoint.

        Args:
            thresholds: shares of the largest weight of a matrix.
            which: of ``A``, ``B``, ``C``, ``all``; default: all of these that the model has.
            on_point: called with each point and whether it was made now.

        Returns:
            what is in the file: the options, ``signature`` of each score, ``points``: ``which``,
            ``threshold``, ``removed`` (share of the weights of *which*), ``removed_of`` (the same
            of each matrix), ``bleu``, ``chrf``.

        Raises:
            UserError: a bad threshold or matrix; what pruning, fairseq-generate or scoring raise.
        """
        for threshold in thresholds:
            check_threshold(threshold)
        state = load_ours(self.checkpoint)
        if which is None:
            which = [kind for kind in WHICH if kind == "all" or parameter_names(state, kind)]
        if "A" in which:
            check_matrices(state, self.checkpoint)
        del state
        wanted = [(WHOLE, 0.0)]
        wanted += [(kind, float(threshold)) for kind in which for threshold in thresholds]
        for kind, threshold in dict.fromkeys(wanted):
            point = self._find(kind, threshold)
            if point is not None:
                on_point(point, False)
                continue
            point = self._make(kind, threshold)
            self.result["points"].append(point)
            write_json(self.output, self.result)
            on_point(point, True)
        return self.result

    def _find(self, kind: str, threshold: float) -> Optional[dict]:
        for point in self.result["points"]:
            if (point["which"], point["threshold"]) == (kind, threshold):
                return point
        return None

    def _make(self, kind: str, threshold: float) -> dict:
        work = Path(f"{self.output}.work")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        pruned = work / "pruned.pt"
        matrices = {"all": None, WHOLE: ()}.get(kind, (kind,))
        try:
            counts = prune_checkpoint(
                self.checkpoint, pruned, threshold, matrices, self.head["length"]
            )
            scores = self._score(pruned, work / "generate.log")
        except BaseException:
            pruned.unlink(missing_ok=True)
            if not any(work.iterdir()):  # a log stays: what went wrong is in it
                work.rmdir()
            raise
        shutil.rmtree(work)
        self.result["signature"] = {name: scores[f"{name}_signature"] for name in ("bleu", "chrf")}
        return {
            "which": kind,
            "threshold": threshold,
            "removed": round(_share(counts, matrices), 4),
            "removed_of": {name: round(count.share, 4) for name, count in counts.items()},
            "bleu": scores["bleu"],
            "chrf": scores["chrf"],
        }

    def _score(self, path: Path, log: Path) -> dict:
        """Translate the test set; fairseq-generate's output goes to *log*."""
        run_program(
            "generate",
            [
                *(self.data_bin, "--path", path, "--gen-subset", self.head["subset"]),
                *("--beam", self.head["beam"], "--lenpen", self.head["lenpen"]),
                *("--remove-bpe", "sentencepiece", "--max-tokens", 4096, "--num-workers", 0),
            ],
            log,
            threads=self.threads,
        )
        translations = read_generated(log, len(self.references))
        check_same_lines(log, translations, self.references_path, self.references, "translations")
        return score(translations, self.references)


def _share(counts: Dict[str, Count], matrices: Optional[Sequence[str]]) -> float:
    chosen = [counts[name] for name in (counts if matrices is None else matrices)]
    return sum(chosen, Count(0, 0)).share if chosen else 0.0


def read_sweep(path: Path) -> dict:
    """The result of a sweep.

    Raises:
        UserError: if the file is not there, cut off, or of something else.
    """
    result = read_json(path)
    names = {"which", "threshold", "removed", "bleu"}
    points = result.get("points") if isinstance(result, dict) else None
    if not isinstance(points, list) or not all(
        isinstance(point, dict)
        and names <= set(point)
        and all(isinstance(point[name], (int, float)) for name in names - {"which"})
        for point in points
    ):
        raise UserError(f"{path} is not a result of resmlp-mt prune --sweep: give one that is")
    return result


def lines(result: dict) -> Dict[str, List[dict]]:
    """The points of each of ``A``, ``B``, ``C``, ``all`` that was swept, by share removed. The
    point of the whole checkpoint is the first of each."""
    points = result["points"]
    whole = [point for point in points if point["which"] == WHOLE]
    found = {}
    for kind in WHICH:
        own = [point for point in points if point["which"] == kind]
        if own:
            found[kind] = sorted(whole + own, key=lambda point: point["removed"])
    return found
