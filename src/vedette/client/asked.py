"""The values that `vedette run --config` asks for: they replace those that the program gives to `init`.

They come in the environment, so they hold in every process below the command. They also hold with VEDETTE_MODE=off:
what a program does must not depend on whether it is recorded.
"""

import os
from typing import Any

import msgspec

from vedette.client.attrs import Attrs
from vedette.client.faults import never_raises, say_once
from vedette.client.values import as_config
from vedette.interrupts import let_through

VARIABLE = "VEDETTE_ASKED"


def override(config: Any) -> Any:
    """Return the config of `init` with the values that were asked for; keys that it does not have are left out."""
    asked = values() if config is not None else {}
    if not asked:
        return config
    tree, changed = as_config(config), []
    for key, value in asked.items():
        if key in tree or key.partition(".")[0] in tree:
            before = _get(tree, key)
            put(tree, key, value)
            if before != value or type(before) is not type(value):
                changed.append(key)
    if changed:
        say_once(f"`vedette run --config` sets {', '.join(changed)}: the program gets the new values from run.config")
    return tree


@never_raises
def offer(config: Attrs) -> None:
    """Let the program read the values that its own config does not have."""
    missing: dict[str, Any] = {}
    for key, value in values().items():
        if key not in config and key.partition(".")[0] not in config:
            put(missing, key, value)
    if missing:
        config.offer(missing)


def put(tree: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of a config; `model.depth` is the key `depth` inside `model`, unless there is a key of that name."""
    head, dot, rest = key.partition(".")
    if key in tree or not dot:
        tree[key] = value
    elif isinstance(inner := tree.setdefault(head, {}), dict):
        put(inner, rest, value)
    else:
        tree[key] = value


def _get(tree: Any, key: str) -> Any:
    head, dot, rest = key.partition(".")
    if not isinstance(tree, dict):
        return None
    return tree[key] if key in tree else _get(tree.get(head), rest) if dot else None


def values() -> dict[str, Any]:
    """Return what was asked for, by key; `model.depth` is one key."""
    text = os.environ.get(VARIABLE)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except Exception as error:
        let_through(error)
        say_once(f'{VARIABLE} is not JSON such as {{"lr": 0.3}}; vedette ignores it')
        return {}
