"""fairseq-interactive gives one answer to each line.

Its own reader ends a line at a lone carriage return too, so that one line gets two answers, and
ends in a traceback at what is not UTF-8. Here a line is what it is to ``wc`` and to
``resmlp-mt translate``. It can go when ``buffered_read`` opens its input with ``newline="\\n"``.
"""

from pathlib import Path
from typing import Iterator, List

from fairseq_cli import interactive

from resmlp_mt.fairseq_fixes.replacing import replace_once, running
from resmlp_mt.text.lines import read_lines


@replace_once(running(interactive), "buffered_read")
def buffered_read(original, input: str, buffer_size: int) -> Iterator[List[str]]:
    """*buffer_size* lines at a time, without the white space at their ends.

    Raises:
        UserError: naming the file and the line that is not UTF-8.
    """
    buffer = []
    for line in read_lines(Path(input)):
        buffer.append(line.strip())
        if len(buffer) >= buffer_size:
            yield buffer
            buffer = []
    if buffer:
        yield buffer
