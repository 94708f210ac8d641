"""Several messages in one call of `logging`, as the classifier writes them, also before a run has begun.

While a run lives, `client.logs` does the same, and records them.
"""

import logging
from typing import Any

from vedette.client.messages import compose, holds_rich
from vedette.interrupts import let_through

_original: Any = logging.LogRecord.getMessage


def accept() -> None:
    """Let `logging.warning("one", "two")` print both, instead of an error about its format."""
    if logging.LogRecord.getMessage is _original:
        logging.LogRecord.getMessage = _get_message  # type: ignore[method-assign]


def _get_message(self: logging.LogRecord) -> str:
    """Return the message: formatted if that works, else its parts."""
    try:
        if not holds_rich(self.msg, self.args):
            return str(_original(self))
    except Exception as error:  # whatever a user's __str__ raises
        let_through(error)
    return compose(self.msg, self.args)[0]
