"""What a run is made of: which files of a tree are its code, what git says, packages, environment, machine."""

import contextlib
import fcntl
import json
import os
import platform
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from vedette import manifest, wire
from vedette.blobs import Blobs
from vedette.capture import environment, git, machine, packages
from vedette.capture.__main__ import CAPTURE_LOCK, Program, _one_of_few
from vedette.capture.package import pack
from vedette.capture.tree import choose
from vedette.cli import reproduce
from vedette.client.capturing import Brief
from vedette.errors import NotFoundError
from vedette.model import LANE_FACTS
from vedette.query.recipe import recipe
from vedette.settings import Capture, Settings
from vedette.tail import Tail

LATER = 1 << 62


def call_git(folder, *args):
    """Call git in a repository of one's own."""
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    allow = ("-c", "protocol.file.allow=always")
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *who, *allow, *args], cwd=folder, check=True, capture_output=True, env=environ)


def write(folder, names):
    """Write files, by their names."""
    for name, text in names.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.fixture
def repo(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "repo"
    folder.mkdir()
    call_git(folder, "init", "-q")
    write(folder, {"train.py": "x = 1\n", "pkg/model.py": "y = 2\n", ".gitignore": "*.log\nignored/\n"})
    call_git(folder, "add", ".")
    call_git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def taken(tmp_path):
    """Take the code of a script or directory down; return its paths, the files, and the package."""

    def take(script="", cwd="", caps=None, secrets=(), since=LATER, apart=()):
        files = choose(str(script) if script else "", str(cwd or os.path.dirname(script)), tuple(map(str, apart)))
        blobs = Blobs(str(tmp_path / "home"))
        package = pack(files, str(script), blobs, caps or Capture(), list(secrets), since)
        entries = manifest.read(package.manifest)
        return [entry.path for entry in entries], files, package

    return take


def test_a_working_tree(repo, taken):
    """Tracked and untracked files are the code, changes and all; ignored ones are not, nor what was removed."""
    write(repo, {"train.py": "x = 3\n", "new.py": "z\n", "run.log": "no", "ignored/a.py": "no", "a.pt": "no"})
    (repo / "pkg" / "model.py").unlink()
    paths, files, package = taken(repo / "train.py")

    assert paths == [".gitignore", "new.py", "train.py"]
    assert files.root == str(repo)
    assert files.left_out == {"binary": 1}
    kept = {entry.path: Blobs(str(repo.parent / "home")).open(entry.digest).read() for entry in package.entries}
    assert kept["train.py"] == b"x = 3\n"


def test_our_own_ignore_file(repo, taken):
    """`.vedetteignore` leaves out even what git tracks, in any directory of the tree."""
    write(repo, {".vedetteignore": "*.csv\n", "a.csv": "1", "pkg/.vedetteignore": "model.py\n"})

    assert taken(repo / "train.py")[0] == [".gitignore", ".vedetteignore", "pkg/.vedetteignore", "train.py"]


def test_submodules_and_other_repositories(repo, taken, tmp_path):
    """Files of submodules, and of repositories that lie in the tree, belong to it."""
    other = tmp_path / "other"
    other.mkdir()
    call_git(other, "init", "-q")
    write(other, {"lib.py": "1"})
    call_git(other, "add", ".")
    call_git(other, "commit", "-qm", "first")
    call_git(repo, "submodule", "add", "-q", str(other), "vendor")
    write(repo, {"vendor/extra.py": "2"})
    call_git(tmp_path, "clone", "-q", str(other), str(repo / "inner"))

    assert {"vendor/lib.py", "vendor/extra.py", "inner/lib.py"} <= set(taken(repo / "train.py")[0])


def test_a_repository_without_a_commit(tmp_path, taken):
    """Before the first commit there is code, and no commit."""
    call_git(tmp_path, "init", "-q", "repo")
    write(tmp_path / "repo", {"train.py": "1"})

    assert taken(tmp_path / "repo" / "train.py")[0] == ["train.py"]
    found = git.state(str(tmp_path / "repo"))
    assert (found.commit, found.dirty, found.diff) == ("", True, b"")


def test_without_git(tmp_path, taken):
    """Where there is no git it is the script's directory, by the same ignore files, without junk."""
    write(
        tmp_path / "work",
        {
            "train.py": "1", "pkg/a.py": "1", "pkg/.gitignore": "b.py\n", "pkg/b.py": "no", ".gitignore": "*.tmp\n",
            "x.tmp": "no", "node_modules/x.js": "no", "__pycache__/a.pyc": "no", "venv/pyvenv.cfg": "",
            "venv/a.py": "no", "checkpoints/a.py": "no", "model.ckpt": "no",
        },
    )  # fmt: skip
    paths, files, _ = taken(tmp_path / "work" / "train.py")

    assert paths == [".gitignore", "pkg/.gitignore", "pkg/a.py", "train.py"]
    assert not files.by_git
    assert files.left_out == {"binary": 1}


def test_a_directory_without_a_script(tmp_path, taken):
    """An interactive session has the code of its working directory; an empty one has none."""
    (tmp_path / "empty").mkdir()
    write(tmp_path / "work", {"a.py": "1"})

    assert taken(cwd=tmp_path / "work")[0] == ["a.py"]
    assert taken(cwd=tmp_path / "empty")[0] == []


def test_what_vedette_keeps_is_no_code(tmp_path, taken):
    """A home below the code is left out; one that is the code's own directory, too, and that is told."""
    write(tmp_path, {"work/a.py": "1", "work/.runs/spool/x.py": "no"})
    paths, files, _ = taken(tmp_path / "work" / "a.py", apart=[tmp_path / "work" / ".runs"])
    assert (paths, files.left_out) == (["a.py"], {})
    paths, files, _ = taken(tmp_path / "work" / "a.py", apart=[tmp_path / "work"])
    assert (paths, files.left_out) == ([], {"home": 2})
    assert taken(tmp_path / "work" / "a.py", apart=[tmp_path])[0] == [".runs/spool/x.py", "a.py"]


def test_a_home_is_not_walked(tmp_path, taken, monkeypatch):
    """A script that lies in one's home directory does not bring along everything that lies there."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    write(tmp_path / "me", {"train.py": "1", "photos/secret.txt": "no", "other.py": "1"})

    assert taken(tmp_path / "me" / "train.py")[0] == ["other.py", "train.py"]


def test_only_code_is_taken_where_people_keep_everything(tmp_path, taken, monkeypatch):
    """Of a home no history, no settings and no letters are taken, but the script and other code; nor are they named."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    private = [".bash_history", ".bashrc", ".python_history", ".profile", "letter.txt", "passwords.yaml", ".hidden.py"]
    write(tmp_path / "me", {"train": "1", "other.py": "1", "model.cpp": "1", **dict.fromkeys(private, "hunter2")})
    paths, files, _ = taken(tmp_path / "me" / "train")

    assert paths == ["model.cpp", "other.py", "train"]
    assert (files.left_out, files.some) == ({"broad": len(private)}, [])
    assert taken(cwd=tmp_path / "me")[0] == ["model.cpp", "other.py"]


def test_what_was_typed_is_no_code(tmp_path, taken):
    """The history of a shell or an interpreter is left out wherever it lies."""
    write(
        tmp_path / "work", {"train.py": "1", "pkg/.python_history": "no", ".bash_history": "no", "psql_history": "no"}
    )
    paths, files, _ = taken(tmp_path / "work" / "train.py")

    assert (paths, files.left_out) == (["train.py"], {"history": 3})


def test_what_was_typed_is_no_code_of_git(repo, taken):
    """Nor is it in a repository that does not ignore it."""
    write(repo, {".bash_history": "no"})
    paths, files, _ = taken(repo / "train.py")

    assert ".bash_history" not in paths
    assert files.left_out == {"secret": 1}


def test_caps(repo, taken):
    """A file that is too large, and those past the total or the number are left out, and counted; the script stays."""
    write(repo, {"data/large.txt": "x" * 2000, **{f"many/{n:03}.txt": "x" * 100 for n in range(50)}})
    paths, files, package = taken(repo / "train.py", caps=Capture(max_file_bytes=1000, max_bytes=2000, max_files=30))

    assert "train.py" in paths
    assert package.bytes <= 2000
    assert files.left_out["large"] == 1
    assert sum(files.left_out.values()) == 54 - len(paths)
    assert taken(repo / "train.py", caps=Capture(max_files=3))[1].left_out["many"] == 51


def test_far_too_many_files(tmp_path, taken):
    """A tree with far too many files is cut at the cap, with the script and sources in what is kept."""
    folder = tmp_path / "work"
    for n in range(10):
        (folder / f"{n:02}").mkdir(parents=True)
        for m in range(1000):
            (folder / f"{n:02}" / f"{m}.dat").touch()
    write(folder, {"zz/train.py": "1", "zz/model.py": "2"})
    paths, files, _ = taken(folder / "zz" / "train.py", cwd=folder, caps=Capture(max_files=200))

    assert len(paths) == 200
    assert {"zz/train.py", "zz/model.py"} <= set(paths)
    assert files.left_out == {"many": 10_002 - 200}


def test_links_are_not_followed(repo, taken, tmp_path):
    """Neither a link to a file elsewhere, nor a loop, nor a dangling one is followed; they are counted."""
    (tmp_path / "elsewhere.py").write_text("no")
    (repo / "link.py").symlink_to(tmp_path / "elsewhere.py")
    (repo / "loop").symlink_to(repo)
    (repo / "nowhere").symlink_to("nothing")
    paths, files, _ = taken(repo / "train.py")

    assert paths == [".gitignore", "pkg/model.py", "train.py"]
    assert files.left_out == {"link": 3}


def test_links_where_there_is_no_git(tmp_path, taken):
    """The same holds for a walk."""
    write(tmp_path / "work", {"train.py": "1"})
    (tmp_path / "work" / "loop").symlink_to(tmp_path)
    paths, files, _ = taken(tmp_path / "work" / "train.py")

    assert (paths, files.left_out) == (["train.py"], {"link": 1})


def test_what_cannot_be_read(repo, taken):
    """A pipe is not waited for, nor anything else that is no plain file."""
    os.mkfifo(repo / "pipe")
    paths, files, _ = taken(repo / "train.py")

    assert "pipe" not in paths
    assert files.left_out.get("special", 0) <= 1  # git does not list it


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read(repo, taken):
    """A file that may not be read is counted."""
    (repo / "new.py").touch(mode=0)

    assert taken(repo / "train.py")[1].left_out == {"unreadable": 1}


def test_weird_names(repo, taken):
    """Any name that is text is kept as it is; one that is none is counted."""
    names = ["a b.py", "a\nb.py", "é.py", "'q\".py", "-rf", "a\\b.py", "#x.py", "日本.py"]
    write(repo, dict.fromkeys(names, "1"))
    with open(os.path.join(os.fsencode(repo), b"\xff.py"), "w") as file:
        file.write("1")
    paths, files, _ = taken(repo / "train.py")

    assert set(names) <= set(paths)
    assert files.left_out == {"name": 1}


def test_modes(repo, taken):
    """What was executable is so again; what else a umask has made of modes changes nothing, nor the digest."""
    write(repo, {"job.sh": "#!/bin/sh\n"})
    manifests = set()
    for script, mode in ((0o755, 0o644), (0o775, 0o664), (0o700, 0o600)):
        (repo / "job.sh").chmod(script)
        (repo / "train.py").chmod(mode)
        package = taken(repo / "train.py")[2]
        manifests.add(package.manifest)

    modes = {entry.path: entry.mode for entry in package.entries}
    assert (modes["job.sh"], modes["train.py"]) == (0o755, 0o644)
    assert len(manifests) == 1


def test_the_same_code_is_kept_once(repo, taken, tmp_path):
    """The same code has the same digest, and takes no more space the second time."""
    first = taken(repo / "train.py")[2]
    before = sorted(found.digest for found in Blobs(str(tmp_path / "home")).all())
    second = taken(repo / "train.py")[2]

    assert first.manifest == second.manifest
    assert sorted(found.digest for found in Blobs(str(tmp_path / "home")).all()) == before


def test_secrets_in_code(repo, taken, tmp_path):
    """Files that hold secrets are left out, and what surely is a secret in others is masked; both are counted."""
    write(repo, {".env": "A=hunter2", "login.py": 'token = "abcd1234efgh5678"\nother = "known-to-us-1"\n'})
    paths, files, package = taken(repo / "train.py", secrets=["known-to-us-1"])
    everything = b"".join(
        Blobs(str(tmp_path / "home")).open(found.digest).read() for found in Blobs(str(tmp_path / "home")).all()
    )

    assert ".env" not in paths
    assert files.left_out == {"secret": 1}
    assert package.masked == {"login.py": 2}
    assert b"hunter2" not in everything
    assert b"abcd1234" not in everything
    assert b"known-to-us" not in everything


def test_files_that_changed_meanwhile(repo, taken):
    """A file that is younger than the run is told: the run may have read another. What it wrote itself is no code."""
    write(repo, {"out.txt": "0.5", "new.py": "z"})
    paths, _, package = taken(repo / "train.py", since=0)
    assert sorted(package.changed) == [".gitignore", "new.py", "pkg/model.py", "train.py"]
    assert "out.txt" not in paths
    assert taken(repo / "train.py")[2].changed == []


def test_what_git_says(repo):
    """Commit, branch, remote, and the changes since."""
    call_git(repo, "remote", "add", "origin", "https://ada:hunter2@example.org/x.git")
    clean = git.state(str(repo))
    write(repo, {"train.py": "x = 5\n"})
    dirty = git.state(str(repo))

    assert (clean.branch, clean.dirty, clean.diff) == ("main", False, b"")
    assert len(clean.commit) == 40
    assert clean.remote == "https://ada:hunter2@example.org/x.git"  # who records it masks it
    assert dirty.dirty
    assert b"+x = 5\n" in dirty.diff


def test_git_is_not_disturbed(repo):
    """Nothing is locked or written in the repository, and a program that its config names for diffs is not run."""
    call_git(repo, "config", "diff.external", "touch /nowhere/at-all; false")
    write(repo, {"train.py": "x = 5\n"})
    (repo / ".git" / "index.lock").touch()
    before = {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*")}

    assert b"+x = 5\n" in git.state(str(repo)).diff
    assert {path: path.stat().st_mtime_ns for path in (repo / ".git").rglob("*")} == before


def test_no_git_at_all(tmp_path):
    """Where there is no repository, git says nothing."""
    assert git.find(str(tmp_path)) == ""


def test_a_git_that_hangs_leaves_nothing_running(tmp_path, monkeypatch):
    """A git that does not answer is given up, and whatever it waits for ends with it."""
    (tmp_path / "bin").mkdir()
    hanging, noted = tmp_path / "bin" / "git", tmp_path / "pid"
    hanging.write_text(f"#!/bin/sh\nsleep 3600 &\necho $! > {noted}.new\nmv {noted}.new {noted}\nwait\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(git, "_PATIENCE_S", 5.0)
    assert git.find(str(tmp_path)) == ""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(int(noted.read_text()))
        try:
            assert select.select([fd], [], [], 60)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            os.close(fd)


def test_no_more_of_a_diff_is_read_than_is_kept(repo, tmp_path, monkeypatch):
    """A git that has much to say is ended once enough of it is read, with all that it has started."""
    real, over = shutil.which("git"), tmp_path / "over"
    (tmp_path / "bin").mkdir()
    wordy = tmp_path / "bin" / "git"
    wordy.write_text(
        f'#!/bin/sh\ncase " $* " in *" diff "*) head -c 50000000 /dev/zero; touch {over};; *) exec {real} "$@";; esac\n'
    )
    wordy.chmod(0o755)
    write(repo, {"train.py": "x = 5\n"})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    assert git.state(str(repo), 1001).diff == b"\0" * 1001
    assert not over.exists()
    assert len(git.state(str(repo)).diff) == 50_000_000  # the control: who wants all of it has it
    assert over.exists()


def test_the_environment():
    """Only what is on the list is recorded, what was asked for besides, and secrets of either are masked."""
    environ = {
        "CUDA_VISIBLE_DEVICES": "0", "RANK": "1", "HOME": "/x", "AWS_SECRET_ACCESS_KEY": "no", "NCCL_TOKEN": "hunter2",
        "MY_SEED": "1", "OTHER": "2", "TF_VAR_password": "no",
    }  # fmt: skip

    assert environment.allowed(environ) == {"CUDA_VISIBLE_DEVICES": "0", "NCCL_TOKEN": "***", "RANK": "1"}
    assert environment.allowed(environ, "MY_*, OTHER").keys() - environment.allowed(environ).keys() == {
        "MY_SEED",
        "OTHER",
    }


def test_packages():
    """The packages of a path are found by their metadata, with their versions."""
    found = packages.installed(sys.path)

    assert found.versions["msgspec"]
    assert "pytest" in found.versions


def test_spoilt_metadata(tmp_path):
    """Metadata that cannot be read says nothing of the other packages."""
    write(
        tmp_path,
        {
            "a-1.dist-info/METADATA": "Name: a\nVersion: 1.0\n",
            "b-1.dist-info/METADATA": b"\xff\xfe\x00",
            "c-1.dist-info/METADATA": "Name: c\nVersion: 2.0\n",
            "c-1.dist-info/direct_url.json": '{"url": "https://u:hunter2@example.org/c",'
            ' "vcs_info": {"vcs": "git", "commit_id": "ab"}}',
        },
    )
    found = packages.installed([str(tmp_path), str(tmp_path / "nowhere")])

    assert found.versions == {"a": "1.0", "c": "2.0"}
    assert found.direct == {"c": "git+https://u:***@example.org/c@ab"}


def test_the_python_of_a_command(tmp_path):
    """A command's Python is itself, or that of its first line; of others there is none."""
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)

    assert packages.python_of([sys.executable, "x.py"], "/") == sys.executable
    assert packages.python_of([str(script)], "/") == sys.executable
    assert packages.python_of(["sh", "x.sh"], "/") == ""
    assert packages.ask(sys.executable, "/")[0] == platform.python_version()


def test_a_python_is_found_from_where_the_command_was_given(tmp_path, monkeypatch):
    """A path of a command leads where it does in the command's directory, not in ours; so does one of PATH."""
    write(tmp_path, {"train.py": "#!/usr/bin/env -S python3 -u\n", "bin/python3": "#!/bin/sh\n"})
    for name in ("train.py", "bin/python3"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir("/")
    python = str(tmp_path / "bin" / "python3")
    assert packages.python_of(["bin/python3", "x.py"], str(tmp_path)) == python
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}")
    assert packages.python_of(["./train.py"], str(tmp_path)) == python
    assert packages.python_of(["python3"], str(tmp_path)) == python


@pytest.mark.parametrize("command", [["./nowhere/python"], ["no-such-program-at-all"], ["./tool"], []])
def test_a_python_that_is_not_found_is_told(tmp_path, command):
    """A program that is not there, or whose Python is not, is an error: nobody says that nothing is installed."""
    write(tmp_path, {"tool": "#!/nowhere/python3\n"})
    (tmp_path / "tool").chmod(0o755)

    with pytest.raises(NotFoundError, match="not found"):
        packages.python_of(command, str(tmp_path))


@pytest.mark.parametrize("said", ["exit 1", "echo 3.11", "sleep 0", "printf '\\0003.11'"])
def test_a_python_that_does_not_tell(tmp_path, said):
    """One that fails, or says something else, is an error too."""
    write(tmp_path, {"python": f"#!/bin/sh\n{said}\n"})
    (tmp_path / "python").chmod(0o755)

    with pytest.raises(NotFoundError, match="did not return"):
        packages.ask(str(tmp_path / "python"), "/")


def test_nothing_of_the_user_s_is_run_to_ask(tmp_path, monkeypatch):
    """Modules of the user's that are called as those of Python are not run; a relative path is still looked in."""
    names = ("json.py", "platform.py", "lib/json.py", "lib/platform.py")
    write(tmp_path, dict.fromkeys(names, f"open({str(tmp_path / 'ran')!r}, 'w')\n"))
    write(tmp_path, {"lib/a-1.dist-info/METADATA": "Name: a\nVersion: 1.0\n"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((packages._OURS, "lib", "/elsewhere")))
    version, path = packages.ask(sys.executable, str(tmp_path))

    assert version == platform.python_version()
    assert path[:2] == [str(tmp_path / "lib"), "/elsewhere"]
    assert packages.installed(path).versions["a"] == "1.0"
    assert not (tmp_path / "ran").exists()


def test_the_machine():
    """System, host, processor and memory are told; what is not known is left out."""
    found = machine.describe()

    assert found["cpu"]["count"] >= 1
    assert found["memory_bytes"] > 1 << 20
    assert "memory_bytes" not in machine.describe("/nowhere")


EVIL = (
    "\n--no-index --find-links https://evil.example\r\x0b\u2028-e . # \x1b[2Jcoding: utf-7 +AAo--pre"
    " '$(touch ran)'`touch ran`;touch ran\n"
)


def test_no_attribute_is_an_option_of_pip():
    """Of all that a run says of its packages only names and versions reach pip; the rest are comments in one line."""
    found = {"numpy": "1.0", "torch": "2.5.1+cu121", "PyYAML": "6.0rc1.post2.dev3", "a": "1!2.0", "local": "1.0"}
    bad = {"-rhttps": "1", "--pre": "1", "a b": "1", "torch2": "-e", "x": "1.0\n--pre", "y\n--pre": "1", "z": "1 --pre"}
    bad |= {
        "ä": "1",
        "n": "\u0661",
        "h": "1;x",
        "u": "@ https://evil.example",
        "": "1",
        f"e{EVIL}": "1",
        "v": f"1{EVIL}",
    }
    made = recipe("r1", EVIL, {"python": f"3.11{EVIL}"}, {}, [], found | bad, {"local": EVIL, "z": "\ud800"})
    lines = re.split(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", made.texts["requirements.txt"].strip())

    assert [line for line in lines if not line.startswith("# ")] == [
        "a==1!2.0", "numpy==1.0", "PyYAML==6.0rc1.post2.dev3", "torch==2.5.1+cu121"
    ]  # fmt: skip
    assert lines[:2] == ["# The packages of the run.", "# Python (unknown)"]  # pip reads an encoding from these
    assert all(line.isprintable() for line in lines)
    assert "14 of its packages, whose name or version pip would not accept" in made.missing


def test_no_attribute_leaves_its_place_in_the_files(tmp_path):
    """Whatever a run says of itself, its files are run as one command, and show nothing that a terminal obeys."""
    words = ["sh", "-c", 'printf "%s|" "$0" "$X" >"$OUT"', EVIL]
    attrs = {"argv": words, "cwd": f"/r/../..{EVIL}", "code.root": "/r", "env.X": f"{EVIL}\n\n", "project": EVIL}
    attrs |= {"env.RANK": EVIL, f"env.A{EVIL}": "1", "capture": EVIL, "git.branch": EVIL, "asked.x": EVIL}
    attrs |= {"code.left_out": 1, "code.left_out_names": [EVIL], "gpu.names": 7, "memory_bytes": EVIL, "host": EVIL}
    made = recipe("r1", EVIL, attrs, {f"lr{EVIL}": EVIL}, ["a"], {}, {})
    (tmp_path / "code").mkdir()
    for name, text in made.texts.items():
        (tmp_path / name).write_text(text)
        assert text.replace("\n", "").isprintable(), name
    out = tmp_path / "out"
    subprocess.run(["sh", str(tmp_path / "run.sh")], env={**os.environ, "OUT": str(out)}, check=True)
    headings = [line for line in made.texts["README.md"].splitlines() if line.startswith(("#", "```"))]

    with open(out, newline="") as file:
        assert file.read() == f"{EVIL}|{EVIL}\n\n|"
    assert sorted(os.listdir(tmp_path)) == ["README.md", "code", "env.sh", "out", "run.sh"]
    assert os.listdir(tmp_path / "code") == []
    assert headings[1:] == ["## To run it again", "```sh", "```", "## What is missing", "## Its config"]
    assert recipe("r1", "one", {"argv": 7}, {}, [], {}, {}).missing[-1] == "its command"


def test_what_was_asked_for_is_asked_for_again():
    """The command of `reproduce` hands down what `--config` asked for; a secret among it is missing."""
    attrs = {"argv": ["python", "-c", "import os; print(os.environ['VEDETTE_ASKED'])"], "asked.lr": 0.3}
    attrs |= {"asked.model.name": "it's", "asked.api_key": "***"}
    made = recipe("r1", "one", attrs, {}, [], {}, {})
    line = next(line for line in made.texts["run.sh"].splitlines() if line.startswith("export"))
    done = subprocess.run(["sh", "-c", f'{line}; echo "$VEDETTE_ASKED"'], text=True, capture_output=True, check=True)

    assert json.loads(done.stdout) == {"lr": 0.3, "model.name": "it's", "api_key": "***"}
    assert "a secret in `vedette run --config`: replace *** in run.sh by it" in made.missing


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a", "a/../b", "a//b", "", "./a", ".git/config", "a/.GIT/b", "a\0b", "a/", "x" * 5000]
)
def test_no_manifest_leads_out(path):
    """A manifest that names a file outside of its package, or one of git's own, is refused whole."""
    from vedette.errors import FormatError

    data = manifest.write([manifest.Entry(path, "0" * 64, 1)])
    with pytest.raises(FormatError):
        manifest.read(data)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"path": "a"}]', b"\xff", b"[" * 100_000])
def test_bad_manifests(data):
    """What is no manifest is refused in a sentence."""
    from vedette.errors import FormatError

    with pytest.raises(FormatError):
        manifest.read(data)


def test_a_path_twice():
    """Nor may a path be there twice, or be a file and a directory."""
    from vedette.errors import FormatError

    for other in ("a", "a/b"):
        with pytest.raises(FormatError, match="twice"):
            manifest.read(manifest.write([manifest.Entry("a", "0" * 64, 1), manifest.Entry(other, "0" * 64, 1)]))
    assert stat.S_IMODE(manifest.Entry("a", "", 1).mode) == 0o644


def test_a_manifest_makes_nothing_that_others_can_write_to(tmp_path):
    """Of a mode only counts whether its owner may run the file: it is 0755 or 0644, less the umask."""
    modes = (0o777, 0o666, 0o100, 0o4755, 0o2777, 0o7777, 0o600, 0, -1)
    entries = [manifest.Entry(f"d/f{at}", "0" * 64, 1, mode) for at, mode in enumerate(modes)]
    found = {}
    for umask in (0, 0o077):
        before = os.umask(umask)
        try:
            reproduce._check(str(tmp_path / f"{umask:o}" / "d"), force=False)
            reproduce._write_code(
                lambda _: b"x", manifest.read(manifest.write(entries)), str(tmp_path / f"{umask:o}" / "d")
            )
        finally:
            os.umask(before)
        paths = sorted((tmp_path / f"{umask:o}").rglob("*"), key=lambda path: (len(path.parts), path.name))
        found[umask] = [stat.S_IMODE(os.lstat(path).st_mode) for path in paths]

    assert found[0] == [0o755] * 3 + [0o755, 0o644, 0o755, 0o755, 0o755, 0o755, 0o644, 0o644, 0o755]
    assert found[0o077] == [mode & 0o700 for mode in found[0]]


def test_its_word_is_the_last(home, tmp_path):
    """A clock that was set back since the run began does not leave the run with `begun`."""
    home.prepare()
    later = time.time_ns() + 3600 * 10**9
    brief = Brief("r", os.fsencode(home.asked), Settings(), str(tmp_path), ["train.py"], "", "3.11", [], later)
    Program(brief).run()

    [name] = os.listdir(home.spool)
    facts = [wire.decode_fact(payload) for _, payload in Tail(os.path.join(home.spool, name), LANE_FACTS).read()]
    assert facts[-1].attrs == {"capture": "done"}
    assert {fact.t for fact in facts} == {later + 1}


def test_few_captures_work_at_once(tmp_path):
    """As many captures of a home work at once as there are cores; the others wait until one of them has ended."""
    cores = len(os.sched_getaffinity(0))
    held = [os.open(tmp_path / f"{CAPTURE_LOCK}{number}", os.O_RDWR | os.O_CREAT, 0o600) for number in range(cores)]
    for fd in held:
        fcntl.flock(fd, fcntl.LOCK_EX)
    worked, allowed = threading.Event(), []

    def work():
        with _one_of_few(str(tmp_path)):
            allowed.append(may_work)
            worked.set()

    may_work = False
    waiting = threading.Thread(target=work)
    waiting.start()
    assert not worked.wait(0.05)
    may_work = True
    for fd in held:
        os.close(fd)
    waiting.join(30)
    assert allowed == [True]
    with _one_of_few(str(tmp_path / "nowhere")):  # where no lock can be had, nobody waits
        pass
