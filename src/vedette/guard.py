"""The one check that stands before every HTTP server of ours: Host, Origin, the token, the method (law 5). No I/O.

A page in a browser can send requests to any port of its user's machine. It cannot choose their Host and Origin, and it
does not know the token: so these three tell it from a program that was meant to come here.
"""

import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from vedette import host_port
from vedette.errors import SettingError

REFUSALS = {421: "guard: host name", 403: "guard: another site", 401: "guard: token", 405: "guard: method"}
METHODS = ("GET", "HEAD", "POST")
_NAME = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?"  # nothing that a browser would end the name at, such as ? or #
_HOST = re.compile(rf"(?:\[([0-9A-Fa-f:.]+)\]|({_NAME}))(?::([0-9]{{1,5}}))?", re.ASCII)
_OWN_SITE = ("same-origin", "none")  # none: the user typed the address himself
_OTHER_PAGE = "pages of other sites are refused here"


class Asked(Struct, frozen=True):
    """What a request says of itself."""

    method: str
    headers: tuple[tuple[str, str], ...]  # names in lower case; a name may come more than once
    scheme: str = "http"
    cookie: str = ""  # the cookie that may hold the token
    url_token: str | None = None  # a token that stood in the URL
    page: bool = False  # it is a page, to which a link on another site may lead

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def host(self) -> str:
        """Host as it was sent; empty when there is none, or more than one."""
        hosts = self.all("host")
        return hosts[0] if len(hosts) == 1 else ""

    @property
    def base(self) -> str:
        """The beginning of every URL of this server, as the one who asks sees it."""
        return f"{self.scheme}://{self.host}"

    @property
    def is_crossing(self) -> bool:
        """Whether a browser says that another site has made it ask this."""
        return any(site not in _OWN_SITE for site in self.all("sec-fetch-site"))


class Rules(Struct, frozen=True):
    """Whom a server lets in."""

    names: frozenset[str] = frozenset()  # in lower case, beside those of loopback
    who: Callable[[str], str] | None = None  # who has this token, '' for nobody; None: clients have no token
    why_not: Callable[[str], str] | None = None  # why nobody has this token any more; '' if nobody ever had
    methods: tuple[str, ...] = METHODS  # of all its routes; a route may take fewer
    name_hint: str = "use localhost"
    way_in: str = "send `Authorization: Bearer TOKEN`"


class Decision(Struct, frozen=True):
    """Status 200 lets in; any other one is the answer, with a sentence that says why."""

    status: int = 200
    sentence: str = ""
    headers: Mapping[str, str] = {}
    who: str = ""  # whose token it was
    token: str = ""


def judge(asked: Asked, rules: Rules) -> Decision:
    """Tell whether a request is let in."""
    if not _is_known(host_name(asked.host), rules.names):
        return Decision(421, f"this host name is not known here: {rules.name_hint}")
    origins = asked.all("origin")
    if origins and (rules.who is None or origins != [asked.base]):
        return Decision(403, _OTHER_PAGE)
    follows_link = asked.page and asked.method in ("GET", "HEAD") and asked.all("sec-fetch-mode") == ["navigate"]
    if asked.is_crossing and not follows_link:
        return Decision(403, _OTHER_PAGE)
    who = token = ""
    if rules.who is not None:
        token = _token(asked)
        who = rules.who(token)
        if not who:
            why = rules.why_not(token) if rules.why_not is not None else ""
            what = "wrong, or has expired" if asked.url_token is not None else "missing or wrong"
            sentence = why or f"the token is {what}: {rules.way_in}"
            return Decision(401, sentence, {"WWW-Authenticate": "Bearer"})
    if asked.method not in rules.methods:
        allowed = ", ".join(rules.methods)
        return Decision(405, f"the methods here are {allowed}", {"Allow": allowed})
    return Decision(who=who, token=token)


def in_scope(scope: Mapping[str, Any]) -> Asked:
    """Return what the scope of an ASGI request says."""
    headers = tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"])
    return Asked(scope["method"], headers, scope["scheme"])


def host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets, in lower case; empty when it is malformed."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


def port(asked: Asked) -> str:
    """Return the port that a request was sent to, as the one who asks sees it: a tunnel may end elsewhere."""
    found = _HOST.fullmatch(asked.host)
    return found[3] if found and found[3] else "443" if asked.scheme == "https" else "80"


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its address or as `localhost`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1
    return (mapped or address).is_loopback


def check_bind(host: str, *, token: bool, tls: bool, advice: str) -> None:
    """Refuse to listen where other machines can connect, unless there is a token, and TLS to keep it secret."""
    if is_loopback(host) or (token and tls):
        return
    raise SettingError(
        f"{host or 'every address'} can be reached from other machines, which takes a token and TLS: {advice}"
    )


def bind(text: str) -> tuple[str, int]:
    """Read where to listen, `HOST:PORT`, `:PORT` or `PORT`, as host and port; without a host it is loopback."""
    found = host_port.split(text)
    if found is None:
        raise SettingError(f"{text!r} is nowhere to listen: give HOST:PORT, :PORT or PORT, with a port up to 65535")
    return found[0] or "127.0.0.1", found[1]


def same_token(said: str, token: str) -> bool:
    """Compare two tokens in a time that does not depend on where they differ; an empty token is nobody's."""
    return bool(token) and hmac.compare_digest(said.encode("utf-8", "replace"), token.encode())


def lower(names: Iterable[str]) -> frozenset[str]:
    """Return names of hosts as `Rules` has them."""
    return frozenset(name.lower() for name in names if name)


def _is_known(name: str, names: frozenset[str]) -> bool:
    # Browsers ask no name server for names that end in .localhost: nobody can point one elsewhere.
    return bool(name) and (is_loopback(name) or name.endswith(".localhost") or name in names)


def _token(asked: Asked) -> str:
    if asked.url_token is not None:
        return asked.url_token
    bearers = [text[7:] for text in asked.all("authorization") if text[:7].lower() == "bearer "]
    if bearers:
        return bearers[0].strip()
    if not asked.cookie:
        return ""
    # By hand: cookies know no ports, and the standard library's reader stops at an odd one of another program's.
    pairs = (pair.partition("=") for text in asked.all("cookie") for pair in text.split(";"))
    found = [value.strip().strip('"') for name, _, value in pairs if name.strip() == asked.cookie]
    return found[-1] if found else ""
