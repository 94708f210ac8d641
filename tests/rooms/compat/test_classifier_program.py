"""The classifier's command line inside this process: what it understands, what it refuses, how it runs a script."""

import logging
import os
import pathlib
import sys

import pytest

import vedette
from tests.journeys.conftest import read_runs
from tests.ports import reserve_port
from vedette.compat.classifier import __main__ as program
from vedette.compat.classifier.monitor import progress, usage
from vedette.compat.classifier.setting import Chosen
from vedette.errors import SettingError


@pytest.fixture
def as_program(monkeypatch, tmp_path):
    """Call it as `python -m` does, in a folder of its own; what it leaves in the process is undone."""
    environ = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["classifier"])
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield lambda *words: program.main(list(words))()
    vedette.finish()
    os.environ.clear()
    os.environ.update(environ)


@pytest.fixture
def script(tmp_path):
    """A script that logs, and tells what it was handed."""
    path = tmp_path / "job.py"
    path.write_text("import sys, vedette\nvedette.log({'x': 1.0})\nprint(sys.argv[1:], __name__)\n")
    return str(path)


def test_help(as_program, capsys):
    """--help prints the two forms, with examples."""
    assert as_program("--help") == 0
    assert "monitor -setting Monitor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to run"),
        (["-setting"], "ends in the middle of -setting NAME"),
        (["-setting", "Monitor"], "ends in the middle"),
        (["-setting", "Moniter", "a: 1"], "did you mean 'Monitor'"),
        (["-setting", "Monitor", "adress: x"], "did you mean 'address'"),
        (["-setting", "Monitor", "[a"], "is not YAML"),
        (["-setting", "Monitor", "word"], "takes KEY: VALUE"),
        (["-setting", "Monitor", "enable: maybe"], "is true or false"),
        (["-analysis", "monitor.Usages"], "did you mean 'monitor.Usage'"),
        (["-loud"], "no option '-loud'"),
        (["monitor", "more"], "takes no 'more'"),
        (["no-such-script.py"], "no script"),
    ],
)
def test_mistakes(as_program, words, said):
    """Whatever is wrong is said in a sentence that names what is meant, before anything is begun."""
    with pytest.raises(SettingError, match=said):
        as_program(*words)


def test_a_folder_that_cannot_be_named(as_program, script):
    """A pattern for the output that takes something unknown is refused."""
    with pytest.raises(SettingError, match=r"takes \{main\} and \{timestamp\}"):
        as_program("-setting", "IO", "output: ./{nobody}/", script)


def test_a_script_under_its_settings(home, hub, as_program, script, capsys):
    """The script has its own arguments and is __main__, its run is named after it, and settings are ours by then."""
    assert as_program("-setting", "monitor.Log", "level: 30", "-flag", "quick", script, "a", "b") == 0
    vedette.finish()

    assert capsys.readouterr().out == "['a', 'b'] __main__\n"
    assert os.environ["VEDETTE_LOGS_LEVEL"] == "30"
    [run] = read_runs(home)
    assert (run.name, run.state) == ("job", "done")
    assert run.history("x").value.tolist() == [1.0]


def test_a_report_on_its_usage(home, hub, as_program, script, tmp_path, capsys):
    """-analysis ends the run with the script; if nothing was measured it says why, and makes no empty folder."""
    as_program("-setting", "IO", "output: ./out/", "-analysis", "monitor.Usage", script)

    assert [run.state for run in read_runs(home)] == ["done"]
    assert "was not measured, since its usage is off" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_switched_off(home, as_program, script, capsys):
    """With the monitor switched off the script runs all the same, and leaves nothing."""
    assert as_program("-setting", "Monitor", "{enable: false, warnings_ignore: true}", "-setting", "monitor.Console",
                      "enable: false", script) == 0  # fmt: skip
    assert os.environ["VEDETTE_MODE"] == "off"
    assert os.listdir(home.root) == []


def test_what_has_no_effect_is_said(as_program, script, capsys):
    """A setting of the original that means nothing here is named."""
    as_program("-setting", "monitor.Web", "enable: true", "-setting", "Monitor", "enable: false", "-setting",
               "monitor.Log", "forward_exception: false", script)  # fmt: skip
    said = capsys.readouterr().err
    assert "monitor.Web enable has no effect here" in said
    assert "monitor.Log forward_exception has no effect here" in said


def test_a_server_whose_token_is_unknown(home, as_program, script):
    """To connect to another machine takes the whole connect string; a path goes without."""
    with pytest.raises(SettingError, match="token"):
        as_program("-setting", "Monitor", "{address: 'far.example:10200', connect: true}", script)


def test_a_server_by_its_path(home, hub, as_program, script):
    """A path is the hub that the run is sent to."""
    as_program("-setting", "Monitor", f"{{address: {home.root}/x.sock, connect: true}}", script)
    assert os.environ["VEDETTE_HUB"] == f"{home.root}/x.sock"


def test_names():
    """What the classifier imports is ours."""
    assert (progress.Progress, usage.Usage) == (vedette.Progress, vedette.Usage)


def test_defaults_stand_behind_files_and_environment(home, monkeypatch):
    """A default of the original holds only where the command line, the environment and files say nothing."""
    monkeypatch.delenv("VEDETTE_USAGE_ENABLE")
    assert Chosen().environ() == {"VEDETTE_USAGE_ENABLE": "False"}
    pathlib.Path(home.root, "vedette.toml").write_text("[usage]\nenable = true\ninterval_s = 3\n")
    assert Chosen().environ() == {}
    chosen = Chosen()
    chosen.add("monitor.Usage", "interval: 2")
    assert chosen.environ() == {"VEDETTE_USAGE_INTERVAL_S": "2"}
    pathlib.Path(home.root, "vedette.toml").unlink()
    monkeypatch.setenv("VEDETTE_USAGE_ENABLE", "true")
    assert Chosen().environ() == {}


def test_options_behind_the_script(home, hub, as_program, script, capsys):
    """Options are taken where the classifier writes them, behind the script; all behind `--` is the script's own."""
    assert as_program(script, "a", "-setting", "monitor.Log", "level: 30", "--", "-setting", "b") == 0

    assert capsys.readouterr().out == "['a', '-setting', 'b'] __main__\n"
    assert os.environ["VEDETTE_LOGS_LEVEL"] == "30"


@pytest.mark.parametrize(
    "words",
    [
        ["-setting", "monitor.Gmail", "smtp_port: 1"],
        ["-setting", "Multiprocessing", "preload: [numpy]"],
        ["-setting", "Analysis", "max_workers: 4"],
        ["-analysis", "notify.Gmail"],
        ["-flag", "quick"],
    ],
)
def test_what_only_the_original_has(as_program, script, capsys, words):
    """Whatever else the original takes is named as without effect, and the script runs."""
    assert as_program(script, *words, "-setting", "Monitor", "enable: false") == 0
    assert "has no effect here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost:{port}", "no server answers at localhost:{port}: what is logged is kept in {home}"),
        (":{port}", "no server answers at localhost:{port}: what is logged is kept in {home}"),
        ("", "no server answers at localhost:{port}: what is logged waits in {home}"),
        ("{home}/none.sock", "no server answers at {home}/none.sock: what is logged waits in {home}"),
    ],
)
def test_a_server_that_is_down(home, hub, as_program, script, capsys, monkeypatch, address, said):
    """A call whose server is down runs, and says where its records are, however the address is spelled."""
    words = {"port": reserve_port(), "home": home.root}
    if not address:
        monkeypatch.setenv("VEDETTE_HUB", f"vedette://token@localhost:{words['port']}")
    where = f"address: '{address.format(**words)}', " if address else ""
    as_program(script, "-setting", "Monitor", f"{{{where}connect: true}}")

    assert said.format(**words) in capsys.readouterr().err
    kept_here = "kept" in said
    assert bool(read_runs(home)) == kept_here


def test_no_report_of_a_run_that_is_elsewhere(home, hub, as_program, script, tmp_path, capsys):
    """-analysis of a run that a server keeps says where its usage is, and leaves no empty folder."""
    as_program(script, "-setting", "Monitor", f"{{address: {home.root}/none.sock, connect: true}}",
               "-setting", "IO", "output: ./out/", "-analysis", "monitor.Usage")  # fmt: skip

    assert "the server at" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_several_messages_before_a_run():
    """With nothing but the import changed, several messages in one call are printed, and formats work as before."""
    assert [
        logging.LogRecord("x", 30, "f", 1, msg, args, None).getMessage()
        for msg, args in (("one", ("two", "three")), ("one %s", ("two",)), ("%d", ("x",)), ("plain", ()))
    ] == ["one two three", "one two", "%d x", "plain"]
