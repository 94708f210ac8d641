"""The terminal that we were started in: raw mode while a command runs, and restored at the end."""

import atexit
import contextlib
import fcntl
import os
import struct
import termios
import tty


class Terminal:
    """The terminal of stdin, in raw mode between `take` and `give_back`."""

    def __init__(self, fd: int) -> None:
        """Read its settings; change nothing yet."""
        self.fd = fd
        self.settings = termios.tcgetattr(fd)
        self.raw = False

    def take(self) -> bool:
        """Set raw mode, if we are in its foreground; tell whether it is in raw mode now."""
        if not self.raw and in_foreground(self.fd):
            try:
                self.settings = termios.tcgetattr(self.fd)
                atexit.register(self.give_back)
                self.raw = True
                tty.setraw(self.fd, termios.TCSADRAIN)
            except termios.error:
                self.give_back()
        return self.raw

    def give_back(self) -> None:
        """Restore its settings; may be called more than once."""
        if self.raw:
            self.raw = False
            atexit.unregister(self.give_back)
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self.settings)


def in_foreground(fd: int) -> bool:
    """Tell whether we may read from a terminal: the kernel stops a background job that does."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def copy_size(source: int, target: int) -> None:
    """Give a terminal the size of another; the kernel tells the programs in it."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        if fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8)) != size:
            fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def copy_settings(source: int, target: int) -> None:
    """Give a terminal the settings of another, for keys and line ends."""
    with contextlib.suppress(termios.error):
        termios.tcsetattr(target, termios.TCSANOW, termios.tcgetattr(source))


def control(fd: int) -> None:
    """Make this the controlling terminal of our session."""
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def pass_through(fd: int) -> None:
    """Switch off output processing: the outer terminal already converts line ends."""
    settings = termios.tcgetattr(fd)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(fd, termios.TCSANOW, settings)


def means(master: int, byte: bytes, which: int) -> bool:
    """Tell whether a typed byte is this control character (such as termios.VSUSP) in a command's terminal now."""
    try:
        settings = termios.tcgetattr(master)
    except termios.error:
        return False
    local: int = settings[3]
    characters: list[bytes | int] = settings[6]
    return bool(local & termios.ISIG) and characters[which] == byte


def by_lines(master: int) -> bool:
    """Tell whether a command's terminal is in line mode."""
    try:
        local: int = termios.tcgetattr(master)[3]
    except termios.error:
        return True
    return bool(local & termios.ICANON)


def end_of_input(master: int) -> bytes:
    """Return the end-of-file character of a command's terminal (usually Ctrl-D)."""
    try:
        character = termios.tcgetattr(master)[6][termios.VEOF]
    except termios.error:
        return b""
    return character if isinstance(character, bytes) else struct.pack("B", character)
