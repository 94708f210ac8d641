"""What `vedette run` costs: its start, and the way of a command's output through it, beside a pipe through cat."""

import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles

_RUN = [sys.executable, "-m", "vedette", "run", "--quiet", "--"]
_LINE = b"epoch 12 step 3456 loss 0.123456 accuracy 0.987654 lr 0.0001\n"


def measure(*, quick: bool, times: int | None) -> Part:
    """Take both ways in turn."""
    rounds = times or (3 if quick else 10)
    part = Part("`vedette run`: a command's output on its way")
    size = (32 if quick else 256) << 20
    with tempfile.TemporaryDirectory(prefix="vdb-") as folder, fresh_home(hub=False):
        path = os.path.join(folder, "lines")
        with open(path, "wb") as file:
            file.write(_LINE * (size // len(_LINE)))
        size = os.path.getsize(path)
        took: dict[str, list[tuple[float, float]]] = {"cat": [], "run": [], "pty": []}
        for _ in range(rounds):
            took["cat"].append(_through(["sh", "-c", f"cat {path} | cat"], path))
            took["run"].append(_through([*_RUN, "cat", path], path))
            took["pty"].append(_in_terminal([*_RUN, "cat", path], size))
        for name, what in (
            ("cat", "`cat FILE | cat`, read from a pipe"),
            ("run", "`vedette run -- cat FILE`, read from a pipe"),
            ("pty", "the same in a terminal"),
        ):
            wall = statistics.median(item[0] for item in took[name])
            cpu = statistics.median(item[1] for item in took[name])
            part.know(
                what,
                f"{size / wall / 1e6:.0f} MB/s, {size / len(_LINE) / wall / 1e6:.2f} million lines/s,"
                f" CPU {cpu / (size / 1e9):.2f} s per GB",
            )
        rss = _peak_of_a_flood(5 if quick else 20)
        part.most("memory of the launcher in a flood (`yes`)", rss, 100, f"{rss:.0f} MB", " MB")
        steady = _steady(3 if quick else 10)
        part.know(
            "CPU of the launcher at 1000 lines a second, all of them taken down", f"{steady * 100:.1f} % of a core"
        )
        starts: dict[str, list[tuple[float, float]]] = {"python -c pass": [], "vedette run -- true": []}
        for _ in range(rounds * 2):
            starts["python -c pass"].append(_start([sys.executable, "-c", "pass"]))
            starts["vedette run -- true"].append(_start([*_RUN, "true"]))
        for name, both in starts.items():
            wall, cpu = (quartiles([item[which] for item in both]).show(".1f", " ms") for which in (0, 1))
            part.know(f"`{name}`", f"{wall}, CPU {cpu}")
    part.note(
        f"{rounds} rounds, in turn, of {size >> 20} MiB in lines of {len(_LINE)} bytes; medians, with the start. All"
        " bytes come through; of lines 20,000 at once and 5000 a second in the long run are taken down, and the rest"
        " is counted."
    )
    return part


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _through(words: list[str], path: str) -> tuple[float, float]:
    before, begin = _children_cpu_s(), time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        total = 0
        while data := os.read(process.stdout.fileno(), 1 << 20):
            total += len(data)
    assert total == os.path.getsize(path), (total, process.returncode)
    return time.perf_counter() - begin, _children_cpu_s() - before


def _in_terminal(words: list[str], size: int) -> tuple[float, float]:
    before, begin = _children_cpu_s(), time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(words[0], words)
    total = 0
    while True:
        try:
            total += len(os.read(terminal, 1 << 20))
        except OSError:
            break
    os.waitpid(pid, 0)
    os.close(terminal)
    assert total >= size, total
    return time.perf_counter() - begin, _children_cpu_s() - before


def _peak_of_a_flood(seconds: int) -> float:
    process = subprocess.Popen([*_RUN, "timeout", str(seconds), "yes"], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as file:
                peak = max([peak, *(int(line.split()[1]) for line in file if line.startswith("VmHWM"))])
        except OSError:
            break
        time.sleep(0.1)
    process.wait()
    return peak / 1000


def _steady(seconds: int) -> float:
    code = (
        "import time\nend = time.monotonic() + %d\nwhile time.monotonic() < end:\n"
        "    print(*['a line of the usual length, with some numbers 0.123'] * 10, sep='\\n', flush=True)\n"
        "    time.sleep(0.01)"
    )  # fmt: skip
    process = subprocess.Popen([*_RUN, sys.executable, "-c", code % seconds], stdout=subprocess.DEVNULL)
    time.sleep(seconds * 0.3)
    begin, before = time.perf_counter(), _ticks(process.pid)
    time.sleep(seconds * 0.5)
    used = (_ticks(process.pid) - before) / os.sysconf("SC_CLK_TCK")
    share = used / (time.perf_counter() - begin)
    process.wait()
    return share


def _ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _start(words: list[str]) -> tuple[float, float]:
    before, begin = _children_cpu_s(), time.perf_counter()
    subprocess.run(words, check=True)
    return (time.perf_counter() - begin) * 1e3, (_children_cpu_s() - before) * 1e3
