"""What the command line gave: `asked.KEY` by `vedette run --config`, `arg.KEY` by the program's own options.

A program that takes a value over into its config has it there, too: then it is shown once, as config.
"""

from collections.abc import Mapping

from vedette.model import Value

ASKED, ARG = "asked.", "arg."


def is_repeated(attrs: Mapping[str, Value], key: str) -> bool:
    """Tell whether a key of the command line stands in the config with the same value."""
    family, dot, name = key.partition(".")
    own = f"config.{name}"
    return f"{family}{dot}" in (ASKED, ARG) and own in attrs and attrs[own] == attrs[key]


def apart(attrs: Mapping[str, Value], family: str) -> dict[str, Value]:
    """Return what a family gave that the config does not have."""
    found = {key: value for key, value in attrs.items() if key.startswith(family) and not is_repeated(attrs, key)}
    return {key[len(family) :]: value for key, value in found.items()}
