"""How a subcommand ends: one line on standard error and an exit status, no traceback."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

from resmlp_mt.errors import in_one_line

# how to go on where they were stopped; our examples have no name
RESUMED = dict.fromkeys(("prepare", "train", "run", ""), ": the same command resumes it")
RESUMED["translate"] = ": with --resume it goes on after the last whole line of the output"

# a batch system sends the first at the end of the time, the second as a warning before it
ENDING = (signal.SIGTERM, signal.SIGUSR1)


class _Terminated(SystemExit):
    """What is half-written is removed on the way out, as after Ctrl-C."""


def _terminate(number, frame):
    for each in ENDING:  # once is enough
        signal.signal(each, signal.SIG_IGN)
    raise _Terminated(128 + number)


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_main(main: Callable[[], None], name: str = "") -> int:
    """Call the work of the subcommand *name*; gives the exit status: 0, 1 after an error, 130 after
    Ctrl-C, 128 + N after signal N, 141 where the reader of standard output has gone."""
    program = f"resmlp-mt {name}" if name else os.path.basename(sys.argv[0])
    if sys.stderr is None:  # print() would take standard output in its place
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open as long as the process)
    before = {}
    if threading.current_thread() is threading.main_thread():  # others may not handle signals
        before = {each: signal.getsignal(each) for each in ENDING}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:  # a shell may have asked for that
            signal.signal(each, _terminate)
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # fairseq logs at every level to the terminal once imported
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader (head, less) has gone; at exit Python would write what is left, and complain
        _drop_output()
        return 141
    except Exception as error:
        message = in_one_line(error)
        if message is None or os.environ.get("RESMLP_MT_TRACEBACK"):
            raise
        print(f"{program}: error: {message}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # a full disk: at exit Python would try once more, and complain
            _drop_output()
        return 1
    except (KeyboardInterrupt, _Terminated) as stop:
        print(f"\n{program}: stopped{RESUMED.get(name, '')}", file=sys.stderr)
        return int(stop.code) if isinstance(stop, _Terminated) else 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        logging.disable(disabled)  # a program of ours may call another
    return 0
