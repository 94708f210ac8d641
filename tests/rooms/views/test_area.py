"""The rows below the lines, and a program that has the cursor."""

import os

import pytest

from vedette.views.area import Area


@pytest.fixture
def area(tmp_path):
    """An area on a file, whose bytes can be read."""
    fd = os.open(tmp_path / "terminal", os.O_RDWR | os.O_CREAT)
    made = Area(fd, clock=lambda: made.now)
    made.now = 100.0
    made.shown = lambda: (tmp_path / "terminal").read_bytes().decode()
    yield made
    os.close(fd)


@pytest.mark.parametrize("act", [lambda area: area.make_room("(Pdb) "), lambda area: area.below(["other"])])
def test_bars_make_way_for_a_program_that_takes_keys(area, act):
    """When a program begins to read keys, as a debugger's prompt does, the bars are erased, and not drawn again."""
    area.below(["a bar"])
    before = area.shown()
    area.occupied = lambda: True
    act(area)
    erased = area.shown()[len(before) :]
    area.go_on("(Pdb) ")
    area.below(["another"])

    assert "a bar" in before
    assert erased == "\x1b[K\n\x1b[J\x1b[A"
    assert area.shown() == before + erased


def test_lines_wait_for_the_end_of_a_line(area):
    """Lines that had to wait come behind what the program prints now, not between a prompt and its answer."""
    area.make_room("(Pdb) ")
    area.go_on("(Pdb) ")
    area.above(["a line"])
    area.now += 60
    area.make_room("p x\n")
    assert area.shown() == ""
    area.go_on("p x\n")
    assert area.shown() == "a line\n"
