"""Terminals of a launcher: the one that it stands in, and the one that it makes for its command."""

import os
import pty
import termios

from vedette.launch import terminal
from vedette.launch.terminal import Terminal


def test_a_terminal_that_is_not_ours_is_left_alone(terminals):
    """Keys of a terminal in whose foreground we are not are not taken, and giving back changes nothing."""
    _, slave = terminals
    before = termios.tcgetattr(slave)
    ours = Terminal(slave)
    assert not ours.take()
    ours.give_back()
    assert termios.tcgetattr(slave) == before
    assert not terminal.in_foreground(slave)


def test_a_terminal_like_another(terminals):
    """Size and settings are copied; what is written to one that passes through is left as it is."""
    master, slave = terminals
    other, behind = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (7, 77))
        terminal.copy_size(slave, other)
        assert termios.tcgetwinsize(behind) == (7, 77)
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        terminal.copy_settings(slave, behind)
        assert not termios.tcgetattr(behind)[3] & termios.ECHO
        terminal.pass_through(slave)
        os.write(slave, b"a\n")
        assert os.read(master, 10) == b"a\n"
    finally:
        os.close(other)
        os.close(behind)


def test_what_keys_mean_in_a_terminal(terminals):
    """Ctrl-Z suspends and Ctrl-D ends where signals and lines are on; an editor turns that off."""
    master, slave = terminals
    assert terminal.means(master, b"\x1a", termios.VSUSP)
    assert not terminal.means(master, b"z", termios.VSUSP)
    assert terminal.by_lines(master)
    assert terminal.end_of_input(master) == b"\x04"
    settings = termios.tcgetattr(slave)
    settings[3] &= ~(termios.ISIG | termios.ICANON)
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    assert not terminal.means(master, b"\x1a", termios.VSUSP)
    assert not terminal.by_lines(master)


def test_what_is_no_terminal():
    """A pipe means nothing, goes by lines, and has no key for its end."""
    reader, writer = os.pipe()
    assert not terminal.means(reader, b"\x1a", termios.VSUSP)
    assert terminal.by_lines(reader)
    assert terminal.end_of_input(reader) == b""
    terminal.copy_size(reader, writer)
    terminal.copy_settings(reader, writer)
    assert not terminal.in_foreground(reader)
    os.close(reader)
    os.close(writer)
