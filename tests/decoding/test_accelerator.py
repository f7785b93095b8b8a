"""made_up_device.py in a process of its own: a device that a process has registered is there for
all its later tests, and autograd asks for the devices once, before the first gradient."""

import subprocess
import sys
from pathlib import Path


def test_on_a_made_up_device():
    root, tests = Path(__file__).parents[2], Path(__file__).with_name("made_up_device.py")
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run([*pytest, str(tests)], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
