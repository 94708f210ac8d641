"""Hosts on one machine: namespaces joined by a bridge, each with its own name, address, boot, processes and home.

    with hosts(2) as (a, b):
        server = a.start("import socket; ...", PORT="7000")
        b.run([sys.executable, "-c", "..."])
        b.cut(); b.heal(); b.half_open(); b.heal(); b.delay(20, jitter_ms=5, loss_percent=1)

The namespaces have no names. Each lives as long as a process that reads from a pipe of the test: however the test
ends, the pipe is closed, and nothing is left behind.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any

import vedette
from tests.conftest import PROGRAMS
from vedette import wire
from vedette.home import Home

_HERE = os.path.dirname(os.path.abspath(__file__))
_SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(vedette.__file__)))
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_INIT = f'hostname "$1" && mount --bind "$2" {_BOOT_ID} && ip link set lo up && echo ready && cat; :'
_SWITCH = "ip link add lan type bridge && ip link set lan up && echo ready && cat; :"
_TOOLS = ("ip", "unshare", "nsenter", "setpriv", "hostname", "mount")


class _Namespaces:
    """Namespaces, kept alive by a process inside them."""

    def __init__(self, kinds: Sequence[str], script: str, *args: str) -> None:
        self.kinds = [kind for kind in kinds if kind != "--mount-proc"]
        argv = ["unshare", *kinds, "--fork", "--kill-child", "sh", "-c", script, "sh", *args]
        self._holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise OSError(f"no namespaces can be made: {self._holder.communicate()[1].decode().strip()}")
        [self.pid] = _children(self._holder.pid)
        self._net = os.open(
            f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC
        )  # kept open, so that the path stays valid

    def enter(self, *argv: str) -> list[str]:
        """Return a command prefix that runs a command inside; the command dies with the Popen process."""
        inside = ["setpriv", "--pdeathsig", "KILL", *argv] if "--pid" in self.kinds else [*argv]
        return ["nsenter", "--target", str(self.pid), *self.kinds, *inside]

    def do(self, *argv: str) -> None:
        """Run a command inside; raise CalledProcessError when it fails."""
        subprocess.run(self.enter(*argv), check=True, capture_output=True, text=True)

    def end(self) -> None:
        """Kill all processes inside, and close."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self._net)
        self._holder.kill()
        self._holder.communicate()

    def members(self) -> list[int]:
        """Return the processes inside, by their pids outside."""
        mine = os.fstat(self._net).st_ino
        assert mine != os.stat("/proc/self/ns/net").st_ino
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _network(name) == mine]


class Host:
    """One host. `home` is its VEDETTE_HOME; pids that are stored there are valid only inside."""

    def __init__(self, number: int, root: str, switch: _Namespaces, *, own_pids: bool) -> None:
        self.name = f"host{number}"
        self.address = f"10.99.0.{number + 1}"
        self.home = os.path.join(root, self.name)
        os.mkdir(self.home, 0o700)
        self._root = root
        self._switch = switch
        self._port = f"port{number}"  # the switch's end of our cable
        self._wire: subprocess.Popen[bytes] | None = None
        self._running: list[subprocess.Popen[str]] = []
        boot = os.path.join(root, self.name + ".boot_id")
        with open(boot, "w") as file:
            file.write(f"{os.urandom(16).hex()}\n")
        if not own_pids:
            shutil.copyfile(_BOOT_ID, boot)
        kinds = ["--net", "--uts", "--mount", *(["--pid", "--mount-proc"] if own_pids else [])]
        self._inside = _Namespaces(kinds, _INIT, self.name, boot)
        switch.do("ip", "link", "add", self._port, "type", "veth", "peer", "eth0", "netns", str(self._inside.pid))
        self._inside.do("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self._inside.do("ip", "link", "set", "eth0", "up")
        self.heal()

    def start(self, what: str | Sequence[str], *args: str, **environ: str) -> "subprocess.Popen[str]":
        """Start a program (argv) or a Python script (its text) here, with pipes; it ends with the host.

        To send it another signal than SIGKILL, use `kill`.
        """
        if isinstance(what, str):
            path = os.path.join(self._root, f"{self.name}-{len(self._running)}.py")
            with open(path, "w") as file:
                file.write(textwrap.dedent(what))
            what = [sys.executable, path]
        surroundings = {key: value for key, value in os.environ.items() if not key.startswith("VEDETTE_")}
        surroundings |= dict.fromkeys(PROGRAMS, "false")
        surroundings |= {"VEDETTE_HOME": self.home, "PYTHONPATH": _SOURCE, **environ}
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        argv = self._inside.enter(*what, *args)
        self._running.append(subprocess.Popen(argv, env=surroundings, cwd=self.home, text=True, **pipes))
        return self._running[-1]

    def run(self, what: str | Sequence[str], *args: str, timeout: float = 60, **environ: str) -> tuple[int, str, str]:
        """Run a program or a script to its end; return (exit code, stdout, stderr)."""
        process = self.start(what, *args, **environ)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err

    def kill(self, process: "subprocess.Popen[str]", number: int) -> None:
        """Send a signal to the started program itself, not to the wrapper that entered the host."""
        for pid in _children(process.pid) if "--pid" in self._inside.kinds else [process.pid]:
            os.kill(pid, number)

    def end_hub(self, number: int = signal.SIGKILL) -> None:
        """Send the hub of this host a signal, and wait until it is gone."""
        home = Home(self.home)
        while home.hub_pid() is not None:
            for pid in self._inside.members():
                if "hub" in _argv(pid) and "vedette" in _argv(pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            time.sleep(0.01)

    def seal(self) -> bool:
        """Make this host's hub seal all that it has; tell whether a hub runs."""
        return self.ask(wire.Seal()) is not None

    def ask(self, message: wire.Message) -> wire.Message | None:
        """Send this host's hub a message; return the answer, or None if no hub runs. This starts no hub."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.settimeout(60)
                peer.connect(Home(self.home).socket)
                peer.sendall(wire.pack_message(wire.Hello(name="test")) + wire.pack_message(message))
                unframer = wire.Unframer(16 << 20)
                while data := peer.recv(1 << 16):
                    for payload in unframer.feed(data):
                        if not isinstance(answer := wire.unpack_message(payload), wire.Hello):
                            return answer
        except OSError:
            pass
        return None

    def small_disk(self, path: str, megabytes: int) -> None:
        """Mount an empty disk at a path; only what runs on this host sees it."""
        os.makedirs(path, mode=0o700, exist_ok=True)
        self._inside.do("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", path)

    def fill(self, path: str) -> None:
        """Fill the disk that a path lies on to the last byte, by a file `ballast` there."""
        self._inside.do("sh", "-c", f"cat /dev/zero > {path}/ballast || true")

    def make_room(self, path: str) -> None:
        """Undo `fill`."""
        self._inside.do("rm", f"{path}/ballast")

    def cut(self) -> None:
        """Pull the cable: both sides see that the link is down."""
        self._switch.do("ip", "link", "set", self._port, "down")

    def half_open(self) -> None:
        """Drop every packet in both directions, while the link looks alive: no side gets an error."""
        self._stop_wire()
        self._switch.do("ip", "link", "set", self._port, "nomaster")

    def heal(self) -> None:
        """Undo cuts, silence and delays."""
        self._stop_wire()
        self._switch.do("ip", "link", "set", self._port, "master", "lan")
        self._switch.do("ip", "link", "set", self._port, "up")

    def delay(
        self, ms: float, jitter_ms: float = 0, reorder_percent: float = 0, loss_percent: float = 0, seed: int = 1
    ) -> None:
        """Make the cable slow and bad, each way; packets that are reordered overtake the others."""
        self.half_open()
        near, far = f"{self._port}-n", f"{self._port}-f"
        self._switch.do("ip", "link", "add", near, "type", "veth", "peer", far)
        self._switch.do("ip", "link", "set", far, "master", "lan")
        for name in (near, far, self._port):
            self._switch.do("ip", "link", "set", name, "up")
        numbers = [str(number) for number in (ms, jitter_ms, reorder_percent, loss_percent, seed)]
        script = os.path.join(_HERE, "slow_wire.py")
        argv = self._switch.enter(sys.executable, script, self._port, near, *numbers)
        self._wire = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._wire.stdout is not None
        assert self._wire.stdout.readline() == b"ready\n", "the slow wire does not begin"

    def _stop_wire(self) -> None:
        if self._wire is not None:
            self._wire.kill()
            self._wire.communicate()
            self._wire = None
            self._switch.do("ip", "link", "del", f"{self._port}-n")

    def end(self) -> None:
        """Switch the host off."""
        if self._wire is not None:
            self._wire.kill()
            self._wire.communicate()
        self._inside.end()
        for process in self._running:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def hosts(count: int, *, own_pids: bool = True) -> Iterator[list[Host]]:
    """Make hosts that reach each other; `own_pids`: each has its own processes and boot id, like real hosts."""
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="vdt-", ignore_cleanup_errors=True))
        switch = _Namespaces(["--net"], _SWITCH)
        stack.callback(switch.end)
        made = []
        for number in range(count):
            made.append(Host(number, root, switch, own_pids=own_pids))
            stack.callback(made[-1].end)
        yield made


def why_not() -> str:
    """Return why no hosts can be made here; empty if they can."""
    if os.geteuid() != 0:
        return "hosts need root, to make namespaces"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"hosts need {', '.join(missing)}"
    try:
        with hosts(1):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or ""
        return f"hosts need namespaces, veth and a bridge: {error} {said}".strip()


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def _argv(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return []


def _network(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0
