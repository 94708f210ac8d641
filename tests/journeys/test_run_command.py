"""`vedette run -- CMD`: the command runs as ever, and its end is the run's end."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import QUICK, call
from vedette import kernel
from vedette.views.text import duration

PYTHON = sys.executable
TELLING = """
import signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: got.append(signal.Signals(number).name))
print("ready", flush=True)
deadline = time.monotonic() + 20
while "SIGUSR2" not in got and time.monotonic() < deadline: time.sleep(0.01)
print("got", *got, flush=True)
"""


def ended(home, tries=1):
    return eventually(lambda: (r := read_runs(home)) and r[0].end_t and len(r[0].tries()) == tries and r[0])


def launch(*args, **kwargs):
    """Start `vedette run` with these arguments."""
    kwargs = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
    return subprocess.Popen([PYTHON, "-m", "vedette", "run", *args], env={**os.environ, **QUICK}, **kwargs)


@pytest.mark.parametrize(
    ("script", "code", "state", "cause"),
    [
        ("exit 0", 0, "done", ""),
        ("exit 3", 3, "failed", "exit code 3"),
        (
            "kill -KILL $$",
            137,
            "failed",
            "killed by SIGKILL: kill -9 or a scheduler; the memory limit was not reached",
        ),
        ("exit 127", 127, "failed", "exit code 127: a command was not found"),
        ("exit 137", 137, "failed", "exit code 137: probably SIGKILL killed what it had started"),
        (
            "kill -TERM $$",
            143,
            "cancelled",
            "killed by SIGTERM: who sent it was not seen, as it did not come through `vedette run`",
        ),
        ("kill -SEGV $$", 139, "failed", "killed by SIGSEGV"),
    ],
)
def test_the_end_of_the_command_is_the_end_of_the_run(home, hub, script, code, state, cause):
    """The exit code is passed through, and the run says how the command ended, as does the last line on stderr."""
    done = call("run", "--", "sh", "-c", f"echo out; echo err >&2; {script}")
    run = ended(home)
    told, took = re.subn(r"done in [0-9.]+s: `vedette show \S+` shows it", "done", done.stderr)
    assert (done.returncode, done.stdout, took) == (code, "out\n", not code)
    assert told == f"err\nvedette: {run.name} {state}{': ' if cause else ''}{cause}\n"
    assert (run.state, run.cause) == (state, cause)
    assert code or f"done in {duration(run.duration_s)}:" in done.stderr
    assert run.attrs["script"] == "sh"
    assert [row.name.rpartition(" ")[0] for row in run.processes()] == ["vedette run"]
    assert [row.attrs["main"] for row in run.processes()] == [True]


def test_a_run_that_another_hub_keeps_is_shown_there(home, hub, monkeypatch):
    """The last line says where it goes, without the token; the command that it names works there, and not here."""
    token = "AHdjCjGks7S913G7zNDG9Yq61XoBMGTx"
    monkeypatch.setenv("VEDETTE_HUB", f"vedette://{token}@127.0.0.1:1")
    done = call("run", "--name", "far", "--", "true")
    line = r"vedette: far done in [0-9.]+s: it goes to the hub at 127\.0\.0\.1:1, where `vedette show far` shows it\n"
    assert re.fullmatch(line, done.stderr)
    assert token not in done.stdout + done.stderr


def test_what_is_said_of_the_run(home, hub):
    """Project, name and tags are the run's; what a program never reads is `asked`, and keeps its type."""
    done = call(
        "run", "--project", "cifar", "--name", "first", "--tag", "a", "--tag", "b",
        "--config", "lr=0.1", "--config", "model.depth=18", "--config", "on=true",
        "--config", "opt=adam", "--config", "path=a=b", "--quiet", "--", "true",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")

    run = ended(home)
    assert (run.project, run.name, run.tags) == ("cifar", "first", ["a", "b"])
    assert (run.config, run.asked) == (
        {},
        {"lr": 0.1, "model": {"depth": 18}, "on": True, "opt": "adam", "path": "a=b"},
    )
    [listed] = json.loads(call("ls", "--json", "--where", "asked.lr = 0.1 and not config.lr").stdout)
    assert listed["asked"]["lr"] == 0.1
    assert "--config`, not in its config\n  lr           0.1" in call("show", run.id).stdout


ASKING = """
import argparse, dataclasses, json, sys, vedette
@dataclasses.dataclass
class Config:
    lr: float = 0.1
given = [{"lr": 0.1, "model": {"depth": 1, "width": 2}, "k.v": 0}, argparse.Namespace(lr=0.1), Config(), None]
for config in given:
    run = vedette.init(config=config)
    print(json.dumps([run.config["lr"], run.config["model"]["depth"], {**run.config} == dict(run.config.items())]))
    run.config["width"] = 5
    run.finish()  # the first is the launcher's run, the others are below it
"""


def test_what_is_asked_for_is_what_the_program_gets(home, hub):
    """--config holds against init's config of every kind, in children, below, with mode off, and in later tries.

    What the program sets later is what it used, and what it never reads is no config.
    """
    pairs = ("lr=0.3", "model.depth=18", "k.v=1", "idle=1", "width=4")
    asks = [word for pair in pairs for word in ("--config", pair)]
    done = call("run", "--name", "first", *asks, "--", PYTHON, "-c", ASKING)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [[0.3, 18, True]] * 4
    assert "sets lr, model.depth, k.v: the program gets" in done.stderr
    run = ended(home)
    # It read the whole config by `**`, so `idle` counts as read, too.
    assert run.config == {"lr": 0.3, "model": {"depth": 18, "width": 2}, "k": {"v": 1}, "idle": 1, "width": 5}
    assert "width" in call("show", run.id).stdout.partition("not in its config")[2]

    reads = (
        "import vedette as v; r = v.init(config={'lr': 0.1}); print(r.config['lr'], r.config.get('idle', 0), r.name)"
    )
    below = [PYTHON, "-m", "vedette", "run", "--quiet", "--config", "idle=2", "--name", "inner"]
    done = call("run", "--resume", "first", "--", *below, "--", PYTHON, "-c", reads)
    assert (done.stdout, "--config lr=0.3" in done.stderr, ended(home, 2).config["lr"]) == ("0.3 2 inner\n", True, 0.3)
    assert call("run", "--resume", "first", "--", PYTHON, "-c", reads).stdout == "0.3 1 first\n"
    off = call("run", *asks, "--", PYTHON, "-c", reads, environ={"VEDETTE_MODE": "off"})
    assert off.stdout == "0.3 1 off\n"


def test_the_script_is_the_file_that_python_runs(home, hub, tmp_path):
    """The script of a run is the same below `vedette run` as without it: the file, and not `python`."""
    script = tmp_path / "train.py"
    script.write_text("print('trained')")
    assert call("run", "--", PYTHON, "-u", str(script), "--lr", "0.1").stdout == "trained\n"
    assert ended(home).attrs["script"] == "train.py"


def test_arguments_reach_the_command_as_they_are(home, hub):
    """What stands behind -- is the command's own, other dashes and our options too."""
    words = ["-x", "--", "--home", "two words", "", "--resume", "é"]
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert json.loads(call("run", "--", PYTHON, "-c", show, *words).stdout) == words

    assert json.loads(call("run", PYTHON, "-c", show, *words).stdout) == words


def test_a_child_joins(home, hub):
    """What the command starts and calls init takes part in the run, under its own process."""
    code = "import vedette as v; r = v.init(name='other', config={'lr': 1}); r.log({'x': 1.0}, 0); print(r.id, r.name)"
    code += "; import sys; print('100%|#| 7/7 [00:01<00:00, 5.00it/s, x=2]', 'y=3', sep='\\n', file=sys.stderr)"
    done = call("run", "--name", "outer", "--metric", "auto", "--", PYTHON, "-c", code)

    run = ended(home)
    assert (f"{run.id} outer\n", run.name, run.config) == (done.stdout, "outer", {"lr": 1})
    assert run.history("x").value.tolist() == [1.0]  # and not what its bar shows: it logs by itself
    assert run.history("y").value.tolist() == [3.0]
    assert [row.attrs["main"] for row in run.processes()] == [True, False]


def test_an_exception_below(home, hub):
    """A script that dies of an exception: run and process both say which, and the log has all of it."""
    done = call("run", "--", PYTHON, "-c", "import vedette; vedette.init(); raise ValueError('boom')")
    assert done.returncode == 1

    run = ended(home)
    assert (run.state, run.cause) == ("failed", "ValueError: boom")
    assert [row.cause for row in run.processes()] == ["ValueError: boom", "ValueError: boom"]
    assert "boom" in next(event.text for event in run.logs() if event.kind == "exception")


BREAKS = """
import os, signal, sys, vedette
from concurrent.futures import ProcessPoolExecutor

def work(n):
    if n == 2:
        os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "killed" else os._exit(5)

if __name__ == "__main__":
    vedette.init()
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(work, range(4)))
"""
THREAD = """
import threading, vedette
vedette.init()
thread = threading.Thread(target=lambda: 1 / 0, name="loader")
thread.start(), thread.join()
"""


@pytest.mark.parametrize(
    ("program", "words", "state", "cause"),
    [
        (BREAKS, "killed", "failed", r"worker \d+ of the process pool was killed by SIGKILL: .*; Broken.* followed"),
        (BREAKS, "exits", "failed", r"worker \d+ of the process pool exited with code 5; BrokenProcessPool followed"),
        (THREAD, "", "done", r"thread loader died: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_process_below_knows_more_than_its_exit_code(home, hub, tmp_path, program, words, state, cause):
    """Its own cause is that of the run, also below a shell if that failed; the last line says it, too."""
    (tmp_path / "program.py").write_text(program)
    command = f"{PYTHON} {tmp_path}/program.py {words}"
    below_shell = ["sh", "-c", f"{command} || exit 1"]
    done = call("run", "--", *(below_shell if state == "failed" else command.split()))

    run = ended(home)
    assert run.state == state
    assert re.fullmatch(cause, run.cause)
    assert run.cause in done.stderr.splitlines()[-1]


def test_a_hub_that_does_not_answer_holds_nobody_up_for_long(home, hub):
    """The exit code is the cause if nobody can tell more within two seconds or so."""
    os.kill(hub, signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = call("run", "--", PYTHON, "-c", "import vedette; vedette.init().log({'x': 1}); raise SystemExit(3)")
        assert time.monotonic() - began < 20
    finally:
        os.kill(hub, signal.SIGCONT)
    assert (done.returncode, done.stderr.splitlines()[-1].partition(" ")[2].partition(" ")[2]) == (
        3, "failed: exit code 3",
    )  # fmt: skip
    assert ended(home).cause == "exit code 3"


def test_resumed_by_name(home, hub):
    """--resume takes a name or a beginning, and so does the variable; steps that are logged again supersede."""
    step = "import sys, vedette; vedette.log({'x': float(sys.argv[1])}, step=int(sys.argv[2]))"
    for name in ("old", "new"):  # there are two runs, so that one must be found
        call("run", "--name", name, "--", PYTHON, "-c", step, "1", "0")
    eventually(lambda: all(run.end_t for run in read_runs(home)))
    assert call("run", "--resume", "old", "--", PYTHON, "-c", step, "2", "0").returncode == 0
    [run_id] = [run.id for run in read_runs(home) if run.name == "old"]
    assert call("run", "--resume", run_id[:9], "--tag", "third", "--", PYTHON, "-c", step, "3", "1").returncode == 0
    assert call("run", "--", PYTHON, "-c", step, "4", "1", environ={"VEDETTE_RESUME": "old"}).returncode == 0

    run = ended(home, 4)
    assert (run.name, run.tags, run.state) == ("old", ["third"], "done")
    assert run.history("x").value.tolist() == [2.0, 4.0]
    assert run.history("x", all_tries=True).value.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_clock_that_went_back(home, hub, finish):
    """The command line sees the tries there are: a new one is above them, even where the clock says otherwise."""
    call("run", "--name", "old", "--", "true")
    run = ended(home)
    ahead = time.time_ns() + 10**15
    finish(
        """
        import sys
        from vedette.client.current import begin_owned, end_as
        from vedette.client.run import About
        from vedette.settings import load
        end_as(begin_owned(load(), About(), resume=sys.argv[1], after=int(sys.argv[2])), "failed", "")
        """,
        run.id,
        str(ahead),
    )
    ended(home, 2)
    call("run", "--resume", "old", "--", "true")

    run = ended(home, 3)
    assert run.state == "done"
    assert run.tries()[2].attrs["n"] == ahead + 2


def test_signals_are_passed_on(home, hub):
    """What is sent to the launcher reaches the command, once each."""
    job = launch("--quiet", "--", PYTHON, "-c", TELLING)
    assert job.stdout.readline() == "ready\n"
    sent = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
    for name in sent:
        job.send_signal(getattr(signal, name))
        time.sleep(0.1)
    out, err = job.communicate(timeout=30)

    assert (out.split(), job.returncode) == (["got", *sent], 0)
    run = ended(home)
    assert (run.state, run.cause[:31]) == ("cancelled", "told to stop by SIGTERM, sent b")
    assert err == ""


def test_ctrl_c_in_a_terminal_comes_once(home, hub):
    """Ctrl-C reaches all in the foreground by itself: the command gets it once, and the launcher waits for its end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(QUICK)
        os.execv(PYTHON, [PYTHON, "-m", "vedette", "run", "--", PYTHON, "-c", TELLING])
    said = _until(terminal, b"ready")
    os.write(terminal, b"\x03")
    time.sleep(0.5)
    os.kill(pid, signal.SIGUSR2)  # to the launcher alone
    said = _until(terminal, b"SIGUSR2")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)

    assert said.count(b"SIGINT") == 1
    assert os.waitstatus_to_exitcode(status) == 0
    assert ended(home).state == "done"


def _until(terminal, word):
    """Read from a terminal until a word has come."""
    said, deadline = b"", time.monotonic() + 30
    while word not in said:
        assert time.monotonic() < deadline, said
        if kernel.wait([terminal], (), 1):
            said += os.read(terminal, 1000)
    return said


def test_a_launcher_that_is_killed(home):
    """A launcher that is killed -9 has its end named by the hub, and takes its command with it."""
    job = launch("--", "sleep", "60", process_group=0)
    eventually(lambda: (r := home.hub_pid()) and r and os.path.exists(home.store) and read_runs(home))
    job.kill()
    job.wait()

    run = ended(home)
    job.communicate()  # the command has gone with it, or this would wait
    assert run.state == "failed"
    assert run.cause.startswith("killed by SIGKILL")


def test_a_status_that_nobody_wants(home):
    """Where whoever started us ignores SIGCHLD, the exit code is still passed through."""
    code = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, '-m', 'vedette', 'run', '--', 'sh', '-c', 'exit 5'])"
    )
    done = subprocess.run([PYTHON, "-c", code], env={**os.environ, **QUICK}, timeout=60, check=False)

    assert done.returncode == 5
    assert ended(home).cause == "exit code 5"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "what shall be run?"),
        (["--"], "what shall be run?"),
        (["--name", "x"], "what shall be run?"),
        (["--", ""], "what shall be run?"),
        (["--", "no-such-command"], "there is no command 'no-such-command'"),
        (["--", "/etc/passwd"], "there is no command '/etc/passwd'"),
        (["--config", "lr", "--", "true"], "--config takes KEY=VALUE"),
        (["--resume", "nobody", "--", "true"], "nothing has been logged"),
        (["--nonsense", "--", "true"], "--nonsense"),
    ],
)
def test_what_cannot_be_run(home, words, sentence):
    """Bad input is one sentence and exit code 2, and begins no run."""
    done = call("run", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("vedette: ")
    assert done.stderr.count("\n") == 1
    assert sentence in done.stderr
    assert not os.path.exists(home.spool) or os.listdir(home.spool) == []


def test_a_file_that_is_no_program(home, hub, tmp_path):
    """What can be found but not be started is said in a sentence, and the run says so too."""
    path = tmp_path / "job"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    done = call("run", "--", str(path))

    assert done.returncode == 2
    assert "cannot be started" in done.stderr
    assert ended(home).cause.startswith("it could not be started")


def test_a_run_inside_a_run(home, hub):
    """`vedette run` below another run is a run of its own, below it."""
    call("run", "--name", "outer", "--", PYTHON, "-m", "vedette", "run", "--name", "inner", "--", "true")

    found = eventually(lambda: len(r := read_runs(home)) == 2 and r)
    runs = {run.name: run for run in found}
    assert runs["inner"]._row.parent == runs["outer"].id


def test_off_runs_the_command_all_the_same(home):
    """With VEDETTE_MODE=off the command runs, and nothing is written."""
    done = call("run", "--", "sh", "-c", "echo ${VEDETTE_RUN:-none}; exit 6", environ={"VEDETTE_MODE": "off"})

    assert (done.returncode, done.stdout, done.stderr) == (6, "none\n", "")
    assert not os.path.exists(home.spool)


def test_a_home_that_cannot_be_written(tmp_path):
    """Where nothing can be kept the command runs all the same, and one is told."""
    done = call("run", "--", "sh", "-c", "echo out; exit 4", home="/proc/nowhere")

    assert (done.returncode, done.stdout) == (4, "out\n")
    assert "vedette: " in done.stderr
    assert "Traceback" not in done.stderr


def test_no_thread_of_numpy_is_there_to_catch_signals(home, hub):
    """The launcher has no thread but its own: one of numpy's, with signals unblocked, would take the child's end."""
    code = """
import os, sys
from vedette.cli import build_parser
args = build_parser(["run"]).parse_args(["run", "--", sys.executable, "-c",
    "import os; print(len(os.listdir(f'/proc/{os.getppid()}/task')))"])
from vedette.settings import load
args.settings = load()
sys.exit(args.run(args))
"""
    done = subprocess.run([PYTHON, "-c", code], env={**os.environ, **QUICK}, text=True, capture_output=True, check=True)

    assert done.stdout == "1\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_stay_closed(home, hub, tmp_path, closed):
    """With a standard stream closed the command finds it so, its exit code is passed on, and no file of ours is hit."""
    look = (
        "import os; seen = ' '.join(os.listdir('/proc/self/fd'));"
        f"open({str(tmp_path / 'seen')!r}, 'w').write(seen); exit(3)"
    )
    seen = []
    for before in ([], [PYTHON, "-m", "vedette", "run", "--"]):
        argv = ["sh", "-c", f'exec "$@" {closed}', "sh", *before, PYTHON, "-c", look]
        code = subprocess.run(
            argv, env={**os.environ, **QUICK}, capture_output=True, check=False, timeout=60
        ).returncode
        seen.append((code, (tmp_path / "seen").read_text()))

    assert seen[0] == seen[1]
    assert ended(home).cause == "exit code 3"


def test_commands_print_nothing_where_nothing_is_open(home, hub):
    """A command of ours whose stdout is closed ends in good order."""
    launch("--quiet", "--", "true").communicate(timeout=60)
    argv = ["sh", "-c", 'exec "$@" >&-', "sh", PYTHON, "-m", "vedette", "ls"]
    listed = subprocess.run(argv, env={**os.environ, **QUICK}, capture_output=True, check=False, timeout=60)

    assert (listed.returncode, listed.stderr) == (0, b"")


def test_a_full_disk_behind_a_pipeline_is_named(home, hub):
    """A shell whose pipeline broke as our output's disk is full failed for that."""
    with open("/dev/full", "w") as full:
        launch("--", "bash", "-c", "set -o pipefail; yes | head -c 50000000", stdout=full).communicate(timeout=60)

    assert ended(home).cause == "exit code 141: disk full: its output could not be written any more"


def test_a_program_says_what_its_launcher_was_not_told(home, hub):
    """Project, tags and notes of the first `init` below `vedette run` are the run's, unless flags say otherwise."""
    code = "import vedette; vedette.init(project='cifar', tags=['night'], notes='n'); vedette.init(project='later')"
    launch("--quiet", "--", PYTHON, "-c", code).communicate(timeout=60)
    run = ended(home)
    assert (run.project, list(run.tags), run.attrs["notes"]) == ("cifar", ["night"], "n")


def test_what_the_launcher_was_told_holds(home, hub):
    """A project by flag is not changed by the program."""
    launch("--quiet", "--project", "said", "--", PYTHON, "-c", "import vedette; vedette.init(project='cifar')").wait(60)
    assert ended(home).project == "said"
