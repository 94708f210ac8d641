"""What apps of HTTP servers share: a refusal carries its answer; uvicorn shows and believes no more than it must."""

import http.client
import json
import subprocess
import sys
import threading

import pytest
import uvicorn

from vedette import asgi, http_port


def test_a_refusal():
    """It has the status, the sentence, and headers if there are any."""
    plain, more = asgi.Refusal(404, "there is nothing"), asgi.Refusal(405, "only GET", {"Allow": "GET"})

    assert (plain.status, str(plain), plain.headers) == (404, "there is nothing", {})
    assert more.headers == {"Allow": "GET"}


async def seen(scope, receive, send):
    """Answer with who asked, as the server tells it."""
    body = json.dumps([scope["type"], scope["scheme"], scope["client"][0]]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def answer(config, headers):
    """Serve with a config, ask once; return the headers of the answer, and what the app saw."""
    server = uvicorn.Server(config)
    with http_port.take("127.0.0.1", 0) as bound:
        serving = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        serving.start()
        try:
            client = http.client.HTTPConnection("127.0.0.1", bound.getsockname()[1], timeout=60)
            client.request("GET", "/", headers=headers)
            got = client.getresponse()
            result = {name.lower() for name, _ in got.getheaders()}, json.loads(got.read())
            client.close()
        finally:
            server.should_exit = True
            serving.join()
    return result


FORGED = {"X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "https", "Forwarded": "for=10.9.8.7"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="}


@pytest.mark.parametrize("headers", [FORGED, UPGRADE])
def test_what_is_closed(headers):
    """No header makes a client another one, and none opens a websocket; the server does not name itself."""
    names, saw = answer(asgi.config(seen, http="h11", lifespan="off"), headers)

    assert "server" not in names
    assert saw == ["http", "http", "127.0.0.1"]


def test_a_config_left_open():
    """Control: uvicorn by itself names itself, and believes a forged header."""
    names, saw = answer(uvicorn.Config(seen, http="h11", lifespan="off", log_config=None), FORGED)

    assert "server" in names
    assert saw == ["http", "https", "10.9.8.7"]


def test_it_is_light():
    """Who needs only the types or a refusal loads no web server."""
    code = "import sys, vedette.asgi; print([name for name in ('uvicorn', 'starlette') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
