"""The media type of bytes, judged only by the bytes: neither a file's name nor its sender can be trusted."""

import msgspec

IMAGES = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
)  # safe to show; SVG is not, since it can contain scripts
TEXTS = ("text/plain", "application/json")
OTHER = "application/octet-stream"
HEAD_BYTES = 1 << 16  # how much of a blob is read

_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
# Control characters that text does not contain; ESC is allowed, for colours.
_NOT_TEXT = bytes(range(9)) + b"\x0b" + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"


def media_of(head: bytes, *, whole: bool = True) -> str:
    """Return the media type of bytes by their beginning; `whole`: `head` is all of them."""
    for sign, media in _SIGNS:
        if head.startswith(sign):
            return media
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if not _is_text(head, whole=whole):
        return OTHER
    if whole and head.lstrip()[:1] in (b"{", b"["):
        try:
            msgspec.json.decode(head)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return "text/plain"
        return "application/json"
    return "text/plain"


def _is_text(head: bytes, *, whole: bool) -> bool:
    if head.translate(None, _NOT_TEXT) != head:
        return False
    for cut in range(1 if whole else 4):  # the last character may be cut
        try:
            head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False
