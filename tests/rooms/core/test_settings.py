"""Settings: where each comes from, which one wins, and what is said when one is wrong."""

import json
import os

import pytest

from tests.rooms.conftest import python
from vedette import settings
from vedette.errors import SettingError

DEFAULT = settings.Settings()


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def place(tmp_path):
    """A home to ask the settings of, in which nothing ever runs."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def test_names_are_all_there_is():
    """names() lists every setting by its dotted name, with its default."""
    assert settings.names() == {
        "home": "~/.vedette",
        "upstream": "",
        "mode": "on",
        "foreign_home": False,
        "lost_after_s": 60.0,
        "spool.cap_bytes": 1 << 30,
        "spool.cap_share": 0.1,
        "hub.turn_s": 0.1,
        "hub.sync_s": 1.0,
        "hub.seal_s": 60.0,
        "hub.ship_s": 1.0,
        "hub.idle_s": 60.0,
        "hub.without_upstream_s": 3600.0,
        "hub.address": "",
        "hub.advertise": "",
        "hub.onward": "",
        "hub.reroute": "",
        "hub.listen": "",
        "hub.heflwr": "",
        "hub.trusted_network": False,
        "hub.mask": True,
        "limits.connections": 1024,
        "limits.inbox_bytes": 1 << 30,
        "limits.name_chars": 500,
        "limits.series_per_run": 100_000,
        "limits.points_per_s": 0,
        "limits.blob_bytes": 4 << 30,
        "limits.blobs_bytes": 64 << 30,
        "keep.age_d": 0.0,
        "keep.runs": 0,
        "keep.size_bytes": 0,
        "usage.enable": True,
        "usage.interval_s": 1.0,
        "usage.gpu": True,
        "logs.enable": True,
        "logs.level": 20,
        "logs.output": True,
        "capture.enable": True,
        "capture.code": True,
        "capture.max_bytes": 64 << 20,
        "capture.max_file_bytes": 4 << 20,
        "capture.max_files": 10_000,
        "capture.env": "",
        "console.mode": "auto",
    }


def test_defaults():
    """Where nothing is said, the defaults hold."""
    assert settings.load(environ={}) == DEFAULT


@pytest.mark.parametrize("key", settings.names())
def test_every_setting_can_be_set_from_everywhere(key, work):
    """Each setting is taken from a file, from its environment variable, and from the call."""
    value = {str: "other", int: 7, float: 7.5, bool: True}[type(settings.names()[key])]
    value = {"mode": "off", "console.mode": "on", "spool.cap_share": 0.5, "upstream": "host:1"}.get(key, value)
    section, _, name = key.rpartition(".")
    variable = "VEDETTE_HUB" if key == "upstream" else "VEDETTE_" + key.replace(".", "_").upper()

    def read(loaded):
        return getattr(getattr(loaded, section) if section else loaded, name)

    assert value == read(settings.load(environ={variable: str(value)}))
    assert value == read(settings.load({key: value}, environ={}))
    assert value == read(settings.load({key: str(value)}, environ={}))
    line = f"{name} = {json.dumps(value)}\n"
    (work / "vedette.toml").write_text(f"[{section}]\n{line}" if section else line)
    assert value == read(settings.load(environ={}))


def pace(loaded):
    """Four settings of the hub."""
    return loaded.hub.turn_s, loaded.hub.sync_s, loaded.hub.seal_s, loaded.hub.idle_s


def test_the_layers(place, work):
    """Home file < project file < environment < call, each where it says something."""
    said = {"home": str(place)}
    (place / "vedette.toml").write_text("[hub]\nturn_s = 1.0\nsync_s = 1.5\nseal_s = 1.25\nidle_s = 1.125\n")
    assert pace(settings.load(said, {})) == (1.0, 1.5, 1.25, 1.125)

    (work / "vedette.toml").write_text("[hub]\nsync_s = 2.0\nseal_s = 2.5\nidle_s = 2.25\n")
    assert pace(settings.load(said, {})) == (1.0, 2.0, 2.5, 2.25)

    environ = {"VEDETTE_HUB_SEAL_S": "3.0", "VEDETTE_HUB_IDLE_S": "3.5"}
    assert pace(settings.load(said, environ)) == (1.0, 2.0, 3.0, 3.5)

    assert pace(settings.load({**said, "hub.idle_s": "4.0"}, environ)) == (1.0, 2.0, 3.0, 4.0)


def test_the_home_file_is_that_of_the_home_in_use(place, tmp_path):
    """The home's own file is read from the home that the call or the environment names, the call first."""
    other = tmp_path / "other"
    other.mkdir()
    (place / "vedette.toml").write_text("[hub]\nturn_s = 1.0\n")
    (other / "vedette.toml").write_text("[hub]\nturn_s = 2.0\n")

    assert settings.load(environ={"VEDETTE_HOME": str(place)}).hub.turn_s == 1.0
    assert settings.load({"home": str(other)}, {"VEDETTE_HOME": str(place)}).hub.turn_s == 2.0


def test_a_project_file_is_found_from_below(work, monkeypatch):
    """The nearest vedette.toml or pyproject.toml with a [tool.vedette] counts, from the working directory upwards."""
    deep = work / "a" / "b"
    deep.mkdir(parents=True)
    (work / "pyproject.toml").write_text("[tool.vedette]\nmode = 'off'\n[tool.vedette.hub]\nturn_s = 1.0\n")
    monkeypatch.chdir(deep)
    assert settings.load(environ={}).mode == "off"
    assert settings.load(environ={}).hub.turn_s == 1.0

    (work / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert settings.load(environ={}).mode == "off"

    (work / "a" / "vedette.toml").write_text("mode = 'on'\n")
    assert settings.load(environ={}).mode == "on"
    assert settings.load(environ={}).hub.turn_s == DEFAULT.hub.turn_s


def test_vedette_toml_is_stronger_than_pyproject(work):
    """Where both lie in one directory, vedette.toml counts alone."""
    (work / "pyproject.toml").write_text("[tool.vedette]\nmode = 'off'\n")
    (work / "vedette.toml").write_text("[hub]\nturn_s = 1.0\n")

    assert settings.load(environ={}).mode == "on"
    assert settings.load(environ={}).hub.turn_s == 1.0


def test_a_working_directory_that_is_gone(work):
    """Settings can be had from a directory that was removed."""
    work.rmdir()

    assert settings.load(environ={}) == DEFAULT


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("hom", "home"),
        ("modus", "mode"),
        ("cap_bytes", "spool.cap_bytes"),
        ("spool.cap_byte", "spool.cap_bytes"),
        ("hub.idle", "hub.idle_s"),
        ("hub.idle_seconds", "hub.idle_s"),
    ],
)
def test_an_unknown_key_names_the_nearest(key, near, work):
    """A key that is none is refused, with where it stands and the nearest that there is."""
    with pytest.raises(SettingError, match=f"the call sets '{key}'.*did you mean '{near}'"):
        settings.load({key: "1"}, environ={})
    section, _, name = key.rpartition(".")
    (work / "vedette.toml").write_text(f"[{section}]\n{name} = 1\n" if section else f"{name} = 1\n")
    with pytest.raises(SettingError, match=f"{work / 'vedette.toml'} sets '{key}'.*did you mean '{near}'"):
        settings.load(environ={})


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("VEDETTE_SPOOL_CAP_BYTE", "VEDETTE_SPOOL_CAP_BYTES"),
        ("VEDETTE_HOM", "VEDETTE_HOME"),
        ("VEDETTE_IDLE_S", "VEDETTE_HUB_IDLE_S"),
        ("VEDETTE_UPSTREAM", "VEDETTE_HUB"),
    ],
)
def test_an_unknown_variable_names_the_nearest(variable, near):
    """A variable that looks like ours and is none is named with the nearest that there is, and the others hold."""
    environ = {variable: "1", "VEDETTE_USAGE_INTERVAL_S": "7"}
    [sentence] = settings.unknown_variables(environ)

    assert variable in sentence
    assert sentence.endswith(f"did you mean {near}?")
    assert settings.load(environ=environ).usage.interval_s == 7


@pytest.mark.parametrize("variable", ["VEDETTE_PROJET", "VEDETTE_FOO", "VEDETTE_X"])
def test_an_unknown_variable_that_is_near_none(variable):
    """Where no variable of ours is near, none is named: a guess would mislead."""
    [sentence] = settings.unknown_variables({variable: "1"})

    assert sentence == f"the environment has {variable}, which vedette does not know: ignored"
    with pytest.raises(SettingError, match=r"which is not a setting$"):
        settings.load({"xyzzy": 1}, environ={})


@pytest.mark.parametrize(
    "variable", ["VEDETTE_RUN", "VEDETTE_TRY", "VEDETTE_RESUME", "VEDETTE_TOKEN", "OTHER", "vedette_home"]
)
def test_variables_that_say_something_else(variable):
    """Variables that are no settings are left alone."""
    assert settings.load(environ={variable: "1"}) == DEFAULT
    assert settings.unknown_variables({variable: "1"}) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hub.turn_s", "soon"),
        ("hub.turn_s", "0.1s"),
        ("spool.cap_bytes", "1.5"),
        ("spool.cap_bytes", "1GB"),
    ],
)
def test_a_bad_value_names_its_setting(key, value):
    """A value that a setting cannot take is refused in a sentence with its name, from the call and the environment."""
    for said, environ in (({key: value}, {}), ({}, {"VEDETTE_" + key.replace(".", "_").upper(): value})):
        with pytest.raises(SettingError, match=key):
            settings.load(said, environ)


@pytest.mark.parametrize(
    ("key", "value"), [("hub.turn_s", -1), ("hub.turn_s", "nan"), ("spool.cap_share", 5), ("mode", "banana")]
)
def test_a_value_out_of_bounds_is_refused(key, value):
    """A value that makes no sense is refused, not used."""
    with pytest.raises(SettingError, match=key):
        settings.load({key: value}, {})


@pytest.mark.parametrize("text", ["= 1", "[hub", "mode = on", "hub.turn_s = 0.1s", "\xff"])
@pytest.mark.parametrize("folder", ["home", "work"])
def test_bad_toml_names_its_file(text, folder, place, work):
    """A file that is not TOML is refused in a sentence that names it."""
    path = (place if folder == "home" else work) / "vedette.toml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(SettingError, match=f"{path} is not TOML"):
        settings.load({"home": str(place)}, {})


@pytest.mark.parametrize(
    "text", ["hub = 5\n", "mode = {a = 1}\n", "[hub.turn_s]\nx = 1\n", "[[hub]]\nturn_s = 1\n", "mode = false\n"]
)
def test_toml_of_another_shape_is_refused(text, work):
    """A file that is TOML but says something of another shape is refused by a sentence too."""
    (work / "vedette.toml").write_text(text)

    with pytest.raises(SettingError):
        settings.load(environ={})


def test_a_pyproject_of_another_shape_is_refused(work):
    """So is a [tool.vedette] that is no table."""
    (work / "pyproject.toml").write_text("# tool.vedette\n[tool]\nvedette = 5\n")

    with pytest.raises(SettingError):
        settings.load(environ={})


def test_a_pyproject_of_others_is_not_our_business(work):
    """A pyproject.toml that does not mention us is not even parsed."""
    (work / "pyproject.toml").write_text("this is not TOML at all")

    assert settings.load(environ={}) == DEFAULT


@pytest.mark.parametrize("variable", ["VEDETTE_HOME", "VEDETTE_MODE", "VEDETTE_HUB"])
def test_an_empty_variable_is_as_good_as_none(variable):
    """`VEDETTE_HOME=` is not the working directory: what is set to nothing is not set."""
    assert settings.load(environ={variable: ""}) == DEFAULT


INIT = "import vedette; run = vedette.init(); print(type(run).__name__)"


@pytest.mark.parametrize("text", ["= 1", "nonsense = 1", "[hub]\nturn_s = 'soon'\n"])
def test_a_wrong_file_does_not_stop_the_recording(text, home, work):
    """A user's process goes on with the defaults when a file is wrong, and says so once; the run is recorded."""
    (work / "vedette.toml").write_text(text)
    done = python(INIT)

    assert (done.returncode, done.stdout) == (0, "Run\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("environ", [{"VEDETTE_NONSENSE": "1"}, {"VEDETTE_HUB_TURN_S": "soon"}])
def test_off_is_off_whatever_else_is_wrong(environ, home):
    """VEDETTE_MODE=off holds even beside a variable that is wrong."""
    done = python(INIT, environ={**environ, "VEDETTE_MODE": "off"})

    assert (done.returncode, done.stdout) == (0, "OffRun\n")
    assert os.listdir(home.root) == []


def test_a_wrong_variable_leaves_the_others_in_force(home):
    """One variable that is wrong does not undo the home that another one names."""
    done = python("import vedette; print(vedette.init()._journal.home.root)", environ={"VEDETTE_NONSENSE": "1"})

    assert done.stdout == f"{home.root}\n"


@pytest.mark.parametrize(
    ("hub", "expected"),
    [
        (settings.Hub(), {}),
        (settings.Hub(listen="a=:1"), {"a": ":1"}),
        (settings.Hub(listen=" a=:1, b=[::1]:2?x=y ,"), {"a": ":1", "b": "[::1]:2?x=y"}),
        (settings.Hub(listen=["a=:1", "b=:2"]), {"a": ":1", "b": ":2"}),
        (settings.Hub(heflwr=":5"), {"heflwr": ":5"}),
        (settings.Hub(listen="heflwr=:6", heflwr=":5"), {"heflwr": ":6"}),
    ],
)
def test_listeners(hub, expected):
    """Listeners are named in one text or in a list; the older name of heflwr's is a synonym."""
    assert hub.listeners() == expected


@pytest.mark.parametrize("listen", ["a", "a=", "=:1", "a=:1,a=:2", ["a"]])
def test_what_names_no_listener(listen):
    """What is not NAME=ADDRESS, or is said twice, is refused."""
    with pytest.raises(SettingError, match=r"hub\.listen"):
        settings.Hub(listen=listen).listeners()


def test_a_list_of_listeners_in_a_file(work):
    """A file may have a list of them."""
    (work / "vedette.toml").write_text('[hub]\nlisten = ["a=:1", "b=:2"]\n')
    assert settings.load(environ={}).hub.listeners() == {"a": ":1", "b": ":2"}
