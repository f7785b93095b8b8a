"""The command ``resmlp-mt``: one file a subcommand, arguments and nothing else."""
