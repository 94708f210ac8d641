"""The process form, as a program: `python -P -m vedette.monitor PARENT COUNT`, started by `beside.py`.

It is handed COUNT descriptors: a socket to its parent and, where there is such a thing, a pidfd of it.
It ends when it is told to, when its parent is gone, however suddenly, or by SIGTERM; each time with a last look, and
its sinks closed. When the watched process has ended it looks no more, and waits to be asked.
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
from vedette.monitor.life import Life
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.rounds import Rounds
from vedette.monitor.talk import Account, Ask, Begin, Failed, Ready, Talk
from vedette.sensing.sensor import Target

_LOOK_S = 1.0  # between two looks whether a process without a pidfd is still there
_BEGIN_S = 5.0


def main(parent: Life, talk: Talk) -> None:
    """Do as the parent says."""
    begin = talk.hear(_BEGIN_S)
    if not isinstance(begin, Begin):
        return
    try:
        program = _Program(begin.plan, parent, talk)
    except VedetteError as error:
        talk.say(Failed(str(error), asked=True))
        return
    except Exception as error:
        talk.say(Failed(f"the monitor's process failed: {type(error).__name__}: {error}"))
        return
    program.run()


class _Program:
    def __init__(self, plan: Plan, parent: Life, talk: Talk) -> None:
        self._parent, self._talk = parent, talk
        pid = plan.pid or parent.pid
        self._watched = parent if pid == parent.pid else Life(pid)
        self._record = Record(plan.keep)
        self._ended = ""
        self._told_to_end = False
        self._last: Ask | None = None
        self._ready = select.poll()
        for fd in (talk.fileno(), parent.fd, self._watched.fd, self._signals()):
            if fd is not None:
                self._ready.register(fd, select.POLLIN)
        self._rounds = Rounds(plan, Target(pid, apart=(os.getpid(),)), self._record, lambda _: None)
        talk.say(Ready(os.getpid(), self._rounds.absent, self._rounds.ports, self._rounds.primed))

    def run(self) -> None:
        while not self._told_to_end:
            waits = [] if self._rounds.closed else [self._rounds.wait_s()]
            if self._parent.fd is None or self._watched.fd is None:
                waits.append(_LOOK_S)
            ready = [fd for fd, _ in self._ready.poll(math.ceil(min(waits) * 1000) if waits else None)]
            self._rounds.turn()
            if self._parent.gone():
                break
            if not self._ended and self._watched.gone():
                self._ended = f"process {self._watched.pid} has ended"
                self._rounds.finish()
                if self._watched.fd is not None:
                    self._ready.unregister(self._watched.fd)
            if self._talk.fileno() in ready:
                self._heed()
        self._rounds.finish()
        if self._last is not None:
            self._answer(self._last)

    def _heed(self) -> None:
        try:
            message = self._talk.hear(0)
        except OSError:  # the parent has hung up, or is gone
            self._told_to_end = True
            return
        if isinstance(message, Ask):
            if message.last:
                self._told_to_end, self._last = True, message
            else:
                self._answer(message)

    def _answer(self, ask: Ask) -> None:
        try:
            self._talk.say(Account(ask.id, self._record.part(ask.since), self._rounds.trouble, self._ended))
        except OSError:
            self._told_to_end = True

    def _signals(self) -> int:
        """Have SIGTERM end it in order; a Ctrl-C is meant for the parent, who says when it is over."""
        heard, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._be_told)
        return heard

    def _be_told(self, _number: int, _frame: object) -> None:
        self._told_to_end = True


def _leave() -> NoReturn:
    """End at once: all is closed, and taking an interpreter apart would keep `stop` waiting."""
    os._exit(0)


if __name__ == "__main__":
    _parent, _count = map(int, sys.argv[1:])
    _ear, *_pidfd = detached.take_handed(_count)
    try:
        main(Life(_parent, *_pidfd), Talk(socket.socket(fileno=_ear)))
    finally:
        _leave()
