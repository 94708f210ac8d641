"""Escape codes in a program's output: how to get the plain text, and the text with only its colours."""

import functools
import re

# Whole escape sequences: CSI; OSC, DCS, SOS, PM and APC with their content; sequences of two bytes.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
)
_CODES = (
    r"(\x1b\[[0-9;:]*m)"  # colours, which are kept
    r"|\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c]+"  # one match: there may be millions
    r"|[\x1b\x90\x98\x9b\x9d-\x9f]"
)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)  # on first use: `init` must not wait for it


def split(text: str) -> tuple[str, str]:
    """Return a line without escape codes, and the same line with its colours; the latter is "" if it has none."""
    if text.isprintable() or (token := _compiled(_CODES)).search(text) is None:
        return text, ""
    parts = token.split(text)  # text and colours in turn; one call, since there may be very many colours
    plain, ansi = "".join(parts[::2]), "".join(filter(None, parts))
    return plain, "" if ansi == plain or not plain else ansi


def colourless(text: str) -> str:
    """Return a text without its escape sequences."""
    return _compiled(_ESCAPES).sub("", text)
