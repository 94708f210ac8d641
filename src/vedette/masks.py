"""Secrets: recognised by their name or by their form, and masked before anything is recorded.

Nothing here does I/O. A value is masked because of its key (`api_key`, see `secret_names`), or because of its form: a
token of a known service, the password in a URL. For the text of files see `capture/cleaning.py`, for what programs
print `hub/turn/masking.py`.
"""

import base64
import keyword
import re
from collections.abc import Iterable, Mapping
from functools import cached_property, partial

from vedette.model import Value
from vedette.secret_names import is_secret

MASK = "***"


class _LazyPattern:
    """A pattern that is compiled at its first use: compiling all of them takes longer than a whole `init` may."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._source = pattern, flags

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(*self._source)


# Tokens that are recognised by their own form. Each alternative begins with a letter of its own, and only then looks
# whether it begins a word: `re` passes quickly over all other letters.
_FORMS = _LazyPattern(
    r"g(?<!\wg)(?:h[oprsu]_[A-Za-z0-9]{20,}|ithub_pat_\w{20,}|l(?:pat|rt|dt|ptt|cbt)-[\w-]{16,}|l(?:sa|c)_\w{20,}"
    r"|sk_[A-Za-z0-9]{20,})"
    r"|s(?<!\ws)(?:k-(?:\w{1,40}-){0,8}\w{16,}[\w-]*|k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|hp(?:at|ss|ca|pa)_[0-9a-fA-F]{32})"
    r"|h(?<!\wh)(?:f_[A-Za-z0-9]{20,}|vs\.[\w-]{20,})"
    r"|A(?<!\wA)(?:(?:KIA|SIA)[0-9A-Z]{16}\b|Iza[\w-]{30,})"
    r"|x(?<!\wx)(?:ox[abeoprs]-[\w-]{10,}|app-[\w-]{20,}|ai-[A-Za-z0-9]{20,})"
    r"|y(?<!\wy)a29\.[\w-]{20,}|G(?<!\wG)OCSPX-[\w-]{20,}|S(?<!\wS)G\.[\w-]{16,}\.[\w-]{16,}"
    r"|e(?<!\we)yJ[\w-]{8,1000}+\.eyJ[\w-]{8,}\.[\w-]{8,}"
    r"|n(?<!\wn)(?:pm_[A-Za-z0-9]{30,}|vapi-[\w-]{20,})"
    r"|p(?<!\wp)(?:ypi-[\w-]{40,}|plx-[A-Za-z0-9]{20,}|csk_\w{20,})"
    r"|d(?<!\wd)(?:ckr_pat_[\w-]{20,}|op_v1_[0-9a-f]{32,}|api[0-9a-f]{32}\b)"
    r"|w(?<!\ww)(?:andb_v1_\w{20,}|hsec_[A-Za-z0-9]{20,})"
    r"|r(?<!\wr)(?:k_(?:live|test)_[A-Za-z0-9]{16,}|8_[A-Za-z0-9]{30,})"
    r"|l(?<!\wl)sv2_[a-z]{2}_\w{20,}"
)
# Paths by which anyone may post: of a bot of Telegram, and of channels in Discord, Slack, Teams, Mattermost and Zapier.
# Errors of connections show them without their host.
_HOOK = _LazyPattern(
    r"/(?:(bot\d{5,12}+(?::|%3[Aa])|webhooks/\d{10,24}+/(?=[A-Za-z_-]{0,99}(?:\d|[A-Z]{2})))[\w-]{10,}"
    r"|((?:services|workflows|triggers)/)[TE][A-Z0-9]{6,14}+/[A-Z0-9]{6,20}+/(?:\d{6,24}+/)?[A-Za-z0-9]{16,}+(?!\w)"
    r"|(webhook(?:b2)?/)[0-9a-f-]{36}@[\w@/-]{36,}"
    r"|(hooks/)(?=[a-z]{0,25}\d)[a-z0-9]{26}(?!\w)|(hooks/catch/\d{4,12}+/)(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{6,})"
)
_PRIVATE = _LazyPattern(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\Z)", re.DOTALL
)
_PRIVATE_LINES = _LazyPattern(  # without an end; also as texts of code, or in a diff
    r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----)(?:(?:\\{1,2}[nr]|\n[+ -]?|[ \t\r\"'])*+[A-Za-z0-9+/=]{40,}+)+"
)
_USERINFO = _LazyPattern(r"(?<=\w)://([^/\s@\"'<>?#]*(?:@[^/\s@\"'<>?#]+)*)@")  # whatever the scheme is made of
# A password with a slash, which should not be there; if it has an @, too, no name of a host with a dot follows that.
# After the colon of a port comes a number.
_USERINFO_SLASH = _LazyPattern(
    r"(?<=\w)://([^/\s:@\"'<>?#]{0,100}:(?!\d{1,5}[/?#])[^\s@\"'<>]{1,200}"
    r"(?:@(?!localhost/|[\w-]{1,63}\.)[^\s@\"'<>?#:,;]{1,200}){0,3})@(?=\w)"
)
_QUERY = _LazyPattern(r"([?&;]|&amp;|\\u0026)([\w.\-\[\]%]{1,60})=([^&\s;#\"'<>\\]+)")  # \\u0026: an & in JSON
_QUERY_NAMES = frozenset("sig signature x-amz-signature x-amz-credential x-amz-security-token".split())
_QUERY_WORDS = frozenset("key code".split())  # secrets if their values look so: `?code=404` is none
_HEADER = _LazyPattern(
    r"(?:\b|(?<=\\n))((?:[Aa]uthorization|AUTHORIZATION)"  # \\n: in the repr of bytes
    r"(?:\\{0,3}[\"']?\s*[:=]\s*\\{0,3}[\"']?|\\{0,3}[\"']\]\s*=\s*[rbuf]{0,2}\\{0,3}[\"']))"
    r"(?:([A-Za-z][\w-]{1,30})[ \t]+)?([^\s\"',;\\]+)"
)
# Behind these any word is a secret, behind another one only what looks random.
_SCHEMES = frozenset("bearer basic token digest negotiate apikey api-key geniekey ssws".split())
_SIGNS = ("hmac-sha256", "hmac-sha1", "hmac-sha512", "hmac-sha384")  # ends of schemes that look random themselves
_AUTHS = ("auth", "authorization")  # ends of the names of headers with schemes
_PARAMETER = _LazyPattern(r"[A-Za-z][\w-]{0,40}=(?:[^\s=\"',;\\]|\\{0,3}[\"'][\w*])")  # `Digest username="ada"`
_SIGNED = _LazyPattern(  # parameters of schemes
    r"(\b(?:Signature=|Credential=|mac=(?=\\{0,3}[\"']))\\{0,3}[\"']?)(?=[A-Za-z+/=%-]{0,40}\d)[\w+/=%-]{12,}"
)
_BEARER = _LazyPattern(r"\b([Bb]earer|BEARER)[ \t]+([\w.~+/-]{8,}={0,2})")
_BASIC = _LazyPattern(r"\b([Bb]asic|BASIC)([ \t]+)([A-Za-z0-9+/]{6,2000}={0,2})(?![\w+/=])")
_RESPONSE = _LazyPattern(r"(\bresponse=\\?[\"']?)[0-9a-fA-F]{32,128}\b")  # of a login by digest
_CONNECTED = _LazyPattern(
    r"(?:^|(?<=;))( ?[A-Za-z_]\w{0,60}(?: \w{1,20})?=)([^;\s\"']+)"
)  # `Server=db;User Id=me;Password=...`
_ASSIGNED = _LazyPattern(r"(?<![\w?&.\-])(-{0,2}[A-Za-z_][\w.-]{0,80}=)(\"[^\"]*\"|'[^']*'|[^\s,;&\"')\]}]+)")
_COLON = _LazyPattern(r"(?<![\w?&.\-])([A-Za-z_][\w.-]{0,80})([\"']?\s*:\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"')\]}]+)")
_AUTH = _LazyPattern(  # a header with a scheme of any name
    r"(?<![\w?&.\-])([A-Za-z_][\w.-]{0,80}+)([\"']?\s*:\s*[\"']?)([A-Za-z][\w-]{1,30})[ \t]+([^\s\"',;\\]{8,})"
)
_PLAIN_USERS = _LazyPattern(r"[a-z_][a-z0-9_-]{0,15}")
_STANDS_FOR = _LazyPattern(
    r"\$\{?[A-Za-z_]?\w*\}?|\$(?:\(|\{\{).*|%\(\w*\)?\w?|%[sdrif]|%\w+%|\{[\w.!:()]*\}?|<[^<>]*>?|\*{3,}|\.{2,}"
    r"|(?:os\.environ|os\.getenv|getenv)\b.*|None|null|[Tt]rue|[Ff]alse",
    re.DOTALL,
)
# Names that may mean something else than a secret, and values by which one knows it.
_TWO_MEANINGS = _LazyPattern(
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:(?P<key>(?:hf|storage)[_-]?key)|otp"
    r"|(?P<token>(?:lang|language|src|tgt|dist|visual|vision|speech|unknown)[_-]?token(?:[_-]?\d{1,3})?))$"
)
_LEAST_TOKEN = 16  # characters of what is no token of a text
_WORDS = _LazyPattern(r"[A-Za-z]{1,15}(?:[_-][A-Za-z]{1,15})*")
_PLACE = _LazyPattern(r"(?:[a-z0-9]{2,10}://)?[~./]{0,3}[\w-]+(?:[./][\w-]+)+")
_SUFFIXES = frozenset(
    "arrow bin ckpt csv db gz h5 hdf5 jpg json jsonl mp4 msgpack npy npz onnx parquet pkl png pt pth safetensors tar"
    " tfrecord tsv txt wav yaml yml zip zst".split()
)
_OF_MODEL = _LazyPattern(  # a parameter: `model.layers.0.weight`
    r"[A-Za-z_]\w*(?:\.\w+)*\.(?:\d{1,4}(?:\.[A-Za-z_]\w*)+|weight|bias)|[a-z_]+(?:\.[a-z_]+)+"
)
_RUN = _LazyPattern(r"[A-Za-z0-9]{16,}")


def text(value: str) -> str:
    """Mask the secrets inside a text: in URLs, tokens, headers, `password=...`."""
    if len(value) < 6:
        return value
    value = forms(value)
    if "=" in value and ";" in value:
        value = _CONNECTED.pattern.sub(_connected, value)
    if "=" in value:
        value = _ASSIGNED.pattern.sub(_assigned, value)
    if ":" in value:
        if "auth" in value.lower():
            value = _AUTH.pattern.sub(_auth, value)
        value = _COLON.pattern.sub(_after_colon, value)
    return value


def forms(value: str, *, tokens: bool = True, code: bool = False) -> str:
    """Mask what is a secret by its form, whatever its name. Without `tokens`, leave those of known services out.

    In `code` an expression is no secret, and what is left can still be run.
    """
    if "://" in value and "@" in value:
        value = _USERINFO_SLASH.pattern.sub(_userinfo, value)
        value = _USERINFO.pattern.sub(_userinfo, value)
    if "/bot" in value or "hook" in value:
        value = _HOOK.pattern.sub(rf"/\1\2\3\4\5{MASK}", value)
    if "=" in value and ("?" in value or "&" in value):
        value = _QUERY.pattern.sub(partial(_query, code=code), value)
    if "PRIVATE KEY" in value:
        value = _PRIVATE.pattern.sub(partial(_private, code=code), value)
    lower = value.lower()
    if "authorization" in lower:
        value = _HEADER.pattern.sub(partial(_header, code=code), value)
        value = _SIGNED.pattern.sub(rf"\1{MASK}", value)
    if "bearer" in lower:
        value = _BEARER.pattern.sub(_bearer, value)
    if "basic" in lower:
        value = _BASIC.pattern.sub(_basic, value)
    if "digest" in lower:
        value = _RESPONSE.pattern.sub(rf"\1{MASK}", value)
    return _FORMS.pattern.sub(MASK, value) if tokens and len(value) >= 16 else value


def looks_random(value: str) -> bool:
    """Tell whether a text looks like a password or a token, and not like a word."""
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return (digits and letters) or (digits and len(value) >= 12) or (len(value) >= 20 and "." not in value)


def stands_for(value: str) -> bool:
    """Tell whether a text only stands for a secret: `$PASSWORD`, `{password}`, `None`, or one that is masked."""
    return _STANDS_FOR.pattern.fullmatch(value.strip("\"'")) is not None


def means_else(name: str, value: str) -> bool:
    """Tell whether a name that may be that of a secret is of something else: `otp=sparse`, `storage_key=data/a.bin`."""
    found = _TWO_MEANINGS.pattern.search(name)
    if found is None:
        return False
    plain = value.strip("\"'")
    if found["token"]:
        mixed = any(map(str.isdigit, plain)) and any(map(str.isalpha, plain))
        return not mixed or len(plain) < _LEAST_TOKEN or plain.startswith(("<", "["))
    if _WORDS.pattern.fullmatch(plain):
        return True
    if not found["key"]:
        return False
    place = ("/" in plain or plain.rpartition(".")[2] in _SUFFIXES) and _PLACE.pattern.fullmatch(plain)
    if not place and not _OF_MODEL.pattern.fullmatch(plain):
        return False
    return not any(map(looks_random, _RUN.pattern.findall(plain)))


def is_user_of_url(found: re.Match[str]) -> bool:
    """Tell whether a name and its value are of a URL, whose password has been masked: `https://token:***@host`."""
    return found.string.startswith("://", max(0, found.start() - 3)) and "@" in found[3]


def hidden_as(value: str) -> str:
    """Return the mask of a value; a value in quotes keeps them."""
    return f"{value[0]}{MASK}{value[0]}" if value[0] in "\"'" else MASK


def _userinfo(found: re.Match[str]) -> str:
    scheme, who = found.string[max(0, found.start() - 7) : found.start()].lower(), found[1]
    user, colon, password = who.partition(":")
    if not who or who.startswith("[") or stands_for(password if colon else user):  # `[user@]host`, in a manual
        return found[0]
    if colon:
        return f"://{user}:{MASK}@" if password else found[0]
    plain = _PLAIN_USERS.pattern.fullmatch(user) is not None
    if scheme.endswith(("http", "https")):  # git takes a token in place of the user
        plain = plain and not any(map(str.isdigit, user))
    else:
        plain = (plain or user.isalpha()) and not scheme.endswith("vedette")
    return found[0] if plain else f"://{MASK}@"


def _private(found: re.Match[str], code: bool) -> str:
    if code and not found[2]:  # in code a line that looks for keys has the beginning alone
        return _PRIVATE_LINES.pattern.sub(rf"\1{MASK}", found[0])
    return f"{found[1]}{MASK}{found[2]}"


def _query(found: re.Match[str], code: bool) -> str:
    name = found[2].lower()
    if found[3].startswith("{") or (code and (found[1] == ";" or _is_open(found[3]))):  # `f"?token={get('x')}"`
        return found[0]
    secret = is_secret(name) or name in _QUERY_NAMES or (name in _QUERY_WORDS and looks_random(found[3]))
    plain = stands_for(found[3]) or means_else(name, found[3])
    return f"{found[1]}{found[2]}={MASK}" if secret and not plain else found[0]


def _is_open(value: str) -> bool:
    """Tell whether a value ends in an expression of an f-string, in which quotes stand: `{os.environ[`."""
    return value.rfind("{") > value.rfind("}")


def _header(found: re.Match[str], code: bool) -> str:
    head, scheme, value = found.groups()
    if stands_for(value) or "://" in value or not any(map(str.isalnum, value)):  # a URL is masked by its form
        return found[0]
    if code and (_is_open(value) or not (_is_in_quotes(found) or _is_in_comment(head, scheme, value))):
        return found[0]
    known = (scheme or value).lower()
    if known not in _SCHEMES and not known.endswith(_SIGNS) and looks_random(scheme or value):  # no scheme at all
        return f"{head}{MASK}{found.string[found.end(2) : found.end()] if scheme else ''}"
    if not scheme or (_PARAMETER.pattern.match(found.string, found.start(3)) and known not in ("bearer", "basic")):
        return found[0]  # parameters are masked by their names
    if known not in _SCHEMES and not _ends_header(found, value):
        return found[0]
    return f"{head}{scheme} {MASK}"


def _is_in_quotes(found: re.Match[str]) -> bool:
    """Tell whether in code a header, or its value, stands in quotes."""
    if found[1].endswith(("'", '"')):
        return True
    before = found.string.endswith(("'", '"', "`", "-", "\\n"), 0, found.start())
    return before and found[1].rstrip().lower().endswith("n:")


def _is_in_comment(head: str, scheme: str | None, value: str) -> bool:
    """Tell whether words in code are of a comment: two of them side by side are no expression."""
    words = scheme is not None and not keyword.iskeyword(scheme) and "\n" not in head
    return words and value[0].isalnum() and looks_random(value) and "(" not in value


def _ends_header(found: re.Match[str], value: str) -> bool:
    """Tell whether a text that looks random ends a header: in a sentence about authorization more words follow."""
    least = 16 if found[2].islower() and found[1][-1] not in "\"'" else 8
    return (
        len(value) >= least and looks_random(value) and found.string[found.end() : found.end() + 1] not in (" ", "\t")
    )


def _bearer(found: re.Match[str]) -> str:
    return f"{found[1]} {MASK}" if looks_random(found[2]) else found[0]


def _basic(found: re.Match[str]) -> str:
    """Mask a user and a password: anything else behind the word is no base64, or not of a text with a colon."""
    try:
        decoded = base64.b64decode(found[3], validate=True).decode()
    except ValueError:
        return found[0]
    return f"{found[1]}{found[2]}{MASK}" if ":" in decoded and decoded.isprintable() else found[0]


def _connected(found: re.Match[str]) -> str:
    name = found[1].strip(" =")
    secret = is_secret(name) or (name.lower() == "pwd" and not found[2].startswith("/"))
    return found[0] if not secret or stands_for(found[2]) else f"{found[1]}{MASK}"


def _assigned(found: re.Match[str]) -> str:
    name = found[1][:-1].lstrip("-")
    if not is_secret(name) or stands_for(found[2]) or means_else(name, found[2]):
        return found[0]
    return f"{found[1]}{hidden_as(found[2])}"


def _auth(found: re.Match[str]) -> str:
    """Mask the secret behind a scheme; `_after_colon` looks at one word alone."""
    name, colon, scheme, value = found.groups()
    secret = name.lower().endswith(_AUTHS) and is_secret(name) and looks_random(value)
    return f"{name}{colon}{scheme} {MASK}" if secret and not stands_for(value) and "://" not in value else found[0]


def _after_colon(found: re.Match[str]) -> str:
    if not is_secret(found[1]) or stands_for(found[3]) or found[3].lower() in _SCHEMES or _is_scheme(found):
        return found[0]
    if is_user_of_url(found) or means_else(found[1], found[3]):
        return found[0]
    return f"{found[1]}{found[2]}{hidden_as(found[3])}"


def _is_scheme(found: re.Match[str]) -> bool:
    """Tell whether a value is the scheme of a header, whose secret has been masked: `Authorization: OAuth ***`."""
    masked = found.string.startswith(f" {MASK}", found.end()) or found[3].lower().endswith(_SIGNS)
    return masked and found[1].lower().endswith(_AUTHS)


def values(tree: Value, key: str = "") -> Value:
    """Return a tree of plain values with its secrets masked; None and booleans are never masked."""
    if isinstance(tree, dict):
        if key and is_secret(key) and not _is_signature(key):
            return _hidden(tree, key)
        parent = key.rpartition(".")[2]
        return {name: values(inner, f"{parent}.{name}") for name, inner in tree.items()}
    if key and is_secret(key) and (_is_random(tree) or not _is_signature(key)):
        return _hidden(tree, key) if not (_counts(key) and isinstance(tree, int | float)) else tree
    if isinstance(tree, str):
        return text(tree)
    if isinstance(tree, list):
        words = argv(item if isinstance(item, str) else "" for item in tree)
        return [words[at] if isinstance(item, str) else _item(item, key) for at, item in enumerate(tree)]
    return tree


def _item(tree: Value, key: str) -> Value:
    """Mask an item of a list; the item may be a pair of a name and a value."""
    pair = isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], str) and " " not in tree[0]
    if pair and is_secret(tree[0]):
        return [tree[0], _hidden(tree[1], tree[0])]
    return values(tree, key) if isinstance(tree, dict) else values(tree)


def _counts(key: str) -> bool:
    """Tell whether a number under this key is more likely a count than a secret: `token: 512`."""
    name = key.rpartition(".")[2].lower()
    return "token" in name or "sess" in name or name.endswith("auth")


def _is_signature(key: str) -> bool:
    """Tell whether this may also be the signature of a model or a function, which is no secret."""
    return key.lower().endswith("signature")


def _is_random(tree: Value) -> bool:
    return isinstance(tree, str) and looks_random(tree)


def _hidden(tree: Value, key: str) -> Value:
    """Mask all that goes by the name of a secret but for what tells that the name means something else here."""
    if tree is None or isinstance(tree, bool) or tree == "":
        return tree
    if isinstance(tree, dict):
        return {name: _hidden(inner, key) for name, inner in tree.items()}
    if isinstance(tree, list):
        return [_hidden(inner, key) for inner in tree]
    if means_else(key, str(tree)):
        return text(tree) if isinstance(tree, str) else tree
    return MASK


def argv(words: Iterable[str]) -> list[str]:
    """Mask the secrets of a command line: after `--password`, in `--token=...`, in URLs."""
    masked: list[str] = []
    hide, before = "", ""  # the name of the option whose value comes next
    for word in words:
        before, script = word, before == "-c"  # the script of `sh -c` or `python -c` is not NAME=VALUE
        if hide and not word.startswith("--"):
            plain = word in ("", "true", "false", "True", "False", "None") or means_else(hide, word)
            masked.append(word if plain else MASK)
            hide = ""
            continue
        name, equals, value = word.partition("=")
        bare = name.lstrip("-+")
        if (
            equals
            and value
            and not script
            and re.fullmatch(r"[-+]*[\w./:-]+", name)
            and is_secret(bare.replace("/", "."))
        ):
            masked.append(word if stands_for(value) or means_else(bare, value) else f"{name}={MASK}")
            hide = ""
            continue
        hide = bare if word.startswith("-") and not equals and is_secret(bare) else ""
        masked.append(text(word))
    return masked


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with their secrets masked."""
    return {name: MASK if value and is_secret(name) else text(value) for name, value in environ.items()}


def known(environ: Mapping[str, str]) -> list[str]:
    """Return the secrets in an environment, the longest first; they are masked wherever they occur in files."""
    found = {value for name, value in environ.items() if len(value) >= 8 and is_secret(name) and not value.isalpha()}
    return sorted(found, key=len, reverse=True)
