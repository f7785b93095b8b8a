"""BLEU against the share of weights that are pruned: A, B, C, and all of them, by threshold."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

from resmlp_mt.analysis.pruning import KINDS, Count, check_threshold, prune_checkpoint
from resmlp_mt.checkpoints.inspection import check_matrices, load_ours, parameter_names
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, check_output, lock, read_json, write_json
from resmlp_mt.provenance import versions
from resmlp_mt.score.sacre import score
from resmlp_mt.text.lines import check_same_lines, read_text, sha256_of
from resmlp_mt.translate.driver import translate
from resmlp_mt.translate.translator import SearchOptions

WHICH = (*KINDS, "all")
WHOLE = "none"  # the "which" of the point at which nothing is pruned
THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


class Sweep:
    """BLEU of one checkpoint on one test set at any number of points. Each is written when made.

    Args:
        checkpoint: of a ``resmlp_mt`` architecture.
        search: how each point is translated. Its ``paths`` are ignored.
        source, references: the test set, one detokenized sentence a line.
        output: the JSON file. Points that are in it are not made again.
        length: T, see :func:`resmlp_mt.analysis.pruning.sparsity`.
        command: the command line, to be stored.

    Raises:
        UserError: texts of different numbers of lines; an *output* that was made with other inputs
            or options, or is no result of a sweep.
    """

    def __init__(
        self,
        checkpoint: Path,
        search: SearchOptions,
        source: Path,
        references: Path,
        output: Path,
        length: int = 32,
        command: str = "",
    ):
        self.checkpoint, self.search = checkpoint, search
        self.source, self.output = source, Path(output)
        check_output(self.output)
        self.references = read_text(references)
        check_same_lines(
            source, len(read_text(source)), references, len(self.references)
        )
        # what the points depend on
        self.head = {
            "checkpoint_sha256": sha256_of(checkpoint)[:16],
            "source_sha256": sha256_of(source)[:16],
            "references_sha256": sha256_of(references)[:16],
            "beam": search.beam,
            "lenpen": search.lenpen,
            "length": length,
        }
        if self.output.exists():
            self.result = read_sweep(self.output)
            made_with = {name: self.result.get(name) for name in self.head}
            remedy = "choose another file or delete this one"
            check_options(f"{output} holds points", made_with, self.head, remedy)
        else:
            of = {"command": command, "checkpoint": str(checkpoint), **self.head}
            self.result = {**of, "versions": versions(), "signature": {}, "points": []}

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
            UserError: a bad threshold or matrix; what pruning, translating or scoring raise.
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
        points = self.result["points"]
        made = {(point["which"], point["threshold"]): point for point in points}
        work = Path(f"{self.output}.work")
        with lock(work):
            try:
                for key in dict.fromkeys(wanted):
                    if key not in made:
                        points.append(self._make(*key, work))
                        write_json(self.output, self.result)
                    on_point(made.get(key, points[-1]), key not in made)
            finally:
                shutil.rmtree(work)
        return self.result

    def _make(self, kind: str, threshold: float, work: Path) -> dict:
        matrices = {"all": None, WHOLE: ()}.get(kind, (kind,))
        pruned, translations = work / "pruned.pt", work / "translations"
        shutil.rmtree(work / "translations.parts", ignore_errors=True)  # of another point
        counts = prune_checkpoint(self.checkpoint, pruned, threshold, matrices, self.head["length"])
        translate(replace(self.search, paths=(pruned,)), self.source, translations)
        scores = score(read_text(translations), self.references)
        self.result["signature"] = {name: scores[f"{name}_signature"] for name in ("bleu", "chrf")}
        return {
            "which": kind,
            "threshold": threshold,
            "removed": round(_share(counts, matrices), 4),
            "removed_of": {name: round(count.share, 4) for name, count in counts.items()},
            "bleu": scores["bleu"],
            "chrf": scores["chrf"],
        }


def _share(counts: Dict[str, Count], matrices: Optional[Sequence[str]]) -> float:
    chosen = [counts[name] for name in (counts if matrices is None else matrices)]
    return sum(chosen, Count(0, 0)).share if chosen else 0.0


def read_sweep(path: Path) -> dict:
    """The result of a sweep.

    Raises:
        UserError: if the file is not there, cut off, or of something else.
    """
    result = read_json(path)
    points = result.get("points") if isinstance(result, dict) else None
    try:
        numbers = [[point[name] for name in ("threshold", "removed", "bleu")] for point in points]
        right = all(isinstance(value, (int, float)) for row in numbers for value in row)
        right = right and all("which" in point for point in points)
    except (TypeError, KeyError):
        right = False
    if not right:
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
