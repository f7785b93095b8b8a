"""Build a wheel of the runtime for each platform, in runtime/dist: make wheels.

The engine has no Python in it, so that a wheel serves every version. zig's C++ compiler, which
scripts/zig.txt names, builds it for other machines, in some minutes each.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[1] / "runtime"
PLATFORMS = {  # of wheels, and what zig calls them
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
FLAGS = ["-std=gnu++17", "-O3", "-s", "-shared", "-fno-math-errno", "-fno-trapping-math"]


def build_wheel(platform: str) -> None:
    """Raises a CalledProcessError if the compiler or pip fails."""
    with tempfile.TemporaryDirectory() as folder:
        suffix = "dll" if platform.startswith("win") else "so"
        library = Path(folder, f"libresmlp_mt_engine.{suffix}")
        words = ["-m", "ziglang", "c++", "-target", PLATFORMS[platform], *FLAGS]
        words += [str(RUNTIME / "engine/engine.cpp"), "-o", library.name]
        # in that folder, as a library for macOS holds its name as it was given
        subprocess.run([sys.executable, *words], check=True, cwd=folder)
        shutil.rmtree(RUNTIME / "build", ignore_errors=True)  # with the library of another platform
        words = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        words += ["--config-settings", f"--build-option=--plat-name={platform}"]
        words += ["--wheel-dir", str(RUNTIME / "dist"), str(RUNTIME)]
        environment = {**os.environ, "RESMLP_MT_ENGINE": str(library)}
        subprocess.run([sys.executable, *words], check=True, env=environment)


parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("platform", nargs="*", help="(default: all)")
names = parser.parse_args().platform or [*PLATFORMS]
if unknown := ", ".join(set(names) - set(PLATFORMS)):
    parser.error(f"{unknown}: choose from {', '.join(PLATFORMS)}")
for name in names:
    print(name, flush=True)
    try:
        build_wheel(name)
    except subprocess.CalledProcessError as error:
        sys.exit(f"wheels: error: {error.cmd[2]} failed: its messages are above")
