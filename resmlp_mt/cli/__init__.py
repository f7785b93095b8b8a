"""The command ``resmlp-mt``: one file per subcommand, for its arguments alone."""
