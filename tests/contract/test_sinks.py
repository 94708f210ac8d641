"""What every sink promises: it takes moments, lets go when it is closed, and says in one sentence what cannot be."""

import os
import subprocess
import sys
import threading

import msgspec
import pytest

from tests.moments import METRICS, moment
from tests.ports import reserve_port
from vedette import sinks
from vedette.errors import SettingError
from vedette.model import Sample

GOOD = {  # what stands behind a name on the command line; {port} is one that nobody listens on
    "text": "{folder}/out.txt",
    "jsonl": "{folder}/out.jsonl",
    "csv": "{folder}/out.csv",
    "prometheus": "0",
    "hub": "?project=p&name=n",
    "form": "127.0.0.1:{port}?identifier=me",
}
BAD = {
    "text": ["", "{folder}/none/out.txt", "{folder}", "{folder}/out.txt?wanted=fish"],
    "jsonl": ["", "{folder}/none/out.jsonl", "{folder}"],
    "csv": ["", "{folder}/none/out.csv", "{folder}"],
    "prometheus": [
        "x",
        "70000",
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:0",
        "0?names=fish",
        "0?token_file=/none",
        "0?cert=/x",
    ],
    "hub": ["no such/thing", "?colour=red"],
    "form": ["", "http://host:1", "host:99999", "a b:1", "127.0.0.1:1?wanted=fish", "x:1\r\nEvil: 1"],
}


@pytest.fixture
def filled(tmp_path, home):
    port = reserve_port()
    return lambda text: text.format(folder=tmp_path, port=port)


def opened(name, text):
    chosen, config = sinks.parse(f"{name}:{text}" if text else name)
    assert chosen == name
    return sinks.find(name).open(config, METRICS)


def test_every_sink_is_held_to_it():
    """No registered sink goes without these tests."""
    assert set(GOOD) == set(BAD) == set(sinks.SINKS)


@pytest.mark.parametrize("name", sinks.SINKS)
def test_its_life(name, filled):
    """A sink is opened, takes moments, is closed twice without harm, and can be opened again at once."""
    for _ in range(2):
        sink = opened(name, filled(GOOD[name]))
        for i in range(3):
            sink.put(moment(i))
        sink.put([])
        assert (sink.lost, type(sink.trouble)) == (0, str)
        sink.close()
        sink.close()


@pytest.mark.parametrize("name", sinks.SINKS)
def test_its_config_goes_through_json(name, filled):
    """What it is told can be handed to another process, and is the same there."""
    module = sinks.find(name)
    config = module.parse(filled(GOOD[name]))

    assert msgspec.json.decode(msgspec.json.encode(config), type=module.Config) == config


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_cannot_be_is_a_sentence(name, text, filled):
    """What it cannot be, or cannot do, is a SettingError of one line, whenever that is found out."""
    with pytest.raises(SettingError) as said:
        opened(name, filled(text)).close()
    assert "\n" not in str(said.value)
    assert len(str(said.value)) > 20


@pytest.mark.parametrize("name", sinks.SINKS)
def test_odd_numbers_and_names(name, filled):
    """Numbers that are none, names and tags of hostile text, and numbers that come and go do no harm."""
    sink = opened(name, filled(GOOD[name]))
    odd = {"cpu_percent": float("nan"), "memory_share_percent": float("inf"), 'a"b,c\nd=é{}': -1, "big": 1 << 60}
    sink.put([Sample(1, 1, odd, "x", {'k"\n-': 'v"\\\n,é', "__name__": "evil"}), Sample(1, 1, dict(odd), "x")])
    sink.put(moment(1))
    sink.put([Sample(2, 2, {}, "x")])
    sink.close()


@pytest.mark.parametrize("name", sinks.SINKS)
def test_nothing_is_left(name, filled):
    """A closed sink leaves neither a thread nor an open file."""
    opened(name, filled(GOOD[name])).close()  # what is loaded once is loaded
    before = threading.active_count(), set(os.listdir("/proc/self/fd"))
    sink = opened(name, filled(GOOD[name]))
    sink.put(moment())
    sink.put(moment(1))
    sink.close()
    del sink

    assert threading.active_count() == before[0]
    left = set(os.listdir("/proc/self/fd")) - before[1]
    assert [fd for fd in left if os.path.exists(f"/proc/self/fd/{fd}")] == []


@pytest.mark.parametrize("name", sinks.SINKS)
def test_it_weighs_nothing_until_it_is_asked_for(name):
    """Reading where samples are to go loads that sink alone, and no server library."""
    others = {f"vedette.sinks.{other}" for other in sinks.SINKS} - {f"vedette.sinks.{name}"}
    unwanted = {*others, "prometheus_client", "starlette", "uvicorn", "numpy", "sqlite3", "asyncio"}
    text = GOOD[name].format(folder="/tmp", port=1)
    code = f"import sys; from vedette import sinks; sinks.parse({f'{name}:{text}'!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert unwanted & set(done.stdout.split()) == set()


@pytest.mark.parametrize(
    ("path", "name"), [("a.txt", "text"), ("b.LOG", "text"), ("/x/c.jsonl", "jsonl"), ("d.csv", "csv")]
)
def test_a_suffix_tells(path, name):
    """A path says by its suffix which sink is meant."""
    found, config = sinks.parse(path)

    assert (found, config.path) == (name, path)


@pytest.mark.parametrize("text", ["", "x", "x.bin", "texts:a", "file:a.bin", ":", "?"])
def test_nothing_that_is_known(text):
    """What is neither a sink nor such a path is refused, and the sentence names what there is."""
    with pytest.raises(SettingError, match=rf"{', '.join(sinks.SINKS)}, .*\.jsonl"):
        sinks.parse(text)


def test_an_option_that_is_not_known():
    """A misspelt option is not taken for a part of the path."""
    with pytest.raises(SettingError, match="stamps"):
        sinks.parse("a.txt?stamp=1")


def test_a_sink_of_somebody_else_s(tmp_path, monkeypatch):
    """An installed package adds a sink by an entry point; what it raises is a sentence all the same."""
    (tmp_path / "bell.py").write_text("def parse(text): return int(text)\n")
    (tmp_path / "bell-1.dist-info").mkdir()
    (tmp_path / "bell-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bell\nVersion: 1\n")
    (tmp_path / "bell-1.dist-info" / "entry_points.txt").write_text("[vedette.sinks]\nbell = bell\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert sinks.parse("bell:3") == ("bell", 3)
    with pytest.raises(SettingError, match="the sink bell cannot take 'x': ValueError"):
        sinks.parse("bell:x")
