"""What bytes are, judged by themselves alone: a name may say anything, and so may whoever sent them."""

import msgspec

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")  # to be shown; SVG is a program, and is none of them
TEXTS = ("text/plain", "application/json")
OTHER = "application/octet-stream"
HEAD_BYTES = 1 << 16  # of a blob that are looked at

_SIGNS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_IN_NO_TEXT = (
    bytes(range(9)) + b"\x0b" + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
)  # escapes of colours may be


def media_of(head: bytes, *, whole: bool = True) -> str:
    """Return the media type of bytes by their beginning; `whole`: there are no more of them."""
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
    if head.translate(None, _IN_NO_TEXT) != head:
        return False
    for cut in range(1 if whole else 4):  # the last letter may be cut in two
        try:
            head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False
