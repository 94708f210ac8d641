"""A question of `vedette.ask` in a notebook: an input field below the cell, by the stdin channel of the kernel.

It does not wait by itself, as `input()` in a kernel does: the answer may also come from a console elsewhere.
"""

import sys
from typing import Any, Self

from vedette.client.faults import swallow
from vedette.interrupts import let_through


class KernelInput:
    """One input field.

    `fd` signals only that something has changed since the last look at the channel, so whoever waits looks in between.
    """

    never_blocks = True

    def __init__(self, kernel: Any, prompt: str, password: bool) -> None:
        self.fd: int | None = None
        self._kernel = kernel
        self._content = {"prompt": prompt, "password": password}

    def __enter__(self) -> Self:
        try:
            self._ask()
        except Exception as error:  # a kernel of another make: the question can be answered elsewhere
            let_through(error)
            swallow(error, "the input field in the notebook")
        return self

    def _ask(self) -> None:
        import zmq  # noqa: PLC0415 - the kernel has it

        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        kernel = self._kernel
        self._socket = kernel.stdin_socket
        while self._socket.poll(0):  # late answers to older questions
            self._socket.recv_multipart(zmq.NOBLOCK)
        parent = kernel.get_parent("shell")
        kernel.session.send(self._socket, "input_request", self._content, parent, ident=_ident(kernel))
        self.fd = self._socket.getsockopt(zmq.FD)

    def __exit__(self, *_: object) -> None:
        self.fd = None

    def can_read(self) -> bool:
        """Tell whether an answer may come."""
        return self.fd is not None

    def read(self) -> str | None:
        """Return the answer if there is one; None, too, when the user has closed the field."""
        if not self._socket.poll(0):
            return None
        _, reply = self._kernel.session.recv(self._socket)
        value = None if reply is None else reply["content"].get("value")
        if value == "\x04":  # Ctrl-D: nothing will be typed here
            self.fd = None
            return None
        return value if isinstance(value, str) else None


def make_input(kernel: Any, prompt: str, password: bool) -> KernelInput | None:
    """Return the input field for a question; None if the frontend that runs this cell has none."""
    return KernelInput(kernel, prompt, password) if getattr(kernel, "_allow_stdin", False) else None


def _ident(kernel: Any) -> Any:
    """Return who runs this cell, as the kernel knows it."""
    found = getattr(kernel, "_shell_parent_ident", None)
    if found is not None and hasattr(kernel, "_get_shell_context_var"):  # ipykernel 7
        return kernel._get_shell_context_var(found)  # noqa: SLF001 - there is no public name
    return kernel._parent_ident["shell"]  # noqa: SLF001
