"""Programs that this one starts: they end when it ends, and their last line is the error."""

import os
import signal
import sys
import time

import pytest
from processes import Forked

from resmlp_mt.cli.main import run_main
from resmlp_mt.loss import AUTOCAST
from resmlp_mt.pipeline.train.command import cost_added_to, run_command
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json


def gone(number, patience=10):
    """Whether a process ends within *patience* seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            with open(f"/proc/{number}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="prctl and /proc are of Linux")
@pytest.mark.parametrize(
    "number, status",
    [
        *((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGUSR1, 138)),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_the_child_ends_with_its_parent(tmp_path, number, status):
    output = tmp_path / "output"

    def sleep():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
        child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        command = [sys.executable, "-c", child]
        sys.exit(run_main(lambda: run_command("sleeper", command, tmp_path / "log", print)))

    parent = Forked(sleep, output)
    parent.until(lambda text: text.endswith("\n"))
    child = int(output.read_text())
    os.kill(parent.pid, number)
    assert parent.wait() == status
    assert gone(child)


def test_output_and_errors(tmp_path, monkeypatch):
    """``--precision`` decides what the shell may not."""
    log, seen = tmp_path / "log", []
    monkeypatch.setenv(AUTOCAST, "bfloat16")

    def run(code, **more):
        run_command(
            "it", [sys.executable, "-c", f"import os, sys; {code}"], log, seen.append, **more
        )

    run(f"print(os.environ.get('{AUTOCAST}'))")
    run(f"print(os.environ['{AUTOCAST}'])", environment={AUTOCAST: "7"})
    with pytest.raises(UserError, match=rf"it failed: two \(its whole output: {log}\)"):
        run("print('one'); print('two', file=sys.stderr); sys.exit(3)")
    with pytest.raises(UserError, match="^it failed: bad option "):
        run("sys.exit('it: error: bad option')")
    with pytest.raises(UserError, match="it failed: killed by signal 9"):
        run("os.kill(os.getpid(), 9)")
    with pytest.raises(UserError, match="it was stopped by SIGTERM: the same command resumes it"):
        run("sys.exit(143)")
    assert seen == ["None", "7", "one", "two", "it: error: bad option"]
    assert log.read_text().splitlines()[1:4:2] == ["None", "7"]


def test_costs_add_up_also_after_an_error(tmp_path):
    file = tmp_path / "cost.json"
    burn = [sys.executable, "-c", "sum(range(10**7)); raise SystemExit(1)"]
    costs = []
    for _ in range(2):
        with pytest.raises(UserError), cost_added_to(file):
            run_command("it", burn, tmp_path / "log")
        costs.append(read_json(file))
    for name in ("cpu_minutes", "wall_minutes"):
        assert 0 < costs[0][name] < costs[1][name]
