"""The command line: plain in a pipe, drawn on a terminal, JSON for scripts, and one sentence when it is wrong."""

import contextlib
import csv
import fcntl
import importlib
import io
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pytest

from tests.conftest import end_hub
from tests.rooms.conftest import Maker, call, python
from tests.rooms.views.test_text import SEQUENCES, assert_harmless
from vedette.cli import COMMANDS, main
from vedette.home import Home
from vedette.model import Event
from vedette.sources import SENSORS
from vedette.store.sqlite import SqliteStore
from vedette.store.sqlite_file import VERSION

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "".join(SEQUENCES.values())
SCRIPT = """
import vedette
run = vedette.init(
    project="cifar", experiment="first", name="alpha", config={"lr": 0.1, "model": {"depth": 18}},
    tags=["best"], notes="n",
)
for step in range(100):
    run.log({"loss": 1 / (step + 1), "acc": step / 100}, step=step)
run.metric("temp", 50.5, tags={"sensor": "a"})
run.metric("temp", 60.5, tags={"sensor": "b"})
run.log({"bad": float("nan")})
run.mark("epoch", 1)
run.summary["best"] = 0.9
run.finish()
run = vedette.init(project="mnist", name="beta")
run.log({"loss": 5})
run.mark("out of memory")
raise ValueError("it broke")
"""
EVERY = [
    ("ls",), ("show", "alpha"), ("points", "alpha", "loss"), ("logs",), ("logs", "alpha"), ("doctor",),
    ("sql", "SELECT * FROM runs"), ("sql", ".tables"), ("completion",),
]  # fmt: skip
WITH_JSON = [
    ("ls",), ("show", "alpha"), ("points", "alpha", "loss"), ("sql", "SELECT * FROM runs"), ("doctor",),
]  # fmt: skip


@pytest.fixture(scope="module")
def camp():
    """A home with two runs of real processes, one of which failed."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        assert python(SCRIPT, environ={"VEDETTE_HOME": root}).returncode == 1
        deadline = time.monotonic() + 20
        while "failed" not in call("ls", home=root).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield root
        end_hub(Home(root))


@pytest.fixture(scope="module")
def hostile():
    """A home in which every text that others can choose holds escape sequences."""
    with tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True) as root:
        store = SqliteStore(Home(root).store)
        make = Maker(store)
        for n, run in enumerate(("r1", "r2")):
            make.run(
                run, f"{HOSTILE}name{n}", "failed", cause=HOSTILE, project=HOSTILE, experiment=HOSTILE, notes=HOSTILE,
                config={HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE]}}, tag={HOSTILE: True},
                summary={HOSTILE: HOSTILE},
            )  # fmt: skip
            make.points(run, f"{HOSTILE}loss", [1.0], {HOSTILE: HOSTILE})
            make.points(run, f"{HOSTILE}acc", [1.0])
            make.facts(run, Event(run, 1, f"{HOSTILE}kind", 40, f"{HOSTILE}\ntext{HOSTILE}", {HOSTILE: HOSTILE}))
        store.close()
        yield root
        end_hub(Home(root))


def on_terminal(*args, home, columns=120, lines=40):
    """Run a command on a terminal of its own; return its exit code and all that it wrote there."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environ = {**os.environ, "VEDETTE_HOME": home, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environ.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "vedette", *args], stdin=child, stdout=child, stderr=child, env=environ
    )
    os.close(child)
    written = b""
    with contextlib.suppress(OSError):  # EIO is how a terminal ends
        while data := os.read(parent, 1 << 16):
            written += data
    os.close(parent)
    return process.wait(30), written.decode()


def assert_refused(done, *words):
    """It said in one sentence what is wrong, on stderr alone, and ended with 2."""
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if line.startswith("vedette")]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]
    assert_harmless(done.stderr)


@pytest.mark.parametrize("args", EVERY, ids=" ".join)
def test_plain_in_a_pipe(camp, args):
    """In a pipe there is not one control byte but newlines, nothing on stderr, and no box; nothing can force it."""
    done = call(*args, home=camp, text=False, environ={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"})

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
    assert [byte for byte in done.stdout if byte < 0x20 and byte not in b"\n\t"] == []
    assert not re.search("[\u2500-\u257f]", done.stdout.decode())


@pytest.mark.parametrize("args", EVERY, ids=" ".join)
def test_colour_is_not_forced_into_a_pipe(camp, args):
    """FORCE_COLOR and friends do not put escapes into a pipe."""
    done = call(*args, home=camp, environ={"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TTY_COMPATIBLE": "1"})

    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("args", WITH_JSON, ids=" ".join)
def test_json_is_json(camp, args):
    """--json is one document that any parser reads: no NaN, no Infinity, nothing around it."""
    done = call(*args, "--json", home=camp)

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout, parse_constant=refuse)


def test_logs_as_json_are_lines(camp):
    """`logs --json` is one object a line."""
    found = [json.loads(line) for line in call("logs", "--json", home=camp).stdout.splitlines()]

    assert {"epoch 1", "out of memory"} <= {event["text"] for event in found}
    assert all({"span", "t", "kind", "level", "text", "host", "pid"} <= event.keys() for event in found)


def test_ls(camp):
    """`ls` lists runs the newest first, with state, last values and cause."""
    lines = call("ls", home=camp).stdout.splitlines()

    assert lines[0].split() == "ID NAME PROJECT STATE STARTED TOOK LAST VALUES CAUSE".split()
    assert [line.split()[1:4] for line in lines[1:]] == [["beta", "mnist", "failed"], ["alpha", "cifar", "done"]]
    assert lines[1].endswith("ValueError: it broke")
    assert "loss=0.01" in lines[2]
    assert len({line.index("NAME" if n == 0 else line.split()[1]) for n, line in enumerate(lines)}) == 1


@pytest.mark.parametrize(
    ("args", "names"),
    [
        ((), ["beta", "alpha"]),
        (("--limit", "1"), ["beta"]),
        (("--limit", "0"), ["beta", "alpha"]),
        (("--project", "cifar"), ["alpha"]),
        (("--project", "nobody"), []),
        (("--state", "failed"), ["beta"]),
        (("--state", "done", "--limit", "1"), ["alpha"]),
        (("--where", "config.lr = 0.1 and config.model.depth >= 18"), ["alpha"]),
        (("--where", "metric.loss > 1 or tag.best"), ["beta", "alpha"]),
        (("--where", "cause ~ broke"), ["beta"]),
        (("--where", "summary.best = 0.9", "--project", "cifar"), ["alpha"]),
        (("--where", "state = done", "--project", "mnist"), []),
    ],
    ids=" ".join,
)
def test_ls_by_what_is_asked(camp, args, names):
    """Each filter of `ls` does what it says, alone and together."""
    done = call("ls", *args, home=camp)

    assert (done.returncode, done.stderr) == (0, "")
    assert names == [line.split()[1] for line in done.stdout.splitlines()[1:]]
    assert bool(names) != done.stdout.startswith("no run matches")


def test_ls_as_json(camp):
    """`ls --json` tells all that is known of a run."""
    [row] = json.loads(call("ls", "--json", "--where", "name = alpha", home=camp).stdout)

    assert row["config"] == {"lr": 0.1, "model": {"depth": 18}}
    assert row["summary"] == {"loss": 0.01, "acc": 0.99, "bad": "nan", "best": 0.9} | {
        "temp[sensor=a]": 50.5,
        "temp[sensor=b]": 60.5,
    }
    assert (row["project"], row["experiment"], row["notes"], row["tags"]) == ("cifar", "first", "n", ["best"])
    assert (row["state"], row["cause"]) == ("done", "")
    assert row["duration_s"] == pytest.approx((row["end_t"] - row["start_t"]) / 1e9)


def test_show(camp):
    """`show` says what a run is, how it ended, and what to do next."""
    done, broken = call("show", "alpha", home=camp).stdout, call("show", "beta", home=camp).stdout

    assert re.search(r"^alpha  \(\w{14}\)$", done, re.MULTILINE)
    for words in (
        "project +cifar",
        "state +done",
        "tags +best",
        "model.depth +18",
        "loss +100 +0.01",
        "main \\d+ +done",
    ):
        assert re.search(words, done), words
    assert "temp[sensor=a]" in done
    assert re.search("state +failed: ValueError: it broke", broken)
    assert "vedette logs" in broken
    told = json.loads(call("show", "alpha", "--json", home=camp).stdout)
    assert {row["name"] for row in told["series"]} == {"loss", "acc", "temp", "bad"}
    assert [row["state"] for row in told["processes"]] == ["done"]


def test_points(camp):
    """`points` is CSV by step, or one JSON object; values come back exactly."""
    rows = list(csv.DictReader(io.StringIO(call("points", "alpha", "loss", home=camp).stdout)))

    assert [float(row["value"]) for row in rows] == [1 / (step + 1) for step in range(100)]
    assert [int(row["step"]) for row in rows] == list(range(100))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", row["time"]) for row in rows)
    told = json.loads(call("points", "alpha", "loss", "--format", "json", home=camp).stdout)
    assert told["value"] == [1 / (step + 1) for step in range(100)]
    assert "50.5" in call("points", "alpha", "temp", "--tag", "sensor=a", home=camp).stdout
    assert call("points", "alpha", "bad", home=camp).stdout.endswith(",nan\n")
    assert json.loads(call("points", "alpha", "bad", "--json", home=camp).stdout)["value"] == ["nan"]


def test_logs(camp):
    """`logs` prints lines of one run or all, filtered; when nothing fits it says so on stderr alone."""
    assert "epoch 1" in call("logs", "alpha", home=camp).stdout
    everything = call("logs", home=camp).stdout
    assert "epoch 1" in everything
    assert "out of memory" in everything
    assert "ValueError: it broke" in call("logs", "beta", "--level", "error", home=camp).stdout
    assert "epoch" not in call("logs", "--grep", "^out", home=camp).stdout
    assert "epoch" not in call("logs", "--search", "memory", home=camp).stdout
    assert call("logs", "beta", "-n", "1", "--json", home=camp).stdout.count("\n") == 1
    nothing = call("logs", "--grep", "not there", home=camp)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "no line matches\n")


def test_sql(camp):
    """`sql` prints tables, CSV and JSON; the points are a table too."""
    count = "SELECT name, count(*) AS n FROM points GROUP BY name ORDER BY name"

    assert call("sql", count, "--format", "csv", home=camp).stdout == "name,n\nacc,100\nbad,1\nloss,101\ntemp,2\n"
    assert json.loads(call("sql", count, "--json", home=camp).stdout)[0] == {"name": "acc", "n": 100}
    assert call("sql", count, home=camp).stdout.splitlines()[0].split() == ["name", "n"]
    tables = call("sql", ".tables", home=camp).stdout
    assert all(name in tables for name in ("runs", "attrs", "logs", "points", "spans", "events", "series", "chunks"))
    assert call("sql", "SELECT NULL AS none, x'00ff' AS data", home=camp).stdout.split() == [
        "none", "data", "<2", "bytes>",
    ]  # fmt: skip
    assert call("sql", "SELECT 1 WHERE 0", "--json", home=camp).stdout == "[]\n"


def test_sql_twin_columns(camp):
    """Two columns of one name are both shown, in every form."""
    query = "SELECT 1 AS a, 2 AS a"

    assert call("sql", query, home=camp).stdout.split() == ["a", "a", "1", "2"]
    assert call("sql", query, "--format", "csv", home=camp).stdout == "a,a\n1,2\n"
    assert "2" in on_terminal("sql", query, home=camp)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh", "powershell"])
def test_completion(shell, capsys):
    """Each shell gets code of its own, and no home is needed for it."""
    with pytest.raises(SystemExit) as caught:
        main(["completion", shell, "--home", "/nonexistent"])

    assert caught.value.code == 0
    assert "vedette" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"), [("vedette sh", "show"), ("vedette show al", "alpha"), ("vedette ls --wh", "--where")]
)
def test_tab(camp, words, offered):
    """TAB completes commands, flags and runs."""
    environ = {
        "_ARGCOMPLETE": "1",
        "COMP_LINE": words,
        "COMP_POINT": str(len(words)),
        "_ARGCOMPLETE_STDOUT_FILENAME": "out",
    }
    with tempfile.TemporaryDirectory() as folder:
        call(home=camp, environ=environ, cwd=folder)
        with open(os.path.join(folder, "out")) as file:
            assert offered in file.read()


def test_hub_and_stop():
    """`hub` keeps a home until it is told to stop; a second one finds the first; stopping twice is fine."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        environ = {**os.environ, "VEDETTE_HOME": root}
        hub = subprocess.Popen(
            [sys.executable, "-u", "-m", "vedette", "hub"], env=environ, text=True, stdout=subprocess.PIPE
        )
        first = hub.stdout.readline()
        second, stopped, again = (
            call("hub", home=root),
            call("hub", "--stop", home=root),
            call("hub", "--stop", home=root),
        )
        hub.communicate(timeout=20)

    assert f"keeps {root}, pid {hub.pid}" in first
    assert f"a hub keeps {root} already, pid {hub.pid}" in second.stdout
    assert stopped.stdout == f"hub {hub.pid} ended\n"
    assert again.stdout == "no hub is running\n"
    assert (hub.returncode, second.returncode, stopped.returncode, again.returncode) == (0, 0, 0, 0)


def test_doctor(camp):
    """`doctor` names what it looked at; all is well, so it exits with 0."""
    done = call("doctor", home=camp)

    assert done.returncode == 0
    assert list(dict.fromkeys(line.split()[0] for line in done.stdout.splitlines())) == [
        "versions", "home", "disk", "hub", "keep", "spool", "store", "dropped", "damaged", "errors", "refused",
        "ends", "sensors", "all",
    ]  # fmt: skip
    assert "2 runs" in done.stdout


def test_doctor_tells_of_sensors():
    """`doctor` names each sensor once, as there or as absent and why; that one is absent is nothing wrong."""
    with tempfile.TemporaryDirectory() as root:
        done = call("doctor", "--json", home=f"{root}/camp")
    rows = [row for row in json.loads(done.stdout) if row["what"] == "sensors"]
    there, absent = rows[0]["found"].split(", "), [row["found"].partition(": ") for row in rows[1:]]
    assert sorted([*there, *(name.removeprefix("no ") for name, _, _ in absent)]) == sorted(SENSORS)
    assert all(why for _, _, why in absent)
    assert {"process", "host"} <= set(there)
    assert not any(row["advice"] for row in rows)


def test_doctor_finds_what_is_wrong():
    """`doctor` exits with 1 when something is wrong, and says what to do."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        place = os.path.join(root, "camp")
        os.mkdir(place)
        os.chmod(place, 0o777)
        done = call("doctor", home=place)
        end_hub(Home(place))

    assert done.returncode == 1
    assert f"-> others may write to it: chmod 700 {place}" in done.stdout


def test_doctor_before_the_first_run():
    """`doctor` works where there is nothing yet, and makes nothing."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        done = call("doctor", home=f"{root}/camp")

        assert done.returncode == 0
        assert "does not exist yet" in done.stdout
        assert os.listdir(root) == []


def test_logs_follow_a_run_to_its_end(home, hub):
    """`logs -f` prints what comes while the run goes on, and ends with it."""
    code = """
import sys, vedette
run = vedette.init(name="live")
run.mark("first")
print(flush=True)
sys.stdin.readline()
run.mark("second")
"""
    run = subprocess.Popen([sys.executable, "-c", code], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    run.stdout.readline()
    follower = subprocess.Popen(
        [sys.executable, "-u", "-m", "vedette", "logs", "live", "-f"], text=True, stdout=subprocess.PIPE
    )
    first = follower.stdout.readline()
    run.communicate("\n", timeout=20)
    rest = follower.communicate(timeout=20)[0]

    assert first.endswith("first\n")
    assert rest.endswith("second\n")
    assert follower.returncode == 0


def test_ctrl_c_ends_a_follower_quietly(home, hub):
    """Ctrl-C ends `logs -f` with 130 and without a word."""
    python("import vedette; vedette.init(name='x').mark('here'); vedette.finish()")
    follower = subprocess.Popen(
        [sys.executable, "-u", "-m", "vedette", "logs", "-f"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    follower.stdout.readline()
    time.sleep(0.3)
    follower.send_signal(signal.SIGINT)
    _, err = follower.communicate(timeout=20)

    assert (follower.returncode, err) == (130, "")


def test_a_reader_that_has_seen_enough(camp):
    """`vedette ... | head -1` ends without a word."""
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT i FROM n"
    for form in ("csv", "table", "json"):
        process = subprocess.Popen(
            [sys.executable, "-m", "vedette", "sql", query, "--format", form],
            env={**os.environ, "VEDETTE_HOME": camp}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(30)) == (b"", 0)
        process.stderr.close()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("show", "nobody"), ["no run 'nobody'"]),
        (("show", "alpah"), ["did you mean alpha?"]),
        (("show", ""), ["no run ''"]),
        (("logs", "nobody"), ["no run 'nobody'"]),
        (("points", "nobody", "loss"), ["no run 'nobody'"]),
        (("points", "alpha", "los"), ["no series 'los'", "did you mean loss?"]),
        (("points", "alpha", "temp", "--tag", "sensor"), ["KEY=VALUE", "'sensor'"]),
        (("ls", "--where", "config.lr >"), ["expected a value", "the end"]),
        (("ls", "--where", "lr > 1"), ["config.lr"]),
        (("ls", "--where", "state = 'open"), ["'open"]),
        (("ls", "--where", "start > tomorrow"), ["tomorrow"]),
        (("ls", "--set", "nonsense=1"), ["'nonsense'", "not a setting"]),
        (("ls", "--set", "hub.idle_s"), ["KEY=VALUE", "'hub.idle_s'"]),
        (("ls", "--set", "hub.idle_s=soon"), ["hub.idle_s"]),
        (("logs", "--grep", "(unclosed"), ["regular expression", "(unclosed"]),
        (("logs", "--level", "loud"), ["'loud'", "warning"]),
        (("sql", "SELEKT 1"), ["SELEKT"]),
        (("sql", "SELECT * FROM nowhere"), ["nowhere"]),
        (("sql", "SELECT 1; SELECT 2"), ["one statement"]),
        (("sql", "SELECT CAST(x'ff' AS TEXT)"), ["UTF-8"]),
        (("nonsense",), ["no command", "'nonsense'"]),
        (("shwo", "x"), ["did you mean show?"]),
        (("ls", "--were", "x"), ["did you mean --where?"]),
        (("show",), ["RUN"]),
        (("ls", "--nonsense"), ["--nonsense"]),
        (("ls", "--limit", "many"), ["--limit", "'many'"]),
        (("points", "alpha", "loss", "--format", "xml"), ["--format", "'xml'"]),
        (("completion", "cmd"), ["'cmd'"]),
        (("--home", "elsewhere", "ls"), ["--home goes after the command"]),
        (("--set=hub.idle_s=5", "ls"), ["--set goes after the command"]),
        (("ls", "--state", "runing"), ["'runing'", "did you mean running?"]),
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_said_in_one_sentence(camp, args, words):
    """Bad input ends with 2 and one sentence on stderr that names what is wrong; never a traceback."""
    assert_refused(call(*args, home=camp), *words)


@pytest.mark.parametrize(
    "args",
    [
        ("ls", "--where", "config.lr = 99999999999999999999"),
        ("ls", "--where", "name = '\udcff'"),
        ("ls", "--where", " or ".join(["state = done"] * 3000)),
        ("ls", "--limit", "99999999999999999999"),
        ("ls", "--limit", "-1"),
        ("show", "\udcff"),
        ("points", "alpha", "\udcff"),
        ("points", "alpha", ""),
        ("logs", "--level", "²"),
        ("logs", "--level", "99999999999999999999"),
        ("logs", "--search", " "),
        ("logs", "--search", "\udcff"),
        ("logs", "--last", "-1"),
        ("logs", "--last", "99999999999999999999"),
        ("sql", "SELECT '\udcff'"),
        ("sql", ""),
    ],
    ids=lambda args: ascii(" ".join(args))[:40],
)
def test_odd_input_is_no_crash(camp, args):
    """Input that nobody thinks of is answered, or refused with 2 and a sentence; never a traceback."""
    done = call(*args, home=camp, errors="surrogateescape")

    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


WRITES = [
    "DELETE FROM spans",
    "UPDATE spans SET name = 'x'",
    "INSERT INTO marks VALUES (1, 'f', 0, 0, 0)",
    "DROP TABLE spans",
    "DROP VIEW runs",
    "CREATE TABLE x (a)",
    "ALTER TABLE spans ADD COLUMN x",
    "PRAGMA user_version = 99",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA writable_schema = 1",
    "REINDEX",
    "VACUUM",
    "WITH x AS (SELECT 1) DELETE FROM spans",
    "INSERT INTO events_text (events_text) VALUES ('delete-all')",
]


@pytest.mark.parametrize("query", WRITES)
def test_sql_does_not_write(camp, query):
    """A query that would change the store is refused, and changes nothing."""
    done = call("sql", query, home=camp)

    if query != "PRAGMA writable_schema = 1":
        assert_refused(done)
    with contextlib.closing(sqlite3.connect(f"file:{camp}/store.db?mode=ro", uri=True)) as store:
        assert store.execute("SELECT group_concat(name) FROM runs").fetchone()[0].count(",") == 1
        assert store.execute("PRAGMA user_version").fetchone()[0] == VERSION
        assert store.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize(
    "query",
    ["VACUUM INTO '{}'", "ATTACH '{}' AS other", "ATTACH 'file:{}?mode=rwc' AS other", "SELECT writefile('{}', 'x')"],
)
def test_sql_writes_no_other_file(camp, tmp_path, query):
    """Nor does a query make any other file."""
    done = call("sql", query.format(tmp_path / "out.db"), home=camp)

    assert list(tmp_path.iterdir()) == []
    assert_refused(done)


READS = [
    ("ls",), ("ls", "--json"), ("ls", "--limit", "1"), ("show", "r1"), ("show", "r1", "--json"), ("logs",),
    ("logs", "r1"), ("logs", "--json"), ("sql", "SELECT * FROM spans"), ("sql", "SELECT * FROM attrs"),
    ("sql", "SELECT * FROM logs", "--json"), ("sql", "SELECT * FROM points"), ("doctor",),
    ("points", "r1", "nothing"), ("show", "r"), ("show", "name5"),
]  # fmt: skip


@pytest.mark.parametrize("args", READS, ids=" ".join)
def test_no_text_of_others_reaches_the_terminal_raw(hostile, args):
    """Names, configs, causes, tags and lines with escape sequences in them put no control byte into any output."""
    done = call(*args, home=hostile)

    assert done.returncode in (0, 2)
    assert_harmless(done.stdout)
    assert_harmless(done.stderr)
    assert "Traceback" not in done.stderr


def test_csv_is_exact_in_a_pipe_and_clean_on_a_terminal(hostile):
    """CSV is for programs, which get every byte; a terminal gets what can be read."""
    query = ("sql", "SELECT name FROM runs WHERE id = 'r1'", "--format", "csv")
    exact = call(*query, home=hostile, text=False).stdout.decode()

    assert list(csv.reader(io.StringIO(exact, newline="")))[1:] == [[f"{HOSTILE}name0"]]
    assert_harmless(COLOURS.sub("", on_terminal(*query, home=hostile)[1]).replace("\r\n", "\n"))


def test_sql_headers_are_cleaned_too(hostile):
    """A column's name is text as well."""
    assert_harmless(call("sql", f'SELECT 1 AS "{HOSTILE}"'.replace("\x00", ""), home=hostile).stdout)


@pytest.mark.parametrize("args", [("ls",), ("show", "alpha"), ("sql", "SELECT name, state FROM runs")], ids=" ".join)
def test_a_table_on_a_terminal(camp, args):
    """On a terminal a table is drawn, with a line below its head and colours, and it fits."""
    for columns in (80, 120, 200):
        code, written = on_terminal(*args, home=camp, columns=columns)
        lines = COLOURS.sub("", written).splitlines()

        assert code == 0
        assert "\u2500" in written
        assert COLOURS.search(written)
        assert any("alpha" in line for line in lines)
        assert max(len(line.rstrip()) for line in lines) <= columns


def test_a_narrow_terminal_still_names_the_runs(camp):
    """Even forty columns show name and state, uncut."""
    lines = COLOURS.sub("", on_terminal("ls", home=camp, columns=40)[1]).splitlines()

    assert max(len(line.rstrip()) for line in lines) <= 40
    assert any("alpha" in line and "done" in line for line in lines)
    assert any("beta" in line and "failed" in line for line in lines)


@pytest.mark.parametrize(
    "args", [("ls",), ("show", "r1"), ("logs", "r1"), ("sql", "SELECT * FROM spans")], ids=" ".join
)
def test_a_terminal_gets_colours_and_nothing_else(hostile, args):
    """On a terminal the only sequences are our own colours, whatever the texts hold."""
    code, written = on_terminal(*args, home=hostile, columns=300)

    assert code == 0
    assert_harmless(COLOURS.sub("", written).replace("\r\n", "\n"))


@pytest.mark.parametrize(
    "args", [("ls",), ("show", "r1"), ("logs", "r1"), ("sql", "SELECT name FROM runs")], ids=" ".join
)
def test_output_in_an_old_encoding(home, args):
    """A run whose name the terminal's encoding cannot write is shown as well as can be, without a traceback."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("r1", "größe 日本", config={"größe": "日本"})
    make.events("r1", "größe 日本")
    store.close()
    done = call(*args, environ={"PYTHONIOENCODING": "ascii"}, text=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr" in done.stdout


def test_a_home_that_is_not_there():
    """Where nothing was ever logged, that is what is said, and nothing is made."""
    with tempfile.TemporaryDirectory(prefix="vdt-") as root:
        for args in (("ls",), ("show", "x"), ("points", "x", "y"), ("logs",), ("sql", "SELECT 1")):
            assert_refused(call(*args, home=f"{root}/nowhere"), "nothing has been logged")
        assert os.listdir(root) == []


def test_a_damaged_chunk(home):
    """Points that cannot be read are said to be so; the rest of the store is shown."""
    home.prepare()
    store = SqliteStore(home.store)
    make = Maker(store)
    make.run("r1", "alpha")
    make.points("r1", "loss", [float(n) for n in range(100)])
    store.connection.execute("UPDATE chunks SET value = x'70ffffffff'")
    store.close()

    assert_refused(call("points", "r1", "loss"), "chunk")
    assert_refused(call("sql", "SELECT * FROM points"))
    assert "alpha" in call("ls").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command, capsys):
    """Each command's help says what it does and shows how it is called."""
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])

    assert caught.value.code == 0
    assert f"vedette {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_a_shell_is_offered_what_could_follow(camp, tmp_path):
    """A shell that completes gets the names of commands, or what a command takes, or the runs that there are."""

    def offered(line):
        asked = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "offered"),
        }
        asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
        call(home=camp, environ=asked, fresh=True)
        return {word.strip() for word in (tmp_path / "offered").read_text().split("\n")}

    assert offered("vedette s") == {"show", "sql", "stop", "sync"}
    assert offered("vedette show al") == {"alpha"}
    assert offered("vedette ls --js") == {"--json"}
    assert offered("vedette 'ls' --js") == {"--json"}


def test_the_list_of_commands_says_what_each_one_says():
    """What the list says of a command, without importing it, is the first line of its file."""
    said = {name: importlib.import_module(f"vedette.cli.{name}").__doc__.partition("\n")[0] for name in COMMANDS}

    assert said == COMMANDS


def test_version():
    """--version says it."""
    from vedette.version import __version__

    assert call("--version").stdout == f"vedette {__version__}\n"


@pytest.mark.parametrize("args", [("ls", "--home"), ("ls", "--set", "hub.idle_s=5", "--home")])
def test_home_by_flag(camp, args):
    """--home is stronger than VEDETTE_HOME."""
    assert "alpha" in call(*args, camp, home="/nonexistent").stdout


SECRET = "s3cr3t-t0ken"
CONNECT = f"vedette://{SECRET}@127.0.0.1:9"


@pytest.mark.parametrize(
    "words",
    [
        ["hub", "--set", f"hub.reroute={CONNECT}"],
        ["ls", f"--set=hub.onward={CONNECT}"],
        ["ls", "--set", f"upstream={CONNECT}/{'0' * 64}"],
        ["monitor", "--pid", "1", "--to", f"hub:{CONNECT}"],
        ["hub", "--address", CONNECT],
    ],
)
def test_a_token_on_the_command_line_is_refused(home, words):
    """Every user of the machine can read it there: one sentence says where it goes instead, without repeating it."""
    done = call(*words)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--set hub.reroute=@FILE" in done.stderr
    assert SECRET not in done.stderr
    assert home.hub() is None


def test_a_token_comes_from_a_file(home, tmp_path):
    """`--set KEY=@FILE` takes the value from a file; the hub that this starts has no token on its command line."""
    (tmp_path / "where").write_text(f"{CONNECT}\n")
    done = call("doctor", "--set", f"hub.reroute=@{tmp_path}/where", home=home.asked)
    pid = home.hub_pid()

    assert "Traceback" not in done.stderr
    with open(f"/proc/{pid}/cmdline") as line, open(f"/proc/{pid}/environ") as environ:
        assert SECRET not in line.read()
        assert f"VEDETTE_HUB_REROUTE={CONNECT}" in environ.read()


def test_a_file_that_cannot_be_read_is_named(home, tmp_path):
    """A file for a setting that is not there, or is no text, is said so in a sentence."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, said in (("nowhere", "No such file"), ("binary", "it is not text")):
        done = call("ls", "--set", f"hub.reroute=@{tmp_path / name}", home=home.asked)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr


def test_the_command_of_a_user_may_have_any_words(home):
    """What stands behind `--` is the user's own."""
    assert call("run", "--quiet", "--", "true", CONNECT, home=home.asked).returncode == 0
