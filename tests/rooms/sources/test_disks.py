"""Disks, made up."""

import os
import time

import pytest

from vedette.sensing.sensor import Absent, Target
from vedette.sources import disks


def line(name, read=0, written=0, busy_ms=0):
    return f" 8 0 {name} 5 1 {read} 7 5 1 {written} 7 0 {busy_ms} 9 0 0 0 0 0 0\n"


def say(root, *lines):
    (root / "diskstats").write_text("".join(lines))


def watch(root):
    return disks.sensor(Target(1, str(root), str(root / "sys")))


def told(watching):
    return {one.tags["disk"]: one.values for one in watching.look()}


NAMES = (
    "sda",
    "sda1",
    "nvme0n1",
    "nvme0n1p2",
    "mmcblk0",
    "mmcblk0p1",
    "vda",
    "vda12",
    "dm-0",
    "md127",
    "xvdb",
    "cciss/c0d0",
)
WHOLE = {"sda", "nvme0n1", "mmcblk0", "vda", "dm-0", "md127", "xvdb", "cciss/c0d0"}


@pytest.mark.parametrize("by_sys", [True, False])
def test_whole_disks_alone(tmp_path, by_sys):
    """Partitions, loops and disks of memory are left out, also where /sys does not tell which is which."""
    if by_sys:
        for name in (*WHOLE, "loop0", "ram0", "zram0", "sr0"):
            (tmp_path / "sys" / "block" / name.replace("/", "!")).mkdir(parents=True)
    say(tmp_path, *(line(name) for name in (*NAMES, "loop0", "loop11", "ram0", "zram0", "sr0")))
    assert set(told(watch(tmp_path))) == WHOLE


def test_rates(tmp_path, monkeypatch):
    """Bytes are those of 512 in a sector, by the time between two looks; busy is a share of it."""
    say(tmp_path, line("sda", 10, 20, 0))
    watching = watch(tmp_path)
    assert told(watching) == {"sda": {"disk_read_bytes": 5120, "disk_written_bytes": 10240}}
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + 10)
    say(tmp_path, line("sda", 110, 20, 5000))
    values = told(watching)["sda"]
    assert values["disk_read_bytes"] == 110 * 512
    assert values["disk_read_bytes_per_s"] == pytest.approx(5120, rel=0.02)
    assert values["disk_written_bytes_per_s"] == 0
    assert values["disk_busy_percent"] == pytest.approx(50, rel=0.02)
    watching.close()


def test_a_disk_that_is_taken_out_and_put_in_again(tmp_path):
    """Its counters begin again; ours go on, and no rate is negative."""
    say(tmp_path, line("sda"), line("sdb", 1000, 1000, 1000))
    watching = watch(tmp_path)
    told(watching)
    say(tmp_path, line("sda"))
    assert set(told(watching)) == {"sda"}
    say(tmp_path, line("sda"), line("sdb", 3, 4, 5))
    values = told(watching)["sdb"]
    assert (values["disk_read_bytes"], values["disk_written_bytes"]) == (1003 * 512, 1004 * 512)
    assert all(value >= 0 for value in values.values())


def test_absent(tmp_path):
    """A machine that does not tell, or that has no disk, is told apart."""
    assert "there is no" in watch(tmp_path).why
    say(tmp_path, line("loop0"))
    assert "no disk" in watch(tmp_path).why


@pytest.mark.parametrize(
    "text", ["", "8 0 sda\n", " 8 0 sda" + " x" * 17 + "\n", " 8 0 sda" + " -1" * 17 + "\n", "\0" * 50]
)
def test_files_that_make_no_sense(tmp_path, text):
    """They are left out."""
    say(tmp_path, line("sda"))
    watching = watch(tmp_path)
    (tmp_path / "diskstats").write_text(text)
    assert told(watching) == {}


def test_numbers_too_large_to_keep(tmp_path):
    """They are left out, and the others stay."""
    say(tmp_path, line("sda", 1 << 63, 1))
    assert told(watch(tmp_path))["sda"] == {"disk_written_bytes": 512}


def test_the_real_ones():
    """The file of this machine is understood."""
    watching = disks.sensor(Target(os.getpid()))
    if not isinstance(watching, Absent):
        assert all(set(values) <= set(watching.metrics) for values in told(watching).values())
