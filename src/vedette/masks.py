"""Secrets: recognised by their name or by their form, and masked before anything is recorded.

Nothing here does I/O. A value is masked because of its key (`api_key`), or because of its form: a token of a known
service, the password in a URL. For the text of files see `capture/cleaning.py`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from vedette.model import Value

MASK = "***"


class _LazyPattern:
    """A pattern that is compiled at its first use: compiling all of them takes longer than a whole `init` may."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._source = pattern, flags

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(*self._source)


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset("passwd passphrase secret secrets credential credentials cred creds authorization bearer".split())
_ENDINGS = (
    "password", "passwd", "passphrase", "passcode", "apikey", "secret", "secretkey", "accesskey", "privatekey",
    "authtoken", "accesstoken", "apitoken", "credentials",
)  # fmt: skip
_OWNERS = frozenset(  # services whose keys are secrets: `wandb_key`, and `key` below `wandb`
    "api aws azure openai wandb kaggle comet neptune hf huggingface anthropic cohere mistral gemini groq openrouter"
    " deepseek replicate roboflow clearml pinecone langsmith langchain tavily serpapi elevenlabs deepgram ngc"
    " datadog sentry stripe twilio sendgrid gcp github gitlab".split()
)
_PARTS = frozenset("config cfg conf settings options args kwargs params login account client logger".split())
_KEYS = _OWNERS.union(  # a word that makes the key after it a secret: `signing_key`
    "access secret private encryption signing ssh account subscription app master storage service auth hmac"
    " deploy license licence session shared client rsa pgp gpg".split()
)
# Words before `token` that mean a token of text, as in language models: `pad_token` is not a secret.
_OF_TEXT = frozenset(
    "num max min n pad bos eos unk mask sep cls special stop image audio video next per last first start end begin"
    " new no of total avg mean by extra added prefix suffix bot eot word sub time patch text input output prompt"
    " decoder encoder vocab target source separator fim think tool user assistant system dummy placeholder register"
    " class object query latent reg blank null sentinel".split()
)
# Words after a secret's name that mean something else than the secret itself: `password_file`.
_ABOUT = frozenset(
    "file files path paths dir directory folder name names count counts len length size sizes type types kind url uri"
    " endpoint method mode enabled required expiry expires ttl timeout limit limits budget ids index indices dim dims"
    " embedding embeddings embed embeds loss rate rates per freq frequency ratio prob dropout merging mixing pruning"
    " drop shift bucket buckets level usage used manager provider backend scheme version min max format hash policy"
    " shape shapes dtype idx position positions pos mask masks weight weights classification accuracy acc".split()
)


def is_secret(key: str) -> bool:
    """Tell whether a value with this name is a secret: `api_key` and `dbPassword` are, `num_tokens` is not.

    The name may have its parent before a dot: `key` alone is not a secret, `wandb.key` is one.
    """
    parent, _, name = key.rpartition(".")
    words = [word.lower() for word in _WORD.findall(name or key)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _ABOUT:
        return False
    if words == ["key"]:
        return owns_keys(parent.rpartition(".")[2])
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        last = at == len(words) - 1
        if word in _ALWAYS or word.endswith(_ENDINGS):
            return True
        if word == "pass" and last and before in ("db", "user", "admin", "root", "mysql", "smtp", "ftp"):
            return True
        if word == "pwd" and before and before != "old":  # `pwd` alone is the working directory
            return True
        if word in ("auth", "jwt", "sas", "oauth") and last:
            return True
        if word == "token" and before not in _OF_TEXT and (last or words[at + 1] in ("value", "secret", "key")):
            return True
        if word == "tokens" and last and before in ("auth", "access", "api", "bearer", "refresh"):
            return True
        if word in ("key", "keys") and before in _KEYS and (last or words[at + 1] in ("id", "value", "secret")):
            return True
        if word == "signature" and last and before == "access":
            return True
    return False


def owns_keys(name: str) -> bool:
    """Tell whether a `key` below this name is a secret: below `wandb` it is, below `sort` it is not."""
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and words[-1] in _PARTS:
        words.pop()
    return bool(words) and words[-1] in _OWNERS


# Tokens that are recognised by their own form.
_FORMS = _LazyPattern(
    r"(?:\bgh[oprsu]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bsk-(?:[a-z]+-)*[A-Za-z0-9_-]{16,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bxox[abeoprs]-[\w-]{10,}|\bAIza[\w-]{30,}"
    r"|\bya29\.[\w-]{20,}|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{40,}"
    r"|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bdckr_pat_[\w-]{20,}|\bwandb_v1_\w{20,}|\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|\bdop_v1_[0-9a-f]{32,}|\bnvapi-[\w-]{20,}|\bxai-[A-Za-z0-9]{20,}|\br8_[A-Za-z0-9]{30,}|\bgsk_[A-Za-z0-9]{20,})"
)
_PRIVATE = _LazyPattern(
    r"(-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----).*?(-----END [A-Z ]*PRIVATE KEY[A-Z ]*-----|\Z)", re.DOTALL
)
_USERINFO = _LazyPattern(r"\b([A-Za-z][A-Za-z0-9+.-]{0,20})://([^/\s@\"'<>?#]*(?:@[^/\s@\"'<>?#]+)*)@")
_QUERY = _LazyPattern(r"([?&;]|&amp;)([\w.\-\[\]%]{1,60})=([^&\s;#\"'<>]+)")
_QUERY_NAMES = frozenset("sig signature x-amz-signature x-amz-credential x-amz-security-token key code".split())
_HEADER = _LazyPattern(
    r"\b((?:[Aa]uthorization|AUTHORIZATION)\s*[:=]\s*[\"']?)(?:([Bb]earer|BEARER|[Bb]asic|[Tt]oken|[Dd]igest)\s+)?([^\s\"',;]+)"
)
_BEARER = _LazyPattern(r"\b([Bb]earer|BEARER)\s+([\w.~+/=-]{8,})")
_CONNECTED = _LazyPattern(
    r"(?:^|(?<=;))( ?[A-Za-z_]\w{0,60}(?: \w{1,20})?=)([^;\s\"']+)"
)  # `Server=db;User Id=me;Password=...`
_ASSIGNED = _LazyPattern(r"(?<![\w?&.\-])(-{0,2}[A-Za-z_][\w.-]{0,80}=)(\"[^\"]*\"|'[^']*'|[^\s,;&\"')\]}]+)")
_COLON = _LazyPattern(r"(?<![\w?&.\-])([A-Za-z_][\w.-]{0,80})([\"']?\s*:\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"')\]}]+)")
_PLAIN_USERS = _LazyPattern(r"[a-z_][a-z0-9_-]{0,15}")
STANDS_FOR = _LazyPattern(r"\$|[{<%]|\*\*\*|\b(?:os\.environ|getenv|None|null|[Tt]rue|[Ff]alse)\b")


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
        value = _COLON.pattern.sub(_after_colon, value)
    return value


def forms(value: str) -> str:
    """Mask what is a secret by its form, whatever its name."""
    if "://" in value:
        value = _USERINFO.pattern.sub(_userinfo, value)
    if "=" in value and ("?" in value or "&" in value):
        value = _QUERY.pattern.sub(_query, value)
    if "PRIVATE KEY" in value:
        value = _PRIVATE.pattern.sub(rf"\1{MASK}\2", value)
    lower = value.lower()
    if "authorization" in lower:
        value = _HEADER.pattern.sub(_header, value)
    if "bearer" in lower:
        value = _BEARER.pattern.sub(
            lambda found: found[0] if STANDS_FOR.pattern.search(found[2]) else f"{found[1]} {MASK}", value
        )
    return _FORMS.pattern.sub(MASK, value) if len(value) >= 16 else value


def _userinfo(found: re.Match[str]) -> str:
    scheme, who = found[1], found[2]
    user, colon, password = who.partition(":")
    if STANDS_FOR.pattern.search(who) or not who:
        return found[0]
    if colon:
        return f"{scheme}://{user}:{MASK}@" if password else found[0]
    bare = scheme.lower() in ("http", "https", "git+https", "vedette") or not _PLAIN_USERS.pattern.fullmatch(user)
    return f"{scheme}://{MASK}@" if bare else found[0]


def _query(found: re.Match[str]) -> str:
    name = found[2].lower()
    secret = (is_secret(name) or name in _QUERY_NAMES) and not STANDS_FOR.pattern.search(found[3])
    return f"{found[1]}{found[2]}={MASK}" if secret else found[0]


def _header(found: re.Match[str]) -> str:
    if STANDS_FOR.pattern.search(found[3]):
        return found[0]
    return f"{found[1]}{found[2] + ' ' if found[2] else ''}{MASK}"


def _connected(found: re.Match[str]) -> str:
    name = found[1].strip(" =")
    secret = is_secret(name) or (name.lower() == "pwd" and not found[2].startswith("/"))
    return found[0] if not secret or STANDS_FOR.pattern.search(found[2]) else f"{found[1]}{MASK}"


def _assigned(found: re.Match[str]) -> str:
    if not is_secret(found[1][:-1].lstrip("-")) or STANDS_FOR.pattern.search(found[2]):
        return found[0]
    return f"{found[1]}{MASK}"


def _after_colon(found: re.Match[str]) -> str:
    if not is_secret(found[1]) or STANDS_FOR.pattern.search(found[3]):
        return found[0]
    return f"{found[1]}{found[2]}{MASK}"


def values(tree: Value, key: str = "") -> Value:
    """Return a tree of plain values with its secrets masked; None and booleans are never masked."""
    if isinstance(tree, dict):
        if key and is_secret(key):
            return {name: _hidden(inner) for name, inner in tree.items()}
        parent = key.rpartition(".")[2]
        return {name: values(inner, f"{parent}.{name}") for name, inner in tree.items()}
    if key and is_secret(key):
        return _hidden(tree) if not (_counts(key) and isinstance(tree, int | float)) else tree
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
        return [tree[0], _hidden(tree[1])]
    return values(tree, key) if isinstance(tree, dict) else values(tree)


def _counts(key: str) -> bool:
    """Tell whether a number under this key is more likely a count than a secret: `token: 512`."""
    name = key.rpartition(".")[2].lower()
    return "token" in name or name.endswith("auth")


def _hidden(tree: Value) -> Value:
    if tree is None or isinstance(tree, bool) or tree == "":
        return tree
    if isinstance(tree, dict):
        return {name: _hidden(inner) for name, inner in tree.items()}
    if isinstance(tree, list):
        return [_hidden(inner) for inner in tree]
    return MASK


def argv(words: Iterable[str]) -> list[str]:
    """Mask the secrets of a command line: after `--password`, in `--token=...`, in URLs."""
    masked: list[str] = []
    hide, before = False, ""
    for word in words:
        before, script = word, before == "-c"  # the script of `sh -c` or `python -c` is not NAME=VALUE
        if hide and not word.startswith("--"):
            masked.append(word if not word or word in ("true", "false", "True", "False", "None") else MASK)
            hide = False
            continue
        name, equals, value = word.partition("=")
        plain = name.lstrip("-+")
        if (
            equals
            and value
            and not script
            and re.fullmatch(r"[-+]*[\w./:-]+", name)
            and is_secret(plain.replace("/", "."))
        ):
            masked.append(word if STANDS_FOR.pattern.fullmatch(value) else f"{name}={MASK}")
            hide = False
            continue
        hide = word.startswith("-") and not equals and is_secret(plain)
        masked.append(text(word))
    return masked


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with their secrets masked."""
    return {name: MASK if value and is_secret(name) else text(value) for name, value in environ.items()}


def known(environ: Mapping[str, str]) -> list[str]:
    """Return the secrets in an environment, the longest first; they are masked wherever they occur in files."""
    found = {value for name, value in environ.items() if len(value) >= 8 and is_secret(name) and not value.isalpha()}
    return sorted(found, key=len, reverse=True)
