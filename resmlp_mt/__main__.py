"""``python -m resmlp_mt`` is the command ``resmlp-mt``."""

import sys

from resmlp_mt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
