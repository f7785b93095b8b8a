"""Put the page, the engine and an exported model into one folder of static files.

python examples/browser/build.py EXPORTED [OUT]

Needs ziglang from the package index, which compiles the engine for browsers. OUT is created; an
existing folder is not touched.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from resmlp_mt_runtime import UserError
from resmlp_mt_runtime.files import whole_folder
from resmlp_mt_runtime.folder import CONFIG, FILES, read_export

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[1] / "runtime"
MODEL = (CONFIG, *FILES, "README.md")
ENTRIES = "kernel load search sizes"
# Without the byte products of relaxed SIMD: they leave bytes above 127 to the machine, and V8 may
# take them in one way before it has optimised a function and in another way afterwards.
ZIG = [
    *("-m", "ziglang", "c++", "-target", "wasm32-wasi", "-mexec-model=reactor", "-msimd128"),
    *("-std=gnu++17", "-O3", "-s", "-fno-exceptions", "-ffp-contract=off"),
    *("-fno-math-errno", "-fno-trapping-math", "-Wl,--export=malloc,--export=free"),
    *(f"-Wl,--export=resmlp_{name}" for name in ENTRIES.split()),
]


def build(model: Path, out: Path) -> None:
    """Make the folder *out*. Raises a UserError if *model* is no export, or *out* is there."""
    if out.exists():
        raise UserError(f"{out} is there: remove it, or give another folder")
    read_export(model)
    for path in (model / name for name in MODEL):
        if path.is_symlink() or not path.is_file():  # a link may lead to any file
            raise UserError(f"{path} is not a file: give a folder of resmlp-mt export")
    with whole_folder(out) as made:
        shutil.copytree(HERE / "page", made, dirs_exist_ok=True)
        shutil.copy(RUNTIME / "resmlp_mt_runtime" / "arrays.txt", made)
        words = [*ZIG, str(RUNTIME / "engine/engine.cpp"), "-o", str(made / "engine.wasm")]
        if subprocess.run([sys.executable, *words]).returncode:
            raise UserError("no engine: pip install -r scripts/zig.txt, or see above")
        (made / "model").mkdir()
        for name in MODEL:
            shutil.copy(model / name, made / "model")


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("exported", type=Path, help="folder of resmlp-mt export")
    parser.add_argument("out", type=Path, nargs="?", default=HERE / "dist", help="(default: dist)")
    args = parser.parse_args()
    try:
        build(args.exported, args.out)
    except (UserError, OSError) as error:
        sys.exit(f"build: error: {error}")
    print(f"{args.out}: ready. Serve it, for example: python3 -m http.server -d {args.out}")


if __name__ == "__main__":
    main()
