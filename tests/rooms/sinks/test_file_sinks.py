"""Text, JSON lines and tables: whole lines, whatever happens to the disk, the file, or the program."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.moments import METRICS, moment
from tests.rooms.conftest import small_disk
from vedette import sinks
from vedette.errors import SettingError
from vedette.model import Sample

KINDS = ("text", "jsonl", "csv")


def opened(path):
    name, config = sinks.parse(str(path))
    return sinks.find(name).open(config, METRICS)


def test_the_lines_of_text(tmp_path):
    """A text has the time of its opening, and the known line for each moment, to the letter."""
    sink = opened(tmp_path / "a.txt")
    for i in range(2):
        sink.put(moment(i))
    sink.close()
    first, *lines = (tmp_path / "a.txt").read_text().split("\n")

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", first)
    assert lines == [
        "CPU Usage: 10.5%, Memory Usage: 0.125%, ",
        "CPU Usage: 20.5%, Memory Usage: 0.125%, Bytes Sent: 100, Bytes Recv: 50, ",
        "",
    ]


def test_text_with_power_and_stamps(tmp_path):
    """Power is in whole milliwatts, and stamps put the time of the moment, in UTC, before the line."""
    sink = opened(f"{tmp_path}/a.log?stamps&wanted=power")
    sink.put(moment(t=1_790_000_000_123_456_789))
    sink.close()

    assert (tmp_path / "a.log").read_text().splitlines()[1] == "2026-09-21T14:13:20.123Z VDD In: 4980, "


def test_each_opening_of_a_text_has_its_time(tmp_path):
    """Opened again, a text goes on below, with the time once more."""
    for _ in range(2):
        sink = opened(tmp_path / "a.txt")
        sink.put(moment())
        sink.close()

    assert [line[:2] for line in (tmp_path / "a.txt").read_text().splitlines()] == ["20", "CP", "20", "CP"]


def test_json_lines(tmp_path):
    """A line is an object with the time and every number by its flat name; what is no number is null."""
    name, config = sinks.parse(str(tmp_path / "a.jsonl"))
    sink = sinks.find(name).open(type(config)(config.path, pid=77), METRICS)
    sink.put(moment(1, t=1_790_000_000_123_456_789, odd=float("nan")))
    sink.close()
    found = json.loads((tmp_path / "a.jsonl").read_text())

    assert list(found)[:3] == ["t", "t_ns", "pid"]
    assert (found["t"], found["t_ns"], found["pid"]) == (
        "2026-09-21T14:13:20.123457+00:00",
        1_790_000_000_123_456_789,
        77,
    )
    assert (found["cpu_percent"], found["host_cpu_percent"], found["host_cpu_percent[core=0]"]) == (20.5, 80.0, 41.0)
    assert found["odd"] is None


def test_a_table(tmp_path):
    """A table has the columns of the first moment; a number that is missing leaves its cell empty, one more is lost."""
    sink = opened(tmp_path / "a.csv")
    sink.put([Sample(1, 1, {"a": 1, 'b,"c"\n': 2.5}, "x")])
    sink.put([Sample(2, 2, {"a": 2, "late": 3}, "x")])
    assert (sink.lost, "late" in sink.trouble) == (1, True)
    sink.close()
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))

    assert [row[1:] for row in rows] == [["a", 'b,"c"\n'], ["1", "2.5"], ["2", ""]]
    assert (tmp_path / "a.csv").read_bytes().count(b"\r\n") == 3


def test_a_table_goes_on(tmp_path):
    """Opened again, a table goes on in the columns that it has, in their order, without a second header."""
    for values in ({"a": 1, 'b,"c"\n': 2}, {'b,"c"\n': 4, "a": 3}):
        sink = opened(tmp_path / "a.csv")
        sink.put([Sample(1, 1, values, "x")])
        sink.close()
    with open(tmp_path / "a.csv", newline="") as file:
        rows = list(csv.reader(file))

    assert [row[1:] for row in rows] == [["a", 'b,"c"\n'], ["1", "2"], ["3", "4"]]


def test_a_table_that_another_has_begun_anew(tmp_path):
    """After a rotation the columns are those of the new file, whoever has begun it: each number is in its own."""
    path = tmp_path / "a.csv"
    ours, theirs = opened(path), opened(path)
    ours.put([Sample(1, 1, {"a": 1, "b": 2}, "x")])
    path.rename(tmp_path / "old")
    theirs.put([Sample(2, 2, {"b": 3, "a": 4}, "x")])
    ours.put([Sample(3, 3, {"a": 5, "b": 6}, "x")])
    with path.open(newline="") as file:
        rows = list(csv.reader(file))

    assert [row[1:] for row in rows] == [["b", "a"], ["3", "4"], ["6", "5"]]


def test_a_table_of_somebody_else(tmp_path):
    """A file that is no table of this kind is left alone."""
    (tmp_path / "a.csv").write_text("name,age\nada,36\n")
    with pytest.raises(SettingError, match="give another"):
        opened(tmp_path / "a.csv")

    assert (tmp_path / "a.csv").read_text() == "name,age\nada,36\n"


@pytest.mark.parametrize("kind", KINDS)
def test_the_mode_of_a_file(kind, tmp_path):
    """A file can be read by others, as any that a program makes."""
    path = tmp_path / "out"
    before = os.umask(0o022)
    try:
        sink = sinks.find(kind).open(sinks.find(kind).Config(str(path)), METRICS)
        sink.put(moment())
        sink.close()
    finally:
        os.umask(before)

    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_rotated_or_removed(kind, tmp_path):
    """A file that was moved away or removed is made anew, with its header; while its directory is gone it is said."""
    path = tmp_path / "in" / "out"
    path.parent.mkdir()
    sink = sinks.find(kind).open(sinks.find(kind).Config(str(path)), METRICS)
    sink.put(moment(0))
    first = path.read_bytes()
    path.rename(path.with_name("old"))
    sink.put(moment(1))
    assert path.with_name("old").read_bytes() == first
    head = len(first.splitlines()) - 1
    assert len(path.read_bytes().splitlines()) == head + 1
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        sink.put(moment(2))
    path.parent.mkdir()
    sink.put(moment(3))
    sink.close()

    assert len(path.read_bytes().splitlines()) == head + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(kind):
    """On a full disk a moment is there whole or not at all, and it goes on when there is room again."""
    with small_disk("64k") as disk:
        path = os.path.join(disk, "out")
        sink = sinks.find(kind).open(sinks.find(kind).Config(path), METRICS)
        sink.put(moment(0))
        kept, failed = 1, 0
        ballast = os.path.join(disk, "ballast")
        with open(ballast, "wb") as file:
            file.write(b"x" * 40_000)
        for i in range(1, 2000):
            try:
                sink.put(moment(i))
                kept += 1
            except OSError:
                failed += 1
        assert failed
        os.unlink(ballast)
        sink.put(moment(2000))
        kept += 1
        sink.close()
        with open(path, "rb") as file:
            text = file.read()

        assert text.endswith(b"\n")
        lines = text.decode().splitlines()[0 if kind == "jsonl" else 1 :]
        assert len(lines) == kept
        assert len({whole(kind, line) for line in lines}) == 1


def whole(kind, line):
    """Return the shape of a line that is whole."""
    if kind == "jsonl":
        return len(json.loads(line))
    return (
        line.count(",")
        if kind == "csv"
        else line.startswith("CPU Usage: ") and line.endswith("%, ") | line.endswith("50, ")
    )


def test_what_a_broken_appender_leaves(monkeypatch):
    """The check of a full disk finds an appender that does not cut off what was torn."""
    from vedette.sinks.appender import Appender

    monkeypatch.setattr(Appender, "_remove_partial_line", lambda *_: None)
    with pytest.raises((AssertionError, ValueError)):
        test_a_full_disk("jsonl")


WRITER = """
    import sys
    from tests.moments import METRICS, moment
    from vedette import sinks
    name, config = sinks.parse(sys.argv[1])
    sink = sinks.find(name).open(config, METRICS)
    for i in range(int(sys.argv[2])):
        sink.put(moment(i, who=int(sys.argv[3])))
        print(i, flush=True)
"""


def writer(path, count, who):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(count), str(who)],
        stdout=subprocess.PIPE, text=True, cwd=str(Path(__file__).parents[3]),
    )  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_two_at_once(suffix, tmp_path):
    """Two monitors that append to one file mix no lines, and a table has one header."""
    path = tmp_path / f"out.{suffix}"
    both = [writer(path, 500, who) for who in (1, 2)]
    for process in both:
        assert process.communicate()[0].count("\n") == 500
    lines = path.read_text().splitlines()
    if suffix == "jsonl":
        found = [json.loads(line)["who"] for line in lines]
    else:
        head, *rows = csv.reader(lines)
        found = [int(row[head.index("who")]) for row in rows]

    assert sorted(found) == [1] * 500 + [2] * 500


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "csv"])
def test_a_kill(suffix, tmp_path):
    """What `put` has returned from is in the file after a kill -9."""
    path = tmp_path / f"out.{suffix}"
    process = writer(path, 10**6, 1)
    for _ in range(200):
        told = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    told = [told, *process.communicate()[0].splitlines()][-1]
    lines = path.read_text().splitlines()[0 if suffix == "jsonl" else 1 :]

    assert int(told) + 1 <= len(lines) <= int(told) + 2
    # The kernel may leave half of a line that was being written; not of one that `put` has returned from.
    assert path.read_text().endswith("\n") or len(lines) == int(told) + 2


def test_a_line_that_was_torn_before(tmp_path):
    """A file that ends within a line, as after a power cut, is gone on with on a line of its own."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": 1}\n{"t"')
    sink = opened(path)
    sink.put(moment())
    sink.close()

    assert len(json.loads(path.read_text().splitlines()[2])) > 3
