"""A home: the paths of its store, spools, socket and lock; whether a hub runs there, and how to start one.

The lock is an flock on `hub.lock`, which the hub holds while it lives: whoever can take it knows that there is no hub.
Nobody waits for a hub that is started.
"""

import fcntl
import os
import stat
import time

from vedette import detached, kernel, pidfds
from vedette.errors import HubError, StrangerError
from vedette.fileio import make_directory
from vedette.interrupts import let_through
from vedette.settings import Settings

_PUBLIC = ("/tmp", "/var/tmp")  # noqa: S108 - directories that we use there are checked to be ours
_SOCKET_PATH_LIMIT = 100  # the kernel's is 108, with the final zero
_WITH_TOKENS = ("onward", "reroute")  # settings that may hold a token
_WAKE_PAUSE_S = 3.0  # a hub that was just started may not have the lock yet


class Home:
    """The paths of one home, and the lock on it."""

    def __init__(self, root: str) -> None:
        """Work out the paths; touch no file."""
        self.asked = os.path.abspath(os.path.expanduser(root))
        self.hub_settings: tuple[str, ...] = ()
        self.hub_environ: dict[str, str] = {}
        self.file_system = kernel.file_system(self.asked)
        self.moved = self.file_system in kernel.NETWORK_FILE_SYSTEMS
        self.root = _own_directory(_PUBLIC[1], self.asked) if self.moved else self.asked
        self.store = os.path.join(self.root, "store.db")
        self.spool = os.path.join(self.root, "spool")
        self.inbox = os.path.join(self.root, "inbox")  # what other hubs have sent
        self.lock = os.path.join(self.root, "hub.lock")
        self.waking = os.path.join(self.root, "hub.waking")  # its time is when a hub was last started
        self.log = os.path.join(self.root, "hub.log")
        self.connect = os.path.join(self.root, "hub.connect")  # how other machines reach the hub, while it listens
        self.socket = os.path.join(self.root, "hub.sock")
        if len(os.fsencode(self.socket)) > _SOCKET_PATH_LIMIT:
            self.socket = os.path.join(_own_directory(_PUBLIC[0], self.asked), "hub.sock")
        self.pids = os.path.join(os.path.dirname(self.socket), "hub.pids")  # where processes send their pidfds

    @classmethod
    def of(cls, settings: Settings) -> "Home":
        """Return the home that the settings name; a hub that is started for it gets their `hub.*` too."""
        home = cls(settings.home)
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

    def prepare(self) -> None:
        """Make the directories, for their owner alone."""
        for path in (self.root, self.spool, os.path.dirname(self.socket)):
            make_directory(path, 0o700)
            if os.path.dirname(path) in _PUBLIC:
                _refuse_stranger(path)

    def take_lock(self, patience_s: float = 2.0) -> int | None:
        """Become the hub of this home: return the lock's descriptor, or None when another one is.

        A client that only looks holds the lock for an instant; hence the patience.
        """
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    os.close(fd)
                    return None
                time.sleep(0.02)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
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

    def hub_pid(self) -> int | None:
        """Return the pid of the hub, 0 when it has not written it yet, None when there is no hub."""
        try:
            fd = os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            let_through(error)
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except OSError as error:
            let_through(error)
            text = os.pread(fd, 20, 0)
            return int(text) if text.isdigit() else 0
        finally:
            os.close(fd)

    def wake_hub(self, origin: str = "") -> None:
        """Make sure that a hub lives or is being started, and that it will have a pidfd of this process.

        `origin`: who this process is; a reader is nobody, and is not watched. It probes the lock, and at most every
        few seconds spawns.
        """
        heard = pidfds.send(self.pids, origin)
        if self.hub_pid() is not None:
            return
        self.prepare()
        turn = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not _lock_soon(turn):
                return
            if self._is_waking():  # its socket may have been made since we looked
                if not heard:
                    pidfds.send(self.pids, origin)
                return
            os.close(os.open(self.waking, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(self.waking)
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

    def _is_waking(self) -> bool:
        try:
            return 0 <= time.time() - os.stat(self.waking).st_mtime < _WAKE_PAUSE_S
        except OSError as error:
            let_through(error)
            return False

    def _spawn(self, listening: int | None) -> None:
        """Start `python -m vedette hub` as nobody's child; `listening`: the socket for pidfds, which it takes over."""
        if not detached.is_possible():
            raise HubError("the path of this Python is unknown, so no hub can be started: run `vedette hub`")
        environ = detached.environment() | self.hub_environ
        environ["OPENBLAS_NUM_THREADS"] = "1"
        arguments = ["hub", "--quiet", "--home", self.asked, *self.hub_settings]
        if listening is not None:
            arguments.append("--with-pids")
        detached.start("vedette", arguments, environ, handed=() if listening is None else (listening,), log=self.log)


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


def _own_directory(parent: str, root: str) -> str:
    import hashlib  # noqa: PLC0415 - OpenSSL, which `init` need not wait for

    digest = hashlib.blake2b(os.fsencode(root), digest_size=5).hexdigest()
    return os.path.join(parent, f"vedette-{os.getuid()}-{digest}")


def _refuse_stranger(path: str) -> None:
    """Refuse a directory in /tmp that another user has made."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise StrangerError(f"{path} belongs to somebody else: set VEDETTE_HOME to a local directory of your own")
    if status.st_mode & 0o077:
        os.chmod(path, 0o700)
