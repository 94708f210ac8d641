"""What apps of HTTP servers share: a refusal carries its answer, and no web server is loaded for that."""

import subprocess
import sys

from vedette import asgi


def test_a_refusal():
    """It has the status, the sentence, and headers if there are any."""
    plain, more = asgi.Refusal(404, "there is nothing"), asgi.Refusal(405, "only GET", {"Allow": "GET"})

    assert (plain.status, str(plain), plain.headers) == (404, "there is nothing", {})
    assert more.headers == {"Allow": "GET"}


def test_it_is_light():
    """Who needs only the types or a refusal loads no web server."""
    code = "import sys, vedette.asgi; print([name for name in ('uvicorn', 'starlette') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
