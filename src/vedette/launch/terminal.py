"""The terminal that we stand in: its keys go to the command as they are typed, and in the end it is as it was."""

import atexit
import contextlib
import fcntl
import os
import struct
import termios
import tty


class Terminal:
    """The terminal behind stdin, in raw mode while it is ours."""

    def __init__(self, fd: int) -> None:
        """Look at it; nothing is changed yet."""
        self.fd = fd
        self.settings = termios.tcgetattr(fd)
        self.raw = False

    def take(self) -> bool:
        """Have its keys come as bytes, if we are in its foreground; tell whether they do."""
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
        """Leave it as it was found; any number of times."""
        if self.raw:
            self.raw = False
            atexit.unregister(self.give_back)
            with contextlib.suppress(termios.error):  # it is gone
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self.settings)


def in_foreground(fd: int) -> bool:
    """Tell whether a terminal is ours to read: a job in the background would be stopped for it."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def copy_size(source: int, target: int) -> None:
    """Make a terminal as large as another; the kernel tells the programs in it."""
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        if fcntl.ioctl(target, termios.TIOCGWINSZ, bytes(8)) != size:
            fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def copy_settings(source: int, target: int) -> None:
    """Have a terminal treat keys and line ends as another does."""
    with contextlib.suppress(termios.error):
        termios.tcsetattr(target, termios.TCSANOW, termios.tcgetattr(source))


def control(fd: int) -> None:
    """Make a terminal that of this session, whose leader we are."""
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def pass_through(fd: int) -> None:
    """Have a terminal leave what is written to it as it is: another one behind it sees to line ends."""
    settings = termios.tcgetattr(fd)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(fd, termios.TCSANOW, settings)


def means(master: int, byte: bytes, which: int) -> bool:
    """Tell whether a typed byte has this meaning (termios.VSUSP, say) in the terminal of a command just now."""
    try:
        settings = termios.tcgetattr(master)
    except termios.error:
        return False
    local: int = settings[3]
    characters: list[bytes | int] = settings[6]
    return bool(local & termios.ISIG) and characters[which] == byte


def by_lines(master: int) -> bool:
    """Tell whether the terminal of a command hands out what is typed line by line."""
    try:
        local: int = termios.tcgetattr(master)[3]
    except termios.error:
        return True
    return bool(local & termios.ICANON)


def end_of_input(master: int) -> bytes:
    """Return what a person types in the terminal of a command to say that nothing more comes."""
    try:
        character = termios.tcgetattr(master)[6][termios.VEOF]
    except termios.error:
        return b""
    return character if isinstance(character, bytes) else struct.pack("B", character)
