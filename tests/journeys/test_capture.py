"""What a run is made of, taken down while it goes on, and run again from that: real programs in real repositories."""

import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from tests.journeys.conftest import eventually, read_runs
from tests.rooms.capture.test_capture import call_git, write
from tests.rooms.conftest import QUICK, call
from vedette.blobs import Blobs
from vedette.store.sqlite_file import open_reader

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _capturing(monkeypatch):
    """Here what a run is made of is taken down, as it is unless one says otherwise."""
    monkeypatch.delenv("VEDETTE_CAPTURE_ENABLE")
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path):
    """A repository with one commit, whose program prints and logs numbers that depend on all its files."""
    folder = tmp_path / "repo"
    write(folder, {"train.py": TRAIN, "pkg/model.py": "SCALE = 2\n", "data/in.txt": "3\n"})
    call_git(folder, "init", "-q")
    call_git(folder, "add", ".")
    call_git(folder, "commit", "-qm", "first")
    return folder


TRAIN = """
import os, sys
import vedette
from pkg.model import SCALE
run = vedette.init(name="train", config={"lr": 0.5, "password": "hunter2hunter2"})
base = float(open(os.path.join("data", "in.txt")).read())
for step in range(5):
    run.log({"loss": base * SCALE / (step + 1) + float(sys.argv[1]) + len(sys.argv[2])}, step=step)
run.finish()
"""


def captured(home, n=1):
    """Wait until all of so many runs is taken down; return the runs, the oldest first."""

    def look():
        runs = read_runs(home)
        return runs if len(runs) >= n and all(run.attrs.get("capture", "begun") != "begun" for run in runs) else None

    return eventually(look, PATIENCE_S)


def execute(folder, *args, **environ):
    """Run a Python program to its end, without a fault."""
    done = subprocess.run(
        [sys.executable, *args], cwd=folder, env={**os.environ, **environ}, text=True, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_dirty_tree_gives_the_same_numbers_again(home, hub, repo, tmp_path):
    """The code and command of a working tree with changes, new and removed files give the same numbers again."""
    write(repo, {"pkg/model.py": "from pkg.more import SCALE\n", "pkg/more.py": "SCALE = 7\n", "data/in.txt": "11\n"})
    execute(repo, "train.py", "0.25", "a 'b' \"c\" $HOME `x`\n", CUDA_VISIBLE_DEVICES="3")
    [first] = captured(home)
    write(repo, {"pkg/more.py": "SCALE = 0\n", "data/in.txt": "0\n", "train.py": "raise SystemExit(3)\n"})
    done = call("reproduce", first.id, "--dir", str(tmp_path / "again"), "--run")

    assert (done.returncode, done.stderr) == (0, "")
    again = captured(home, 2)[1]
    assert list(again.history("loss").value) == list(first.history("loss").value)
    assert again.attrs["code.digest"] == first.attrs["code.digest"]
    assert again.attrs["argv"][1:] == first.attrs["argv"][1:]
    assert again.attrs["env.CUDA_VISIBLE_DEVICES"] == "3"
    assert first.attrs["git.dirty"] is True
    assert "msgspec==" in (tmp_path / "again" / "requirements.txt").read_text()
    assert "+SCALE = 7" not in (tmp_path / "again" / "git.diff").read_text()  # it is a new file, and part of the code
    assert "+11" in (tmp_path / "again" / "git.diff").read_text()


def test_what_is_on_record(home, hub, repo):
    """Command, directory, git, code, packages, Python and machine are on the run's record."""
    execute(repo, "train.py", "1", "x", "--lr", "0.5", "--depth=18", "--api-key", "hunter2hunter2", "-v")
    [run] = captured(home)
    attrs = run.attrs

    assert attrs["capture"] == "done"
    assert attrs["argv"][1:5] == ["train.py", "1", "x", "--lr"]
    assert run.arg == {"lr": 0.5, "depth": 18, "api_key": "***", "v": True}
    assert (attrs["cwd"], attrs["code.root"], attrs["code.script"]) == (str(repo), str(repo), "train.py")
    assert (attrs["git.branch"], attrs["git.dirty"], attrs["code.files"], attrs["code.left_out"]) == (
        "main",
        False,
        3,
        0,
    )
    assert attrs["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"os", "host", "cpu.count", "cpu.model", "memory_bytes", "packages.digest"} <= attrs.keys()
    assert {"code.manifest", "packages.json"} <= {file.name for file in run.files()}
    assert run.config == {"lr": 0.5, "password": "***"}
    shown = call("show", run.id).stdout
    assert "train.py 1 x" in shown
    assert "3 files" in shown
    assert "depth    18" in shown.partition("options of its command line")[2]
    assert [found.id for found in read_runs(home)] == [run.id]
    where = "git.branch = main and not git.dirty and arg.depth = 18"
    assert json.loads(call("ls", "--json", "--where", where).stdout)[0]["id"] == run.id


def test_it_is_none_of_the_run_s_processes(home, hub, repo):
    """Who takes it down is no process of the run, and its end is not the run's."""
    execute(repo, "train.py", "1", "x")
    [run] = captured(home)

    assert len(run.processes()) == 1
    assert (run.state, run.cause) == ("done", "")


def test_a_kill_right_after_init(home, hub, repo):
    """A process, and its whole group, that is killed with -9 as soon as `init` has returned has its code on record."""
    write(repo, {"train.py": "import os, signal, vedette\nvedette.init()\nos.killpg(0, signal.SIGKILL)\n"})
    done = subprocess.run([sys.executable, "train.py"], cwd=repo, check=False, start_new_session=True)
    [run] = captured(home)

    assert done.returncode == -signal.SIGKILL
    assert (run.attrs["capture"], run.attrs["code.files"]) == ("done", 3)


def test_one_that_is_never_finished_says_so(home, hub, repo, tmp_path):
    """Where the program that takes it down dies, the run says that this was begun, and `reproduce` so too."""
    broken = tmp_path / "broken" / "sitecustomize.py"
    write(
        broken.parent,
        {broken.name: "import sys, os\nif '-P' in sys.orig_argv and 'vedette.capture' in sys.orig_argv: os._exit(1)\n"},
    )
    execute(repo, "train.py", "1", "x", PYTHONPATH=f"{broken.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    [run] = read_runs(home)
    done = call("reproduce", run.id, "--dir", str(tmp_path / "again"))

    assert run.attrs["capture"] == "begun"
    assert "started and never finished" in done.stdout
    assert "missing: its code" in done.stdout
    assert (tmp_path / "again" / "run.sh").exists()


INVISIBLE = """
import os, signal, threading, time, vedette
heard = []
signal.signal(signal.SIGCHLD, lambda *_: heard.append(1))
vedette.init(console=False)
assert threading.active_count() == 1, threading.enumerate()
try:
    os.wait()
except ChildProcessError:
    print("no child", end="")
assert not heard
pid = os.fork()
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
deadline = time.monotonic() + 20
while not heard and time.monotonic() < deadline:
    time.sleep(0.01)
assert heard  # that of a child of its own does come
"""


def test_nothing_of_it_shows_in_the_user_s_process(home, hub, repo):
    """No child, no zombie, no thread, and no signal is there because of it, or of the hub that is started first."""
    assert execute(repo, "-c", INVISIBLE) == "no child"
    assert execute(repo, "-c", INVISIBLE) == "no child"


def test_workers_do_not_take_it_down_again(home, hub, repo):
    """A run is taken down once, whatever forks, spawns and joins it."""
    code = """
import multiprocessing, os, subprocess, sys, vedette
def work():
    vedette.log({"a": 1})
if __name__ == "__main__":
    vedette.init()
    for kind in ("fork", "spawn"):
        worker = multiprocessing.get_context(kind).Process(target=work)
        worker.start()
        worker.join()
    subprocess.run([sys.executable, "-c", "import vedette; vedette.init(config={'more': 1})"], check=True)
"""
    write(repo, {"train.py": code})
    execute(repo, "train.py")
    [run] = captured(home)

    assert len(open_reader(home.store).blobs(run.id)) == len({file.name for file in run.files()})
    assert len(run.processes()) == 4
    assert run.attrs["argv"][1:] == ["train.py"]


def test_one_program_serves_all_runs_of_a_process(home, hub, repo, tmp_path):
    """Runs that begin at once are taken down by one program, each with its own environment; a later one is, too."""
    counting = "import os, sys\nif 'vedette.capture' in sys.orig_argv: os.write(os.open(__file__ + '.n', 1025), b'.')\n"
    write(tmp_path / "site", {"sitecustomize.py": counting, "sitecustomize.py.n": ""})
    code = """
import os, threading, time, vedette
def begin(n):
    with vedette.init(name=f"t{n}"):
        time.sleep(0.05)
threads = [threading.Thread(target=begin, args=(n,)) for n in range(6)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
os.environ["OMP_NUM_THREADS"] = "7"
begin(6)
time.sleep(8)
begin(7)
"""
    write(repo, {"train.py": code})
    path = f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    execute(repo, "train.py", PYTHONPATH=path, OMP_NUM_THREADS="1")
    runs = {run.name: run.attrs for run in captured(home, 8)}

    assert [runs[f"t{n}"]["capture"] for n in range(8)] == ["done"] * 8
    assert [runs[f"t{n}"]["env.OMP_NUM_THREADS"] for n in (0, 6, 7)] == ["1", "7", "7"]
    assert len({attrs["code.digest"] for attrs in runs.values()}) == 1
    assert len((tmp_path / "site" / "sitecustomize.py.n").read_text()) == 2


IN_HANDLER = """
import faulthandler, signal, vedette, vedette.client.hooks
from vedette.client import capture_program
faulthandler.dump_traceback_later(20, exit=True)
start, fired = capture_program.detached.start, []
def interrupted(module, *args, **named):
    if module == "vedette.capture" and not fired:
        fired.append(module)
        signal.raise_signal(signal.SIGALRM)
    return start(module, *args, **named)
capture_program.detached.start = interrupted
signal.signal(signal.SIGALRM, lambda *_: vedette.init(name="in the handler").finish())
vedette.init(name="outside").finish()
print(len(fired), end="")
"""


def test_a_signal_handler_may_begin_a_run_while_its_thread_begins_one(home, hub, repo):
    """It does not wait for a lock that its own thread holds, and both runs are taken down."""
    assert execute(repo, "-c", IN_HANDLER) == "1"
    assert {run.name for run in captured(home, 2)} == {"outside", "in the handler"}


def test_off_takes_nothing_down(home, repo, tmp_path):
    """Neither with VEDETTE_MODE=off, nor with capture.enable=false, is anything taken down."""
    execute(repo, "train.py", "1", "x", VEDETTE_MODE="off")
    assert os.listdir(home.root) == []
    execute(repo, "train.py", "1", "x", VEDETTE_CAPTURE_ENABLE="false")
    [run] = read_runs(home)

    assert "capture" not in run.attrs
    assert run.files() == []
    done = call("reproduce", run.id, "--dir", str(tmp_path / "again"))
    assert done.returncode == 0
    assert "missing: its command" in done.stdout
    assert "run.sh" not in done.stdout  # there is none
    assert not (tmp_path / "again" / "run.sh").exists()


def test_without_the_code(home, hub, repo):
    """With capture.code=false everything but the code is taken down."""
    execute(repo, "train.py", "1", "x", VEDETTE_CAPTURE_CODE="false")
    [run] = captured(home)

    assert "code.digest" not in run.attrs
    assert {"git.commit", "packages.digest"} <= run.attrs.keys()


def test_a_command(home, hub, repo, tmp_path):
    """`vedette run` takes down the command's code and packages, and what joins the run does not do so again."""
    done = call("run", "--", sys.executable, "train.py", "1", "x", cwd=repo)
    assert done.returncode == 0, done.stderr
    [run] = captured(home)

    assert run.attrs["argv"] == [sys.executable, "train.py", "1", "x"]
    assert (run.attrs["code.script"], run.attrs["code.files"]) == ("train.py", 3)
    assert run.attrs["packages.count"] > 1
    assert len(open_reader(home.store).blobs(run.id)) == len({file.name for file in run.files()})


def test_a_command_by_a_path_from_here(home, hub, repo):
    """A command that is named by a path from where one is has its packages on record."""
    write(repo, {"job.py": f"#!{sys.executable}\n"})
    (repo / "job.py").chmod(0o755)
    assert call("run", "--", "./job.py", cwd=repo).returncode == 0
    [run] = captured(home)

    assert run.attrs["capture"] == "done"
    assert run.attrs["packages.count"] > 1
    assert run.attrs["python"] == platform.python_version()


def test_a_python_that_does_not_tell(home, hub, repo):
    """Where the packages of a command cannot be known, that is said, and all else is on record."""
    write(repo, {"bin/python": "#!/bin/sh\nexit 1\n"})
    (repo / "bin" / "python").chmod(0o755)
    call("run", "--", "bin/python", "train.py", cwd=repo)
    [run] = captured(home)

    assert run.attrs["capture"].startswith("in part; packages: NotFoundError: ")
    assert "packages.digest" not in run.attrs
    assert {"git.commit", "code.digest"} <= run.attrs.keys()


def test_a_command_that_is_no_python(home, hub, repo, tmp_path):
    """A shell script has its code on record too, and no packages."""
    write(repo, {"job.sh": "#!/bin/sh\necho $(cat data/in.txt) $1\n"})
    (repo / "job.sh").chmod(0o755)
    assert call("run", "--", "./job.sh", "a b", cwd=repo).stdout == "3 a b\n"
    [run] = captured(home)
    done = call("reproduce", run.id, "--dir", str(tmp_path / "again"), "--run")

    assert run.attrs["code.script"] == "job.sh"
    assert "packages.digest" not in run.attrs
    assert done.stdout.endswith("3 a b\n")


SECRETS = ("hunter2hunter2", "s3cr3t-in-argv", "tok-in-url-77", "env-secret-4711", "in-dot-env-99", "literal0in0code1")


def leaked(home):
    """Return which of the secrets stand anywhere in the bytes of a home."""
    found = set()
    for folder, _, names in os.walk(home.root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    data = file.read()
                found |= {secret for secret in SECRETS if secret.encode() in data}
    return found


LEAKY = """
import os, sys, time
import vedette
API_KEY = "literal0in0code1"
run = vedette.init(config={"password": "hunter2hunter2", "url": "https://ada:tok-in-url-77@example.org/x?a=1",
                           "nested": {"hub": {"api_key": "hunter2hunter2"}}, "num_tokens": 512, "tokenizer": "bert"})
run.config["token"] = "hunter2hunter2"
run.summary["auth"] = "hunter2hunter2"
run.log({"loss": 1.0})
run.finish()
"""


def test_no_secret_is_kept(home, hub, repo):
    """Secrets of config, command, environment, remote, code, diff and .env are in no file of the home; others stay."""
    call_git(repo, "remote", "add", "origin", "https://ada:tok-in-url-77@example.org/x.git")
    write(repo, {"train.py": LEAKY, ".env": "X=in-dot-env-99\n"})
    execute(repo, "train.py", "--password", "s3cr3t-in-argv", "--token=s3cr3t-in-argv", NCCL_TOKEN="env-secret-4711")
    [run] = captured(home)

    assert leaked(home) == set()
    assert run.attrs["capture"] == "done"
    assert run.config["num_tokens"] == 512
    assert run.config["tokenizer"] == "bert"
    assert run.attrs["git.remote"] == "https://ada:***@example.org/x.git"
    assert run.attrs["env.NCCL_TOKEN"] == "***"
    assert run.attrs["code.left_out_by.secret"] == 1
    call("stop", run.id)
    assert leaked(home) == set()


def test_the_check_of_secrets_finds_what_is_kept(home, hub, repo, tmp_path):
    """The positive control: where nothing is masked, all of them are found, so the check does look."""
    naked = (
        "import vedette.masks as m\nm.is_secret = lambda key: False\nm.forms = lambda text, **_: text\n"
        "import sys\nif 'vedette.capture' in sys.orig_argv:\n"
        "    import vedette.capture.cleaning as c\n    c.is_secret_file = lambda path: False\n"
        "    c.is_secret = m.is_secret\n    c.forms = m.forms\n"
    )
    write(tmp_path / "naked", {"sitecustomize.py": naked})
    call_git(repo, "remote", "add", "origin", "https://ada:tok-in-url-77@example.org/x.git")
    write(repo, {"train.py": LEAKY, ".env": "X=in-dot-env-99\n"})
    path = f"{tmp_path / 'naked'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    execute(repo, "train.py", "--password", "s3cr3t-in-argv", NCCL_TOKEN="env-secret-4711", PYTHONPATH=path)
    captured(home)

    assert leaked(home) == set(SECRETS)


def test_reproduce_writes_nowhere_else(home, hub, repo, tmp_path):
    """A directory that is not empty is refused; with --force, links that lie in it lead nothing elsewhere."""
    execute(repo, "train.py", "1", "x")
    [run] = captured(home)
    target, elsewhere = tmp_path / "again", tmp_path / "elsewhere"
    elsewhere.mkdir()
    target.mkdir()
    (target / "code").symlink_to(elsewhere)
    refused = call("reproduce", run.id, "--dir", str(target))
    led = call("reproduce", run.id, "--dir", str(target), "--force")
    (target / "code").unlink()
    (target / "run.sh").symlink_to(elsewhere / "run.sh")
    written = call("reproduce", run.id, "--dir", str(target), "--force", "--json")

    assert (refused.returncode, "not empty" in refused.stderr) == (2, True)
    assert led.returncode == 2
    assert "cannot be written" in led.stderr
    assert os.listdir(elsewhere) == []
    assert json.loads(written.stdout)["files"] == 3
    assert not (target / "run.sh").is_symlink()


def test_bytes_that_are_gone_or_damaged(home, hub, repo, tmp_path):
    """A file whose bytes are gone, or are not what they were, is named as missing; the others are written."""
    execute(repo, "train.py", "1", "x")
    [run] = captured(home)
    blobs = Blobs(home)
    digests = {item["path"]: item["digest"] for item in json.load(blobs.open(run.attrs["code.digest"]))}
    os.unlink(blobs.path(digests["data/in.txt"]))
    with open(blobs.path(digests["pkg/model.py"]), "wb") as file:
        file.write(b"import os; os.system('true')")
    done = call("reproduce", run.id, "--dir", str(tmp_path / "again"), "--json")

    assert (json.loads(done.stdout)["files"], done.returncode) == (1, 0)
    assert [text for text in json.loads(done.stdout)["missing"] if "data/in.txt" in text]
    assert not (tmp_path / "again" / "code" / "pkg" / "model.py").exists()


def test_edit(home, hub, repo):
    """A run's name, description, notes, star and tags can be said afterwards, changed, and searched for."""
    execute(repo, "train.py", "1", "x", VEDETTE_CAPTURE_ENABLE="false")
    [run] = read_runs(home)
    first = call(
        "edit", run.id, "--star", "--tag", "best", "--tag", "of all", "--description", "for the paper", "--json"
    )
    second = call("edit", run.id, "--untag", "of all", "--name", "chosen one", "--notes", "lr too high", "--json")

    assert json.loads(first.stdout)[0] | {"id": ""} == {
        "id": "", "name": "train", "star": True, "tags": ["best", "of all"], "description": "for the paper",
        "notes": "",
    }  # fmt: skip
    assert json.loads(second.stdout)[0]["tags"] == ["best"]
    assert json.loads(call("ls", "--json", "--where", "star and tag.best").stdout)[0]["name"] == "chosen one"
    assert " STAR " in call("ls").stdout
    shown = call("show", "chosen one").stdout
    assert shown.startswith("* chosen one")
    assert "for the paper" in shown
    assert call("edit", run.id, "--no-star").returncode == 0
    assert " STAR " not in call("ls").stdout


@pytest.mark.parametrize(
    "args",
    [(), ("--name", ""), ("--name", "x" * 500), ("--tag", ""), ("--tag", "a", "--untag", "a"), ("nobody", "--star")],
)
def test_bad_edits(home, hub, repo, args):
    """An edit that says nothing, or nothing sound, is refused in a sentence."""
    execute(repo, "train.py", "1", "x", VEDETTE_CAPTURE_ENABLE="false")
    done = call("edit", *(() if args[:1] == ("nobody",) else ("train",)), *args)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
