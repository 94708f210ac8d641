"""Which files count as the code of a run: those of the git working tree, else those of the script's directory."""

import os
import stat
from collections.abc import Iterator

import pathspec

from vedette.capture import git

_IGNORING = (".gitignore", ".vedetteignore")
_JUNK = frozenset(
    ".git .hg .svn .venv node_modules __pycache__ site-packages .mypy_cache .pytest_cache .ruff_cache .tox .nox .eggs"
    " .ipynb_checkpoints .cache .vedette wandb mlruns lightning_logs checkpoints outputs .terraform .idea".split()
)
_NEVER = frozenset(
    ".git .venv node_modules __pycache__ site-packages".split()
)  # these are not read even if git tracks them
_BINARY = tuple(
    ".pyc .pyo .so .o .a .dylib .dll .exe .whl .pt .pth .ckpt .safetensors .onnx .gguf .pb .tflite .h5 .hdf5 .npy .npz"
    " .pkl .pickle .joblib .parquet .arrow .feather .zip .tar .tgz .gz .bz2 .xz .zst .7z .rar .mp4 .avi .mov .mkv .wav"
    " .mp3 .flac .jpg .jpeg .png .gif .webp .tif .tiff .bmp .db .sqlite .sqlite3 .log .swp .swo .core".split()
)
CODE = tuple(  # in a directory such as the user's home only these are taken, no documents or settings
    ".py .pyi .pyx .pxd .ipynb .sh .bash .c .h .cc .cpp .hpp .cu .cuh .rs .go .jl .r .lua .java .js .ts .m .f90".split()
)
_MOST_VISITED = 200_000
_DEEPEST = 64


class Files:
    """The chosen files, by their paths below `root`, and how many were left out, by reason."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.paths: list[str] = []
        self.by_git = False
        self.tracked: frozenset[str] = frozenset()
        self.left_out: dict[str, int] = {}
        self.some: list[str] = []  # the first names of those left out

    def leave(self, why: str, path: str = "") -> None:
        """Count a file that is left out; without a path it is not named."""
        self.left_out[why] = self.left_out.get(why, 0) + 1
        if path and len(self.some) < 20:
            self.some.append(path.encode(errors="replace").decode())


def choose(script: str, cwd: str, apart: tuple[str, ...] = ()) -> Files:
    """Find the files; those in the directories `apart` are left out."""
    start = os.path.dirname(script) if script else cwd
    top = git.find(start)
    names = git.listed(top) if top and not _is_broad(top) else None
    if names is not None:
        files = Files(top)
        files.by_git = True
        ours = _Ignored(top, (".vedetteignore",))
        tracked, untracked = names
        files.tracked = frozenset(tracked)
        for path in tracked:
            if not _NEVER.intersection(path.split("/")) and not ours.has(path):
                files.paths.append(path)
        for path in untracked:
            if _JUNK.intersection(path.split("/")[:-1]) or ours.has(path):
                continue
            if path.lower().endswith(_BINARY):
                files.leave("binary", path)
            else:
                files.paths.append(path)
    else:
        root = cwd if not script or (_is_below(script, cwd) and not _is_broad(cwd)) else start
        files = Files(root)
        _walk(files, os.path.relpath(script, root) if script else "", broad=_is_broad(root))
    _leave_apart(files, apart)
    return files


def choose_modules(modules: list[str], folder: str, apart: tuple[str, ...] = ()) -> Files:
    """Return the modules that a notebook in a directory has imported; those in the directories `apart` are left out.

    Modules may lie beside that directory, as in `../src`: the root is the directory that has them all. If that is a
    directory such as the user's home, modules outside the notebook's own are left out.
    """
    root = os.path.commonpath([folder, *(os.path.dirname(path) for path in modules)])
    files = Files(folder if _is_broad(root) else root)
    for path in modules:
        name = os.path.relpath(path, files.root)
        if not _is_below(path, files.root):
            files.leave("outside", path)
        elif not _NEVER.intersection(name.split("/")):
            files.paths.append(name)
    _leave_apart(files, apart)
    return files


def _leave_apart(files: Files, apart: tuple[str, ...]) -> None:
    apart = tuple(one for one in apart if _is_below(one, files.root))  # but the code may be inside a VEDETTE_HOME
    paths, files.paths = dict.fromkeys(files.paths), []
    for path in paths:
        if not any(_is_below(os.path.join(files.root, path), one) for one in apart):
            files.paths.append(path)
        elif files.root in apart:  # VEDETTE_HOME is the code's directory: we cannot tell code from our own files
            files.leave("home", path)


def _walk(files: Files, script: str, *, broad: bool) -> None:
    """Walk a directory without git, and obey its ignore files.

    `broad`: people keep all kinds of files there; only the script and code directly beside it are taken.
    """
    ignored = _Ignored(files.root, _IGNORING)
    visited = 0
    todo = [("", 0)]
    while todo:
        folder, depth = todo.pop(0)
        for entry in _entries(os.path.join(files.root, folder)):
            visited += 1
            if visited > _MOST_VISITED:
                files.leave("many", folder + "/...")
                return
            path = f"{folder}/{entry.name}" if folder else entry.name
            link = entry.is_symlink()
            if not link and entry.is_dir(follow_symlinks=False):
                skip = entry.name in _JUNK or entry.name.endswith(".egg-info") or ignored.has(path + "/")
                if not broad and not skip and depth < _DEEPEST and not _is_environment(entry.path):
                    todo.append((path, depth + 1))
            elif ignored.has(path):
                continue
            elif broad and path != script and (path.startswith(".") or not path.lower().endswith(CODE)):
                files.leave("broad")  # without its name, which is private
            elif entry.name.endswith("_history") and path != script:  # of a shell: it may contain typed passwords
                files.leave("history", path)
            elif entry.name.lower().endswith(_BINARY):
                files.leave("binary", path)
            else:
                files.paths.append(path)


def _entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return


class _Ignored:
    """The ignore files of a tree; each applies to its own directory and below."""

    def __init__(self, root: str, names: tuple[str, ...]) -> None:
        self._root, self._names = root, names
        self._specs: dict[str, pathspec.GitIgnoreSpec | None] = {}

    def has(self, path: str) -> bool:
        """Tell whether a path is ignored; a path that ends in / is a directory."""
        parts = path.split("/")
        for depth in range(len(parts) - (not parts[-1])):
            folder = "/".join(parts[:depth])
            spec = self._spec(folder)
            if spec is not None and spec.match_file("/".join(parts[depth:])):
                return True
        return False

    def _spec(self, folder: str) -> "pathspec.GitIgnoreSpec | None":
        if folder not in self._specs:
            lines = [line for name in self._names for line in _lines(os.path.join(self._root, folder, name))]
            self._specs[folder] = pathspec.GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _lines(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(fd, encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return []
        return file.read(1 << 20).splitlines()


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg")) or os.path.isdir(os.path.join(folder, "conda-meta"))


def _is_broad(folder: str) -> bool:
    """Tell whether people keep all kinds of files in a directory, such as their home or /tmp."""
    home = os.path.expanduser("~")
    return folder in ("/", "/tmp", "/var/tmp", "/root", "/home", home) or _is_below(home, folder)  # noqa: S108


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
