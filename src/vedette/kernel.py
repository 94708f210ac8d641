"""Facts about processes and file systems from Linux. On other systems each answer is empty or None, never an error."""

import contextlib
import math
import os
import re
import select
import signal
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from vedette import ids, proc_stat
from vedette.interrupts import let_through

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph afs 9p glusterfs pvfs2 orangefs panfs wekafs "
    "fuse.sshfs fuse.glusterfs fuse.ceph fuse.juicefs virtiofs".split()
)
MAPPABLE_FILE_SYSTEMS = frozenset("ext2 ext3 ext4 xfs tmpfs overlay".split())

_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes): Linux 6.13, the exit status since 6.15
_PIDFD_INFO_EXIT = 1 << 3
_IN_CREATE = 0x100
_MOST_ENVIRON = 1 << 20
_PR_SET_PDEATHSIG = 1
_SIOCGIFADDR = 0x8915
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_PID_LINE = re.compile(r"^Pid:\s*(-?\d+)", re.MULTILINE)
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo escapes spaces


def host() -> str:
    """Return this machine's name."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket  # noqa: PLC0415 - needed only here

    return socket.gethostname()


def boot() -> str:
    """Return the scope in which a pid is unique: the id of this boot and of this pid namespace."""
    if not _boot:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                _boot.append(file.read().strip() + "/" + os.readlink("/proc/self/ns/pid"))
        except OSError as error:
            let_through(error)
            return ""
    return _boot[0]


def boot_alone(scope: str) -> str:
    """Return the id of the boot out of what `boot` returns, without the pid namespace."""
    return scope.partition("/")[0]


def host_span() -> str:
    """Return the id of the span of this host, in this boot."""
    return ids.of_host(host(), boot())


_boot: list[str] = []  # a cache: it does not change, and reading it may fail when descriptors run out


def wait(read: Iterable[Any] = (), write: Iterable[Any] = (), seconds: float = math.inf) -> list[Any]:
    """Wait until a file or socket can be read or written, or the time is over; return those that can.

    Unlike `select.select` this works in a process with more than 1024 open files.
    """
    events = {select.POLLIN: list(read), select.POLLOUT: list(write)}
    poll = select.poll()
    by_fd = {}
    for event, files in events.items():
        for file in files:
            fd = file if isinstance(file, int) else file.fileno()
            by_fd[fd] = file
            poll.register(fd, event)
    return [by_fd[fd] for fd, _ in poll.poll(None if seconds == math.inf else max(0, math.ceil(seconds * 1000)))]


def start_ticks(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[proc_stat.STARTED_TICKS]) if fields else None


def parent(pid: int) -> int | None:
    """Return the parent of a process; None when there is no such process."""
    fields = _stat(pid)
    return int(fields[proc_stat.PARENT]) if fields else None


def is_zombie(pid: int) -> bool:
    """Tell whether a process has ended, and its parent has not asked how."""
    fields = _stat(pid)
    return bool(fields) and proc_stat.has_ended(fields)


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped, by SIGSTOP or a debugger."""
    fields = _stat(pid)
    return bool(fields) and fields[proc_stat.STATE] in b"Tt"


def ignores(pid: int, number: int, proc: str = "/proc") -> bool:
    """Tell whether a process ignores a signal; False when that cannot be read."""
    try:
        with open(f"{proc}/{pid}/status", "rb") as file:
            mask = next((line.split()[1] for line in file if line.startswith(b"SigIgn:")), b"0")
        return bool(int(mask, 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False


def command(pid: int, proc: str = "/proc") -> list[str]:
    """Return the command line of a process, cut if it is long; empty if it has none."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
        return [word.decode(errors="replace") for word in words] if words != [b""] else []
    except OSError:
        return []


def environ(pid: int, proc: str = "/proc") -> dict[str, str]:
    """Return the environment that a process was started with; raise OSError if it is gone, or of another user."""
    with open(f"{proc}/{pid}/environ", "rb") as file:
        pairs = [pair.decode(errors="replace").partition("=") for pair in file.read(_MOST_ENVIRON).split(b"\0")]
    return {name: value for name, _, value in pairs if name}


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGTERM; one without a name is `signal 40`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def block_sigpipe() -> None:
    """Make a broken pipe an error in this thread, even if the program's SIGPIPE would end it."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})


def open_self() -> int | None:
    """Return a pidfd of this process, to pass to another process; None if the system has no pidfds."""
    try:
        return os.pidfd_open(os.getpid())
    except (OSError, AttributeError) as error:
        let_through(error)
        return None


def pid_of(fd: int) -> int | None:
    """Return the pid of a pidfd in our pid namespace, 0 if its process has none there; None if it is no pidfd."""
    try:
        with open(f"/proc/self/fdinfo/{fd}") as file:
            found = _PID_LINE.search(file.read(4096))
    except OSError:
        return None
    return max(0, int(found[1])) if found else None


def tells_exit_status() -> bool:
    """Tell whether the kernel tells how a process ended to those who are not its parent. It starts a process."""
    try:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})
        fd = os.pidfd_open(pid)
        try:
            os.waitpid(pid, 0)
            return _told_status(fd) == 3 << 8
        finally:
            os.close(fd)
    except (OSError, AttributeError):
        return False


def note_exit_code(fd: int) -> None:
    """Have an open file hold the exit code of this process, as one byte, once it exits; call it when Python shuts down.

    Python does not know the code until it hands it to exit(3). Then the C library calls fputc(code, file), and writes
    the file at the very end. Nothing is written where the process ends in another way, by os._exit or a signal. It
    raises OSError where that cannot be.
    """
    import ctypes  # noqa: PLC0415 - not before the end of the program

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        on_exit, put, fdopen = libc.on_exit, ctypes.cast(libc.fputc, ctypes.c_void_p), libc.fdopen
    except AttributeError:  # only the GNU library has on_exit
        raise OSError("the C library has no on_exit") from None
    fdopen.restype = ctypes.c_void_p
    file = fdopen(fd, b"w")
    if not file:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    on_exit(put, file)


def give_memory_back() -> None:
    """Have the C library keep little of what is freed. For programs that live long; call it before threads begin.

    By itself it keeps whatever is smaller than the largest block that was ever freed, and each thread has a heap of
    its own, whose holes are of no use to the others.
    """
    import ctypes  # noqa: PLC0415 - not in the user's process

    with contextlib.suppress(OSError, AttributeError):  # only the GNU library has it
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, 256 << 10)
        library.mallopt(_M_ARENA_MAX, 2)


def _stat(pid: int) -> list[bytes]:
    try:
        return proc_stat.fields_of(proc_stat.read(pid))
    except (FileNotFoundError, ProcessLookupError) as error:  # after any other error it may live
        let_through(error)
        return []


def wait_status(pid: int, pidfd: int | None) -> int | None:
    """Return the wait status of a dead process, which need not be our child; None if the kernel does not have it."""
    status = None if pidfd is None else _told_status(pidfd)
    if status is not None:
        return status
    fields = _stat(pid)
    if len(fields) > proc_stat.WAIT_STATUS and proc_stat.has_ended(fields):
        return int(fields[proc_stat.WAIT_STATUS])
    return None


def _told_status(pidfd: int) -> int | None:
    info = bytearray(64)
    struct.pack_into("<Q", info, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
    except (OSError, AttributeError):
        return None
    mask, code = struct.unpack_from("<Q", info)[0], struct.unpack_from("<i", info, 60)[0]
    return int(code) if mask & _PIDFD_INFO_EXIT else None


def file_system(path: str) -> str:
    """Return the type of the file system of a path, which need not exist, as the kernel names it."""
    path = os.path.realpath(path)
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[4])
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, after.split()[0]
    except (OSError, IndexError):
        return ""
    return kind


def addresses() -> list[str]:
    """Return the IPv4 addresses of this machine's interfaces, without the loopback."""
    import socket  # noqa: PLC0415 - only the hub needs it

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # the interface has no address
                continue
            found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in found if not address.startswith("127.")]


def watch_directory(path: str) -> int | None:
    """Return a descriptor that becomes readable when a file is created in a directory; None if that fails.

    It uses inotify, which the standard library does not have.
    """
    import ctypes  # noqa: PLC0415 - only the hub needs it

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), _IN_CREATE) >= 0:
            return int(fd)
        if fd >= 0:
            os.close(fd)
    except (OSError, AttributeError):
        pass
    return None


FROM_KERNEL = 0x80  # `Came.code`: the terminal sent it, to all its foreground processes


class Came(NamedTuple):
    """A signal that came, and its sender; `pid` is 0 for the kernel, or a sender in another pid namespace."""

    number: int
    code: int
    pid: int
    uid: int


def open_signals(numbers: Iterable[int]) -> int:
    """Return a descriptor that becomes readable when one of these signals has come; they must be blocked.

    The standard library has no signalfd, and a handler in Python does not learn who sent the signal.
    """
    import ctypes  # noqa: PLC0415 - only the launcher needs it

    mask = sum(1 << (number - 1) for number in numbers)
    fd = ctypes.CDLL(None, use_errno=True).signalfd(-1, mask.to_bytes(128, "little"), os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no descriptor for signals")
    return int(fd)


def read_signals(fd: int) -> list[Came]:
    """Return the signals that have come."""
    try:
        data = os.read(fd, 128 * 64)
    except BlockingIOError:
        return []
    return [Came(number, code, pid, uid) for number, _, code, pid, uid in struct.iter_unpack("<IiiII108x", data)]


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; call it between fork and exec, with a single thread."""
    import ctypes  # noqa: PLC0415 - only the launcher needs it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:  # the parent has died already
        os._exit(137)


def parents() -> dict[int, int]:
    """Return the parent of every visible process, by pid."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = _stat(int(name))
            except OSError:
                continue
            if fields:
                found[int(name)] = int(fields[proc_stat.PARENT])
    return found
