"""What could stop a hub: very many runs, dead processes, series, or damage. Others are served meanwhile."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import vedette
from bench.place import fresh_home
from bench.report import Part
from vedette import wire
from vedette.access.home_access import HomeAccess
from vedette.access.hub_socket import ask
from vedette.home import Home
from vedette.model import LANE_SAMPLES, Origin, Sample
from vedette.segment import Header, pack_header, segment_name
from vedette.tail import Tail

_FILES = 256  # that the hub may open
_SEQUENCE = """
    import sys, time, vedette
    for number in range(int(sys.argv[1])):
        with vedette.init(name=f"r{number}", console=False) as run:
            run.log({"x": float(number)})
    print("done", flush=True)
    time.sleep(3600)
"""
_DEAD = """
    import os, signal, sys, vedette
    from vedette import client
    for number in range(int(sys.argv[1])):
        pid = os.fork()
        if pid == 0:
            vedette.init(name=f"d{number}", console=False, resume=False).log({"x": float(number)})
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
"""
_WIDE = """
    import sys, vedette
    run = vedette.init(name="wide", console=False)
    if sys.argv[2] == "one by one":
        for number in range(int(sys.argv[1])):
            run.log({f"m{number}": 0.5 * number}, step=number)
    else:
        run.log({f"m{number}": 0.5 * number for number in range(int(sys.argv[1]))})
    run.finish()
"""


_ONLOOKER = """
    import time, vedette
    run = vedette.init(name="onlooker", console=False)
    while True:
        run.mark(str(time.time()))
        time.sleep(0.1)
"""


class Onlooker:
    """Another program that logs ten times a second, and how old its points are when they can be read."""

    def __init__(self, home: Home) -> None:
        self.oldest_s = 0.0
        self.looks = 0
        self._home = home
        self._over = threading.Event()
        environ = {**os.environ, "VEDETTE_HOME": home.root}
        self._process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(_ONLOOKER)], env=environ)
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._process.kill()
        self._process.wait()

    def _look(self) -> None:
        access = HomeAccess(self._home)
        while not self._over.wait(0.2):
            try:
                row = access.reader().connection.execute("SELECT max(t) FROM events WHERE kind = 'mark'").fetchone()
            except Exception:  # there is no store yet
                continue
            if row[0] is not None:
                self.oldest_s = max(self.oldest_s, time.time() - row[0] / 1e9)
                self.looks += 1


def measure(*, quick: bool, times: int | None) -> Part:
    """Measure each of them."""
    part = Part("what could stop a hub, and what it costs the others")
    _many_runs(part, 300 if quick else times or 20_000, 60 if quick else 3000)
    for how in ("one by one", "in one record"):
        _many_series(part, 5000 if quick else 50_000, how)
    _damage(part)
    return part


def _hub(home: Home) -> "subprocess.Popen[bytes]":
    words = f"ulimit -n {_FILES}; exec {sys.executable} -m vedette hub --quiet --set hub.idle_s=3600 --home {home.root}"
    hub = subprocess.Popen(["sh", "-c", words], env={**os.environ, "VEDETTE_HOME": home.root})
    while home.hub() is None:
        time.sleep(0.05)
    return hub


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _run(home: Home, code: str, *words: str, **kwargs: Any) -> "subprocess.Popen[str]":
    environ = {**os.environ, "VEDETTE_HOME": home.root, "VEDETTE_CAPTURE_ENABLE": "false",
               "VEDETTE_LIMITS_SERIES_PER_RUN": "1000000"}  # fmt: skip
    command = [*kwargs.pop("before", ()), sys.executable, "-c", textwrap.dedent(code), *words]
    return subprocess.Popen(command, env=environ, text=True, stdout=subprocess.PIPE, **kwargs)


def _many_runs(part: Part, runs: int, dead: int) -> None:
    with fresh_home(hub=True) as home:
        lock = home.take_lock()  # no hub looks while they die
        _run(home, _DEAD, str(dead), before=("unshare", "--pid", "--fork", "--mount-proc")).communicate()
        os.close(lock or 0)
        waiting = len(os.listdir(home.spool))
        hub = _hub(home)
        most = 0
        with Onlooker(home) as onlooker:
            living = _run(home, _SEQUENCE, str(runs))
            while living.poll() is None and not _said_done(living):
                most = max(most, len(os.listdir(f"/proc/{hub.pid}/fd")))
            while len(os.listdir(home.spool)) > 10:
                most = max(most, len(os.listdir(f"/proc/{hub.pid}/fd")))
                time.sleep(0.5)
        time.sleep(5)
        before, begun = _cpu_s(hub.pid), time.monotonic()
        time.sleep(10)
        share = (_cpu_s(hub.pid) - before) / (time.monotonic() - begun)
        os.environ["VEDETTE_HOME"] = home.root
        found = [run for run in vedette.runs() if run.name != "onlooker"]
        states = {state: sum(run.state == state for run in found) for state in ("done", "ended", "running")}
        living.kill()
        living.communicate()
        ask(home, wire.Leave())
        hub.wait()
    names = f"{runs} runs in sequence in a living process, {dead} processes dead in another namespace"
    part.judge(f"{names}: descriptors of the hub, of {_FILES}", f"at most {most}", "< 200", most < 200)
    part.judge("the same: CPU of the hub when all is read", f"{share:.2%} of a core", "< 2 %", share < 0.02)
    oldest = onlooker.oldest_s
    part.judge("the same: the oldest commit for another program", f"{oldest:.2f} s", "< 2 s", oldest < 2)
    right = (states["done"], states["ended"]) == (runs, dead)
    part.judge("the same: runs done, and ended", f"{states['done']}, {states['ended']}", f"{runs}, {dead}", right)
    part.note(
        f"{waiting} spools of the dead waited when the hub began. The other was looked at {onlooker.looks} times."
    )


def _said_done(process: "subprocess.Popen[str]") -> bool:
    import select

    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0.2)[0]) and "done" in process.stdout.readline()


def _many_series(part: Part, count: int, how: str) -> None:
    with fresh_home(hub=True) as home:
        hub = _hub(home)
        ask(home, wire.Edit(["nobody"], {"note": "the hub is warm"}))
        with Onlooker(home) as onlooker:
            time.sleep(3)
            before = _cpu_s(hub.pid)
            _run(home, _WIDE, str(count), how).communicate()
            ask(home, wire.Seal(""))
            cpu_s = _cpu_s(hub.pid) - before
            health = HomeAccess(home).health()
        os.environ["VEDETTE_HOME"] = home.root
        [run] = [run for run in vedette.runs() if run.name == "wide"]
        right = len([row for row in run.series() if row.name.startswith("m")])
        ask(home, wire.Leave())
        hub.wait()
    longest = health.longest_turn_s if health is not None else float("inf")
    names = f"{count} series of one point, {how}"
    part.judge(f"{names}: CPU of the hub until they are sealed", f"{cpu_s:.1f} s", "< 10 s", cpu_s < 10)
    part.judge(f"{names}: the longest turn of the hub", f"{longest:.2f} s", "< 0.5 s", longest < 0.5)
    part.judge(f"{names}: there", f"{right}", f"{count}", right == count)
    part.know(f"{names}: the oldest commit for another program", f"{onlooker.oldest_s:.2f} s")


_SEGMENT_BYTES = 4 << 20
_SPOILS: dict[str, Callable[[bytes, int], bytes]] = {
    "altered": lambda frame, _: frame[:10] + bytes([frame[10] ^ 1]) + frame[11:],
    "with a length of a megabyte": lambda _, number: (0xF0000 + number).to_bytes(4, "little") + b"\1\2\3\4\x94",
    "like the end of the segment": lambda _frame, _number: b"\xff" * 12,
}


def _spoiled(spoil: Callable[[bytes, int], bytes]) -> tuple[bytes, int]:
    """Return a segment of which every other record is damaged, and how many are sound."""
    origin = Origin("o", "host", "boot", 1, 2, "run", "run/1/o")
    data = bytearray(pack_header(Header(LANE_SAMPLES, 0, _SEGMENT_BYTES, origin)))
    number = 0
    while len(data) < _SEGMENT_BYTES - 1000:
        frame = wire.frame(wire.encode(Sample(10**18 + number, number, {"x": 0.5 * number})))
        data += spoil(frame, number) if number % 2 else frame
        number += 1
    return bytes(data).ljust(_SEGMENT_BYTES, b"\0"), (number + 1) // 2


def _damage(part: Part) -> None:
    for name, spoil in _SPOILS.items():
        with tempfile.TemporaryDirectory() as directory:
            data, sound = _spoiled(spoil)
            with open(os.path.join(directory, segment_name(LANE_SAMPLES, 0)), "wb") as file:
                file.write(data)
            begun = time.process_time()
            tail, found, before = Tail(directory, LANE_SAMPLES), 0, -1
            while tail.offset != before:
                before = tail.offset
                found += len(tail.read(gone=True))
            took_s = time.process_time() - begun
        part.judge(
            f"a segment of 4 MiB, every other record {name}: sound ones found", f"{found}", f"{sound}", found == sound
        )
        part.judge("the same: CPU", f"{took_s:.2f} s", "< 3 s", took_s < 3)
