"""What a program prints, as lines."""

import itertools

from vedette.sources.output import MAX_LINE, Line, Lines


def lines(text, size):
    """Feed a text in pieces of a size; return what came out, the end of the stream included."""
    cutter = Lines()
    found = [line for at in range(0, len(text), size) for line in cutter.feed(text[at : at + size])]
    return found + cutter.flush()


def test_lines_are_the_same_however_the_text_comes():
    """Whatever the pieces that a text comes in, the lines that are over are the same."""
    text = "a\nbc\r\n\r 10%|#\r 20%|##\nlast\r\n\nrest"
    for size in range(1, len(text) + 1):
        over = [line.text for line in lines(text, size) if line.over]

        assert over == ["a", "bc", " 20%|##", "last", "", "rest"]


def test_what_is_drawn_over_is_handed_out_as_such():
    """A bar that is drawn over and over comes out at each drawing, and as a line only in the end."""
    found = lines("\r1/3\r2/3\r3/3\ndone\n", 100)

    assert found == [Line("1/3", over=False), Line("2/3", over=False), Line("3/3", over=True), Line("done", over=True)]


def test_the_parts_of_a_long_line():
    """Only the first one begins a line, whatever the pieces that the text comes in."""
    text = "x" * (3 * MAX_LINE) + "y\nnext\n" + "x" * (2 * MAX_LINE) + "\rover\nlast"
    for size in (1000, MAX_LINE, len(text)):
        found = lines(text, size)

        assert [line.text[:5] for line in found if line.over and line.begins][:2] == ["xxxxx", "next"]
        assert [line.text for line in found if line.over and line.begins][-2:] == ["over", "last"]
        assert sum(len(line.text) for line in found if line.over and not line.begins) > 2 * MAX_LINE


def test_a_line_without_end_is_cut():
    """A line of any length takes bounded memory, and nothing of it is lost."""
    cutter = Lines()
    found = list(itertools.chain.from_iterable(cutter.feed("x" * 1000) for _ in range(1000)))

    assert len(cutter.pending) <= MAX_LINE
    assert len("".join(line.text for line in found + cutter.flush())) == 1_000_000
