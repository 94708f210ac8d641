"""How a program that is all ours imports msgspec: without typing_extensions, which takes as long as Python itself.

msgspec imports typing_extensions where it is installed, but needs nothing of it from Python 3.11 on. Commands, the hub
and its helpers, which start often, do without. In a user's process msgspec is imported as it is: another thread
might import typing_extensions at the same moment.
"""

import importlib
import sys


def import_msgspec() -> None:
    """Import msgspec, if nobody has; whoever needs typing_extensions later can still import it."""
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
