"""heflwr's log: a logger that prints to stdout, and if configured also writes to a file and to a server."""

import logging
import os
import sys
import warnings

from vedette.compat.heflwr import form

_FORMAT = "%(levelname)s %(name)s %(asctime)s | %(filename)s:%(lineno)d | %(message)s"

logger = logging.getLogger("HeFlwr")
log = logger.log

__all__ = ["configure", "log", "logger"]


class _Server(logging.Handler):
    """Posts records in a thread of its own: the program never waits for the server, nor is told if it is away."""

    def __init__(self, host: str, identifier: str, simple: bool) -> None:
        super().__init__(logging.DEBUG)
        self._config = form.Config(host, str(identifier), simple)
        self._form = form.Form(self._config)
        self._pid = os.getpid()
        self._times = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            if self._pid != os.getpid():  # a fork child does not have the sending thread
                self._form, self._pid = form.Form(self._config), os.getpid()
            fields: dict[str, object] = {"message": record.getMessage()}
            if not self._config.simple:
                fields = {**vars(record), **fields, "asctime": self._times.formatTime(record)}
            self._form.post(fields, int(record.created * 1e9))
        except Exception:  # noqa: S110 - str() of a user's object may raise, and a log call must not
            pass

    def close(self) -> None:
        """Send what waits, for a short time."""
        self._form.close()
        super().close()


def configure(identifier: str, file: str | None = None, host: str | None = None, simple: bool | None = None) -> None:
    """Also log to a file, to a server, or both; each replaces the one that was set before."""
    if file:
        to_file = logging.FileHandler(file)
        to_file.setLevel(logging.DEBUG)
        to_file.setFormatter(logging.Formatter(f"{identifier} | {_FORMAT}"))
        _replace_handler(to_file)
    if host:
        _replace_handler(_Server(host, identifier, bool(simple)))
    elif simple:
        warnings.warn(
            "Simple mode is specified without a host. No HTTP handler will be added.", UserWarning, stacklevel=2
        )


def _replace_handler(handler: logging.Handler) -> None:
    for before in [one for one in logger.handlers if type(one) is type(handler)]:
        logger.removeHandler(before)
        before.close()
    logger.addHandler(handler)


def _begin() -> None:
    logger.setLevel(logging.DEBUG)
    if not logger.handlers:
        console = logging.StreamHandler(sys.stdout)
        console.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(console)


_begin()
