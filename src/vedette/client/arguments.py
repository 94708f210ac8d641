"""What the words of a command line mean: `--lr 0.1`, `-x`, `lr=0.1`, as names and values.

Nobody but the program knows what its options are, so this is a reading by the usual customs: an option takes the word
behind it, unless that is an option too.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec

_OPTION = re.compile(r"-{1,2}([A-Za-z][\w.\-/]*)(?:=(.*))?", re.DOTALL)
_ATTACHED = re.compile(r"-([A-Za-z])(\d+)")  # -j4
_HYDRA = re.compile(r"\+{0,2}([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PADDED = re.compile(r"[+-]?0\d")  # 007 is a name
_MOST = 200  # names
_MOST_CHARS = 1000  # of a value
# Programs whose own options come before the program that the user means.
_RUNNERS = frozenset(
    "torchrun accelerate deepspeed mpiexec mpirun srun horovodrun env nice nohup time timeout numactl taskset uv poetry"
    " pipenv conda mamba pixi sh bash zsh dash Rscript julia node ruby perl xvfb-run stdbuf sudo".split()
)
_SCRIPTS = (".py", ".sh", ".jl", ".R", ".r", ".pl", ".rb", ".js", ".lua", ".bash")


def meaning(text: str) -> Any:
    """Return the value that a word stands for: a number, true, false, null or other JSON; else the word itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return float(text) if _NUMBER.fullmatch(text) and not _PADDED.match(text) else text


def of_program(command: Sequence[str]) -> list[str]:
    """Return the arguments of the program that a command runs: those behind `train.py` in `python -u train.py ...`."""
    name = os.path.basename(command[0]) if command else ""
    python = name.startswith("python")
    if not python and name not in _RUNNERS:
        return list(command[1:])
    for at, word in enumerate(command[1:], 1):
        if word.startswith("-"):
            if word == "-c":
                return []
            if word == "-m" and python:
                return list(command[at + 2 :])
        elif word.endswith(_SCRIPTS) or word.startswith(("./", "../")):
            return list(command[at + 1 :])
        else:
            python = python or os.path.basename(word).startswith("python")
    return []


def read(words: Sequence[str]) -> dict[str, Any]:
    """Return the options among a program's arguments, by name; an option without a value is true."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(words) and words[at] != "--" and len(found) < _MOST:
        word = words[at]
        at += 1
        if (attached := _ATTACHED.fullmatch(word)) is not None:
            _add(found, attached[1], meaning(attached[2]))
        elif (option := _OPTION.fullmatch(word)) is not None:
            name, value = option.groups()
            values = [value] if value is not None else _values(words[at:])
            at += len(values) if value is None else 0
            meant = [meaning(one[:_MOST_CHARS]) for one in values]
            _add(found, name, meant if len(meant) > 1 else meant[0] if meant else True)
        elif (pair := _HYDRA.fullmatch(word)) is not None:
            _add(found, pair[1], meaning(pair[2][:_MOST_CHARS]))
    return found


def _values(rest: Sequence[str]) -> list[str]:
    """Return the words that belong to an option: the next one, or several numbers."""
    if not rest or rest[0] == "--" or (_HYDRA.fullmatch(rest[0]) is not None):
        return []
    if _NUMBER.fullmatch(rest[0]) is None:
        return [] if rest[0].startswith("-") else [rest[0]]
    count = next((at for at, word in enumerate(rest) if _NUMBER.fullmatch(word) is None), len(rest))
    return list(rest[:count])


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    """Add an option; one that is given several times is a list."""
    name = name.strip("-.").replace("-", "_")
    if name not in found:
        found[name] = value
    else:
        before = found[name]
        found[name] = [*(before if isinstance(before, list) else [before]), value]
