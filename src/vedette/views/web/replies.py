"""Responses: JSON, and refusals in one sentence."""

from typing import Any

import msgspec
from starlette.responses import Response

from vedette.asgi import Refusal
from vedette.errors import (
    AmbiguousError,
    DamagedError,
    FormatError,
    HubError,
    MissingError,
    NotFoundError,
    SettingError,
    StoreError,
    VedetteError,
    WhereError,
)
from vedette.views.web.read_pool import BusyError, SlowError

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (WhereError, 400), (SettingError, 400), (NotFoundError, 404), (AmbiguousError, 400), (HubError, 503),
    (MissingError, 501), (FormatError, 500), (DamagedError, 500), (StoreError, 503), (VedetteError, 400),
)  # fmt: skip


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer with JSON; NaN and infinity become null."""
    body = msgspec.json.encode(value)
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


def refuse(error: Exception, *, shared: bool = False) -> Response:
    """Answer with one sentence that says what is wrong; details of an internal error are not shown.

    `shared`: to somebody who came by a link, who is not told what is wrong with the home.
    """
    if isinstance(error, Refusal):
        return as_json({"error": str(error)}, error.status, error.headers)
    if isinstance(error, BusyError):
        return as_json({"error": "too many requests are waiting: try again in a moment"}, 503)
    if isinstance(error, SlowError):
        return as_json({"error": "this takes too long to answer: ask for less, or use a simpler condition"}, 503)
    if shared and isinstance(error, NotFoundError):
        return as_json({"error": "this is not among what was shared, or was removed since"}, 404)
    for kind, status in _STATUS:
        if isinstance(error, kind):
            if shared and (status >= 500 or kind is VedetteError):
                break
            return as_json({"error": str(error)}, status)
    if shared:
        return as_json({"error": "this cannot be read now: try again later"}, 503)
    return as_json({"error": f"an internal error: {type(error).__name__}"}, 500)


def ms(t: int | None) -> float | None:
    """Return nanoseconds as milliseconds."""
    return None if t is None else t / 1e6
