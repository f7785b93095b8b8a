"""Ends a subcommand: one line on standard error and an exit status, no traceback."""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable

from resmlp_mt.errors import say
from resmlp_mt.fairseq_fixes.messages import in_one_line

# what to add to "stopped", by subcommand; "" is an example's program
RESUMED = dict.fromkeys(("prepare", "train", "run", ""), ": the same command resumes it")
RESUMED["translate"] = ": --resume continues after the last complete line of the output"

# a batch system sends the first at the end of the time, the second as a warning before it; the
# third comes when a terminal is closed
ENDING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


class _Terminated(SystemExit):
    """Raised by a signal, so that partial files are removed, as after Ctrl-C."""

    code: int


def _terminate(number, frame):
    for each in ENDING:  # the first signal is enough
        signal.signal(each, signal.SIG_IGN)
    raise _Terminated(128 + number)


def _drop_output() -> None:
    """Python would flush it once more at exit, and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_main(main: Callable[[], None], name: str = "") -> int:
    """Call *main*, the work of the subcommand *name*. Returns the exit status: 1 after an error,
    130 after Ctrl-C, 128 + N after signal N, 141 if the reader of standard output has ended."""
    program = f"resmlp-mt {name}" if name else os.path.basename(sys.argv[0])
    if sys.stderr is None:  # closed by 2>&- in a shell; print() would use standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        say(f"{program}: error: standard output is closed: redirect it")
        return 1
    before = {each: signal.getsignal(each) for each in ENDING}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:  # as by nohup
            signal.signal(each, _terminate)
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # fairseq's, which go to the terminal
    # about fairseq's code, which no user can correct
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
    warnings.filterwarnings("ignore", ".*invalid escape", SyntaxWarning)
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # of head, less
        _drop_output()
        return 141
    except Exception as error:
        message = in_one_line(error)
        if message is None or os.environ.get("RESMLP_MT_TRACEBACK"):
            raise
        say(f"{program}: error: {message}")
        try:
            sys.stdout.flush()
        except OSError:  # a full disk
            _drop_output()
        return 1
    except (KeyboardInterrupt, _Terminated) as stop:
        print(file=sys.stderr)
        say(f"{program}: stopped{RESUMED.get(name, '')}")
        return stop.code if isinstance(stop, _Terminated) else 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        logging.disable(disabled)  # a subcommand may call another
    return 0
