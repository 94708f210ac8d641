"""A home that an earlier version has made is read as it is, and says the same when a hub has brought it forward."""

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest

from vedette import kernel
from vedette.cli import main
from vedette.hub import program
from vedette.query.runs import select
from vedette.settings import Hub, Settings
from vedette.store import EventQuery
from vedette.store.sqlite_file import VERSION, open_reader

CASES = sorted((Path(__file__).parent.parent / "cases" / "upgrade").glob("home-*.tar.xz"))  # each made by make.py there
READ = (
    ["ls", "--json"], ["ls", "--removed", "--json"], ["sql", "SELECT * FROM runs ORDER BY id", "--json"],
    ["compare", "metrics", "failed", "--json"], ["diff", "metrics", "failed", "--json"], ["usage", "used", "--json"],
    ["points", "metrics", "loss", "--json"], ["files", "metrics", "--json"],
)  # fmt: skip
QUICK = Settings(hub=Hub(idle_s=0.0, turn_s=0.01, sync_s=0.01))


@pytest.fixture(params=CASES, ids=[path.stem for path in CASES])
def old(request, home, monkeypatch):
    """A home as an earlier version has left it, on a machine that has been rebooted since; what it said of it."""
    monkeypatch.setattr(kernel, "host", lambda: "lab")
    with tarfile.open(request.param) as tar:
        for member in tar.getmembers():
            if member.isfile() and member.name.startswith("home/"):
                path = os.path.join(home.root, member.name.removeprefix("home/"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).write_bytes(tar.extractfile(member).read())
        said = json.load(tar.extractfile("said.json"), parse_constant=str)
    return home, said


def told(store_path):
    """Return what today's code says of each run, in the words of make.py."""
    found = {}
    with contextlib.closing(open_reader(store_path)) as reader:
        for run in select(reader):
            series = {one.label: run.history(one.name, one.tags) for one in run.series()}
            found[run.name] = {
                "id": run.id, "state": run.state, "cause": run.cause, "config": run.config, "summary": run.summary,
                "points": {label: [len(points), repr(float(points.value[-1]))] for label, points in series.items()},
                "lines": [[line.kind, line.text] for line in run.logs()],
                "files": [[file.name, file.digest] for file in run.files()],
                "tries": len(run.tries()), "bars": [[bar.name, bar.done] for bar in run.progress()],
                "used": len(run.usage()), "tags": run.tags,
            }  # fmt: skip
    return json.loads(json.dumps(found), parse_constant=str)  # NaN equals nothing


def version_of(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
        return store.execute("PRAGMA user_version").fetchone()[0]


def printed(capsys, names):
    """Return what each command prints."""
    words = [*READ, *(["show", name, "--json"] for name in names), *(["logs", name, "--json"] for name in names)]
    for call in words:
        with pytest.raises(SystemExit) as ended:
            main(call)
        assert ended.value.code == 0, call
    return capsys.readouterr().out


def test_readers_take_it_as_it_is(old, capsys):
    """Before any hub of today has run, all is said as it was said then, and not a byte of the store changes."""
    home, said = old
    for folder in (home.spool, home.inbox):  # else a reader would start a hub, to read them
        shutil.rmtree(folder)
    before = hashlib.sha256(Path(home.store).read_bytes()).hexdigest()
    assert version_of(home.store) < VERSION
    assert told(home.store) == said
    first = printed(capsys, said)
    assert hashlib.sha256(Path(home.store).read_bytes()).hexdigest() == before

    assert program.run(home, QUICK, quiet=True) == 0
    assert version_of(home.store) == VERSION
    assert told(home.store) == said
    assert printed(capsys, said) == first


def test_a_hub_reads_on_where_the_old_one_stopped(old):
    """What was said before is there, and also what waited in a spool and in an inbox, once."""
    home, said = old
    assert program.run(home, QUICK, quiet=True) == 0
    found = told(home.store)
    unread, relayed = found.pop("unread"), found.pop("relayed")
    assert found == said
    assert (unread["points"], unread["config"]) == ({"x": [1000, "999.0"]}, {"seed": 7})
    assert ["mark", "said before it died"] in unread["lines"]
    assert (unread["state"], "went down" in unread["cause"]) == ("failed", True)
    assert (relayed["points"], relayed["state"]) == ({"x": [100, "100.0"]}, "done")
    assert os.listdir(home.spool) == os.listdir(home.inbox) == []
    with contextlib.closing(open_reader(home.store)) as reader:
        assert sum(row.damaged for row in reader.origins()) == 0
        assert len(reader.events(EventQuery(kinds=("mark",)))) == 2


def test_it_holds_nothing_of_the_machine_that_made_it(old):
    """The names in it are made up: where, by whom and on which machine it was made is nobody's business."""
    home, _ = old
    with contextlib.closing(open_reader(home.store)) as reader:
        hosts = {row.origin.host for row in reader.origins()}
    assert hosts == {"lab"}
    data = Path(home.store).read_bytes()
    assert not [word for word in (b"/root", b"/home/", b"/tmp/", b"root\x00") if word in data]
