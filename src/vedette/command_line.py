"""What a command line runs, in a word: its program, or its script if the program is Python."""

from collections.abc import Sequence

_TAKE_A_WORD = ("-W", "-X")  # options of Python with the word behind them


def label(words: Sequence[str]) -> str:
    """Return a short name of what a command runs; empty if there are no words."""
    if not words:
        return ""
    program = words[0].rpartition("/")[2].lstrip("-")
    if program.startswith("python"):
        for before, word, following in zip(words, words[1:], [*words[2:], ""], strict=False):
            if word in ("-m", "-c"):
                return f"python {word} {following.strip().partition(chr(10))[0][:40]}".rstrip()
            if not word.startswith("-") and before not in _TAKE_A_WORD:
                return word.rpartition("/")[2] or program
    return program
