"""The keyboard of who sits at a terminal, in a process that is about to end."""

import os
import pty
import termios
import threading

from vedette.views.asking import Keys


def close_at_once(keys):
    """Close in two threads at the same time; return what went wrong."""
    gate, errors = threading.Barrier(2), []

    def close():
        gate.wait()
        try:
            keys.close()
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_two_threads_close_it_once():
    """At exit the console's thread and the main one both let go: one closes, and no file that has the number next."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0), open(theirs, "rb", buffering=0):
        for _ in range(300):
            keys = Keys()
            keys.fd, keys._before = os.dup(theirs), termios.tcgetattr(theirs)

            assert close_at_once(keys) == []
