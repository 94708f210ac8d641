"""What commands say on stderr beside their results."""

import sys

from vedette.views.text import clean


def say(text: str) -> None:
    """Print a sentence of ours; if stderr is gone, nobody can hear it, and the command goes on."""
    write(f"vedette: {clean(text, one_line=True)}")


def write(line: str) -> None:
    """Print a line as it is."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        pass
