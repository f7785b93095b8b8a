"""The published models, fetched by name into PyTorch's cache.

``published.sha256`` is what ``sha256sum`` says of their files in the repository.
"""

from pathlib import Path

import torch

from resmlp_mt.errors import UserError

HOME = "https://github.com/resmlp-mt/resmlp_mt/raw/v0.3.0"  # the release that has these files
FOLDERS = {
    "resmlp_mt.en-de": "examples/mixed/model",
    "resmlp_mt.en-fr": "examples/mixed/model-en-fr",
}


def fetch(name: str) -> Path:
    """The folder of a published model; what is not in the cache yet is downloaded and checked.
    Raises a UserError if that fails."""
    lines = Path(__file__).with_suffix(".sha256").read_text(encoding="utf-8").splitlines()
    digests = {Path(path): digest for digest, path in map(str.split, lines)}
    digests = {path: d for path, d in digests.items() if path.parent == Path(FOLDERS[name])}
    version = digests[Path(FOLDERS[name], "model.pt")][:8]
    folder = Path(torch.hub.get_dir(), "resmlp_mt", f"{name}-{version}")
    folder.mkdir(parents=True, exist_ok=True)
    for path, digest in digests.items():
        url, file = f"{HOME}/{path.as_posix()}", folder / path.name
        if not file.is_file():
            try:
                torch.hub.download_url_to_file(url, str(file), digest, progress=False)
            except (OSError, RuntimeError) as error:  # RuntimeError: another digest
                raise UserError(
                    f"{name}: {url}: {error}: try again, or give the folder of a model"
                ) from None
    return folder
