"""How fairseq finds this package."""

import os

import fairseq
from fairseq.utils import import_user_module


def remember_user_dir(package_dir: str) -> None:
    """Tell fairseq that this package is imported, under each path it may look for it by.

    fairseq resolves ``--user-dir resmlp_mt`` against the working directory, then against the folder
    that it is itself installed in, and refuses a second path to a package that it knows.
    """
    seen = getattr(import_user_module, "memo", set())
    beside_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(package_dir)
    )
    for path in (package_dir, beside_fairseq):
        if os.path.realpath(path) == os.path.realpath(package_dir):
            seen.add(os.path.abspath(path))
            seen.add(path)
    import_user_module.memo = seen
