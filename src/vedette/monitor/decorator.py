"""A monitor around some code: `with vedette.monitored(...)`, or `@vedette.monitored(...)` above a function."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from vedette.monitor.plan import DEFAULT, KEEP
from vedette.monitor.watch import Monitor


class Monitored(Monitor):
    """A monitor that also decorates functions. Each call has its own; the function's `.monitor` is the newest."""

    def __init__(self, to: Any = (), **options: Any) -> None:
        """Take the arguments of `Monitor`."""
        super().__init__(to, **options)
        self._new_monitor = functools.partial(Monitor, to, **options)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Return the function with a monitor around each call; it may be a generator or async."""

        def begin() -> Monitor:
            call.monitor = self._new_monitor()  # type: ignore[attr-defined]
            return call.monitor  # type: ignore[attr-defined, no-any-return]

        call = _around(function, begin)
        return functools.wraps(function)(call)


def monitored(
    to: Any = (),
    *,
    interval_s: float = 1.0,
    where: str = "thread",
    pid: int | None = None,
    sensors: str | Iterable[str] = DEFAULT,
    keep: int = KEEP,
) -> Any:
    """Monitor some code: as a context manager, which returns the `Monitor`, or as a decorator.

    A mistake in the arguments raises a VedetteError before the code begins; later nothing raises.
    """
    options = {"interval_s": interval_s, "where": where, "pid": pid, "sensors": sensors, "keep": keep}
    if inspect.isroutine(to):  # @vedette.monitored, without parentheses
        return Monitored(**options)(to)
    return Monitored(to, **options)


def _around(function: Callable[..., Any], begin: Callable[[], Monitor]) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(function):

        async def stream(*args: Any, **kwargs: Any) -> Any:
            with begin():
                async with contextlib.aclosing(function(*args, **kwargs)) as items:
                    async for item in items:
                        yield item

        return stream
    if inspect.iscoroutinefunction(function):

        async def wait(*args: Any, **kwargs: Any) -> Any:
            with begin():
                return await function(*args, **kwargs)

        return wait
    if inspect.isgeneratorfunction(function):

        def generate(*args: Any, **kwargs: Any) -> Any:
            with begin():
                return (yield from function(*args, **kwargs))

        return generate

    def run(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return function(*args, **kwargs)

    return run
