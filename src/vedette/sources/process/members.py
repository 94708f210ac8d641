"""The members of a process tree, and the numbers of each, read from files that stay open.

A tree grows only by forks, and the kernel shows the newest pid. If that has not changed, no process is new. If it has
grown by a few, these pids are checked; otherwise all processes are, at most once a second.
"""

import contextlib
import errno
import os

from vedette import proc_stat
from vedette.proc_stat import (
    GROUP,
    MEMORY_PAGES,
    MINOR_FAULTS,
    PARENT,
    SESSION,
    STARTED_TICKS,
    SYSTEM_TICKS,
    THREADS,
    USER_TICKS,
    WAITED_MINOR_FAULTS,
    WAITED_SYSTEM_TICKS,
    WAITED_USER_TICKS,
)
from vedette.sensing.probe import OpenFile
from vedette.sources.process.ledger import Account, Key
from vedette.sources.process.snapshot import children

_RESCAN_S = 1.0  # the least pause between two scans of all processes
_RESCAN_AT_LATEST_S = 60.0
_FEW = 100  # new pids that are checked one by one
_OPEN = 32  # processes whose files stay open: the user's program needs descriptors itself
_NS_PER_TICK = 10**9 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_GONE = (FileNotFoundError, ProcessLookupError)
_UNREADABLE = (OSError, ValueError, IndexError)


class Member:
    """One process of the tree, as it was at the last look."""

    def __init__(self, proc: str, pid: int, fields: list[bytes], *, keep_open: bool) -> None:
        """Begin with the fields of its `stat`; `keep_open`: its files may stay open."""
        self._files: dict[str, int] = {}
        self.pid = pid
        self.born = fields[STARTED_TICKS]
        self.key: Key = pid, int(self.born)
        self._path = f"{proc}/{pid}"
        self._keep_open = keep_open
        self.rest = 0.0
        self._has_schedstat = True
        self.io = 0, 0
        self.has_io = True
        self.parse(fields)

    def parse(self, fields: list[bytes]) -> None:
        """Set the numbers from the fields of its `stat` behind the name."""
        self.ppid, self.group, self.session = int(fields[PARENT]), int(fields[GROUP]), int(fields[SESSION])
        self.own = int(fields[USER_TICKS]), int(fields[SYSTEM_TICKS]), int(fields[MINOR_FAULTS])
        self.waited = (
            int(fields[WAITED_USER_TICKS]), int(fields[WAITED_SYSTEM_TICKS]), int(fields[WAITED_MINOR_FAULTS]),
        )  # fmt: skip
        self.dead = proc_stat.has_ended(fields)
        self.threads = 0 if self.dead else int(fields[THREADS])
        self.memory_bytes = 0 if self.dead else int(fields[MEMORY_PAGES]) * _PAGE_BYTES

    def look(self) -> bool:
        """Read its numbers again; return False if it has ended. A number that cannot be read stays as it was."""
        try:
            fields = proc_stat.fields_of(self._read("stat", proc_stat.MOST_BYTES))
            if fields[STARTED_TICKS] != self.born:
                return False
            self.parse(fields)
        except _GONE:
            return False
        except _UNREADABLE:
            return os.path.exists(self._path)
        if self._has_schedstat:
            self._read_rest()
        if self.has_io:
            try:
                self.io = _io_bytes(self._read("io", 512))
            except PermissionError:
                self.has_io = False
            except _UNREADABLE:
                pass
        return True

    def _read_rest(self) -> None:
        """Find what rounding has lost, which is at most two ticks.

        `schedstat` is exact, but covers only the first thread. If it is less than the ticks, other threads have worked
        too, and we cannot know what was lost: then `rest` is 0.
        """
        try:
            ticks = int(self._read("schedstat", 128).split(None, 1)[0]) / _NS_PER_TICK
            self.rest = min(2.0, max(0.0, ticks - self.own[0] - self.own[1]))
        except _UNREADABLE:
            self.rest, self._has_schedstat = 0.0, False

    def _read(self, name: str, size: int) -> bytes:
        fd = self._files.get(name, -1)
        if fd >= 0:
            try:
                return os.pread(fd, size, 0)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise
                self._files.clear()  # the user's program has closed them
        fd = os.open(f"{self._path}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        if self._keep_open:
            self._files[name] = fd
            return os.pread(fd, size, 0)
        try:
            return os.read(fd, size)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Close its files."""
        while self._files:
            with contextlib.suppress(OSError):
                os.close(self._files.popitem()[1])

    def __del__(self) -> None:
        self.close()


class Members:
    """The members of a process tree. Our own process does not count, unless it is the root."""

    def __init__(self, pid: int, proc: str, apart: tuple[int, ...] = ()) -> None:
        """Start with the root; the processes in `apart` are left out, with their descendants."""
        self._proc = proc
        self._apart = {*apart, os.getpid()} - {pid}
        self._newest_file = OpenFile(f"{proc}/loadavg", 256)
        self._newest: int | None = None
        self._is_ours = _is_ours(proc)
        self._scanned_s = float("-inf")
        self._leaders: set[int] = set()  # members, perhaps ended, that started a group or session which still exists
        self.all: dict[int, Member] = {}  # by pid, parents before their children
        self._add(pid, _read_fields(proc, pid))

    def look(self, at_s: float) -> dict[Key, Account]:
        """Return the numbers of each member, parents before their children."""
        for member in [member for member in self.all.values() if not member.look()]:
            self._drop(member)
        known = len(self.all)
        self._find(at_s)
        # Read new members again, parents first: a parent that was read after its child may have taken it over already.
        for member in [member for member in list(self.all.values())[known:] if not member.look()]:
            self._drop(member)
        leaders = {leader for member in self.all.values() for leader in (member.group, member.session)}
        self._leaders = leaders & (self._leaders | self.all.keys())
        return {member.key: self._account(member) for member in self.all.values()}

    def _drop(self, member: Member) -> None:
        member.close()
        del self.all[member.pid]

    def _account(self, member: Member) -> Account:
        parent = self.all.get(member.ppid)
        return Account(parent.key if parent else None, member.own, member.waited, member.io, rest=member.rest)

    def _find(self, at_s: float) -> None:
        newest, before = self._newest_pid(), self._newest
        since_s = at_s - self._scanned_s
        is_recent = since_s < _RESCAN_AT_LATEST_S
        if newest is not None and before is not None and is_recent and 0 <= newest - before <= _FEW:
            self._newest = newest
            self._check(range(before + 1, newest + 1), listed=False)
        elif since_s >= _RESCAN_S:
            self._newest, self._scanned_s = newest, at_s
            self._check(self._list(), listed=True)

    def _newest_pid(self) -> int | None:
        """Return the newest pid of the kernel; None if this /proc shows another pid namespace."""
        try:
            return int(self._newest_file.read().split()[-1]) if self._is_ours else None
        except _UNREADABLE:
            return None

    def _list(self) -> list[int]:
        """Return pids that may be new members: all descendants, or all pids if the kernel lists no children."""
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

    def _check(self, pids: "range | list[int]", *, listed: bool) -> None:
        """Add the processes that belong to the tree; a parent may come after its child."""
        unknown = {}
        for pid in pids:
            if pid not in self.all and pid not in self._apart and (fields := _read_fields(self._proc, pid)):
                unknown[pid] = fields
        found = True
        while found and unknown:
            found = False
            for pid, fields in list(unknown.items()):
                if self._belongs(pid, fields):
                    del unknown[pid]
                    if listed or self._is_process(pid):
                        found = self._add(pid, fields) or found

    def _belongs(self, pid: int, fields: list[bytes]) -> bool:
        """Tell whether a process belongs to the tree, by its parent, its session, or (for an orphan) its group.

        A process keeps its session and group when its parent ends, and both are named after a leader. A shell may put
        unrelated processes into one group, so the group counts only for an orphan: it is in another session than its
        parent, and did not start that session itself.
        """
        ppid, group, session = map(int, fields[PARENT : SESSION + 1])
        if ppid in self.all or session in self._leaders or session in self.all:
            return True
        if session == pid or not (group in self._leaders or group in self.all):
            return False
        parent = _read_fields(self._proc, ppid)
        return bool(parent) and int(parent[SESSION]) != session

    def _is_process(self, pid: int) -> bool:
        """Tell a process from a thread: a thread has a number like a pid, and a `stat` of its whole process."""
        try:
            with open(f"{self._proc}/{pid}/status", "rb", buffering=0) as file:
                return f"\nTgid:\t{pid}\n".encode() in file.read(4096)
        except OSError:
            return False

    def _add(self, pid: int, fields: list[bytes]) -> bool:
        try:
            self.all[pid] = Member(self._proc, pid, fields, keep_open=len(self.all) < _OPEN)
        except _UNREADABLE:
            return False
        return True

    def close(self) -> None:
        """Close all files."""
        self._newest_file.close()
        for member in self.all.values():
            member.close()


def _is_ours(proc: str) -> bool:
    """Tell whether this /proc shows the pids of our own namespace."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


def _read_fields(proc: str, pid: int) -> list[bytes]:
    """Return the fields of a process's `stat`; empty if it cannot be read or is malformed."""
    try:
        fields = proc_stat.fields_of(proc_stat.read(pid, proc))
    except OSError:
        return []
    is_whole = len(fields) > MEMORY_PAGES and all(field.isdigit() for field in fields[PARENT : SESSION + 1])
    return fields if is_whole else []


def _io_bytes(text: bytes) -> tuple[int, int]:
    read = written = 0
    for line in text.splitlines():
        if line.startswith(b"read_bytes:"):
            read = int(line[11:])
        elif line.startswith(b"write_bytes:"):
            written = int(line[12:])
    return read, written
