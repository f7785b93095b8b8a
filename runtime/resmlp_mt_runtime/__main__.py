"""Translate standard input line by line: python -m resmlp_mt_runtime FOLDER < in > out"""

import argparse
import sys
from pathlib import Path

from resmlp_mt_runtime import Model, UserError
from resmlp_mt_runtime.lines import read_lines


def main() -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(prog="resmlp_mt_runtime", description=__doc__)
    parser.add_argument("folder", help="that resmlp-mt export wrote")
    try:
        for translations in Model(parser.parse_args().folder).stream(read_lines(Path("-"))):
            print(translations[0].text if translations else "", flush=True)
    except (UserError, OSError) as error:
        print(f"resmlp_mt_runtime: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
