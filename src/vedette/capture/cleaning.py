"""Masks secrets in files and diffs, and leaves code as it is.

A literal is masked if it looks like a secret and its name says so, or if it has a known form. `token = "[CLS]"` stays.
Files that are made to hold secrets are left out entirely.
"""

import re
from collections.abc import Callable, Iterable

from vedette.masks import MASK, forms, looks_random, means_else
from vedette.secret_names import is_secret, owns_keys

_SECRET_FILES = re.compile(
    r"(?:\.env(?:\..+)?|.+\.env|\.envrc|[._]netrc|\.pgpass|\.pypirc|\.npmrc|\.htpasswd|\.git-credentials"
    r"|\.(?:my|mylogin)\.cnf|\.s3cfg|\.boto|\.databrickscfg|\.?rclone\.conf|\.vault-token|kaggle\.json"
    r"|\..+_history|\.histfile|\.lesshst|\.viminfo|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|.+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc)|credentials(?:\.\w+)?|secrets?\.(?:ya?ml|json|toml|ini|env|txt)"
    r"|service[-_]account.*\.json|\.dockercfg|kubeconfig|token(?:\.txt)?"
    r"|kernel-.*\.json|(?:jp|nb)server-\d+(?:-open)?\.(?:json|html)|(?:jupyter|notebook)_cookie_secret)",
    re.IGNORECASE,
)
_RUNTIME = re.compile(r"(?:^|/)jupyter/runtime/|(?:^|/)Jupyter/runtime/")
_EXAMPLES = re.compile(r".*\.(?:example|sample|template|dist)$", re.IGNORECASE)


def is_secret_file(path: str) -> bool:
    """Tell by its path whether a file is made to hold secrets: `.env`, `id_rsa`, `kernel-7.json`."""
    name = path.rpartition("/")[2]
    if _RUNTIME.search(path):  # Jupyter keeps keys and tokens of its kernels and servers there
        return True
    return _SECRET_FILES.fullmatch(name) is not None and _EXAMPLES.match(name) is None


def is_connection_file(data: bytes) -> bool:
    """Tell by its content whether a file says how to connect to a Jupyter kernel, with the kernel's key."""
    return len(data) < _MOST_CONNECTION and all(word in data for word in (b'"signature_scheme"', b'"shell_port"'))


_MOST_CONNECTION = 10_000  # bytes; such a file has 300

# In a notebook, which is JSON, a backslash stands before each quote of the code, and a new line is `\n`.
_BEGINS = r"(?:(?<![\w.\\-])|(?<=\\[nt]))"
_QUOTE = r"""\\{0,3}["']"""
_QUOTED = rf"""(?P<quote>{_QUOTE})(?P<value>[^"'\s\\]{{6,400}})(?P=quote)"""
_NAME = r"(?P<name>[A-Za-z_][\w.-]{0,80})"
_TYPE = r"[A-Za-z_][\w.]{0,60}+(?:\[[\w.,| \[]{0,80}+\]{1,3})?(?:[ \t]?\|[ \t]?[\w.]{1,60}){0,3}"  # `Final[str]`
# The second of a pair is no key of a dict, which is the name of what follows: `"ada", "password": "..."`.
_LITERAL = re.compile(
    rf"""(?P<head>{_BEGINS}(?:{_QUOTE})?{_NAME}(?:{_QUOTE})?\]?\s*(?::\s*{_TYPE}\s*)?(?::?=|:|(?P<pair>,))\s*"""
    rf"""[rbuf]{{0,2}}){_QUOTED}(?(pair)(?!\s*:))"""
)
_DEFINED = re.compile(rf"(?P<head>#[ \t]{{0,20}}define[ \t]+{_NAME}[ \t]+){_QUOTED}")
# An option of a command line, and what it is if it is not given, which may stand some lines below in the same call.
_OPTION = re.compile(rf"--(?<=[\"']--){_NAME}{_QUOTE}\s*,")
_DEFAULT = re.compile(  # or the end of the call
    rf"\b(?:add_argument|option)\(|\)[ \t]{{0,3}}(?:\\n|[\n:#])|\bdefault[ \t]?=[ \t]?[rbuf]{{0,2}}{_QUOTED}"
)
_MOST_OPTION = 600  # characters
_BARE = re.compile(
    r"^(?P<head>[+\- ]?[ \t]*(?:-[ \t]+[\"']?)?(?:(?P<env>ENV\s+)|(?:export|ARG|set)\s+)?"
    r"(?P<name>[A-Za-z_][\w.-]{0,80})(?:[ \t]*(?:[:?+]?=|:)(?!=)[ \t]*|(?(env)[ \t]+|(?!))))"
    r"(?P<value>[^\s\"'#]{6,400})(?P<tail>[\"']?[ \t]*(?:[ \t]#.*)?)$",
    re.MULTILINE,
)
_CONNECTED = re.compile(
    r"(?P<head>;\s?(?P<name>password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)=)(?P<value>[^;\s\"']{6,400})"
    r"(?=[;\"'])",
    re.IGNORECASE,
)
# A shell has secrets in the words of commands, too. What it expands stays, and so do paths and names of files.
_SHELL_KINDS = (".sh", ".bash", ".zsh", ".ksh")
_SHELL = re.compile(r"#!.*\b(?:ba|da|z|k|mk|a)?sh\b")
_COMMAND = re.compile(r"(?:[^\n\\]++|\\.)++", re.DOTALL)  # with the lines that a backslash adds to it
_WORD = (
    r"(?!~?\.{0,2}/|[\w/-]{1,100}\.[a-z]{2,6}\d?(?![\w.])|id_[a-z0-9]{1,10}\b)"
    r"(?P<value>[^\s\"'`$;|&()<>\\]{6,400})(?=[\s\"';|&)\\]|$)"
)
_EXPORTED = re.compile(rf"(?P<head>(?:{_BEGINS}export|%(?:set_)?env)[ \t]+{_NAME}[= ](?:{_QUOTE})?){_WORD}")
_SHELL_ASSIGNED = re.compile(rf"(?P<head>(?<![\w.$?&{{\-])-{{0,2}}(?P<name>[A-Za-z_][\w.\-]{{0,80}})=[\"']?){_WORD}")
_SHELL_OPTION = re.compile(rf"(?P<head>(?<!\S)--(?P<name>[A-Za-z][\w\-]{{0,80}})[ \t]+[\"']?){_WORD}")
_SHELL_HEADER = re.compile(
    r"(?P<head>[\"'](?P<name>[A-Za-z][\w\-]{0,80}):[ \t]{0,3})"
    r"(?P<value>[^\s\"'`$\\;]{1,400}(?:; ?[^\s\"'`$\\;]{1,400}){0,20})(?=[\"'])"
)
_SHELL_USER = re.compile(
    rf"(?P<head>(?<=\s)(?:-u|--user|--proxy-user)[ \t=]{{0,3}}[\"']?(?P<name>[^\s:\"'`$]{{1,100}}):){_WORD}"
)
_CURL = re.compile(r"\bcurl\s")
_OF_STORES = frozenset("secret secrets secret-id set-secrets update-secrets".split())  # `--secret id=npmrc`
# Finds the owner of a key in the text before it: `"wandb": {`, `wandb.login(`, `wandb:`, `[wandb]`.
_OPENED = re.compile(r"""([A-Za-z_][\w.-]{0,80})["']?\s*(?:[:=]\s*\w{0,40})?[({]""")
_HEADED = re.compile(r"""\s*\[{0,2}["']?([A-Za-z_][\w.-]{0,80})["']?(?:\s*:|\]{1,2})\s*(?:#.*)?$""")
_KEY_FORM = re.compile(r"[\w+=-]{16,}")  # the form of the value of a bare `key`; a path does not match
_LINES_BACK, _CHARS_BACK = 40, 400
_STANDS_FOR = re.compile(
    r"\$|[{<%]|\*\*\*|\b(?:os\.environ|getenv|None|null|[Tt]rue|[Ff]alse)\b"
)  # not itself a secret
# The words of secrets, each found by a letter that few words have: `re` passes quickly over all other letters, unless
# an alternative begins with letters in brackets.
_HINT = re.compile(
    r"k(?:ey|en(?<=[Tt]oken)|ie(?<=[Cc]ookie))|K(?:ey|EY|EN(?<=TOKEN)|IE(?<=COOKIE))"
    r"|w(?:d(?<=[Pp]wd)|t(?<=[Jj]wt))|W(?:D(?<=PWD)|T(?<=JWT))|p(?:ass|(?<=[Oo]tp))|P(?:ass|ASS|(?<=OTP))"
    r"|c(?:red|ret(?<=[Ss]ecret)|srf)|C(?:red|RED|RET(?<=SECRET)|srf|SRF)|h(?<=[Aa]uth)|H(?<=AUTH)"
    r"|g(?:nature(?<=[Ss]ignature))|G(?:NATURE(?<=SIGNATURE))|s(?:s(?<=[Ss]ess))|S(?:S(?<=SESS))"
)
_BARE_KINDS = (
    ".yaml", ".yml", ".ini", ".cfg", ".conf", ".cnf", ".properties", ".sh", ".bash", ".env", ".mk", ".txt",
    "dockerfile", "makefile",
)  # fmt: skip


def clean(source: str, path: str = "", secrets: Iterable[str] = ()) -> tuple[str, int]:
    """Mask the secrets in the text of a file; return the text, and how many there were."""
    count = source.count(MASK)
    for secret in secrets:
        source = source.replace(secret, MASK)
    shell = path.lower().endswith(_SHELL_KINDS) or _SHELL.match(source) is not None
    bare = shell or path.lower().endswith(_BARE_KINDS)
    source = forms(source, code=not bare)
    if shell:
        source = _COMMAND.sub(_clean_command, source)
    if "add_argument(" in source or "option(" in source:
        source = _clean_options(source)
    cleaned, at = [], 0
    for found in _HINT.finditer(source):  # a fast check: most lines do not mention a secret
        if found.start() < at:
            continue
        start = source.rfind("\n", 0, found.start()) + 1
        stop = source.find("\n", found.end())
        stop = len(source) if stop < 0 else stop
        line = source[start:stop]
        quoted = '"' in line or "'" in line
        if quoted or bare:
            mask = _masking(source, start, line)
            line = _LITERAL.sub(mask, line) if quoted else line
        if quoted and "define" in line:
            line = _DEFINED.sub(_mask, line)
        if "export" in line or "env" in line:
            line = _EXPORTED.sub(_mask, line)
        if ";" in line:
            line = _CONNECTED.sub(_mask, line)
        cleaned += [source[at:start], _BARE.sub(mask, line) if bare else line]
        at = stop
    source = "".join(cleaned) + source[at:]
    return source, source.count(MASK) - count


def _mask(found: re.Match[str], parent: str = "") -> str:
    value, named = found["value"], found.groupdict()
    secret = is_secret(f"{parent}.{found['name']}") or found.re in (_CONNECTED, _SHELL_USER)
    if not secret or not _looks_secret(value) or means_else(found["name"], value):
        return found[0]
    quote = named.get("quote", "")
    return f"{found['head']}{quote}{MASK}{quote}{named.get('tail', '')}"


def _looks_secret(value: str) -> bool:
    return _STANDS_FOR.search(value) is None and looks_random(value)


def _clean_options(source: str) -> str:
    """Mask what options such as `--api-key` are if they are not given: `add_argument("--api-key", default="...")`."""
    parts, at = [], 0
    for option in _OPTION.finditer(source):
        if not is_secret(option["name"]):
            continue
        found = _DEFAULT.search(source, option.end(), option.end() + _MOST_OPTION)
        given = found["value"] if found is not None and found.start() >= at else None
        if found is not None and given and _looks_secret(given) and not means_else(option["name"], given):
            parts += [source[at : found.start("value")], MASK]
            at = found.end("value")
    return "".join(parts) + source[at:]


def _clean_command(found: re.Match[str]) -> str:
    """Mask the secrets in a command of a shell: in `NAME=...` before it, its options, and what it is to send."""
    command = found[0]
    if "=" in command:
        command = _SHELL_ASSIGNED.sub(_mask_word, command)
    if "--" in command:
        command = _SHELL_OPTION.sub(_mask_word, command)
    if ":" in command and ("'" in command or '"' in command):
        command = _SHELL_HEADER.sub(_mask, command)
    return _SHELL_USER.sub(_mask, command) if _CURL.search(command) else command


def _mask_word(found: re.Match[str]) -> str:
    stored = found["head"].startswith("--") and found["name"].lower() in _OF_STORES  # it is a name, and no secret
    return found[0] if stored else _mask(found)


def _masking(source: str, start: int, line: str) -> Callable[[re.Match[str]], str]:
    """Return a function that masks a match in the line at `start`; for a bare `key` it looks up the owner."""

    def mask(found: re.Match[str]) -> str:
        bare = found["name"].lower() == "key" and _KEY_FORM.fullmatch(found["value"])
        begin = found.start("name")
        before = line[max(0, begin - _CHARS_BACK) : begin]
        return _mask(found, _owner(source, start, before) if bare else "")

    return mask


def _owner(source: str, start: int, before: str) -> str:
    """Return the name of the call, mapping or section that encloses a place, from the text before it."""
    opened = _OPENED.findall(before)
    if opened or len(before) == _CHARS_BACK:
        return _last(opened[-1]) if opened else ""
    inside, stop = _indent(before), start - 1
    for _ in range(_LINES_BACK):
        if stop <= 0:
            break
        begin = source.rfind("\n", 0, stop) + 1
        above, stop = source[begin : min(stop, begin + _CHARS_BACK)], begin - 1
        section = above.lstrip("+- \t").startswith("[")
        if above.strip() and (section or _indent(above) < inside):
            opened = _OPENED.findall(above)
            headed = _HEADED.match(above.lstrip("+-"))
            return _last(opened[-1]) if opened else headed[1] if headed else ""
    return ""


def _last(name: str) -> str:
    """Return the part of a dotted name that owns keys, if any: `wandb` of `wandb.login`."""
    return next(filter(owns_keys, reversed(name.split("."))), "")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip("+- \t\"'"))


def clean_diff(source: str, secrets: Iterable[str] = ()) -> tuple[str, int]:
    """Mask the secrets in a git diff; files that are made to hold secrets are left out."""
    secrets = list(secrets)
    parts = re.split(r"(?m)^(?=diff --git )", source)
    cleaned, count = [], 0
    for part in parts:
        head = part.partition("\n")[0]
        path = head.rpartition(" b/")[2].strip('"') if head.startswith("diff --git ") else ""
        if path and is_secret_file(path):
            cleaned.append(f"{head}\n(left out: such a file may hold secrets)\n")
            count += 1
            continue
        masked, found = clean(part, path, secrets)
        cleaned.append(masked)
        count += found
    return "".join(cleaned), count
