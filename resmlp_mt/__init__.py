"""resmlp_mt: the sequence-to-sequence ResMLP as a fairseq plugin.

Importing this package, or naming it as ``--user-dir``, registers the model and its architectures.
"""

from resmlp_mt.quiet import ignore_old_scripting, logging_as_before

ignore_old_scripting()
with logging_as_before():
    from resmlp_mt import cli_errors, compat
    from resmlp_mt.model import ResMLPModel

__all__ = ["ResMLPModel"]
__version__ = "0.1.0"

compat.install(__path__[0])
cli_errors.install()
