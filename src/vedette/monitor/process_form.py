"""The process form of a monitor, seen from the user's process: it runs on even while the user's code holds the GIL.

The monitor's process is not our child (decisions/011): a child of ours would show up in the user's own os.wait().
"""

import os
import socket
import time

from vedette import detached, kernel
from vedette.client.faults import say_once
from vedette.errors import MonitorError, SettingError
from vedette.monitor.channel import Answer, Ask, Begin, Channel, Failed, Ready
from vedette.monitor.plan import Plan
from vedette.monitor.record import Record

_READY_S = 10.0  # loading a GPU driver can take seconds
_ANSWER_S = 1.0
_LATE_S = 0.02  # how long we wait if the last question was not answered: many such waits must not add up to minutes
_OF_ITS_SINKS = ("VEDETTE_HUB", "VEDETTE_TOKEN")  # the sink `hub` reads the settings there


class ProcessForm:
    """A monitor in a process of its own. If that dies, what it has sent is still here, and `trouble` says so."""

    def __init__(self, plan: Plan, record: Record) -> None:
        """Start it, and wait until it is ready; raise SettingError for a bad sink, MonitorError if it cannot start."""
        self._record = record
        self._trouble: dict[str, str] = {}
        self._next_moment = self._last_question = 0
        self._asking = False
        self._late = False  # the last question was not answered yet
        self.ended = ""
        self._channel: Channel | None = _spawn()
        try:
            self._channel.send(Begin(plan))
            ready = self._channel.receive(_READY_S)
        except OSError:
            ready = Failed("the monitor's process could not start")
        except (ValueError, TypeError, OverflowError) as error:  # such as a path that is not UTF-8
            ready = Failed(f"this cannot be handed to a process, where='thread' takes it: {error}", asked=True)
        except BaseException:
            self._channel.close()
            raise
        if not isinstance(ready, Ready):
            self._channel.close()
            if isinstance(ready, Failed) and ready.asked:
                raise SettingError(ready.text)
            raise MonitorError(
                ready.text if isinstance(ready, Failed) else "the monitor's process was not ready in time"
            )
        self.worker, self.absent, self.ports = ready.pid, ready.absent, ready.ports
        record.begin({}, ready.primed)

    @property
    def looks(self) -> bool:
        """Whether it still measures: it has not ended by itself, and as far as we know was not killed."""
        return self._channel is not None and not self.ended

    @property
    def trouble(self) -> dict[str, str]:
        """What has gone wrong, as far as the process has reported it."""
        return self._trouble

    def refresh(self) -> None:
        """Get the newest moments into the record."""
        self._ask(last=False)

    def stop(self) -> None:
        """Let it take its last look, send all that is new, and end."""
        self._ask(last=True)
        self.let_go()

    def let_go(self) -> None:
        """Close the connection; in a fork child this does not affect the parent's monitor."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _ask(self, *, last: bool) -> None:
        channel = self._channel
        if channel is None or self._asking:  # `_asking`: a signal handler of the user's calls us during an answer
            return
        self._asking = True
        try:
            # While a question is open, ask no other: many of them would fill the socket and block us.
            self._late = self._late and not self._receive(channel, _LATE_S)
            if not self._late or last:
                self._last_question += 1
                channel.send(Ask(self._last_question, self._next_moment, last))
                self._late = not self._receive(channel, _ANSWER_S)
            if not self._late:
                return
            self._report("the monitor's process does not answer: its newest moments are missing here")
        except OSError:
            self.let_go()
            self._report("the monitor's process has ended unexpectedly: its last moments are missing here")
        except BaseException:  # Ctrl-C in the middle of a message: we would take its rest for the next message
            self.let_go()
            raise
        finally:
            self._asking = False

    def _receive(self, channel: Channel, seconds: float) -> bool:
        """Take answers for some time; tell whether the last question was answered."""
        deadline = time.monotonic() + seconds
        while (answer := channel.receive(deadline - time.monotonic())) is not None:
            if isinstance(answer, Answer):
                self._take(answer)
                if answer.id == self._last_question:
                    return True
        return False

    def _take(self, answer: Answer) -> None:
        if answer.part.first >= self._next_moment:
            self._next_moment = self._record.absorb(answer.part)
        self.ended = answer.ended
        for where in answer.trouble.keys() - self._trouble.keys():  # compare keys: a text changes with its count
            say_once(answer.trouble[where])
        self._trouble = answer.trouble

    def _report(self, text: str) -> None:
        self._trouble = {**self._trouble, "monitor": text}
        say_once(text)


def _spawn() -> Channel:
    """Start `python -m vedette.monitor` as a detached process in our working directory: sinks may have relative paths.

    It gets one end of a pair of sockets, and a pidfd of this process. The pidfd is needed because fork children inherit
    our end of the socket, so that it may stay open after our death.
    """
    if os.name != "posix":
        raise SettingError("where='process' needs a POSIX system; where='thread' works here")
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
    return Channel(ours, _ANSWER_S)


def _above(fd: int) -> int:
    """Move a descriptor above 2: if the program has closed its stdout, our socket might get that number."""
    if fd > 2:
        return fd
    import fcntl  # noqa: PLC0415 - not on every system

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved
