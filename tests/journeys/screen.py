"""A pseudo-terminal in which a test starts a program, types and reads."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

from tests.rooms.conftest import QUICK


class Screen:
    """A program in a terminal; `said` is all that it has printed."""

    def __init__(self, *argv, rows=24, columns=80, environ=None, redirect=""):
        """Start it; `redirect`: what a shell should do with its descriptors."""
        self.said = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(QUICK | (environ or {}))
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            if redirect:
                os.execv("/bin/sh", ["sh", "-c", f'exec "$@" {redirect}', "sh", *argv])
            os.execv(argv[0], list(argv))

    def until(self, word, seconds=30):
        """Read until a text appears."""
        deadline = time.monotonic() + seconds
        word = word.encode() if isinstance(word, str) else word
        while word not in self.said:
            assert time.monotonic() < deadline, self.said
            if not self._read():
                assert word in self.said, self.said
        return self.said

    def _read(self):
        if select.select([self.fd], [], [], 0.5)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            self.said += data
            return bool(data)
        return True

    def type(self, text):
        """Type something."""
        os.write(self.fd, text.encode() if isinstance(text, str) else text)

    def resize(self, rows, columns):
        """Change the size of the window."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settings(self):
        """Return how the terminal is set."""
        return termios.tcgetattr(self.fd)

    def end(self, seconds=30):
        """Read to the end; return the output and the exit code."""
        deadline = time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, self.said
            with contextlib.suppress(OSError):
                self._read()
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                break
        while select.select([self.fd], [], [], 0.1)[0] and self._read():
            pass
        os.close(self.fd)
        self.pid = 0
        return self.said, os.waitstatus_to_exitcode(status)

    def kill(self):
        """Kill the program, and close the terminal."""
        if self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
            os.close(self.fd)


def run_command(*command, options=()):
    """Return the words of `vedette run`."""
    return [sys.executable, "-m", "vedette", "run", "--quiet", *options, "--", *command]
