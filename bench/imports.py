"""What `import vedette` and the first `vedette.init` cost a program that has just started."""

import os
import subprocess
import tempfile
from collections import defaultdict

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios

_PYTHON = os.path.join(".peers", "bin", "python")
_CLOCKS = "from time import perf_counter as wall, process_time as cpu\n"
_IMPORT = _CLOCKS + "w, c = wall(), cpu()\nimport {}\nprint(wall() - w, cpu() - c)"
_INIT = (
    _CLOCKS
    + "import vedette\nw, c = wall(), cpu()\nrun = vedette.init()\nprint(wall() - w, cpu() - c)\n"
    + "import os; os._exit(0)"
)


def measure(*, quick: bool, times: int | None) -> Part:
    """Start fresh processes in turn, and let each one time its own import."""
    rounds = times or (8 if quick else 40)
    part = Part("the start of a program, in fresh processes")
    peers = os.path.exists(_PYTHON)
    took: dict[str, list[float]] = defaultdict(list)
    with fresh_home(hub=False), tempfile.TemporaryDirectory(prefix="vdb-") as folder:
        environ = os.environ | {"TRACKIO_DIR": folder, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        codes = {"vedette": _IMPORT.format("vedette"), "init": _INIT}
        codes |= {"trackio": _IMPORT.format("trackio")} if peers else {}
        for number in range(rounds + 1):
            for name, code in codes.items():
                wall_s, cpu_s = _fresh(code, environ)
                if number:  # the first one fills the kernel's cache
                    took[name].append(wall_s * 1e3)
                    took[name + "-cpu"].append(cpu_s * 1e3)
    for _ in range(max(2, rounds // 8)):
        with fresh_home(hub=True):
            wall_s, cpu_s = _fresh(_INIT, dict(os.environ))
            took["spawn"].append(wall_s * 1e3)
            took["spawn-cpu"].append(cpu_s * 1e3)
    if peers:
        share = ratios(took["vedette"], took["trackio"])
        figure = share.show(".4f", "")
        part.judge("`import vedette` over `import trackio`", figure, "< 0.1", share.median < 0.1)
        part.know("`import trackio`", _both(took, "trackio"))
    part.know("`import vedette`", _both(took, "vedette"))
    part.know("the first `vedette.init()`, which imports the client, while a hub lives", _both(took, "init"))
    part.know("the same where it has to start the hub", _both(took, "spawn"))
    part.note(f"{rounds} fresh processes of each, in turn, of one interpreter; the ratio is of wall time.")
    return part


def _both(took: dict[str, list[float]], name: str) -> str:
    return f"{quartiles(took[name]).show('.1f', ' ms')}, CPU {quartiles(took[name + '-cpu']).show('.1f', ' ms')}"


def _fresh(code: str, environ: dict[str, str]) -> tuple[float, float]:
    python = _PYTHON if os.path.exists(_PYTHON) else os.path.join(".venv", "bin", "python")
    done = subprocess.run([python, "-c", code], env=environ, capture_output=True, text=True, check=True)
    wall_s, cpu_s = done.stdout.split()[-2:]
    return float(wall_s), float(cpu_s)
