"""heflwr's log: a logger that is heard on stdout, and once it is configured in a file, and at a server."""

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
    """Posts records, in a thread of its own: nothing waits for the server, and nothing is said of its absence."""

    def __init__(self, host: str, identifier: str, simple: bool) -> None:
        super().__init__(logging.DEBUG)
        self._config = form.Config(host, str(identifier), simple)
        self._form = form.Form(self._config)
        self._pid = os.getpid()
        self._times = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over."""
        try:
            if self._pid != os.getpid():  # in a fork child, where the thread that sends is not
                self._form, self._pid = form.Form(self._config), os.getpid()
            fields: dict[str, object] = {"message": record.getMessage()}
            if not self._config.simple:
                fields = {**vars(record), **fields, "asctime": self._times.formatTime(record)}
            self._form.post(fields, int(record.created * 1e9))
        except Exception:  # noqa: S110 - an object of the user's that has no text; a log must not end the program
            pass

    def close(self) -> None:
        """Send what waits, as far as that goes at once."""
        self._form.close()
        super().close()


def configure(identifier: str, file: str | None = None, host: str | None = None, simple: bool | None = None) -> None:
    """Have what is logged also go to a file, to a server, or both; each takes the place of the one before."""
    if file:
        to_file = logging.FileHandler(file)
        to_file.setLevel(logging.DEBUG)
        to_file.setFormatter(logging.Formatter(f"{identifier} | {_FORMAT}"))
        _put_in_place(to_file)
    if host:
        _put_in_place(_Server(host, identifier, bool(simple)))
    elif simple:
        warnings.warn(
            "Simple mode is specified without a host. No HTTP handler will be added.", UserWarning, stacklevel=2
        )


def _put_in_place(handler: logging.Handler) -> None:
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
