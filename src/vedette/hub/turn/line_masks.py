"""Finds the secrets in a line of a program's output, an exception or a cause, and masks them.

A config may be masked too much; a line is read by people, so its words must stay. What is masked has the form of a
secret, or stands behind the name of one and looks like it: `token count: 512` and `password: required` do not. No
pattern here takes longer than in proportion to the length of the text.
"""

import functools
import re
from collections.abc import Callable

from vedette.masks import MASK, forms, is_user_of_url, looks_random, means_else, stands_for
from vedette.secret_names import is_secret

_LEAST = 6  # characters of the shortest text that can hold a secret
_LEAST_SECRET = 3
_MOST_PASSES = 8  # two are enough but for texts that were made to need more
_MOST_NAME = 80
_MOST_AGAIN = 200  # characters of a value that are searched once more: texts of any length must not take for ever
_LONG = re.compile(r"[_.\-/][A-Za-z0-9]{16}")  # most tokens with a form of their own have such a part
_HINTS = ("pass", "pwd", "cret", "cred", "uth", "ken", "key", "kie", "sess", "gnat", "jwt", "otp", "_code")
_TAIL = re.compile(r"([\w.\-]{0,80}+(?: [Ii][Dd])?)\\?[\"']?\]?[ \t]{0,3}[=:\->]")  # of a name, and what follows it

_BEGINS = r"(?:(?<![\w?&.\-$%])|(?<=\\n))"  # also behind a newline in the repr of bytes
_NAME = _BEGINS + r"(-{0,2}(?:[A-Za-z]{2,12} )?[A-Za-z_][\w.\-]{0,80})"
_ASSIGNS = r"(\\?[\"']?\]?[ \t]{0,3}(?::=|=>|(?<=[ \t])->|=(?!=)|:(?![:/]))[ \t]{0,3}(?:[bBrRuUfF]{1,2}(?=[\"']))?)"
_QUOTED = r"\\\"[^\"\\\n]*+(?:\\\")?|\\'[^'\\\n]*+(?:\\')?|\"(?:[^\"\\\n]++|\\.)*+\"?|'(?:[^'\\\n]++|\\.)*+'?"
_BARE = r"(?:[^\s,;&\"'`<>()\[\]{}|\\]++|[,;&](?![\s,;&]|$|[\w.\-]{1,80}[\"']?\s?[=:])|[{<$\\](?![\"'nrt]))++"
_HEAD = re.compile(f"{_NAME}{_ASSIGNS}")
_NAMED = re.compile(f"{_NAME}{_ASSIGNS}({_QUOTED}|{_BARE})")
_OPTION = re.compile(rf"(-(?<![\w\-]-)-?[A-Za-z][\w\-]{{0,80}})([\"']?,?[ \t]+)({_QUOTED}|[^\s\"',;)\]}}]+)")
_COOKIE = re.compile(
    _BEGINS + r"((?:[Ss]et-)?[Cc]ookie|(?:SET-)?COOKIE)(\\?[\"']?[ \t]*:[ \t]*\\?[\"']?)([^\"'\\\r\n]+)"
)
_ELEMENT = re.compile(r"<([A-Za-z_][\w.:\-]{0,60})()>([^<>\s]{1,1000})(?=</)")
_SPOKEN = re.compile(
    r"(?i:\b(login[ \t]+\S{1,100}[ \t]+passw(?:or)?d|identified[ \t]+by|auth[ \t]+(?:plain|login)|(?:auth)?token"
    r"|passw(?:or)?d(?:[ \t]+for(?:[ \t]+user)?[ \t]+\S{1,60})?(?:[ \t]+is:?)?)([ \t]+))"
    r"('[^'\s]+'?|\"[^\"\s]+\"?|[^\s\"']+)"
)
_BLANK = r"(?:\t|[ ]{1,3})"
_MAY_FOLLOW = re.compile(  # looks at lines in lower case: few names have so long a word behind them, or one in quotes
    r"(?:key|token|secret|passw(?:or)?d)(?:\t[^\s]{6}|[ ]{1,3}(?:'[^\s']{6}|\"[^\s\"]{6}|[^\s\"']{16}))"
)
_FOLLOWED = re.compile(
    _BEGINS + rf"([A-Za-z][\w\-]{{0,80}}+)({_BLANK})('[^'\s]+'|\"[^\"\s]+\"|[^\s\"'`,;()<>\[\]{{}}|]+)"
)
_FOLLOWED_HEAD = re.compile(_BEGINS + rf"([A-Za-z][\w\-]{{0,80}}+){_BLANK}(?=\S)")
_LISTED = re.compile(  # as lists of pairs show headers: `(b'x-api-key', b'...')`
    rf"[(\[][ \t]?[bu]?\\?[\"']([A-Za-z_][\w.\-]{{0,80}})(\\?[\"'],[ \t]?[bu]?)({_QUOTED})(?=[ \t]?,?[ \t]?[)\]])"
)
_PAIR = re.compile(r"(\bauth[ \t]*=[ \t]*\([ \t]*[\"'][^\"'\n]{0,100}[\"'])(,[ \t]*)(\"[^\"\n]+\"|'[^'\n]+')")
_ODBC = re.compile(r"((?:^|;)[ \t]*(?i:password|pwd))(=)([^;\"'\n]{1,200})(?=;)")
_CURL = re.compile(r"(?<=\s)((?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"']{1,100})(:)([^\s\"']+)")
_PEM = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)[A-Za-z0-9+/]{64,76}")  # a line of a key

_MIGRATION = re.compile(r"\d{4}_[a-z]\w*")  # of an app of Django: `("auth", "0012_alter_user")`
_DENSE = re.compile(r"[\w+/=.~\-]{16,}")

# Behind these names a plain word is a secret, too; behind a bare `token` or `signature` it is not.
_STRONG = re.compile(r"pass|pwd|pw$|secret|cred|api.?key|(?:private|access).?key|otp|code|cvv|phrase", re.IGNORECASE)
_OF_SOMETHING = re.compile(r"[\w\-](?:token|key|cookie|auth|signature)s?$", re.IGNORECASE)  # `hf_token`
# What stands behind the name of a secret and is none: a state, a type, a way to sign in.
_WORDS = frozenset(
    "str int bytes bool float string optional any list dict tuple union object secretstr none null nil true false"
    " yes no on off ok set unset required missing invalid incorrect wrong valid verified empty given provided"
    " unknown expired accepted rejected denied failed success successful enabled disabled default changed updated"
    " loaded loading found redacted hidden masked filtered removed inherit undefined prompt env environment keyring"
    " vault basic bearer digest token negotiate oauth oauth1 oauth2 ntlm kerberos anonymous sha1 sha256 sha512 md5"
    " hs256 rs256 es256 plain plaintext base64 x509 pkcs8 ed25519 rsa2048 rsa4096 field value key password username"
    " user not".split()
)
_HIDDEN = frozenset("*xX.•-_#")  # a value of these alone is hidden already
_NUMBER = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?%?|0x[0-9a-fA-F]{1,8}")
_LONG_WORD = re.compile(r"[A-Za-z0-9_\-]{20,}")
_NAME_OF_ONE = re.compile(r"[A-Za-z]+(?:[_\-][A-Za-z]+)+")
_OBJECT = re.compile(r"[A-Za-z_][A-Za-z_.$]*[{@]")  # as Java shows one: `Token{a64f992`, `Proxy@2bd79ce`
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")  # of an object, in a line of code: `self.token`
_names = functools.lru_cache(4096)(is_secret)
_SHORT = frozenset("pass pwd Pass Pwd session".split())  # secrets, if their values look so: also steps and directories
_SIGNED = ("eyJ", ".eJ")  # a cookie of a session begins so, as Flask and Django sign it
_OF_STEPS = re.compile(r"\d+[A-Za-z]+|(?:test|case|check|step|stage|phase|epoch|round|run|iter|part|layer|node)\w*")


def mask_line(text: str) -> str:
    """Return a text without its secrets; the same object if it has none. Masking the result changes nothing."""
    found = _mask_once(text)
    if found == text:
        return text
    for _ in range(_MOST_PASSES):
        found, before = _mask_once(found), found
        if found == before:
            break
    return found


def _mask_once(text: str) -> str:
    if len(text) < _LEAST:
        return text
    lower = text.lower()
    formed = _may_have_form(lower) or _LONG.search(text) is not None
    named = _may_have_name(lower)
    if not formed and not named:
        return MASK if _is_pem(text) else text
    found = MASK if _is_pem(text) else forms(text, tokens=formed)
    if named:
        found = _mask_named(found, lower)
    return found


def _mask_named(text: str, lower: str) -> str:
    if "kie" in lower:
        text = _sub(_COOKIE, _cookie, text)
    if "'," in text or '",' in text:
        text = _sub(_LISTED, _listed, text)
    if "</" in text:
        text = _sub(_ELEMENT, _is_secret_value, text)
    if _has_name(text):
        text = _sub(_NAMED, _is_secret_value, text, _HEAD)
    if "-" in text:
        text = _sub(_OPTION, _option, text)
    if "passw" in lower or "dentified by" in lower or "token " in lower or "auth " in lower:
        text = _sub(_SPOKEN, _spoken, text)
    if _MAY_FOLLOW.search(lower) is not None:
        text = _sub(_FOLLOWED, _follows, text, _FOLLOWED_HEAD)
    if "auth" in lower and "(" in text:
        text = _sub(_PAIR, _is_quoted_secret, text)
    if ";" in text:
        text = _sub(_ODBC, _is_quoted_secret, text)
    return _sub(_CURL, _curl, text) if "curl" in lower else text


# The next two are written out because they are done for every line. A loop takes half as long again, a regular
# expression twice as long.


def _may_have_name(lower: str) -> bool:
    """Tell whether a line may hold the name of a secret: most do not, and are looked at no further."""
    return (
        "pass" in lower or "pwd" in lower or "cret" in lower or "cred" in lower or "uth" in lower or "ken" in lower
        or "key" in lower or "kie" in lower or "sess" in lower or "gnat" in lower or "jwt" in lower or "otp" in lower
        or "_code" in lower or "dentified by" in lower or "curl" in lower
    )  # fmt: skip


def _may_have_form(lower: str) -> bool:
    """Tell whether a line may hold what is known by its form, but for `_LONG`."""
    return (
        "bear" in lower or "sig=" in lower or "pat-" in lower or "akia" in lower or "asia" in lower or "aiza" in lower
        or "eyj" in lower or "code=" in lower or "basic" in lower or "/bot" in lower
        or "hooks/" in lower
        or ("@" in lower and "://" in lower)
    )  # fmt: skip


def _has_name(text: str) -> bool:
    """Tell whether a text has the name of a secret with a sign behind it: only then it is searched in full."""
    lower = text.lower()
    if len(lower) != len(text):  # some letters have a longer lower case, so that places are not the same
        return True
    for word in _HINTS:
        at = lower.find(word)
        while at >= 0:
            tail = _TAIL.match(text, at)
            if tail is not None and _is_name_at(text, at, tail.end(1)):
                return True
            at = lower.find(word, at + 1)
    return False


def _is_name_at(text: str, at: int, end: int) -> bool:
    """Tell whether the word around a place is the name of a secret, or is one with the word before it."""
    start, least = at, max(0, at - _MOST_NAME)
    while start > least and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
        start -= 1
    if _names(text[start:end]) or text[start:end] in _SHORT:
        return True
    before = text.rfind(" ", least, max(least, start - 1)) + 1
    return text[start - 1 : start] == " " and _names(f"x {text[before:end]}")


def _is_pem(text: str) -> bool:
    return 64 <= len(text) <= 76 and _PEM.fullmatch(text) is not None


def _is_name(name: str) -> bool:
    """Tell whether this is the name of a secret; of two words, such as `API key`, the first may be of the sentence."""
    if name.endswith(" PWD"):  # the working directory, in a line of a shell: `echo PWD=/root`
        return False
    return _names(f"x {name}" if " " in name else name) or name in _SHORT


def _sub(
    pattern: re.Pattern[str],
    is_secret_there: Callable[[re.Match[str]], bool],
    text: str,
    head: re.Pattern[str] | None = None,
) -> str:
    """Hide the third group of each match that holds a secret. Where one holds none, its value may be a name itself.

    `head` matches what stands before the value: of most names no value need be looked at.
    """
    parts, at, last = [], 0, 0
    while (begun := (head or pattern).search(text, at)) is not None:
        found = begun if head is None else _is_name(begun[1]) and pattern.match(text, begun.start())
        if not found:
            at = begun.end()
        elif is_secret_there(found):
            parts += [text[last : found.start(3)], _hide(found[3])]
            at = last = found.end(3)
        else:
            at = found.start(3) if len(found[3]) < _MOST_AGAIN else found.end(3)
    return "".join(parts) + text[last:] if parts else text


def _hide(value: str) -> str:
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote):
            return f"{quote}{MASK}{quote}"
    return MASK


def _is_secret_value(found: re.Match[str]) -> bool:
    name, assigns, value = found.groups()
    plain = value.strip("\\\"'")
    quoted = plain != value
    if not _is_name(name) or len(plain) < _LEAST_SECRET or plain == name or _is_no_secret(plain):
        return False
    if is_user_of_url(found) or means_else(name, plain) or (name.endswith(" pwd") and "/" in plain):
        return False
    if quoted and not _is_closed(value, plain):
        return False
    if name in _SHORT:
        return _is_short(name, plain)
    following = found.string[found.end() : found.end() + 1]
    if following in ("(", "[") and not quoted:  # a call, in a line of code
        return False
    mixed = _is_mixed(plain)
    strong = _STRONG.search(name) is not None
    if _NUMBER.fullmatch(plain) is not None:
        return plain.isdigit() and len(plain) >= (4 if strong else 12)
    if not strong and _OF_SOMETHING.search(name) is None:
        return _OBJECT.match(plain) is None and ((mixed and len(plain) >= _LEAST) or _is_jumble(plain))
    if quoted:
        return not _is_sentence(plain)
    if _is_of_code(found, plain):
        return False
    if ":" not in assigns or mixed or not plain.rstrip(".,;:!?").isalpha():
        return True
    return following in ("", "\n", ",", ";", ")", "}", "]", "|")  # else it is the first word of a sentence


def _is_closed(value: str, plain: str) -> bool:
    """Tell whether quotes enclose a value; the end of a long text is cut off, of a sentence they are the end."""
    if value[-1] in "\"'" and len(value) > 1:
        return not plain[0].isspace()
    return looks_random(plain) and plain.isprintable() and not set(" ()").intersection(plain)


def _is_no_secret(plain: str) -> bool:
    if stands_for(plain) or plain.lower().rstrip(".,;:!?") in _WORDS or _HIDDEN.issuperset(plain):
        return True
    if plain.startswith(("/", "./", "../", "~/")) and "+" not in plain and (plain.count("/") > 1 or "." in plain):
        return True  # a path
    named = _NAME_OF_ONE.fullmatch(plain) is not None and _names(plain)  # `token=auth_token`, in a line of code
    return named or "://" in plain  # a URL is masked by its form


def _is_sentence(plain: str) -> bool:
    """Tell whether a text in quotes is about the secret: `"password": "This field is required."`."""
    return " " in plain and (plain[0].isupper() or plain[-1] in ".!?")


def _is_of_code(found: re.Match[str], plain: str) -> bool:
    """Tell whether a value is a name, in a line of code of a traceback: `token=self.token`, `    key = api_key`."""
    if any(map(str.isdigit, plain)) or (found[1].lower().startswith("x-") and found[2].startswith(":")):  # a header
        return False
    if _ATTRIBUTE.fullmatch(plain) is not None:
        return True
    start = found.string.rfind("\n", 0, found.start()) + 1
    return plain.isidentifier() and found.string.startswith("    ", start) and " = " in found[2]


def _is_short(name: str, plain: str) -> bool:
    """Tell whether a text behind `pass:` or `pwd:` is a password, and not a time, the name of a test, or a path."""
    if name == "session":
        return plain.startswith(_SIGNED) and len(plain) >= 16
    if len(plain) < 8 or not _is_mixed(plain) or set("/\\_.:").intersection(plain):
        return False
    return _OF_STEPS.fullmatch(plain) is None


def _is_mixed(plain: str) -> bool:
    return any(map(str.isdigit, plain)) and any(map(str.isalpha, plain))


def _is_jumble(plain: str) -> bool:
    """Tell whether a long text without digits is random: its letters change case too often for words."""
    if len(plain) < 20 or not plain.replace("+", "").replace("/", "").rstrip("=").isalpha():
        return False
    return len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", plain)) * 4 > len(plain)


def _is_dense(plain: str) -> bool:
    """Tell whether a text is random from end to end: hexadecimal, or letters and digits that alternate often."""
    if _DENSE.fullmatch(plain) is None or not _is_mixed(plain):
        return False
    if not set(plain.lower()).difference("0123456789abcdef-"):
        return True
    return len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", plain)) * 4 > len(plain)


def _listed(found: re.Match[str]) -> bool:
    """Tell whether the second of two listed texts is a secret that the first one names; both may be names of fields."""
    name, _, value = found.groups()
    plain = value.strip("\\\"'")
    if "kie" in name.lower() and "=" in plain and _names(name):
        return MASK not in plain
    if MASK in plain or len(plain) < _LEAST or _is_no_secret(plain) or _names(plain) or _MIGRATION.fullmatch(plain):
        return False
    if name == "session":
        return _is_dense(plain) or _is_short(name, plain)
    if not _names(name) or not _is_closed(value, plain) or means_else(name, plain):
        return False
    if " " in plain or not (_STRONG.search(name) or _OF_SOMETHING.search(name)):
        return _is_dense(plain.rpartition(" ")[2])
    return _is_mixed(plain) or plain.isdigit() or _is_jumble(plain)


def _option(found: re.Match[str]) -> bool:
    name, _, value = found.groups()
    plain = value.strip("\\\"'")
    if not plain or plain.startswith("-") or not _names(name.lstrip("-")) or _is_no_secret(plain):
        return False
    if means_else(name, plain):
        return False
    listed = plain != value and _STRONG.search(name) is not None
    return listed or (len(plain) >= _LEAST and _is_mixed(plain))


def _cookie(found: re.Match[str]) -> bool:
    return "=" in found[3] and MASK not in found[3]


def _spoken(found: re.Match[str]) -> bool:
    """Tell whether a secret follows its name without a sign: `login ada password ...`, `the password is ...`."""
    lead, plain = found[1].lower(), found[3].strip("\"'")
    if _is_no_secret(plain):
        return False
    quoted = plain != found[3]
    if lead.startswith(("login", "identified")):
        return lead.startswith("login") or quoted
    mixed = _is_mixed(plain)
    if lead.endswith(":") and " for " in lead.replace("\t", " "):  # of a prompt
        return mixed and len(plain) >= _LEAST
    if lead.endswith((" is", " is:")):
        return mixed or (plain.isdigit() and len(plain) >= 4)
    if lead.startswith("auth "):
        return len(plain) >= 8 and looks_random(plain)
    return mixed and ((quoted and "token" not in lead) or _LONG_WORD.fullmatch(plain) is not None)


def _follows(found: re.Match[str]) -> bool:
    """Tell whether a secret follows its name after a blank alone: `aws_secret_access_key wJal...`, `api-key '...'`."""
    name, blank, value = found.groups()
    plain = value.strip("\"'")
    if _is_no_secret(plain) or _names(plain) or len(plain) < _LEAST or not _is_mixed(plain):
        return False
    if _STRONG.search(name) is None and _OF_SOMETHING.search(name) is None:
        return False
    if blank == "\t":  # a column of a table
        return found.string[found.end() : found.end() + 1] in ("", "\n", "\r", "\t")
    if plain != value:
        return not name.lower().endswith("secret") and ("-" in name or "_" in name)
    return ("-" in name or "_" in name) and _is_dense(plain)


def _is_quoted_secret(found: re.Match[str]) -> bool:
    plain = found[3].strip("\"' ")
    if plain.startswith("/") and found[1].endswith(("pwd", "PWD")):  # `sudo` says where it was called
        return False
    return len(plain) >= _LEAST_SECRET and not _is_no_secret(plain)


def _curl(found: re.Match[str]) -> bool:
    return not found[3].isdigit() and not stands_for(found[3])
