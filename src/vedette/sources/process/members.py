"""Who belongs to the tree of a process, and how each of them stands, by files that stay open.

A tree grows by forks alone. The kernel tells the newest pid that it has given: where that has not changed nobody is
new, where it has grown by a few these are looked at, and else all processes are, at most once a second.
"""

import contextlib
import errno
import os

from vedette.sensing.probe import OpenFile
from vedette.sources.process.ledger import Account, Key
from vedette.sources.process.snapshot import children

_RESCAN_S = 1.0  # at the least between two passes over all processes
_SURELY_S = 60.0  # at the most
_FEW = 100  # pids that are looked at one by one
_OPEN = 32  # processes whose files stay open: the program that we live in needs descriptors itself
_NS_PER_TICK = 10**9 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_GONE = (FileNotFoundError, ProcessLookupError)
_ODD = (OSError, ValueError, IndexError)


class Member:
    """One process of the tree, as it was last seen."""

    def __init__(self, proc: str, pid: int, fields: list[bytes], *, stays: bool) -> None:
        """Know it by a line of its `stat`; `stays`: its files may stay open."""
        self._files: dict[str, int] = {}
        self.pid = pid
        self.born = fields[19]
        self.key: Key = pid, int(fields[19])
        self._path = f"{proc}/{pid}"
        self._stays = stays
        self.rest = 0.0
        self._tells_rest = True
        self.moved = 0, 0
        self.tells_moved = True
        self.understand(fields)

    def understand(self, fields: list[bytes]) -> None:
        """Take over what a line of its `stat` says behind its name."""
        self.ppid, self.group, self.session = int(fields[1]), int(fields[2]), int(fields[3])
        self.own = int(fields[11]), int(fields[12]), int(fields[7])
        self.waited = int(fields[13]), int(fields[14]), int(fields[8])
        self.dead = fields[0] in b"ZX"  # but its parent has not noticed
        self.threads = 0 if self.dead else int(fields[17])
        self.memory_bytes = 0 if self.dead else int(fields[21]) * _PAGE_BYTES

    def look(self) -> bool:
        """Look at it again; False: it is gone. What cannot be read now stays as it was."""
        try:
            fields = fields_of(self._read("stat", 1024))
            if fields[19] != self.born:
                return False
            self.understand(fields)
        except _GONE:
            return False
        except _ODD:
            return os.path.exists(self._path)
        if self._tells_rest:
            self._look_closer()
        if self.tells_moved:
            try:
                self.moved = _moved(self._read("io", 512))
            except PermissionError:
                self.tells_moved = False
            except _ODD:
                pass
        return True

    def _look_closer(self) -> None:
        """Find what is lost by rounding, two ticks at the most.

        `schedstat` is exact, but of the first thread alone. Where it is below the ticks other threads have worked too,
        and nothing is known; it never leads out of what the ticks allow.
        """
        try:
            ticks = int(self._read("schedstat", 128).split(None, 1)[0]) / _NS_PER_TICK
            self.rest = min(2.0, max(0.0, ticks - self.own[0] - self.own[1]))
        except _ODD:
            self.rest, self._tells_rest = 0.0, False

    def _read(self, name: str, size: int) -> bytes:
        fd = self._files.get(name, -1)
        if fd >= 0:
            try:
                return os.pread(fd, size, 0)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                self._files.clear()  # the program that we live in has closed them
        fd = os.open(f"{self._path}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        if self._stays:
            self._files[name] = fd
            return os.pread(fd, size, 0)
        try:
            return os.read(fd, size)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Let go of its files."""
        while self._files:
            with contextlib.suppress(OSError):
                os.close(self._files.popitem()[1])

    def __del__(self) -> None:
        self.close()


class Members:
    """The tree of a process. Who reads is no part of it, unless it is the root."""

    def __init__(self, pid: int, proc: str, apart: tuple[int, ...] = ()) -> None:
        """Know the root; those in `apart` are left out, with all below them."""
        self._proc = proc
        self._apart = {*apart, os.getpid()} - {pid}
        self._newest_file = OpenFile(f"{proc}/loadavg", 256)
        self._newest: int | None = None
        self._ours = _is_ours(proc)
        self._scanned_s = float("-inf")
        self._founders: set[int] = set()  # pids of those in the tree who began a group or session that is still there
        self.all: dict[int, Member] = {}  # by pid, parents before their children
        self._add(pid, read_fields(proc, pid))

    def look(self, at_s: float) -> dict[Key, Account]:
        """Return how each of them stands, parents before their children."""
        for member in [member for member in self.all.values() if not member.look()]:
            self._drop(member)
        known = len(self.all)
        self._find(at_s)
        # Read once more, in their order: a parent that was read after its child may have taken it over already.
        for member in [member for member in list(self.all.values())[known:] if not member.look()]:
            self._drop(member)
        led = {leader for member in self.all.values() for leader in (member.group, member.session)}
        self._founders = led & (self._founders | self.all.keys())
        return {member.key: self._account(member) for member in self.all.values()}

    def _drop(self, member: Member) -> None:
        member.close()
        del self.all[member.pid]

    def _account(self, member: Member) -> Account:
        parent = self.all.get(member.ppid)
        return Account(parent.key if parent else None, member.own, member.waited, member.moved, rest=member.rest)

    def _find(self, at_s: float) -> None:
        newest, before = self._tell_newest(), self._newest
        since_s = at_s - self._scanned_s
        if newest is not None and before is not None and since_s < _SURELY_S and 0 <= newest - before <= _FEW:
            self._newest = newest
            self._meet(range(before + 1, newest + 1), listed=False)
        elif since_s >= _RESCAN_S:
            self._newest, self._scanned_s = newest, at_s
            self._meet(self._list(), listed=True)

    def _tell_newest(self) -> int | None:
        """Return the newest pid that was given; None where that does not count the pids of this /proc."""
        try:
            return int(self._newest_file.read().split()[-1]) if self._ours else None
        except _ODD:
            return None

    def _list(self) -> list[int]:
        """Return the pids of those that may be new: children of members, or all there are where no list tells these."""
        found: list[int] = []
        todo = list(self.all)
        while todo:
            listed = children(todo.pop(), self._proc)
            if listed is None:
                try:
                    return [int(name) for name in os.listdir(self._proc) if name.isdigit()]
                except OSError:
                    return []
            found += listed
            todo += [pid for pid in listed if pid not in self.all and pid not in self._apart]
        return found

    def _meet(self, pids: "range | list[int]", *, listed: bool) -> None:
        """Add those of them that belong to the tree; a parent may come after its child."""
        strangers = {}
        for pid in pids:
            if pid not in self.all and pid not in self._apart and (fields := read_fields(self._proc, pid)):
                strangers[pid] = fields
        found = True
        while found and strangers:
            found = False
            for pid, fields in list(strangers.items()):
                if self._belongs(pid, fields):
                    del strangers[pid]
                    if listed or self._is_process(pid):
                        found = self._add(pid, fields) or found

    def _belongs(self, pid: int, fields: list[bytes]) -> bool:
        """Tell by its parent, its session or, of an orphan, by its group: these it keeps, and they have a founder.

        A shell puts strangers into a group, so that this counts only for one that lives in another session than its
        parent without having begun it: that parent has got it as an orphan.
        """
        ppid, group, session = map(int, fields[1:4])
        if ppid in self.all or session in self._founders or session in self.all:
            return True
        if session == pid or not (group in self._founders or group in self.all):
            return False
        parent = read_fields(self._proc, ppid)
        return bool(parent) and int(parent[3]) != session

    def _is_process(self, pid: int) -> bool:
        """Tell a process from a thread, which has a number of the same kind, and a `stat` of its whole process."""
        try:
            with open(f"{self._proc}/{pid}/status", "rb", buffering=0) as file:
                return f"\nTgid:\t{pid}\n".encode() in file.read(4096)
        except OSError:
            return False

    def _add(self, pid: int, fields: list[bytes]) -> bool:
        try:
            self.all[pid] = Member(self._proc, pid, fields, stays=len(self.all) < _OPEN)
        except _ODD:
            return False
        return True

    def close(self) -> None:
        """Let go of all files."""
        self._newest_file.close()
        for member in self.all.values():
            member.close()


def _is_ours(proc: str) -> bool:
    """Tell whether the pids there are those of our own namespace."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


def fields_of(stat: bytes) -> list[bytes]:
    """Return what stands behind the name, which may be made of anything, in a process's `stat`."""
    return stat.rpartition(b")")[2].split()


def read_fields(proc: str, pid: int) -> list[bytes]:
    """Return the fields of a process's `stat`; empty where it cannot be read, or makes no sense."""
    try:
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:
            fields = fields_of(file.read(1024))
        return fields if len(fields) > 21 and all(field.isdigit() for field in fields[1:4]) else []
    except OSError:
        return []


def _moved(text: bytes) -> tuple[int, int]:
    read = written = 0
    for line in text.splitlines():
        if line.startswith(b"read_bytes:"):
            read = int(line[11:])
        elif line.startswith(b"write_bytes:"):
            written = int(line[12:])
    return read, written
