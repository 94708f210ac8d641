"""Files and directories of a home: nothing is written through what somebody else may have put there."""

import ast
import os
import pathlib
import signal
import stat
from functools import partial

import pytest

import vedette
from tests.rooms.at_once import in_threads
from vedette import fileio
from vedette.fileio import check_private, make_once, make_private_directory, open_private, read_private, write_private

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="ONLY ROOT CAN MAKE FILES OF ANOTHER USER")
WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@pytest.fixture
def folder(tmp_path):
    """A directory of a home, and a file beside it that must not be touched."""
    (tmp_path / "home").mkdir(0o700)
    (tmp_path / "precious").write_text("precious")
    return tmp_path / "home"


@pytest.mark.parametrize("umask", [0, 0o077])
def test_what_is_made_is_its_owners_alone(folder, umask):
    """A file or directory that is made can be read by nobody else, whatever the umask."""
    before = os.umask(umask)
    try:
        os.close(open_private(str(folder / "file"), WRITE))
        write_private(str(folder / "secret"), b"x")
        make_private_directory(str(folder / "inner"))
    finally:
        os.umask(before)

    assert [stat.S_IMODE((folder / name).stat().st_mode) for name in ("file", "secret", "inner")] == [
        0o600, 0o600, 0o700,
    ]  # fmt: skip


def test_a_file_that_many_replace_at_once(folder):
    """Whoever comes last has it, everybody succeeds, and nothing is left beside it; nor where it cannot be written."""
    path = str(folder / "secret")
    for _ in range(10):
        assert in_threads(lambda: write_private(path, os.urandom(16).hex().encode())) == [None] * 8
    assert len(read_private(path)) == 32
    (folder / "inner").mkdir()
    with pytest.raises(IsADirectoryError):
        write_private(str(folder / "inner"), b"x")
    assert sorted(os.listdir(folder)) == ["inner", "secret"]


def test_what_a_killed_writer_leaves_is_known_by_its_name(folder):
    """Whoever looks at all that lies in a directory can tell it from what belongs there."""
    if not (pid := os.fork()):
        os.rename = lambda *_: os._exit(0)
        write_private(str(folder / "hub.token"), b"x")
    os.waitpid(pid, 0)
    [left] = os.listdir(folder)

    assert fileio.is_unfinished(left)
    assert not any(map(fileio.is_unfinished, ["hub.token", "alice.new", ".profile", f"{'0' * 16}.{'0' * 16}"]))


@pytest.mark.parametrize("names_at_once", [True, False])
def test_a_file_that_is_made_once(folder, monkeypatch, names_at_once):
    """Of many who make it at once one does; what is there already, a link too, stays. Nothing is left beside it."""
    if not names_at_once:
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # as where file systems know no files without a name
    path = str(folder / "secret")
    for number in range(5):
        assert sorted(in_threads(partial(make_once, path, b"mine"))) == [False] * 7 + [True]
        assert (read_private(path), os.stat(path).st_mode & 0o777, os.stat(path).st_nlink) == (b"mine", 0o600, 1)
        assert make_once(path, b"late") is False
        assert read_private(path) == b"mine"
        path = f"{path}{number}"
    os.symlink("elsewhere", path)
    assert make_once(path, b"mine") is False
    assert not (folder / "elsewhere").exists()
    assert [name for name in os.listdir(folder) if not name.startswith("secret")] == []
    with pytest.raises(FileNotFoundError):
        make_once(str(folder / "absent" / "secret"), b"mine")


def test_a_file_that_is_made_once_has_one_name_from_the_first(folder):
    """Also when its maker dies at any moment: where others may write, too, a file with two names is refused."""
    folder.chmod(0o777)
    if not (pid := os.fork()):
        os.unlink = lambda _: os._exit(0)
        make_once(str(folder / "secret"), b"mine")
        os._exit(0)
    os.waitpid(pid, 0)

    assert read_private(str(folder / "secret")) == b"mine"


@pytest.mark.parametrize("how", ["replaced", "made once", "made once, with a name", "not flushed"])
def test_what_has_a_name_survives_a_power_cut(folder, monkeypatch, how):
    """All bytes of a file are on disk before it has its name, and then its name; what is worth nothing later is not."""
    done = []
    for name in ("fsync", "rename", "link"):
        monkeypatch.setattr(os, name, partial(_noted, done, name, getattr(os, name)))
    if how == "made once, with a name":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    path = str(folder / "secret")
    if how.startswith("made"):
        make_once(path, b"mine")
    else:
        write_private(path, b"mine", flush=how == "replaced")

    named = ("link" if how.startswith("made") else "rename", 0)
    flushed = [[("fsync", 4)], [("fsync", "directory")]] if how != "not flushed" else [[], []]
    assert done == [*flushed[0], named, *flushed[1]]


def _noted(done, name, act, *args, **kwargs):
    status = os.fstat(args[0]) if name == "fsync" else None
    done.append((name, 0 if status is None else "directory" if stat.S_ISDIR(status.st_mode) else status.st_size))
    return act(*args, **kwargs)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory", "socket"])
def test_only_a_plain_file_is_written_to(folder, kind):
    """A link is not followed, whoever has made it; a pipe does not block; what is behind a link stays as it is."""
    path = str(folder / "hub.lock")
    if kind == "link":
        os.symlink(folder.parent / "precious", path)
    elif kind == "dangling link":
        os.symlink(folder.parent / "made", path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        os.mkdir(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    for flags in (WRITE, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_APPEND):
        with pytest.raises(OSError):
            open_private(path, flags)
    with pytest.raises(PermissionError):
        check_private(path)

    assert (folder.parent / "precious").read_text() == "precious"
    assert not (folder.parent / "made").exists()


def test_a_refusal_is_a_sentence(folder):
    """Who is refused learns what is wrong with which file."""
    os.symlink("elsewhere", folder / "hub.log")
    with pytest.raises(PermissionError, match=r"hub\.log is a symbolic link, and vedette writes through none"):
        open_private(str(folder / "hub.log"), WRITE)


@AS_ROOT
@pytest.mark.parametrize("whose", ["ours alone", "ours, open to others", "another user's"])
def test_a_second_name_of_a_file(folder, whose):
    """A hard link is a backup in a directory of ours alone; elsewhere somebody may have made it, and it is refused."""
    os.link(folder.parent / "precious", folder / "hub.lock")
    if whose == "ours, open to others":
        folder.chmod(0o777)
    elif whose == "another user's":
        os.chown(folder, NOBODY, NOBODY)
    if whose == "ours alone":
        os.close(open_private(str(folder / "hub.lock"), os.O_RDWR))
        return
    with pytest.raises(PermissionError, match="somebody else may have put it there"):
        open_private(str(folder / "hub.lock"), WRITE)
    assert (folder.parent / "precious").read_text() == "precious"


@AS_ROOT
def test_a_file_of_another_user(folder):
    """In a directory of ours a file of another user is neither written nor believed; in that user's home it is."""
    planted = folder / "hub.token"
    planted.write_text("known to the attacker")
    os.chown(planted, NOBODY, NOBODY)
    for act in (lambda: open_private(str(planted), WRITE), lambda: read_private(str(planted))):
        with pytest.raises(PermissionError, match=f"belongs to user {NOBODY}"):
            act()
    assert planted.read_text() == "known to the attacker"

    os.chown(folder, NOBODY, NOBODY)
    assert read_private(str(planted)) == b"known to the attacker"


@AS_ROOT
@pytest.mark.parametrize("kind", ["link", "directory"])
def test_a_directory_that_somebody_else_has_made(folder, kind):
    """A planted directory, or link to one, is refused; a link that we have made ourselves, to another disk, is not."""
    elsewhere, path = folder.parent / "elsewhere", folder / "spool"
    elsewhere.mkdir()
    if kind == "link":
        path.symlink_to(elsewhere)
        make_private_directory(str(path))
        os.lchown(path, NOBODY, NOBODY)
    else:
        path.mkdir()
        make_private_directory(str(path))
        os.chown(path, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="spool is not what it should be"):
        make_private_directory(str(path))


def test_a_timeout_of_the_user_ends_a_copy(folder, monkeypatch):
    """What a signal handler raises while a file is saved reaches the user, though a TimeoutError is an OSError."""

    def ring(number, frame):
        raise TimeoutError("of the user")

    monkeypatch.setattr(os, "copy_file_range", lambda *_: signal.raise_signal(signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with (
            open(folder.parent / "precious", "rb") as source,
            open(folder / "to", "wb") as target,
            pytest.raises(TimeoutError, match="of the user"),
        ):
            fileio.copy(source.fileno(), target.fileno(), 8)
    finally:
        signal.signal(signal.SIGUSR1, before)


# What is opened for writing elsewhere, how often, and why that is no file of a home.
EXCEPTIONS = {
    "fileio.py": (3, "open_plain, which reads, and the two functions that make directories"),
    "own_directory.py": (2, "it takes a free name in a public directory, or one that is ours"),
    "home.py": (1, "it closes a home of ours that lies in a public directory"),
    "address.py": (2, "the name of a hub's socket, at a path that the user gives; it follows no link"),
    "pidfds.py": (1, "the mode of the socket that it has just made, in a directory that was looked at"),
    "cli/__init__.py": (3, "/dev/null in place of a closed stream"),
    "cli/doctor_home.py": (1, "a probe of its own name, O_EXCL"),
    "cli/export.py": (2, "a file that the user names"),
    "cli/files.py": (2, "a file that the user names"),
    "cli/reproduce.py": (3, "a directory that the user names, opened step by step without following"),
    "cli/usage.py": (1, "a file that the user names"),
    "compat/classifier/report.py": (2, "a report, in a directory that the user names"),
    "capture/__main__.py": (1, "how much its session weighs, in /proc/self"),
    "client/rendering.py": (1, "/dev/null"),
    "client/capture_program.py": (1, "a file in memory"),
    "detached.py": (1, "/dev/null"),
    "blobs.py": (3, "descriptors of open_private"),
    "client/stacks.py": (1, "a descriptor of open_private"),
    "hub/processes/terminals.py": (1, "the terminal of a process"),
    "hub/turn/about_process.py": (1, "it reads"),
    "hub/turn/takein.py": (1, "a copy with a new name, O_EXCL"),
    "launch/pump.py": (1, "a pipe of its own"),
    "sinks/appender.py": (1, "a file that the user names"),
    "tail.py": (3, "it reads"),
    "store/archive.py": (2, "a file that the user names, and a new one, O_EXCL"),
    "store/backup.py": (7, "new files in a new directory beside the file that the user names, O_EXCL"),
    "store/restore.py": (4, "new files in a new directory, O_EXCL"),
    "store/sqlite_mend.py": (3, "a copy that `vedette sync` has just made"),
    "store/sqlite_export.py": (1, "the mode of an export that it has just made"),
}
_WRITING = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC")
_CHANGING = ("truncate", "makedirs", "mkdir", "symlink", "chmod", "mkfifo")


def writes_in(source):
    """Return the lines of a module that open something for writing, or make or change a directory or link."""
    return [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _writes(node)]


def _writes(call):
    name = ast.unparse(call.func)
    if name == "os.open":
        flags = ast.unparse(call.args[1])
        return any(word in flags for word in _WRITING) or "O_" not in flags
    if name in ("open", "io.open", "os.fdopen"):
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or set(mode.value) & set("wax+") for mode in modes)
    return name in [f"os.{word}" for word in _CHANGING] or name in ("shutil.copy", "shutil.copyfile", "shutil.move")


def test_everything_in_a_home_is_opened_by_open_private():
    """Nobody opens a file for writing past `open_private`, or makes a directory past `make_private_directory`."""
    root = pathlib.Path(vedette.__file__).parent
    found = {
        str(path.relative_to(root)): lines for path in root.rglob("*.py") if (lines := writes_in(path.read_text()))
    }
    known = {name: count for name, (count, _) in EXCEPTIONS.items()}

    assert {name: (len(lines), lines) for name, lines in found.items() if len(lines) != known.get(name, 0)} == {}


@pytest.mark.parametrize(
    "line",
    ["os.open(p, os.O_RDWR)", "os.open(p, flags)", "open(p, 'w')", "open(p, mode='ab')", "open(p, how)", "os.mkdir(p)"],
)
def test_the_search_finds_what_it_should(line):
    """The search above is not blind: it finds each way to write."""
    assert writes_in(f"import os\n{line}") == [2]
    assert writes_in("import os\nos.open(p, os.O_RDONLY | os.O_CLOEXEC)\nopen(p)\nopen(p, 'rb')") == []


def test_reading_is_bounded(folder):
    """A secret that was replaced by something huge is not read as a whole."""
    os.truncate(folder.parent / "precious", 10 << 20)
    os.rename(folder.parent / "precious", folder / "hub.id")

    assert len(read_private(str(folder / "hub.id"))) == fileio.BLOCK_BYTES
