#!/usr/bin/env python3
"""Tell which pins of the environment are behind what is released, as pip finds it.

    .venv/bin/python scripts/outdated.py

Run it by the Python of an environment that scripts/make_env.sh made: what its packages ask of each
other is what "allowed" goes by. The exit status is 0 if every pin is the newest that is allowed, 3
if one is behind, 1 if the registry cannot be reached. To raise pins: scripts/pin.sh. Once a week,
by cron, which mails what is printed if anything is (--quiet: only where a pin is behind):

    0 6 * * 1  cd /path/to/checkout && .venv/bin/python scripts/outdated.py --quiet
"""

import argparse
import sys
from pathlib import Path

from resmlp_mt.pipeline.markdown import markdown_table
from resmlp_mt.pipeline.pins import limits, look_up, read_pins
from resmlp_mt.pipeline.terminal import run_main

HERE = Path(__file__).parent
BEHIND = 3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog="Exit status: 0 none behind, 3 some, 1 error."
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        default=[HERE / "torch.txt", HERE / "requirements.txt"],
        help="requirements files (default: scripts/torch.txt scripts/requirements.txt)",
    )
    parser.add_argument("--all", action="store_true", help="show the pins that are current, too")
    parser.add_argument("--quiet", action="store_true", help="print nothing if none is behind")
    args = parser.parse_args()
    pins = [pin for path in args.files for pin in read_pins(path) if pin.applies()]
    asked = limits()
    found = [look_up(pin, asked) for pin in pins]
    behind = [release for release in found if release.behind]
    if behind or not args.quiet:
        rows = [
            [r.pin.name, *map(str, (r.pin.version, r.newest, r.allowed)), ", ".join(r.forbidden_by)]
            for r in found
            if args.all or r.newest > r.pin.version
        ]
        print(f"{len(behind)} of {len(pins)} pins are behind")
        if rows:
            head = ["package", "pinned", "newest", "newest allowed", "newest forbidden by"]
            print(markdown_table(head, rows))
    if behind:
        sys.exit(BEHIND)


if __name__ == "__main__":
    sys.exit(run_main(main))
