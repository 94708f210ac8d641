"""The code of two runs: which files differ, in which lines, and whether that can change the results."""

import difflib
import io
import posixpath
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from vedette.manifest import Entry

_MOST_BYTES = 1 << 20  # larger files are not read
_MOST_LINES, _MOST_CHARS = 400, 40_000  # of the diff of one file
_MOST_IN_ALL = 400_000  # characters of all diffs together
_MOST_JUDGED = 2_000_000  # characters of all files that are tokenized to ignore comments
_MOST_WORK = 4_000_000  # lines of one file times lines of the other: beyond this they are not matched
_CONTEXT = 3
_MOST_FILES = 500  # files whose imports are followed
_NO_CODE = re.compile(r"#[^\n]*|\\\r?\n")  # comments and line continuations
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b[ \t]*(\([^)]{0,10000}\)|[^\n]*)|import[ \t]+([^\n]*))", re.MULTILINE
)
_DOCUMENTS = (".md", ".rst", ".adoc", ".license", ".gitignore", ".vedetteignore", ".editorconfig")
_SOURCE = (".py", ".pyx", ".pxd", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".rs", ".jl", ".r", ".ipynb")
_SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".csv", ".sh")
_DROPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING)
_BLANK = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)

Read = Callable[[str], bytes | None]
Block = tuple[int, int, int, int]  # lines that differ: from and until in the old, from and until in the new


class CodeChange(Struct, frozen=True):
    """A file that differs; its `sort` is code, comments, tests, documents, settings or other."""

    path: str
    change: str  # added, removed or changed
    diff: str  # a unified diff, cut when it is long; empty when there is no text to show
    sort: str
    reached: bool  # the program that was run imports it, as far as we can tell
    lines: int = 0  # how many lines differ
    first: tuple[int, str, str] = (0, "", "")  # the first change: its line number, the text in a, the text in b


def code_changes(
    a: Mapping[str, Entry], b: Mapping[str, Entry], read: Read, argv: Sequence[str] = ()
) -> list[CodeChange]:
    """Return the files that differ between two packages of code, by path; `argv`: the program that was run."""
    paths = [path for path in sorted({*a, *b}) if path not in a or path not in b or a[path].digest != b[path].digest]
    reached = _reached(a, read, argv) | _reached(b, read, argv) if paths else set()
    budget = _Budget()
    return [_change(path, a.get(path), b.get(path), read, path in reached or not reached, budget) for path in paths]


def imported(files: Mapping[str, Entry], read: Read) -> set[str]:
    """Return the top-level names that the Python files of a package import."""
    names: set[str] = set()
    for path in [path for path in sorted(files) if path.endswith(".py")][:_MOST_FILES]:
        for name, level in _imports(_text(files[path], read) or ""):
            if not level:
                names.add(name.partition(".")[0])
    return names


def means_the_same(before: str, after: str) -> bool:
    """Tell whether two Python texts differ only in comments, blank lines, docstrings and spaces."""
    try:
        return _meaning(before) == _meaning(after)
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return False


def _change(path: str, a: Entry | None, b: Entry | None, read: Read, reached: bool, budget: "_Budget") -> CodeChange:
    change = "changed" if a and b else "removed" if a else "added"
    before, after = _text(a, read) if a else "", _text(b, read) if b else ""
    sort = _sort(path)
    if before is None or after is None:
        return CodeChange(path, change, "", sort, reached)
    if sort == "code" and a and b and path.endswith(".py") and budget.allows(len(before) + len(after)):
        sort = "comments" if means_the_same(before, after) else sort
    old, new = before.splitlines(), after.splitlines()
    blocks = _blocks(old, new)
    text = budget.cut(_unified(path, old, new, blocks))
    count = max((sum(block[side + 1] - block[side] for block in blocks) for side in (0, 2)), default=0)
    return CodeChange(path, change, text, sort, reached, count, _first(old, new, blocks) if a and b else (0, "", ""))


class _Budget:
    """Limits the work of one comparison, so that two very different trees are compared in bounded time."""

    def __init__(self) -> None:
        self._shown, self._judged = _MOST_IN_ALL, _MOST_JUDGED

    def allows(self, chars: int) -> bool:
        """Tell whether so many characters more may be tokenized."""
        self._judged -= chars
        return self._judged >= 0

    def cut(self, lines: list[str]) -> str:
        """Return a diff as text, with a note at the end if it was cut."""
        text = "\n".join(lines[:_MOST_LINES])
        most = min(_MOST_CHARS, self._shown)
        self._shown -= min(len(text), most)
        return text[:most] + ("\n… (there is more)" if len(lines) > _MOST_LINES or len(text) > most else "")


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return the blocks of lines that differ; a single block when matching lines would take too long."""
    head, most = 0, min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if not a and not b:
        return []
    if len(a) * len(b) > _MOST_WORK:
        return [(head, head + len(a), head, head + len(b))]
    codes = difflib.SequenceMatcher(None, a, b).get_opcodes()
    return [(i + head, until + head, j + head, end + head) for tag, i, until, j, end in codes if tag != "equal"]


def _unified(path: str, old: Sequence[str], new: Sequence[str], blocks: Sequence[Block]) -> list[str]:
    lines = [f"--- {path}", f"+++ {path}"] if blocks else []
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and block[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(block)
        else:
            groups.append([block])
    for group in groups:
        i, j = max(0, group[0][0] - _CONTEXT), max(0, group[0][2] - _CONTEXT)
        until, end = min(len(old), group[-1][1] + _CONTEXT), min(len(new), group[-1][3] + _CONTEXT)
        lines.append(f"@@ -{_range(i, until)} +{_range(j, end)} @@")
        at = i
        for block in group:
            lines += [" " + line for line in old[at : block[0]]]
            lines += ["-" + line for line in old[block[0] : block[1]]]
            lines += ["+" + line for line in new[block[2] : block[3]]]
            at = block[1]
        lines += [" " + line for line in old[at:until]]
    return lines


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _first(old: Sequence[str], new: Sequence[str], blocks: Sequence[Block]) -> tuple[int, str, str]:
    """Return the first change that is more than a comment or a blank line, else the first change."""
    found = []
    for i, until, j, end in blocks:
        gone, come = ((line.strip() for line in part) for part in (old[i:until], new[j:end]))
        found.append((j + 1, next(filter(_is_code, gone), ""), next(filter(_is_code, come), "")))
        if found[-1][1] or found[-1][2]:
            return found[-1]
    return found[0] if found else (0, "", "")


def _is_code(line: str) -> bool:
    return bool(line) and not line.startswith("#")


def _sort(path: str) -> str:
    parts = path.lower().split("/")
    name = parts[-1]
    stem, dot, _ = name.rpartition(".")
    if {"test", "tests", "testing"} & set(parts[:-1]) or name.startswith("test_") or name == "conftest.py":
        return "tests"
    if stem.endswith("_test"):
        return "tests"
    if {"doc", "docs"} & set(parts[:-1]) or name.endswith(_DOCUMENTS) or (not dot and name.isupper()):
        return "documents"
    if name.startswith("requirements") or name in ("makefile", "license.txt", "readme.txt"):
        return "documents"
    return "code" if name.endswith(_SOURCE) else "settings" if name.endswith(_SETTINGS) else "other"


def _text(file: Entry | None, read: Read) -> str | None:
    if file is None or file.size > _MOST_BYTES:
        return None
    data = read(file.digest)
    if data is None or len(data) > _MOST_BYTES or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


def _meaning(text: str) -> list[tuple[int, str]]:
    found = [
        (one.type, "" if one.type in _BLANK else one.string)
        for one in tokenize.generate_tokens(io.StringIO(text).readline)
        if one.type not in _DROPPED
    ]
    chosen: list[tuple[int, str]] = []
    for at, one in enumerate(found):
        alone = at == 0 or found[at - 1][0] in _BLANK
        if one[0] == tokenize.STRING and alone and found[at + 1][0] == tokenize.NEWLINE:
            continue  # a docstring
        if one[0] == tokenize.NEWLINE and chosen and chosen[-1][0] in _BLANK:
            continue
        chosen.append(one)
    return chosen


def _imports(text: str) -> list[tuple[str, int]]:
    """Return what a Python text imports: dotted names, each with its number of leading dots."""
    found = []
    for source, names, plain in _IMPORT.findall(_NO_CODE.sub(" ", text)):
        if plain:
            found += [(word.split()[0], 0) for word in plain.split(",") if word.split()]
            continue
        level = len(source) - len(source.lstrip("."))
        base = source.lstrip(".")
        found.append((base, level))
        for word in names.strip("() \t\r\n").split(","):
            if word.split():
                found.append((f"{base}.{word.split()[0]}".lstrip("."), level))
    return found


def _reached(files: Mapping[str, Entry], read: Read, argv: Sequence[str]) -> set[str]:
    """Return the program's file and all files that it imports; nothing when its file is not among `files`."""
    entry = next((path for word in argv[:8] for path in sorted(files) if _is_program(word, path)), "")
    todo = [entry] if entry else []
    met: set[str] = set()
    while todo and len(met) < _MOST_FILES:
        path = todo.pop()
        if path in met:
            continue
        met.add(path)
        for name, level in _imports(_text(files[path], read) or ""):
            todo += [found for found in _files_of(name, level, path, files) if found not in met]
    return met


def _is_program(word: str, path: str) -> bool:
    if not path.endswith(".py"):
        return False
    return (
        word == path
        or word.endswith("/" + path)
        or path == posixpath.normpath(word)
        or (posixpath.basename(word) == path)
        or path in (word.replace(".", "/") + ".py", word.replace(".", "/") + "/__main__.py")
    )  # python -m


def _files_of(name: str, level: int, path: str, files: Mapping[str, Entry]) -> list[str]:
    base = posixpath.dirname(path)
    for _ in range(level - 1):
        base = posixpath.dirname(base)
    inner = name.replace(".", "/")
    roots = [base] if level else [base, "", "src"]
    tails = [f"{inner}.py", f"{inner}/__init__.py"] if inner else ["__init__.py"]
    return [found for root in roots for tail in tails if (found := posixpath.join(root, tail)) in files]
