"""A disk whose power can be cut: its content at that moment is mounted elsewhere, as after a reboot.

Three ext4 file systems, each in a file of the one before: base holds outer, outer holds inner, inner holds the home.
What inner has written lies in the page cache of outer ("received", as in a disk's own volatile memory) until inner
asks for a flush, which writes it through to base ("flushed"). Freezing the file system below stops every write of the
one above between two requests. So the copy is the disk at one moment, and taking it never syncs the home.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

_FREEZE, _THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW
_SIZES = {"base": 1600 << 20, "outer": 1200 << 20, "inner": 1000 << 20}  # sparse files
_MEMORY = "/dev/shm"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PREFIX = "vdt-disk-"


class Cut(NamedTuple):
    """The content of a disk at a moment between these two times."""

    image: str
    flushed: bool
    begun: int
    done: int


class Disk:
    """A mounted disk; `home` is an empty directory on it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.home = os.path.join(root, "inner", "home")
        self._cuts = 0

    def cut(self, *, flushed: bool) -> Cut:
        """Cut the power: keep only what was flushed, or all that the disk had received."""
        below, held = ("base", "outer") if flushed else ("outer", "inner")
        self._cuts += 1
        image = os.path.join(self.root, f"cut{self._cuts}.img")
        fd = os.open(os.path.join(self.root, below), os.O_RDONLY | os.O_DIRECTORY)
        begun = time.time_ns()
        try:
            fcntl.ioctl(fd, _FREEZE, 0)
            done = time.time_ns()
            try:
                _run("cp", "--sparse=always", os.path.join(self.root, below, held + ".img"), image)
            finally:
                fcntl.ioctl(fd, _THAW, 0)
        finally:
            os.close(fd)
        return Cut(image, flushed, begun, done)

    @contextlib.contextmanager
    def after(self, cut: Cut) -> Iterator[str]:
        """Mount what is left after a cut, with its journals replayed; yield the home there."""
        with contextlib.ExitStack() as stack:
            image = cut.image
            if cut.flushed:
                image = os.path.join(stack.enter_context(_mounted(image, image + ".outer")), "inner.img")
            yield os.path.join(stack.enter_context(_mounted(image, cut.image + ".inner")), "home")
        os.unlink(cut.image)


@contextlib.contextmanager
def cuttable_disk() -> Iterator[Disk]:
    """Make a disk, in memory if there is room; unmount everything at the end."""
    _sweep()
    roomy = os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > 2 * _SIZES["base"]
    root = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_MEMORY if roomy else None)
    try:
        with contextlib.ExitStack() as stack:
            folder = root
            for name, size in _SIZES.items():
                image = os.path.join(folder, name + ".img")
                with open(image, "wb") as file:
                    file.truncate(size)
                _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,nodiscard", image)
                folder = stack.enter_context(_mounted(image, os.path.join(root, name)))
            os.mkdir(os.path.join(folder, "home"), 0o700)
            _run("sync", "-f", folder)
            yield Disk(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def why_not() -> str:
    """Return why no such disk can be made here; empty if it can."""
    if os.geteuid() != 0:
        return "a power cut needs root, to mount"
    if missing := [tool for tool in ("mkfs.ext4", "mount", "umount", "unshare", "cp") if shutil.which(tool) is None]:
        return f"a power cut needs {', '.join(missing)}"
    try:
        with cuttable_disk() as disk, disk.after(disk.cut(flushed=True)):
            _run(*rebooted(disk, "true"))
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or ""
        return f"a power cut needs ext4 on loop devices, fsfreeze and namespaces: {error} {said}".strip()
    return ""


def rebooted(disk: Disk, *argv: str) -> list[str]:
    """Return a command prefix that simulates a reboot: a new boot id, and none of the old processes alive."""
    boot = os.path.join(disk.root, "boot_id")
    with open(boot, "w") as file:
        file.write(f"{os.urandom(16).hex()}\n")
    script = f'mount --bind "$0" {_BOOT_ID} && exec "$@"'
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, boot, *argv]


@contextlib.contextmanager
def _mounted(image: str, point: str) -> Iterator[str]:
    os.mkdir(point)
    _run("mount", "-o", "loop", image, point)
    try:
        yield point
    finally:
        _unmount(point)


def _unmount(point: str) -> None:
    for _ in range(50):
        if subprocess.run(["umount", point], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)  # a killed process still has it open
    _run("umount", "--lazy", point)


def _sweep() -> None:
    """Remove what a killed test has left behind."""
    for folder in {_MEMORY, tempfile.gettempdir()}:
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            pid = name.removeprefix(_PREFIX).partition("-")[0]
            if name.startswith(_PREFIX) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                root = os.path.join(folder, name)
                with open("/proc/self/mounts") as file:
                    points = [line.split()[1] for line in file if line.split()[1].startswith(root + "/")]
                for point in reversed(points):
                    subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)
                shutil.rmtree(root, ignore_errors=True)


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)
