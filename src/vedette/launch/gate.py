"""A command that waits at a gate: its pid is known before it begins, so that who watches it can be there first."""

import os
from collections.abc import Collection, Mapping

from vedette.launch.child import execute


class Gate:
    """One command, forked and held back; made by a process with a single thread, before others begin."""

    def __init__(self, argv: list[str], environ: Mapping[str, str], mask: Collection[int]) -> None:
        """Fork it, with this signal mask."""
        held, self._opening = os.pipe()
        self._told, telling = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._opening)
            _become(argv, environ, mask, held, telling)
        os.close(held)
        os.close(telling)

    def open(self) -> None:
        """Let it begin; raise OSError when it cannot be started."""
        os.write(self._opening, b"\0")
        os.close(self._opening)
        with open(self._told, "rb") as file:
            word = file.read()
        if word:
            os.waitpid(self.pid, 0)
            raise OSError(int(word), os.strerror(int(word)))

    def shut(self) -> None:
        """Have it never begin."""
        os.close(self._opening)
        os.close(self._told)
        os.waitpid(self.pid, 0)


def _become(argv: list[str], environ: Mapping[str, str], mask: Collection[int], held: int, telling: int) -> None:
    """Between fork and exec: whatever happens, this never comes back."""
    try:
        if os.read(held, 1):
            execute(argv, environ, mask)
    except OSError as error:
        os.write(telling, str(error.errno or 1).encode())
    finally:
        os._exit(127)
