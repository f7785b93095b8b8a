"""Ends a command: one line on standard error and an exit status, no traceback."""

import os
import signal
import sys
from collections.abc import Callable

from resmlp_mt_runtime.errors import in_one_line, say

RESUMED = ": --resume continues after the last complete line of the output"  # a translation

# a batch system sends the first at the end of the time, the second as a warning before it; the
# third comes when a terminal is closed
ENDING = [getattr(signal, x) for x in ("SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, x)]


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


def run_main(
    main: Callable[[], None],
    program: str,
    resumed: str = "",
    in_one_line: Callable[[BaseException], str | None] = in_one_line,
) -> int:
    """Call *main*, the work of a *program*. Returns the exit status: 1 after an error, 130 after
    Ctrl-C, 128 + N after signal N, 141 if the reader of standard output has ended.

    *resumed* says how what was stopped continues, *in_one_line* what is printed of an error.
    """
    if sys.stderr is None:  # closed by 2>&- in a shell; print() would use standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        say(f"{program}: error: standard output is closed: redirect it")
        return 1
    before = {each: signal.getsignal(each) for each in ENDING}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:  # as by nohup
            signal.signal(each, _terminate)
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
        say(f"{program}: stopped{resumed}")
        return stop.code if isinstance(stop, _Terminated) else 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return 0
