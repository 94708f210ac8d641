"""The page for whoever is not let in: the name, why, and what to do. It needs no token, and tells nothing of the home.

Its style stands in the page, and only the policy of this answer names it, by its hash: strangers are served no file.
"""

import base64
import hashlib
import html
import re
from collections.abc import Mapping
from typing import Final

from starlette.responses import HTMLResponse, Response

_STYLE: Final = """
:root {
  color-scheme: light dark;
  --ink: light-dark(#1c1e21, #e7e8ea); --ink-2: light-dark(#55595f, #a9adb3); --line: light-dark(#dfdfdb, #303439);
  --accent: light-dark(#256a59, #6cc3ab); --accent-ink: light-dark(#ffffff, #0f1413);
}
* { box-sizing: border-box; margin: 0 }
body {
  display: grid; justify-content: center; grid-template-columns: minmax(0, 27rem); padding: min(18vh, 9rem) 16px 32px;
  background: light-dark(#fbfbfa, #131416); color: var(--ink);
  font: 14px/1.55 "Inter", "Segoe UI", system-ui, "Liberation Sans", sans-serif;
}
main {
  padding: 22px 24px 24px; background: light-dark(#ffffff, #1b1d20); border: 1px solid var(--line); border-radius: 10px;
  box-shadow: 0 1px 2px light-dark(#0000000f, #00000066), 0 6px 20px light-dark(#00000014, #00000080);
}
header { display: flex; align-items: center; gap: 8px; margin-bottom: 18px; font-weight: 640; letter-spacing: -0.01em }
rect { fill: var(--accent) } circle { fill: var(--accent-ink) }
path { fill: none; stroke: var(--accent-ink); stroke-width: 3.4; stroke-linecap: round; stroke-linejoin: round }
h1 { font-size: 18px; font-weight: 620; line-height: 1.3; letter-spacing: -0.012em; text-wrap: balance }
p { margin-top: 8px; color: var(--ink-2); overflow-wrap: anywhere }
code {
  padding: 1px 5px; color: var(--ink); background: light-dark(#f3f3f1, #0e0f11); border-radius: 4px;
  font: 12.5px ui-monospace, "SF Mono", "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace;
}
a {
  display: inline-block; margin: 14px 0 6px; padding: 6px 14px; border-radius: 6px;
  background: var(--accent); color: var(--accent-ink); font-weight: 500; text-decoration: none;
}
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>vedette</title>'
    '<link rel="icon" href="data:,"><style>{style}</style><main><header>'
    '<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><rect width="32" height="32" rx="8"/>'
    '<path d="M7 9l9 15 9-15"/><circle cx="16" cy="9.5" r="2.4"/></svg>vedette</header>'
    "<h1>{why}</h1>{again}{what}</main></html>"
)
_AGAIN: Final = (
    "<p>A link on another site has led you here, and after such a link browsers keep back what lets you in. If this"
    ' page was open in this browser before, try again.</p><a href="">Try again</a>'
)


def refusal_page(status: int, sentence: str, headers: Mapping[str, str], policy: str, *, again: bool) -> Response:
    """Answer with the page that says why, as `reason: what to do`; `policy`: that of all other answers.

    `again`: the same address may be worth another try. It is not where a token or a link is over.
    """
    why, _, what = sentence.partition(": ")
    told = f"<p>{_marked(what)}.</p>" if what else ""
    text = _PAGE.format(style=_STYLE, why=_marked(why), what=told, again=_AGAIN if again else "")
    policy = policy.replace("style-src 'self'", f"style-src 'sha256-{_HASH}'")
    more = {"Cache-Control": "no-store", "Content-Security-Policy": policy}
    return HTMLResponse(text, status, {**headers, **more})


def _marked(text: str) -> str:
    """Return a part of a sentence as HTML, with what stands in backticks as code."""
    return re.sub("`(.*?)`", r"<code>\1</code>", html.escape(text[:1].upper() + text[1:]))
