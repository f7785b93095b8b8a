"""Token mixings of other papers, as a folder for --user-dir: copy it to begin with your own.

resmlp-mt run --user-dir examples/mixings ... -- --token-mixing hyena
"""

from . import mixings  # noqa: F401  registers them
