"""Where heflwr's clients send to, `vedette hub --heflwr`: each identifier becomes a run (decisions/012).

What is heard goes into a spool of the hub's own before it is answered: who has heard 200 knows that it is kept. The
clients have no token, so this listens on this machine alone, and turns browsers away.
"""

import asyncio
import contextlib
import errno
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from vedette import guard
from vedette.errors import FormatError, HubError, SettingError
from vedette.home import Home
from vedette.hub.peers import address as addresses
from vedette.hub.peers.address import Address
from vedette.hub.turn.keeper import Keeper
from vedette.hub.turn.own import Own
from vedette.model import HUB, Event, Fact, Sample, Span, new_id
from vedette.sources import heflwr
from vedette.store import Both, Compare, Either, Not, SpanQuery

if TYPE_CHECKING:
    import uvicorn

_SOURCE = "heflwr"
QUIET_S = 600.0  # a run whose client has said nothing for so long is over
_TEND_S = 5.0
_MOST_RUNS = 1000  # that are open at once
_MOST_SENDERS = 10_000
_MOST_CONNECTIONS = 256
_BODY_S = 10.0
_HEAD_S = 30.0  # as long as one that has been answered may stay
_GRACE_S = 1

InKeeper = Callable[[Callable[[Keeper], Any]], Awaitable[Any]]
_Scope = MutableMapping[str, Any]


def bind_address(text: str) -> Address:
    """Read where to listen, HOST:PORT or :PORT; raise SettingError when others could reach it."""
    bind = addresses.parse(text if not text.isdigit() else f":{text}", listening=True)
    if bind.path:
        raise SettingError(f"hub.heflwr is {text!r}: it is HOST:PORT or :PORT")
    host = bind.host or "127.0.0.1"
    advice = (
        "heflwr's clients have neither. Send through a tunnel (ssh -L 5000:127.0.0.1:5000 THIS-HOST), or by the sink"
        " `hub` with VEDETTE_HUB, which has both"
    )
    guard.check_bind(host, token=False, tls=False, advice=advice)
    return Address("", host, bind.port)


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Open:
    """A run that is heard of now and then."""

    def __init__(self, run: str, heard_s: float, t: int) -> None:
        self.run = run
        self.heard_s = heard_s
        self.t = t  # the newest that was said of it


class Forms:
    """Keeps what clients say."""

    def __init__(self, home: Home, in_keeper: InKeeper, refused: Counter[str]) -> None:
        """Know no run yet: `begin` finds those that are open."""
        self.refused = refused
        self._own = Own(home)
        self._in_keeper = in_keeper
        self._open: dict[str, _Open] = {}  # by identifier
        self._senders: OrderedDict[str, int] = OrderedDict()  # the newest message of each

    async def begin(self) -> None:
        """Find the runs that a hub before this one had open, so that they go on."""
        await self._in_keeper(lambda _keeper: None)  # a turn comes after it, which reads what a hub before had heard
        now = time.monotonic()
        for identifier, run, t in await self._in_keeper(_running):
            self._open.setdefault(identifier, _Open(run, now, t))

    def hear(self, body: bytes, named: str) -> None:
        """Put a message on record; raise FormatError, a refusal, or OSError when there is no room."""
        now = time.time_ns()
        form = heflwr.parse(body, now)
        moment = heflwr.moment(named)
        if moment is not None and moment.n <= self._senders.get(moment.sender, 0):
            return  # it was heard before, and only the answer was not
        t = form.t or (moment.t if moment is not None else now)
        facts, known = self._run_of(form, now)
        run = known.run
        if form.numbers:
            self._own.say(facts)
            lost = self._own.lost
            self._own.sample([Sample(t, t // 10**6, heflwr.values_of(form.numbers), run)])
            if self._own.lost > lost:
                raise OSError(errno.ENOSPC, "the hub's own spool cannot be written to")
        else:
            attrs = {"identifier": form.identifier, **form.where}
            self._own.say([*facts, Event(run, t, "log", form.level, form.message, attrs)])
        known.heard_s, known.t = time.monotonic(), max(t, now)
        self._open[form.identifier] = known
        if moment is not None:
            self._senders[moment.sender] = moment.n
            self._senders.move_to_end(moment.sender)
            while len(self._senders) > _MOST_SENDERS:
                self._senders.popitem(last=False)

    def _run_of(self, form: heflwr.Form, now: int) -> tuple[list[Fact], _Open]:
        """Return the run of an identifier, with what is to be said when it is a new one."""
        known = self._open.get(form.identifier)
        if known is not None:
            return [], known
        if len(self._open) >= _MOST_RUNS:
            self.refused["heflwr identifiers"] += 1
            raise _Refusal(429, f"{_MOST_RUNS} identifiers are open already: this one is not heard")
        known = _Open(new_id(), time.monotonic(), now)
        attrs = {"project": _SOURCE, "source": _SOURCE, "identifier": form.identifier}
        span = Span(known.run, now, "running", "", HUB, "run", form.identifier, attrs=attrs)
        return [span], known

    async def tend(self) -> None:
        """End the runs that have gone quiet, and forget those that were removed."""
        now = time.monotonic()
        for identifier, known in list(self._open.items()):
            if now - known.heard_s > QUIET_S:
                with contextlib.suppress(OSError):  # it is tried again
                    self._own.say([Span(known.run, known.t, "done", "", HUB)])
                    del self._open[identifier]
        if self._open:
            runs = {known.run for known in self._open.values()}
            gone = await self._in_keeper(lambda keeper: _gone(keeper, runs))
            self._open = {name: known for name, known in self._open.items() if known.run not in gone}
        self._own.sync()

    def close(self) -> None:
        """Say no more; the runs stay open, for the next hub to go on with."""
        self._own.close()


def _running(keeper: Keeper) -> list[tuple[str, str, int]]:
    where = Both((Compare("state", "=", "running"), Not(Compare("removed", "=", True))))
    rows = keeper.store.spans(SpanQuery(kind="run", where=where, only=("source", "identifier")))
    return [
        (str(row.attrs["identifier"]), row.id, row.start_t or 0)
        for row in rows
        if row.attrs.get("source") == _SOURCE and row.attrs.get("identifier")
    ]


def _gone(keeper: Keeper, runs: set[str]) -> set[str]:
    where = Either((Compare("removed", "=", True), Not(Compare("state", "=", "running"))))
    rows = keeper.store.spans(SpanQuery(kind="run", where=Both((Compare("id", "in", tuple(runs)), where)), only=()))
    return {row.id for row in rows}


class FormServer:
    """The port: an HTTP server inside the hub's event loop, which leaves the hub's signals alone."""

    def __init__(self, bind: Address, forms: Forms) -> None:
        """Listen nowhere yet."""
        self._bind = bind
        self._forms = forms
        self._listener: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._tasks: list[asyncio.Task[Any]] = []

    def open(self) -> str:
        """Take the port, so that whoever comes waits; return where that is, or raise OSError."""
        family = socket.AF_INET6 if ":" in self._bind.host else socket.AF_INET
        self._listener = socket.create_server((self._bind.host, self._bind.port), family=family, backlog=128)
        # Whom it accepts inherits this: asyncio sets it for sockets alone that name their protocol, and these do not.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return str(Address("", self._bind.host, self._listener.getsockname()[1]))

    async def start(self) -> None:
        """Answer, once it is known which runs are open."""
        import uvicorn  # noqa: PLC0415 - a web server, only where one is asked for

        assert self._listener is not None
        config = uvicorn.Config(
            _app(self._forms), http=_protocol(), ws="none", lifespan="off", loop="none", log_config=None,
            access_log=False, log_level="critical", server_header=False, proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=_GRACE_S,
        )  # fmt: skip
        await self._forms.begin()
        self._server = _server(config)
        self._tasks = [
            asyncio.ensure_future(self._server.serve(sockets=[self._listener])),
            asyncio.ensure_future(self._tend()),
        ]

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(_TEND_S)
            with contextlib.suppress(HubError, OSError):
                await self._forms.tend()

    async def close(self) -> None:
        """Stop listening; who is being answered is answered."""
        if self._server is not None:
            serving, tending = self._tasks
            tending.cancel()
            self._server.should_exit = True
            await asyncio.wait([serving], timeout=2 * _GRACE_S)
        if self._listener is not None:
            self._listener.close()
        self._forms.close()


def _protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415

    class Protocol(H11Protocol):
        """One connection, which is let go of when it is silent, or in the middle of its headers, for too long."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(_HEAD_S, self._look, None)

        def _look(self, before: Any) -> None:
            if self.transport.is_closing():
                return
            if self.cycle is before and (before is None or before.response_complete):
                self.transport.close()
            else:
                self.loop.call_later(_HEAD_S, self._look, self.cycle)

    return Protocol


def _server(config: "uvicorn.Config") -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave them to the hub, whose process this is."""
            yield

    return Server(config)


def _app(forms: Forms) -> Callable[..., Awaitable[None]]:
    from starlette.requests import ClientDisconnect, Request  # noqa: PLC0415 - with the server
    from starlette.responses import PlainTextResponse  # noqa: PLC0415

    async def body_of(request: Request) -> bytes:
        body = b""
        async with asyncio.timeout(_BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > heflwr.MOST_BYTES:
                    raise _Refusal(413, f"a body has {heflwr.MOST_BYTES} bytes at most")
        return body

    async def answer(request: Request) -> tuple[int, str]:
        try:
            verdict = guard.judge(guard.in_scope(request.scope), guard.Rules())
            if verdict.status != 200:
                raise _Refusal(verdict.status, verdict.sentence)
            _check(request.method, request.url.path, request.headers)
            forms.hear(await body_of(request), request.headers.get("vedette-moment", ""))
        except _Refusal as refusal:
            return refusal.status, str(refusal)
        except FormatError as error:
            forms.refused["malformed"] += 1
            return 400, str(error)
        except TimeoutError:
            return 408, "the body did not come in time"
        except OSError as error:
            return 503, f"it cannot be kept now: {error}"
        except ClientDisconnect:
            raise
        except Exception as error:  # the hub goes on; who sent it has it still
            return 500, f"it could not be heard: {type(error).__name__}"
        return 200, "kept"

    async def app(scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        with contextlib.suppress(ClientDisconnect):
            status, text = await answer(Request(scope, receive))
            headers = {"Allow": "POST"} if status == 405 else {}
            if status == 413:
                headers["Connection"] = "close"
            await PlainTextResponse(text + "\n", status, headers)(scope, receive, send)

    return app


def _check(method: str, path: str, headers: Any) -> None:
    """Refuse what cannot be a message, before a byte of the body is read."""
    if path not in heflwr.PATHS:
        raise _Refusal(404, f"there are {' and '.join(heflwr.PATHS)}, by POST")
    if method != "POST":
        raise _Refusal(405, f"{path} takes POST alone")
    if (
        headers.get("content-length", "0").isdigit()
        and int(headers.get("content-length", "0")[:20]) > heflwr.MOST_BYTES
    ):
        raise _Refusal(413, f"a body has {heflwr.MOST_BYTES} bytes at most")
