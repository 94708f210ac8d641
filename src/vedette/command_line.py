"""What a command line runs, in a word: its program, or its script if the program is Python."""

import itertools
from collections.abc import Sequence


def label(words: Sequence[str]) -> str:
    """Return a short name of what a command runs; empty if there are no words."""
    if not words:
        return ""
    program = words[0].rpartition("/")[2].lstrip("-")
    if program.startswith("python"):
        for word, following in itertools.pairwise([*words[1:], ""]):
            if word in ("-m", "-c"):
                return f"python {word} {following.strip().partition(chr(10))[0][:40]}".rstrip()
            if not word.startswith("-"):
                return word.rpartition("/")[2] or program
    return program
