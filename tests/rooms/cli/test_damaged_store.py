"""Every command, the verbs in Python and the page over a store that is damaged, or a home that can be none."""

import json
import os
import re
import shutil

import pytest

import vedette
from tests.rooms.store.damage import HOLES, RUINS, RUNS, make_store
from tests.rooms.users import as_nobody
from tests.rooms.web import site
from vedette.access.home_access import HomeAccess
from vedette.cli import COMMANDS, main
from vedette.cli.doctor import examine
from vedette.cli.store_check import check_store
from vedette.errors import DamagedError, NotFoundError, SettingError, StoreError, VedetteError
from vedette.home import Home
from vedette.settings import Settings, load
from vedette.views.web.server import ROUTES

A, B = RUNS[:2]

# One call of each command that reads the store.
CALLS = {
    "ls": [], "show": [A], "points": [A, "loss"], "logs": [A], "sql": ["SELECT * FROM spans"],
    "plot": [A, "loss"], "export": [A, "-o", "x.vedette"], "compare": [A, B], "diff": [A, B], "usage": [A],
    "files": [A], "reproduce": [A, "--dir", "again"], "top": ["--once"], "watch": [A], "rm": [A, "-y"],
    "edit": [A, "--star"], "stop": [A], "answer": [A, "yes"], "backup": ["x.tar"],
}  # fmt: skip
WITHOUT = {"run", "monitor", "completion", "token", "hub", "ui", "sync", "doctor"}  # they begin without reading it


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The path of a store that nothing is wrong with."""
    return make_store(tmp_path_factory.mktemp("sound") / "store.db")


@pytest.fixture
def damaged(sound, home, tmp_path, monkeypatch):
    """A function that damages the store of a home at rest."""
    home.prepare()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VEDETTE_HUB_IDLE_S", "0")

    def make(harm):
        shutil.copy(sound, home.store)
        {**RUINS, **HOLES}[harm](home.store)
        return home

    return make


def said(capsys, *words):
    """Call a command in this process; return its exit code, and what it said on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code, capsys.readouterr().err


def test_every_command_is_called():
    """A new command is called over damaged stores, too."""
    assert {*CALLS} | WITHOUT == {*COMMANDS}


@pytest.mark.parametrize("harm", RUINS)
def test_commands_over_a_store_that_cannot_be_read(damaged, capsys, harm):
    """Each says one sentence, with what to do, and ends with 2; none leaves a file."""
    damaged(harm)
    for command, words in CALLS.items():
        code, err = said(capsys, command, *words)
        assert code == 2, command
        [line] = [line for line in err.splitlines() if line.startswith("vedette")]
        assert re.search(r"`vedette doctor` says|upgrade vedette", line), command
        assert "Traceback" not in err
    assert os.listdir() == []


@pytest.mark.parametrize("harm", HOLES)
def test_commands_over_a_store_with_a_hole(damaged, capsys, harm):
    """Each either does not need what is lost, or says one sentence."""
    damaged(harm)
    codes = {}
    for command in ("ls", "show", "points", "logs", "plot", "compare", "diff", "usage", "files", "top", "export"):
        codes[command], err = said(capsys, command, *CALLS[command])
        assert codes[command] in (0, 2)
        if codes[command]:
            assert "`vedette doctor` says" in err, command
    table = {"search": "events_text WHERE text MATCH 'line'"}.get(harm, harm)
    code, err = said(capsys, "sql", f"SELECT * FROM {table}")
    assert code == 2
    assert "`vedette doctor` says" in err


@pytest.mark.parametrize("harm", [*RUINS, "chunks"])
def test_verbs_in_python(damaged, harm):
    """`runs`, `get` and what is read of a run later raise a VedetteError, and nothing else."""
    home = damaged(harm)
    with pytest.raises(VedetteError) as error:
        [run for run in vedette.runs(home=home.root) if run.history("loss")]
    assert isinstance(error.value, {"newer": VedetteError, "directory": StoreError}.get(harm, DamagedError))
    if harm != "chunks":
        with pytest.raises(VedetteError):
            vedette.get(A, home=home.root)


@pytest.mark.parametrize("harm", ["first page", "spans", "directory", "newer"])
def test_the_page(damaged, harm):
    """A route that reads answers 5xx with a sentence, without the path of the home."""
    home = damaged(harm)
    paths = [route.path.replace("{run}", A) for route in ROUTES if route.method == "GET" and not route.how]
    with site(HomeAccess(home)) as page:
        for path in (*paths, f"/api/compare?run={A}&run={B}", f"/api/explain?a={A}&b={B}"):
            status, _, body = page.ask("GET", path)
            if status == 400:  # it lacks a parameter
                continue
            assert status in (500, 503), path
            assert "vedette" in json.loads(body)["error"], path
            assert home.root not in json.loads(body)["error"]


ADVICE = {
    "spans": "vedette sync", "first page": "vedette sync", "cut short": "vedette sync", "chunks": "vedette sync",
    "directory": "a directory is where the store should be", "newer": "upgrade vedette",
}  # fmt: skip


@pytest.mark.parametrize("harm", ADVICE)
def test_what_doctor_advises(damaged, harm):
    """It says how to save what can be saved, and not to move away a store that is only newer."""
    home = damaged(harm)
    [(_, found, advice)] = check_store(home)
    assert ADVICE[harm] in advice
    assert ("vedette sync" in advice) is (ADVICE[harm] == "vedette sync")
    assert home.store in found
    assert "vedette doctor" not in found


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become another user")
def test_what_doctor_says_of_a_store_of_another_user(damaged):
    """It says whose it is, and how its owner lets others read it."""
    home = damaged("search")
    os.chmod(home.store, 0)
    os.chmod(home.root, 0o755)
    assert check_store(home)[0][0] == "store"  # everything is imported now

    told = as_nobody(lambda: check_store(home)[0][2])

    assert told == (
        f"it belongs to user 0 and has mode 000, and you are 65534: let its owner do `chmod 600 {home.store}`,"
        " or be that user"
    )


BAD_HOMES = {
    "a file": ("{}/file", "not a directory"), "below a file": ("{}/file/sub", "not a directory"),
    "a long name": ("{}/" + "x" * 300, "file name too long"),
    "a long path": ("{}" + "/y" * 4000, "file name too long"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_HOMES)
def test_a_home_that_can_be_none(tmp_path, capsys, kind):
    """A path at which nothing can be kept is said to be so, by each command and by `doctor`, and not to be empty."""
    (tmp_path / "file").write_text("")
    home, why = BAD_HOMES[kind]
    home = home.format(tmp_path)
    for command, words in CALLS.items():
        code, err = said(capsys, command, *words, "--home", home)
        assert code == 2
        assert f"cannot be a home: {why}; set VEDETTE_HOME" in err, command
    with pytest.raises(SettingError, match=why):
        vedette.runs(home=home)
    assert [advice for what, found, advice in examine(Settings(home=home)) if what == "home" and why in found] != [""]


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become another user")
def test_a_home_that_is_not_yours_to_make(home):
    """Where the parent of a home may not be entered, that is what is said."""
    inside = Home(f"{home.root}/sub/deeper")
    with pytest.raises(NotFoundError):
        HomeAccess(inside).open()

    def say():
        with pytest.raises(SettingError) as error:
            HomeAccess(inside).open()
        return str(error.value)

    assert "permission denied" in as_nobody(say)


@pytest.mark.parametrize(("path", "why"), [("a\0b", "zero byte"), ("\ud800", "not UTF-8")])
def test_a_home_that_is_no_path(path, why, home, tmp_path, monkeypatch):
    """A text that no file can have as its name is a wrong setting; a program that logs to it goes on."""
    with pytest.raises(SettingError, match=why):
        vedette.runs(home=path)
    with pytest.raises(SettingError, match=why):
        load({"home": path})
    run = vedette.init(home=path)
    run.log({"x": 1})
    run.finish()
