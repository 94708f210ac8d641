"""The one guard by itself: names, bindings, tokens, and the order in which things are judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vedette.errors import SettingError
from vedette.guard import (
    Asked,
    Rules,
    bind,
    check_bind,
    host_name,
    in_scope,
    is_loopback,
    judge,
    lower,
    port,
    same_token,
)

OWNER = Rules(who=lambda said: "owner" if same_token(said, "secret") else "")


def asked(method="GET", **headers):
    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Asked(method, tuple(given.items()))


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("LocalHost", True),
     ("::ffff:127.0.0.1", True), ("0.0.0.0", False), ("::", False), ("", False), ("10.0.0.1", False),
     ("127.0.0.1.evil.example", False), ("node1", False), ("x.localhost", False), ("localhost.", False),
     ("2130706433", False), ("127.1", False)],
)  # fmt: skip
def test_loopback(host, local):
    """Loopback are its addresses and the name localhost; nothing that a name server would have to be asked about."""
    assert is_loopback(host) is local


@pytest.mark.parametrize(
    ("host", "name", "at"),
    [("localhost", "localhost", "80"), ("Box.Example:8080", "box.example", "8080"), ("[::1]:9", "::1", "9"),
     ("[::1]", "::1", "80"), ("127.0.0.1:1", "127.0.0.1", "1"), ("::1", "", "80"), ("a:b", "", "80"),
     ("a:1:2", "", "80"), ("a b", "", "80"), ("", "", "80"), ("u@a", "", "80"), ("a/b", "", "80"),
     ("[::1", "", "80"), ("a:123456", "", "80")],
)  # fmt: skip
def test_what_a_host_header_names(host, name, at):
    """A Host is a name and perhaps a port; what is malformed names nobody."""
    assert (host_name(host), port(asked(host=host))) == (name, at)


@given(st.text(max_size=30))
def test_no_host_is_known_by_accident(host):
    """Whatever stands in Host, only names of loopback are let in where none is configured."""
    name = host_name(host)
    known = judge(asked(host=host), Rules()).status == 200
    assert known is (bool(name) and (is_loopback(name) or name.endswith(".localhost")))


def test_who_has_the_token():
    """A verdict tells whose token it was; the URL is asked first, then the bearer, then the cookie."""
    rules = Rules(who=lambda said: said if said in ("a", "b", "c") else "")
    whole = Asked("GET", (("host", "localhost"), ("authorization", "Bearer b"), ("cookie", "x=1; v=c")), "http", "v")
    in_url = Asked(whole.method, whole.headers, "http", "v", "a")
    by_cookie = Asked("GET", (("host", "localhost"), ("cookie", "v=nobody; v=c")), "http", "v")

    assert [judge(one, rules).who for one in (in_url, whole, by_cookie)] == ["a", "b", "c"]
    assert judge(Asked("GET", whole.headers[:1], "http", "v", ""), rules).status == 401


def test_the_order_of_judgement():
    """A stranger learns nothing: first the name, then the page that asks, then the token, and the method last."""
    token = "Bearer secret"
    evil = {"host": "evil.example", "origin": "null"}
    assert judge(asked("PUT", **evil), OWNER).status == 421
    assert judge(asked("PUT", origin="null"), OWNER).status == 403
    assert judge(asked("PUT", sec_fetch_site="cross-site"), OWNER).status == 403
    assert judge(asked("PUT"), OWNER).status == 401
    verdict = judge(asked("PUT", authorization=token), OWNER)
    assert (verdict.status, verdict.headers) == (405, {"Allow": "GET, HEAD, POST"})
    assert judge(asked(authorization=token, origin="http://localhost"), OWNER).who == "owner"


def test_without_tokens_nothing_with_an_origin_is_let_in():
    """Where clients have no token, an Origin alone says that it is a browser, even one of our own pages."""
    assert judge(asked(origin="http://localhost"), Rules()).status == 403
    assert judge(asked(), Rules()).status == 200


def test_a_link_on_another_site_may_lead_to_a_page():
    """A browser that follows a link is let in to a page, and to nothing else."""
    followed = (("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"))
    assert judge(Asked("GET", followed, page=True), Rules()).status == 200
    assert judge(Asked("POST", followed, page=True), Rules()).status == 403
    assert judge(Asked("GET", followed), Rules()).status == 403


def test_an_empty_token_is_nobodys():
    """A listener whose token is empty by mistake lets nobody in."""
    assert not same_token("", "")
    assert not same_token("\ud800", "a")


def test_other_names():
    """Names that are configured are known in whatever case."""
    rules = Rules(lower(["Box.Example", ""]))
    assert judge(asked(host="bOX.example:1"), rules).status == 200
    assert judge(asked(host="other.example"), rules).status == 421


def test_a_scope():
    """A request as ASGI has it is read with all its headers."""
    scope = {"method": "GET", "scheme": "https", "headers": [(b"host", b"a"), (b"host", b"\xe9")]}
    found = in_scope(scope)
    assert (found.all("host"), found.host, found.base) == (["a", "\xe9"], "", "https://")


def test_a_wide_bind():
    """Beyond loopback a listener takes a token and TLS, and the sentence says what to do."""
    for token, tls in ((False, False), (True, False), (False, True)):
        with pytest.raises(SettingError, match=r"every address can be reached .*: use a tunnel"):
            check_bind("", token=token, tls=tls, advice="use a tunnel")
    check_bind("", token=True, tls=True, advice="")
    check_bind("localhost", token=False, tls=False, advice="")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5000", ("127.0.0.1", 5000)), (":5000", ("127.0.0.1", 5000)), ("0", ("127.0.0.1", 0)),
     ("box:1", ("box", 1)), ("[::1]:65535", ("::1", 65535)), ("0.0.0.0:1", ("0.0.0.0", 1))],
)  # fmt: skip
def test_where_to_listen(text, expected):
    """Without a host it is loopback."""
    assert bind(text) == expected


@pytest.mark.parametrize("text", ["", "x", ":x", "box", "box:", ":65536", ":-1", ":\u0663", "/tmp/x", "1" * 5000])
def test_nowhere_to_listen(text):
    """What has no port is refused in a sentence."""
    with pytest.raises(SettingError, match="nowhere to listen"):
        bind(text)
