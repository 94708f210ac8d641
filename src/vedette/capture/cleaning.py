"""Files and diffs without the secrets in them: what surely is one is masked, what code is made of stays.

Only a literal that looks like a secret, under a name that says so, is one, and what has a known form: `token = "[CLS]"`
stays as it is. Files that are there to hold secrets are left out whole.
"""

import re
from collections.abc import Iterable

from vedette.masks import MASK, STANDS_FOR, forms, is_secret

_SECRET_FILES = re.compile(
    r"(?:\.env(?:\..+)?|.+\.env|\.netrc|\.pgpass|\.pypirc|\.npmrc|\.htpasswd|\.git-credentials|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc)|credentials(?:\.\w+)?|secrets?\.(?:ya?ml|json|toml|ini|env|txt)"
    r"|service[-_]account.*\.json|\.dockercfg|kubeconfig|token(?:\.txt)?)",
    re.IGNORECASE,
)
_EXAMPLES = re.compile(r".*\.(?:example|sample|template|dist)$", re.IGNORECASE)


def is_secret_file(path: str) -> bool:
    """Tell whether a file is by its name one that holds secrets: `.env`, `id_rsa`, `credentials.json`."""
    name = path.rpartition("/")[2]
    return _SECRET_FILES.fullmatch(name) is not None and _EXAMPLES.match(name) is None


_LITERAL = re.compile(
    r"""(?P<head>(?<![\w.-])["']?(?P<name>[A-Za-z_][\w.-]{0,80})["']?\]?\s*(?::\s*\w+\s*)?(?:=|:|,)\s*[rbuf]{0,2})"""
    r"""(?P<quote>["'])(?P<value>[^"'\s\\]{6,400})(?P=quote)"""
)
_BARE = re.compile(
    r"^(?P<head>[+\- ]?[ \t]*(?:export\s+|ENV\s+|set\s+)?(?P<name>[A-Za-z_][\w.-]{0,80})[ \t]*[=:][ \t]*)"
    r"(?P<value>[^\s\"'#]{6,400})[ \t]*$",
    re.MULTILINE,
)
_HINT = re.compile(
    r"[Pp]ass|PASS|[Ss]ecret|SECRET|[Tt]oken|TOKEN|[Kk]ey|KEY|[Cc]red|CRED|[Aa]uth|AUTH|[Pp]wd|PWD|[Jj]wt|JWT"
)
_BARE_KINDS = (".yaml", ".yml", ".ini", ".cfg", ".conf", ".properties", ".sh", ".bash", ".env", "dockerfile", ".txt")


def clean(source: str, path: str = "", secrets: Iterable[str] = ()) -> tuple[str, int]:
    """Mask what surely is a secret in the text of a file; return it, and how many there were.

    What code is made of stays: only literals that look like secrets under a name that says so, and known forms.
    """
    count = source.count(MASK)
    for secret in secrets:
        source = source.replace(secret, MASK)
    source = forms(source)
    bare = path.lower().endswith(_BARE_KINDS)
    told, at = [], 0
    for found in _HINT.finditer(source):  # most lines speak of no secret, and are not looked at closely
        if found.start() < at:
            continue
        start = source.rfind("\n", 0, found.start()) + 1
        stop = source.find("\n", found.end())
        stop = len(source) if stop < 0 else stop
        line = _LITERAL.sub(_literal, source[start:stop])
        told += [source[at:start], _BARE.sub(_literal, line) if bare else line]
        at = stop
    source = "".join(told) + source[at:]
    return source, source.count(MASK) - count


def _literal(found: re.Match[str]) -> str:
    value = found["value"]
    if not is_secret(found["name"]) or STANDS_FOR.pattern.search(value) or not _looks_random(value):
        return found[0]
    quote = found.groupdict().get("quote", "")
    return f"{found['head']}{quote}{MASK}{quote}"


def _looks_random(value: str) -> bool:
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return (digits and letters) or (digits and len(value) >= 12) or (len(value) >= 20 and "." not in value)


def clean_diff(source: str, secrets: Iterable[str] = ()) -> tuple[str, int]:
    """Mask a diff of git's: files that hold secrets are left out of it, lines are masked as in code."""
    secrets = list(secrets)
    parts = re.split(r"(?m)^(?=diff --git )", source)
    told, count = [], 0
    for part in parts:
        head = part.partition("\n")[0]
        path = head.rpartition(" b/")[2].strip('"') if head.startswith("diff --git ") else ""
        if path and is_secret_file(path):
            told.append(f"{head}\n(left out: such a file may hold secrets)\n")
            count += 1
            continue
        masked, found = clean(part, path, secrets)
        told.append(masked)
        count += found
    return "".join(told), count
