"""``python -m resmlp_mt_runtime`` is the command ``resmlp-translate``."""

import sys

from resmlp_mt_runtime.command import main

if __name__ == "__main__":
    sys.exit(main())
