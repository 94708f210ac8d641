"""How to repeat a run: its command, environment and packages as files, and a list of what is missing.

What is recorded of a run may come from anybody. In the files it is a quoted word, a checked name, or one line of text.
"""

import json
import os
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from vedette.masks import MASK
from vedette.model import Value
from vedette.query.cells import script_of

_JOB_PREFIXES = ("SLURM_", "PBS_", "LSB_", "OMPI_COMM_", "PMI_", "TORCHELASTIC_")  # valid only inside that one job
_JOB_NAMES = frozenset(
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT VIRTUAL_ENV"
    " CONDA_DEFAULT_ENV LD_PRELOAD".split()
)


_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?")  # a name, by PEP 508
_VERSION = re.compile(  # by PEP 440
    r"v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.ASCII | re.IGNORECASE,
)
_PYTHON = re.compile(r"\d[0-9A-Za-z.+]{0,40}", re.ASCII)
_MOST_SHOWN = 4000  # characters of something that is only shown
_BLANKS = str.maketrans("\n\t", "  ")
_PLAIN = frozenset(string.ascii_letters + string.digits + ' ,.:;=+-_/@()[]{}<>|&#!?*~^$"\n\t')  # in single quotes
_WORKERS = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import", "loky.backend.popen_loky")


class Recipe(Struct, frozen=True):
    """The texts to write beside the code, by file name, and what is missing to repeat the run."""

    texts: dict[str, str]
    missing: list[str]
    launch: str = ""  # how to run it, if `run.sh` alone does not; {} stands for the directory


def recipe(
    run: str,
    name: str,
    attrs: Mapping[str, Value],
    config: Mapping[str, Value],
    paths: Sequence[str],
    packages: Mapping[str, str],
    direct: Mapping[str, str],
    ranks: int = 0,
) -> Recipe:
    """Make the texts from what is recorded of a run; `paths` are the files of its code, `ranks` how many it had."""
    missing = _missing(attrs, paths, packages)
    argv = words_of(attrs, "argv")
    if attrs.get("notebook") and attrs.get("code.script"):  # its cells, in the notebook's directory, as a program
        argv = ["python3", os.path.join(str(attrs.get("code.root") or ""), script_of(attrs))]
    texts, launch = {}, _launch(argv, ranks)
    if argv:
        texts["run.sh"] = _script(f"{name} ({run})", argv, attrs, set(paths), by_itself=not launch)
        if any(MASK in str(value) for value in _asked(attrs).values()):
            missing.append(f"a secret in `vedette run --config`: replace {MASK} in run.sh by it")
        if any(MASK in word for word in argv):
            missing.append(f"a secret in the command: replace {MASK} in run.sh by it")
    if packages:
        texts["requirements.txt"] = _requirements(attrs, packages, direct)
        elsewhere = [(_one_line(one), _one_line(url)) for one, url in list(direct.items())[:20]]
        missing += [f"{one} was not installed from an index but from {url}" for one, url in elsewhere]
        if bad := sum(not _is_package(*item) for item in packages.items()):
            missing.append(f"{bad} of its packages, whose name or version pip would not accept")
    texts["env.sh"] = _environment(attrs)
    texts["README.md"] = _readme(run, name, attrs, config, missing, launch.replace("{}/", ""))
    return Recipe(texts, missing, launch)


def _launch(argv: Sequence[str], ranks: int) -> str:
    """Return a sentence on how to start what another program has started: a worker, or ranks; else nothing."""
    if any(sign in word for word in argv[1:] for sign in _WORKERS):
        return (
            "its command is that of a worker process, and the command line of the program that started the worker is"
            " not known: start that program again, in {}/code"
        )
    if ranks > 1 and argv:
        return (
            f"it had {ranks} ranks, and the command line of their launcher is not known: start {{}}/run.sh by it,"
            f" such as `mpiexec -n {ranks} sh {{}}/run.sh`"
        )
    return ""


def _missing(attrs: Mapping[str, Value], paths: Sequence[str], packages: Mapping[str, str]) -> list[str]:
    missing = []
    capture = str(attrs.get("capture") or "")
    if not capture:
        missing.append("nothing was captured: `capture.enable` was off, or the run did not start with `init`")
    elif capture == "begun":
        missing.append("the capture was started and never finished")
    elif capture != "done":
        missing.append(f"not everything was captured: {capture}")
    if capture and not paths:
        missing.append("its code")
    if capture and not packages:
        missing.append("its packages")
    if not words_of(attrs, "argv") and not attrs.get("notebook"):
        missing.append("its command")
    elif attrs.get("argv_cut"):
        missing.append("the end of its command, which was too long to keep")
    if count := attrs.get("code.left_out"):
        reasons = {key.removeprefix("code.left_out_by."): n for key, n in attrs.items() if "code.left_out_by." in key}
        why = ", ".join(f"{n} {_WHY.get(key, key)}" for key, n in sorted(reasons.items()))
        some = ", ".join(words_of(attrs, "code.left_out_names"))
        missing.append(f"{count} of its files: {why}" + (f" ({some})" if some else ""))
    if count := attrs.get("code.masked"):
        some = ", ".join(words_of(attrs, "code.masked_names"))
        missing.append(f"{count} {'secret' if count == 1 else 'secrets'} in its code, shown as {MASK} ({some})")
    if count := attrs.get("code.changed"):
        some = ", ".join(words_of(attrs, "code.changed_names"))
        missing.append(f"the original state of {count} of its files, which were changed after it began ({some})")
    return missing


_WHY = {
    "large": "larger than capture.max_file_bytes", "total": "beyond capture.max_bytes",
    "many": "beyond capture.max_files", "link": "symbolic links", "unreadable": "that could not be read",
    "name": "with a name that is not UTF-8", "secret": "made to hold secrets", "binary": "binary and untracked",
    "broad": "in a directory that is not only for this code, such as your home (only code beside the script is kept)",
    "history": "that look like a shell's history", "outside": "outside the directory of the notebook",
    "special": "that are not regular files", "limit": "beyond limits.blobs_bytes",
    "home": "written by vedette itself, since VEDETTE_HOME is the directory of the code",
}  # fmt: skip


def _script(title: str, argv: list[str], attrs: Mapping[str, Value], paths: set[str], *, by_itself: bool) -> str:
    root, cwd = str(attrs.get("code.root") or ""), str(attrs.get("cwd") or "")
    inside = bool(root) and (cwd == root or cwd.startswith(root.rstrip("/") + "/"))
    below = os.path.relpath(cwd, root) if inside else "."
    below = "." if below.split("/")[0] == ".." else below
    words = [_word(word, root, cwd, below, paths, inside=inside) for word in argv]
    quoted = [_quoted(word) for word in words]
    if os.path.basename(argv[0]).startswith("python"):
        quoted[0] = '"${PYTHON:-python3}"'
    asked = _asked(attrs)
    asks = f"export VEDETTE_ASKED={shlex.quote(json.dumps(asked))}\n" if asked else ""
    what = "the run" if by_itself else "one process of the run"
    folder = '"$here"/code' + ("" if below == "." else "/" + _quoted(below))
    return (
        f"#!/bin/sh\n# Repeats {what} {_one_line(title)}; set PYTHON to choose the Python.\nset -e\n"
        'here=$(cd "$(dirname "$0")" && pwd)\n'
        f'. "$here"/env.sh\n{asks}cd {folder}\nexec {" ".join(quoted)} "$@"\n'
    )


def _asked(attrs: Mapping[str, Value]) -> dict[str, Value]:
    """Return what `vedette run --config` asked for, by key."""
    return {key[6:]: value for key, value in attrs.items() if key.startswith("asked.")}


def _word(word: str, root: str, cwd: str, below: str, paths: set[str], *, inside: bool) -> str:
    """Return a word of the command; if it is the path of a file of the code, return that file's new path."""
    if not root or not word or (inside and not word.startswith("/")):
        return word
    path = os.path.relpath(os.path.normpath(os.path.join(cwd, word)), root)
    return os.path.relpath(path, below) if path in paths else word


def _requirements(attrs: Mapping[str, Value], packages: Mapping[str, str], direct: Mapping[str, str]) -> str:
    """Return the packages for pip. What pip would not take for a name and a version is a comment.

    The first two lines are our own: pip looks in them for the encoding of the file.
    """
    python = str(attrs.get("python") or "")
    lines = ["# The packages of the run.", f"# Python {python if _PYTHON.fullmatch(python) else '(unknown)'}"]
    for name, version in sorted(packages.items(), key=lambda item: item[0].lower()):
        if not _is_package(name, version):
            lines.append(f"# not a package: {_one_line(f'{name}=={version}')}")
        elif url := direct.get(name, ""):
            lines.append(f"# {name}=={version}  from {_one_line(url)}")
        else:
            lines.append(f"{name}=={version}")
    return "\n".join(lines) + "\n"


def _is_package(name: str, version: str) -> bool:
    return _PACKAGE.fullmatch(name) is not None and len(version) < 200 and _VERSION.fullmatch(version) is not None


def words_of(attrs: Mapping[str, Value], key: str) -> list[str]:
    """Return an attribute that is a list of words; nothing if it is something else."""
    words = attrs.get(key)
    return [str(word) for word in words] if isinstance(words, list) else []


def _quoted(word: str) -> str:
    """Return a word for a shell. What a terminal could obey when the file is shown is written as octal numbers."""
    if word.translate(_BLANKS).isprintable():
        return shlex.quote(word)
    text = word.rstrip("\n")
    octal = "".join(
        chr(byte) if chr(byte) in _PLAIN else f"\\0{byte:03o}" for byte in text.encode(errors="surrogatepass")
    )
    return f"\"$(printf %b '{octal}')\"" + (shlex.quote(word[len(text) :]) if word != text else "")


def _one_line(value: object) -> str:
    """Return a text in one line, without anything that a terminal could obey."""
    text = " ".join(str(value).split())
    text = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + " ..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _environment(attrs: Mapping[str, Value]) -> str:
    lines = ["# The recorded part of the environment. Secrets and variables of a single cluster job are commented out."]
    for key, value in sorted(attrs.items()):
        name = key.removeprefix("env.")
        if not key.startswith("env.") or not name.isascii() or not name.isidentifier():
            continue
        text = str(value)
        own = name in _JOB_NAMES or name.startswith(_JOB_PREFIXES) or MASK in text
        line = f"export {name}={_quoted(text)}"
        lines.append("# " + _one_line(line) if own else line)
    return "\n".join(lines) + "\n"


def _readme(
    run: str, name: str, attrs: Mapping[str, Value], config: Mapping[str, Value], missing: Sequence[str], launch: str
) -> str:
    facts: dict[str, Any] = {
        "run": f"{name} ({run})",
        "project": attrs.get("project"),
        "notebook": attrs.get("notebook"),
        "command": shlex.join(words_of(attrs, "argv")),
        "in": attrs.get("cwd"),
        "commit": attrs.get("git.commit"),
        "branch": attrs.get("git.branch"),
        "remote": attrs.get("git.remote"),
        "changed since the commit": "yes" if attrs.get("git.dirty") else "",
        "Python": attrs.get("python"),
        "system": attrs.get("os"),
        "host": attrs.get("host"),
        "processor": " x ".join(str(attrs[key]) for key in ("cpu.count", "cpu.model") if attrs.get(key)),
        "memory": f"{attrs['memory_bytes'] / 2**30:.1f} GiB" if type(attrs.get("memory_bytes")) is int else "",
        "GPUs": ", ".join(words_of(attrs, "gpu.names")),
        "driver": attrs.get("gpu.driver"),
    }
    lines = [f"# {_one_line(name)}", "", "Written by `vedette reproduce`.", ""]
    lines += [f"- {key}: {_one_line(value)}" for key, value in facts.items() if value]
    lines += [
        "",
        "## To run it again",
        "",
        "```sh",
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
    ]
    if launch:
        lines += ['export PYTHON="$PWD/.venv/bin/python"', "```", "", f"{launch[0].upper()}{launch[1:]}.", ""]
    else:
        lines += ['PYTHON="$PWD/.venv/bin/python" sh run.sh', "```", ""]
    lines += ["`code/` is the code, `git.diff` what was changed since the commit, `env.sh` the environment,"]
    lines += ["`config.json` the config as it was recorded.", ""]
    if missing:
        lines += ["## What is missing", "", *(f"- {_one_line(one)}" for one in missing), ""]
    if config:
        lines += [
            "## Its config",
            "",
            *(f"- {_one_line(key)}: {_one_line(value)}" for key, value in sorted(config.items())),
            "",
        ]
    return "\n".join(lines)
