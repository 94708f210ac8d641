"""A program that works in a tree of processes of one kind or another, and tells what the kernel says that it used.

`python tree_job.py KIND SECONDS FD`: begins when it reads a byte, writes what each process used as a double when that
ends and "finished" at the end of all, and then waits for its input to be shut.
"""

import os
import resource
import signal
import struct
import sys
import threading
import time

DONE = b"finished"
CHILD_S = 0.03
LINGER_S = 0.7  # longer than between two looks


def report(used_s: float) -> None:
    os.write(PIPE, struct.pack("d", used_s))


def used(whom: int) -> float:
    found = resource.getrusage(whom)
    return found.ru_utime + found.ru_stime


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


def child(seconds: float, *, tells: bool = False, linger_s: float = 0.0) -> int:
    """Fork one that works; it tells what it used itself, and stays to be seen, where nobody waits for it."""
    pid = os.fork()
    if pid == 0:
        burn(seconds)
        if tells:
            report(used(resource.RUSAGE_SELF))
        time.sleep(linger_s)
        os._exit(0)
    return pid


def own() -> None:
    burn(SECONDS)


def threads() -> None:
    for _ in range(10):
        thread = threading.Thread(target=burn, args=(SECONDS / 10,))
        thread.start()
        thread.join()


def short() -> None:
    for _ in range(int(SECONDS / CHILD_S)):
        os.waitpid(child(CHILD_S), 0)


def long() -> None:
    for pid in [child(SECONDS / 3), child(2 * SECONDS / 3)]:
        os.waitpid(pid, 0)


def nested() -> None:
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            for _ in range(4):
                os.waitpid(child(SECONDS / 32), 0)
            burn(SECONDS / 8)
            os._exit(0)
        os.waitpid(pid, 0)


def zombies() -> None:
    for _ in range(5):
        pid = child(SECONDS / 5, tells=True)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def ignored() -> None:
    """Have the kernel bury a child, which its parent then does not count; it lingers, to be seen once more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        burn(SECONDS / 2)
        report(used(resource.RUSAGE_SELF))
        time.sleep(LINGER_S)
        os._exit(0)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
    burn(SECONDS / 2)


def orphans() -> None:
    """Have a grandchild work whose parent is gone at once; init buries it, soon or late: it lingers, to be seen."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        child(SECONDS, tells=True, linger_s=LINGER_S)
        os._exit(0)
    os.close(mouth)
    os.waitpid(pid, 0)
    os.read(ear, 1)  # until the grandchild is gone


def root() -> None:
    """Leave the work to a child, and die."""
    above = os.getpid()
    if os.fork() == 0:
        burn(SECONDS / 2)
        while os.getppid() == above:  # it tells before it dies
            time.sleep(0.01)
        report(used(resource.RUSAGE_SELF))
        os.write(PIPE, DONE)
        sys.stdin.read()
        os._exit(0)
    burn(SECONDS / 2)
    report(used(resource.RUSAGE_SELF))
    os._exit(0)


KINDS = {one.__name__: one for one in (own, threads, short, long, nested, zombies, ignored, orphans, root)}

if __name__ == "__main__":
    kind, SECONDS, PIPE = KINDS[sys.argv[1]], float(sys.argv[2]), int(sys.argv[3])
    sys.stdin.read(1)
    kind()
    report(used(resource.RUSAGE_SELF) + used(resource.RUSAGE_CHILDREN))
    os.write(PIPE, DONE)
    sys.stdin.read()
