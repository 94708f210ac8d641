"""The process form, as seen by who started it: a program beside the user's, which a job that holds the GIL cannot stop.

It is nobody's child (decisions/011): as one of ours it would show up in the user's own os.wait().
"""

import os
import socket
import time

from vedette import detached, kernel
from vedette.client.faults import say_once
from vedette.errors import MonitorError, SettingError
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record
from vedette.monitor.talk import Account, Ask, Begin, Failed, Ready, Talk

_READY_S = 10.0  # a GPU driver that is loaded for us takes its time
_ANSWER_S = 1.0
_LATE_S = 0.02  # for one that has not answered before: many questions must not add up to minutes
_OF_ITS_SINKS = ("VEDETTE_HUB", "VEDETTE_TOKEN")  # the sink `hub` reads the settings there


class Beside:
    """A monitor in a process of its own. If that dies, what it has told is still here, and `trouble` says so."""

    def __init__(self, plan: Plan, record: Record) -> None:
        """Start it, and wait until it is ready; raise SettingError for a bad sink, MonitorError if it cannot be."""
        self._record = record
        self._trouble: dict[str, str] = {}
        self._heard = self._asked = 0
        self._asking = False
        self._late = False  # it has left a question without an answer
        self.ended = ""
        self._talk: Talk | None = _spawn()
        try:
            self._talk.say(Begin(plan))
            ready = self._talk.hear(_READY_S)
        except OSError:
            ready = Failed("the monitor's process could not start")
        except (ValueError, TypeError, OverflowError) as error:  # a path that is no UTF-8, say
            ready = Failed(f"this cannot be handed to a process, where='thread' takes it: {error}", asked=True)
        except BaseException:
            self._talk.close()
            raise
        if not isinstance(ready, Ready):
            self._talk.close()
            if isinstance(ready, Failed) and ready.asked:
                raise SettingError(ready.text)
            raise MonitorError(
                ready.text if isinstance(ready, Failed) else "the monitor's process was not ready in time"
            )
        self.worker, self.absent, self.ports = ready.pid, ready.absent, ready.ports
        record.begin({}, ready.primed)

    @property
    def looks(self) -> bool:
        """Whether it has neither ended by itself nor, as far as is known, been killed."""
        return self._talk is not None and not self.ended

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, as far as it was told."""
        return self._trouble

    def refresh(self) -> None:
        """Bring the record up to date."""
        self._ask(last=False)

    def stop(self) -> None:
        """Have it take its last look, tell all, and end."""
        self._ask(last=True)
        self.let_go()

    def let_go(self) -> None:
        """Hang up; in a fork child that leaves the parent's alone."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None

    def _ask(self, *, last: bool) -> None:
        talk = self._talk
        if talk is None or self._asking:  # a signal handler of the user's, in the middle of an answer
            return
        self._asking = True
        try:
            # Questions that pile up would fill the socket, and block us.
            self._late = self._late and not self._hear(talk, _LATE_S)
            if not self._late or last:
                self._asked += 1
                talk.say(Ask(self._asked, self._heard, last))
                self._late = not self._hear(talk, _ANSWER_S)
            if not self._late:
                return
            self._complain("the monitor's process does not answer: what it has seen since is not known here")
        except OSError:
            self.let_go()
            self._complain("the monitor's process has ended before its time: what it saw last is not known here")
        except BaseException:  # a Ctrl-C in the middle of a message: the rest of it would be taken for the next
            self.let_go()
            raise
        finally:
            self._asking = False

    def _hear(self, talk: Talk, seconds: float) -> bool:
        """Take what is told for some time; tell whether the last question was answered."""
        deadline = time.monotonic() + seconds
        while (answer := talk.hear(deadline - time.monotonic())) is not None:
            if isinstance(answer, Account):
                self._take(answer)
                if answer.id == self._asked:
                    return True
        return False

    def _take(self, account: Account) -> None:
        if account.part.first >= self._heard:
            self._heard = self._record.absorb(account.part)
        self.ended = account.ended
        for where in account.trouble.keys() - self._trouble.keys():  # its text changes as it is counted on
            say_once(account.trouble[where])
        self._trouble = account.trouble

    def _complain(self, text: str) -> None:
        self._trouble = {**self._trouble, "monitor": text}
        say_once(text)


def _spawn() -> Talk:
    """Start `python -m vedette.monitor` as nobody's child, where this process is: its sinks may have relative paths.

    It is handed one end of a pair of sockets, and a pidfd of this process: children by fork inherit our end, so that
    its closing is not all there is to know of our death.
    """
    if os.name != "posix":
        raise SettingError("where='process' is for Linux and its like; where='thread' works here")
    if not detached.is_possible():
        raise MonitorError("the path of this Python is unknown, so no process can be started")
    ours, its = socket.socketpair()
    ours = socket.socket(fileno=_above(ours.detach()))
    me = kernel.open_self()
    try:
        handed = [its.fileno(), *([] if me is None else [me])]
        arguments = [str(os.getpid()), str(len(handed))]
        environ = detached.environment(keep=_OF_ITS_SINKS)
        detached.start("vedette.monitor", arguments, environ, handed=handed, stay=True)
    except OSError as error:
        ours.close()
        raise MonitorError(f"the monitor's process could not be started: {error.strerror}") from None
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()
        if me is not None:
            os.close(me)
    return Talk(ours, _ANSWER_S)


def _above(fd: int) -> int:
    """Have a descriptor above 2: in a program that has closed one up to it, its output would go there."""
    if fd > 2:
        return fd
    import fcntl  # noqa: PLC0415 - not on every system

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved
