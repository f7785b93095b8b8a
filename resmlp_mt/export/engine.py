"""An exported folder, as the driver of ``resmlp_mt.translate`` takes it."""

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

from resmlp_mt.errors import UserError

TOGETHER = 256  # sentences of similar length that are searched at once


class ExportEngine:
    """The runtime with its search: *search* holds beam, lenpen, nbest and so on."""

    def __init__(self, folder: Path, threads: Optional[int] = None, **search):
        try:
            from resmlp_mt.export import runtime
        except ModuleNotFoundError as error:
            raise UserError(f'{error}: pip install ".[export]"') from None
        self._runtime, self._options = runtime, search
        for name in ("data", "spm", "no_repeat_ngram_size", "fp16"):
            if name in search:
                option = name.replace("_", "-")
                raise UserError(f"--{option}: is for checkpoints, and {folder} is an export")
        try:
            self._model = runtime.ExportedModel(folder, threads)
            self._model.search([], **search)
        except runtime.TranslationError as error:
            raise UserError(str(error)) from None
        self.limit = self._model.config["positions"][0] - 1
        self._known = frozenset(self._model.source_pieces)

    def pieces(self, line: str) -> List[str]:
        """The subwords of a line."""
        return self._model.pieces(line)

    def knows(self, piece: str) -> bool:
        """Whether it is in the dictionary of the source."""
        return piece in self._known

    def translations(self, sources: Sequence[List[str]]) -> Iterator[Dict[int, List[str]]]:
        """The n best of each source by its number; none where the scores are not finite."""
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        for start in range(0, len(order), TOGETHER):
            some = order[start : start + TOGETHER]
            yield dict(zip(some, self._search([sources[i] for i in some])))

    def _search(self, sources: List[List[str]]) -> List[List[str]]:
        try:
            found = self._model.search(sources, **self._options)
        except self._runtime.TranslationError:
            if len(sources) == 1:
                return [[]]
            return [self._search([source])[0] for source in sources]
        return [[one.text for one in hypotheses] for hypotheses in found]
