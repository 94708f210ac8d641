"""A home: the paths of its store, spools, socket and lock; whose it is, whether a hub runs there, and how to start one.

All of it lies in one directory of one user's own; on a network file system, in a directory of this machine instead.
Nobody waits for a hub that is started.
"""

import errno
import fcntl
import os
import stat
import time

from vedette import detached, hub_lock, kernel, own_directory, pidfds
from vedette.errors import HubError, StrangerError
from vedette.fileio import make_directory, make_private_directory, open_private
from vedette.hub_lock import HubProcess
from vedette.interrupts import let_through
from vedette.settings import Settings

_LOCAL = "/var/tmp"  # noqa: S108 - `own_directory` makes sure that what we use there is ours
_PUBLIC = ("/tmp", _LOCAL)  # noqa: S108
_SHOWN = 100  # letters of a path that is too long
_ELSEWHERE = "set VEDETTE_HOME to a directory of your own"
_WITH_TOKENS = ("onward", "reroute")  # settings that may hold a token
_WAKE_PAUSE_S = 3.0  # a hub that was just started may not have the lock yet
_REST_S = 60.0  # after a hub could not begin


class Home:
    """The paths of one home, and the lock on it."""

    def __init__(self, root: str, *, foreign: bool = False) -> None:
        """Work out the paths; touch no file. `foreign`: it may belong to another user."""
        self.asked = os.path.abspath(os.path.expanduser(root))
        self.hub_settings: tuple[str, ...] = ()
        self.hub_environ: dict[str, str] = {}
        self.file_system = kernel.file_system(self.asked)
        self.moved = self.file_system in kernel.NETWORK_FILE_SYSTEMS
        self._foreign = foreign
        self._owner = os.geteuid()
        if self.moved:  # root may look at the home of another user
            self._owner = self._owner or _owner(self.asked) or 0
        self._lay_out(own_directory.find(_LOCAL, self._local_name, self._owner) if self.moved else self.asked)

    def _lay_out(self, root: str) -> None:
        self.root = root
        self.store = os.path.join(root, "store.db")
        self.spool = os.path.join(root, "spool")
        self.inbox = os.path.join(root, "inbox")  # what other hubs have sent
        self.lock = os.path.join(root, "hub.lock")
        self.waking = os.path.join(root, "hub.waking")  # its time is when a hub was last started
        self.log = os.path.join(root, "hub.log")
        self.connect = os.path.join(root, "hub.connect")  # how other machines reach the hub, while it listens
        self.socket = os.path.join(root, "hub.sock")  # however long that is: `unix_socket` reaches it
        self.pids = os.path.join(root, "hub.pids")  # where processes send their pidfds

    @property
    def _local_name(self) -> str:
        """The name that a home on a network file system has on this machine."""
        import hashlib  # noqa: PLC0415 - OpenSSL, which `init` need not wait for

        digest = hashlib.blake2b(os.fsencode(self.asked), digest_size=5).hexdigest()
        return f"vedette-{self._owner}-{digest}"

    @classmethod
    def of(cls, settings: Settings) -> "Home":
        """Return the home that the settings name; a hub that is started for it gets their `hub.*` too."""
        home = cls(settings.home, foreign=settings.foreign_home)
        if settings.foreign_home:
            home.hub_environ["VEDETTE_FOREIGN_HOME"] = "true"
        if home.moved and home._owner == os.geteuid():
            home._reserve()
        for section, default in (("hub", Settings().hub), ("limits", Settings().limits)):
            chosen = getattr(settings, section)
            for name in default.__struct_fields__:
                if getattr(chosen, name) == getattr(default, name):
                    continue
                if name in _WITH_TOKENS:  # arguments can be seen by everybody
                    home.hub_environ[f"VEDETTE_{section}_{name}".upper()] = getattr(chosen, name)
                else:
                    home.hub_settings += ("--set", f"{section}.{name}={getattr(chosen, name)}")
        return home

    def _reserve(self) -> None:
        """Take a directory of this machine now: one that is free may be another user's when we first write."""
        try:
            self._lay_out(own_directory.make(_LOCAL, self._local_name))
        except OSError as error:  # `prepare` raises it
            let_through(error)

    @property
    def is_foreign(self) -> bool:
        """Whether the home is another user's, so that it can be read, and nothing is written there."""
        return not self._foreign and bool(self._stranger())

    def _stranger(self) -> str:
        """Return what of this home is another user's, and whose; empty if nothing is."""
        ours = os.geteuid()
        if self._owner != ours:
            return f"{self.asked} belongs to user {self._owner}"
        try:
            link, status = os.lstat(self.root), os.stat(self.root)
        except OSError as error:  # it is not there yet
            let_through(error)
            return ""
        if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, ours):
            return f"{self.root} is a link that user {link.st_uid} has made"
        return f"{self.root} belongs to user {status.st_uid}" if status.st_uid != ours else ""

    def check_owner(self) -> None:
        """Raise StrangerError when the home belongs to another user, unless `foreign_home` says that this is meant."""
        if self.is_foreign:
            raise StrangerError(
                f"{self._stranger()}, and you are user {os.geteuid()}, so nothing is written there: set VEDETTE_HOME to"
                " a directory of your own, or VEDETTE_FOREIGN_HOME=1 if you mean to work in that one"
            )

    def misplaced(self) -> str:
        """Say why nothing can ever be kept here, because of the path alone; empty if something can, or is."""
        try:
            os.stat(self.store)
        except (NotADirectoryError, PermissionError) as error:
            let_through(error)
            return f"{self.root} cannot be a home: {(error.strerror or '').lower()}; {_ELSEWHERE}"
        except OSError as error:
            let_through(error)
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return f"{self.root[:_SHOWN]}... cannot be a home: {(error.strerror or '').lower()}; {_ELSEWHERE}"
        return ""

    def prepare(self) -> None:
        """Make the directories, for their owner alone; raise StrangerError when they are another user's."""
        make_directory(self.root, 0o700)
        self.check_owner()
        if os.path.dirname(self.root) in _PUBLIC and os.stat(self.root).st_mode & 0o077 and not self._stranger():
            os.chmod(self.root, 0o700)
        make_private_directory(self.spool)

    def take_lock(self, patience_s: float = 2.0) -> int | None:
        """Become the hub of this home: return the lock's descriptor, or None when another one is."""
        fd = hub_lock.take(self.lock, patience_s)
        if fd is not None:
            try:
                os.unlink(self.waking)  # it is here: if it dies, the next one can be started at once
            except OSError:
                pass
        return fd

    def holds(self, fd: int) -> bool:
        """Tell whether a lock that was taken is still the one of this home, which may have been removed."""
        try:
            here, held = os.stat(self.lock), os.fstat(fd)
        except OSError:
            return False
        return (here.st_dev, here.st_ino) == (held.st_dev, held.st_ino)

    def hub(self) -> HubProcess | None:
        """Return the hub that keeps this home, as it says itself; None when there is none."""
        return hub_lock.holder(self.lock)

    def hub_pid(self) -> int | None:
        """Return the pid of the hub where it runs, 0 when it has not written it yet, None when there is no hub."""
        hub = self.hub()
        return None if hub is None else hub.pid

    def wake_hub(self, origin: str = "") -> None:
        """Make sure that a hub lives or is being started, and that it will have a pidfd of this process.

        `origin`: who this process is; a reader is nobody, and is not watched. It probes the lock, and at most every
        few seconds spawns.
        """
        heard = pidfds.send(self.pids, origin)
        if self.hub_pid() is not None:
            return
        self.prepare()
        # Not the home itself: whoever may look into a home could hold a lock on it, and keep us from starting a hub.
        turn = os.open(self.spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not _lock_soon(turn) and not os.fstat(turn).st_mode & 0o077:  # open to others, it tells nothing
                return
            if self._is_waking(reader=not origin):  # its socket may have been made since we looked
                if not heard:
                    pidfds.send(self.pids, origin)
                return
            _touch(self.waking)
            listening = None if heard else pidfds.listen(self.pids)
        finally:
            os.close(turn)
        try:
            if listening is not None:
                pidfds.send(self.pids, origin)
            self._spawn(listening)
        finally:
            if listening is not None:
                os.close(listening)

    def rest(self) -> None:
        """Have processes start no other hub for a while: this one could not begin. Readers may: they want to know."""
        later = time.time() + _REST_S
        os.close(open_private(self.waking, os.O_WRONLY | os.O_CREAT))
        os.utime(self.waking, (later, later))

    def _is_waking(self, *, reader: bool) -> bool:
        try:
            age_s = time.time() - os.stat(self.waking).st_mtime
        except OSError as error:
            let_through(error)
            return False
        return (0 if reader else -_REST_S) <= age_s < _WAKE_PAUSE_S

    def _spawn(self, listening: int | None) -> None:
        """Start `python -m vedette hub` as nobody's child; `listening`: the socket for pidfds, which it takes over."""
        if not detached.is_possible():
            raise HubError("the path of this Python is unknown, so no hub can be started: run `vedette hub`")
        environ = detached.environment() | self.hub_environ
        environ["OPENBLAS_NUM_THREADS"] = "1"
        arguments = ["hub", "--quiet", "--home", self.asked, *self.hub_settings]
        if listening is not None:
            arguments.append("--with-pids")
        log = open_private(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            detached.start("vedette", arguments, environ, handed=() if listening is None else (listening,), log=log)
        finally:
            os.close(log)


def _touch(path: str) -> None:
    """Make a file if it is not there, and set its time to now."""
    fd = open_private(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.utime(fd)
    finally:
        os.close(fd)


def _lock_soon(fd: int) -> bool:
    """Lock a descriptor if nobody else holds it for longer than it takes to make a socket; tell whether we have it."""
    for _ in range(20):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            let_through(error)
            time.sleep(0.001)
    return False


def _owner(path: str) -> int | None:
    """Return the user that a path belongs to; None if it is not there."""
    try:
        return os.stat(path).st_uid
    except OSError as error:
        let_through(error)
        return None
