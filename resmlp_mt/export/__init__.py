"""Export a model, and translate with an exported folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.export.runtime import ExportedModel, TranslationError


class ExportEngine:
    """An exported folder, as the driver of ``resmlp_mt.pipeline.translate`` takes it, with the
    options of its *search*: beam, lenpen, nbest and so on."""

    def __init__(self, folder: Path, threads: int | None = None, graph: bool = False, **search):
        for name in ("data", "spm", "fp16"):
            if name in search:
                raise UserError(f"--{name}: is for checkpoints, and {folder} is an export")
        try:
            self._model, self._search = ExportedModel(folder, threads, graph), search
            self._model.search([], **search)  # refuses values out of range
        except TranslationError as error:
            raise UserError(str(error)) from None
        self.pieces, self.limit = self._model.pieces, self._model.limit

    def knows(self, piece: str) -> bool:
        """Whether it is in the dictionary of the source."""
        return piece in self._model.index

    def translations(self, sources: Sequence[list[str]]) -> Iterator[dict[int, list]]:
        """The n best of each source by its index; none where the scores are not finite."""
        try:
            yield from self._model.batches(sources, **self._search)
        except TranslationError as error:
            raise UserError(str(error)) from None
