"""A command that is forked but waits before exec: its pid is known, so a monitor can start before the command."""

import os
from collections.abc import Collection, Mapping

from vedette.launch.child import execute


class Gate:
    """One command, forked and waiting. The process that makes it must have a single thread."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], mask: Collection[int]) -> None:
        """Fork; the command gets this signal mask."""
        gate_read, self._gate_write = os.pipe()
        self._error_read, error_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate_write)
            _exec(argv, environ, mask, gate_read, error_write)
        os.close(gate_read)
        os.close(error_write)

    def open(self) -> None:
        """Let it begin; raise OSError when it cannot be started."""
        os.write(self._gate_write, b"\0")
        os.close(self._gate_write)
        with open(self._error_read, "rb") as file:
            answer = file.read()
        if answer:
            os.waitpid(self.pid, 0)
            raise OSError(int(answer), os.strerror(int(answer)))

    def shut(self) -> None:
        """End the child without starting the command."""
        os.close(self._gate_write)
        os.close(self._error_read)
        os.waitpid(self.pid, 0)


def _exec(argv: list[str], environ: Mapping[str, str], mask: Collection[int], gate_read: int, error_write: int) -> None:
    """Wait for the gate, then become the command; never return."""
    try:
        if os.read(gate_read, 1):
            execute(argv, environ, mask)
    except OSError as error:
        os.write(error_write, str(error.errno or 1).encode())
    finally:
        os._exit(127)
