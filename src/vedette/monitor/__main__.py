"""The process that runs a monitor: `python -P -m vedette.monitor PARENT COUNT`, started by `process_form.py`.

It inherits COUNT descriptors: a socket to its parent and, if the system has pidfds, a pidfd of the parent.
It ends when the parent says so, when the parent has ended, or by SIGTERM; each time it takes a last look and closes its
sinks. When the watched process has ended it stops measuring, and still answers the parent.
"""

import math
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from vedette import detached
from vedette.errors import VedetteError
from vedette.monitor.channel import Answer, Ask, Begin, Channel, Failed, Ready
from vedette.monitor.liveness import Liveness
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.rounds import Rounds
from vedette.sensing.sensor import Target

_CHECK_S = 1.0  # without a pidfd: how often to check whether a process is still alive
_BEGIN_S = 5.0


def main(parent: Liveness, channel: Channel) -> None:
    """Receive the plan from the parent, and run the monitor."""
    begin = channel.receive(_BEGIN_S)
    if not isinstance(begin, Begin):
        return
    try:
        program = _Program(begin.plan, parent, channel)
    except VedetteError as error:
        channel.send(Failed(str(error), asked=True))
        return
    except Exception as error:
        channel.send(Failed(f"the monitor's process failed: {type(error).__name__}: {error}"))
        return
    program.run()


class _Program:
    def __init__(self, plan: Plan, parent: Liveness, channel: Channel) -> None:
        self._parent, self._channel = parent, channel
        pid = plan.pid or parent.pid
        self._watched = parent if pid == parent.pid else Liveness(pid)
        self._record = Record(plan.keep)
        self._ended = ""
        self._stopping = False
        self._last: Ask | None = None  # the parent's last question, answered at the end
        self._ready = select.poll()
        for fd in (channel.fileno(), parent.fd, self._watched.fd, self._signals()):
            if fd is not None:
                self._ready.register(fd, select.POLLIN)
        self._rounds = Rounds(plan, Target(pid, apart=(os.getpid(),)), self._record, lambda _: None)
        channel.send(Ready(os.getpid(), self._rounds.absent, self._rounds.ports, self._rounds.primed))

    def run(self) -> None:
        while not self._stopping:
            waits = [] if self._rounds.closed else [self._rounds.wait_s()]
            if self._parent.fd is None or self._watched.fd is None:
                waits.append(_CHECK_S)
            ready = [fd for fd, _ in self._ready.poll(math.ceil(min(waits) * 1000) if waits else None)]
            self._rounds.turn()
            if self._parent.gone():
                break
            if not self._ended and self._watched.gone():
                self._ended = f"process {self._watched.pid} has ended"
                self._rounds.finish()
                if self._watched.fd is not None:
                    self._ready.unregister(self._watched.fd)
            if self._channel.fileno() in ready:
                self._receive()
        self._rounds.finish()
        if self._last is not None:
            self._answer(self._last)

    def _receive(self) -> None:
        try:
            message = self._channel.receive(0)
        except OSError:  # the parent has closed the connection, or has ended
            self._stopping = True
            return
        if isinstance(message, Ask):
            if message.last:
                self._stopping, self._last = True, message
            else:
                self._answer(message)

    def _answer(self, ask: Ask) -> None:
        try:
            self._channel.send(Answer(ask.id, self._record.part(ask.since), self._rounds.trouble, self._ended))
        except OSError:
            self._stopping = True

    def _signals(self) -> int:
        """Let SIGTERM end the process in order. Ctrl-C is ignored: it is meant for the parent, which ends this process.

        Return a descriptor that becomes readable when a signal has come.
        """
        wakeup_read, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        return wakeup_read

    def _on_sigterm(self, _number: int, _frame: object) -> None:
        self._stopping = True


def _leave() -> NoReturn:
    """End at once: everything is closed, and the interpreter's own shutdown would make `stop` wait."""
    os._exit(0)


if __name__ == "__main__":
    _parent, _count = map(int, sys.argv[1:])
    _socket, *_pidfd = detached.take_handed(_count)
    try:
        main(Liveness(_parent, *_pidfd), Channel(socket.socket(fileno=_socket)))
    finally:
        _leave()
