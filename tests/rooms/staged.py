"""Pairs of runs of which the true cause of their difference is known, with noise around it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.rooms.conftest import Maker
from vedette.model import Span
from vedette.query.explain import Explanation, explain
from vedette.query.runs import view

TRAIN = '"""Train."""\nimport numpy as np\nfrom model import forward\n\nscale = 1.0\nprint(forward(scale))\n'
MODEL = "def forward(x):\n    # twice\n    return x * 2\n"
FILES = {
    "train.py": TRAIN,
    "model.py": MODEL,
    "other/evaluate.py": "print(1)\n",
    "tests/test_model.py": "def test(): pass\n",
    "README.md": "# Hello\n",
}
CONFIG = {
    "lr": 0.1, "seed": 7, "batch_size": 32, "model": {"name": "mlp", "depth": 3}, "output_dir": "/out/a",
    "run_name": "alpha", "num_workers": 2, "logging": {"level": "info"}, "started": "2026-01-02T03:04:05",
}  # fmt: skip
PACKAGES = {"numpy": "2.1.0", "rich": "13.7.0", "requests": "2.31.0", "tinylib": "1.0", "torch": "2.4.0"}
MACHINE = {
    "host": "camp-1", "cpu": {"model": "Xeon 1", "count": 8}, "memory_bytes": 64 << 30,
    "gpu": {"names": ["A100"], "driver": "550.1"}, "python": "3.11.4", "os": "Linux-6.1",
}  # fmt: skip
DATA = {"train.csv": "a" * 64, "vocab.txt": "b" * 64}


class Stage:
    """Makes runs of given parts, and keeps the bytes that they name."""

    def __init__(self, make: Maker) -> None:
        self.make = make
        self.blobs: dict[str, bytes] = {}

    def keep(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def run(self, id: str, values: Any = None, **parts: Any) -> str:  # noqa: A002
        """Make a run; a part that is not given is as in every other."""
        files: Mapping[str, str] = parts.pop("files", FILES)
        manifest = [
            {"path": path, "digest": self.keep(text.encode()), "size": len(text), "mode": 420}
            for path, text in sorted(files.items())
        ]
        attrs = {
            "config": parts.pop("config", CONFIG),
            "code": {"digest": self.keep(json.dumps(manifest).encode())},
            "packages": {"digest": self.keep(json.dumps(parts.pop("packages", PACKAGES)).encode())},
            "argv": parts.pop("argv", ["python", "train.py"]),
            "cwd": f"/home/{id}",
            "git": parts.pop("git", {"commit": "c" * 40, "branch": "main", "dirty": False}),
            "data": parts.pop("data", DATA),
            "env": parts.pop("env", {"OMP_NUM_THREADS": "4"}),
            **parts.pop("machine", MACHINE),
            **parts,
        }
        self.make.run(id, **attrs)
        if values is not None:
            self.make.points(id, "loss", list(values))
        return id

    def resume(self, run: str) -> None:
        """Say that a run has two tries."""
        for n in (1, 2):
            self.make.facts(run, Span(f"{run}/{n}", 1_790_000_000 * 10**9, kind="try", parent=run, attrs={"n": n}))

    def explain(self, a: str, b: str) -> Explanation:
        store = self.make.store
        return explain(view(store, a), view(store, b), self.blobs.get)


NOISE = {
    "config": CONFIG | {"output_dir": "/out/b", "run_name": "beta", "num_workers": 8, "logging": {"level": "debug"},
                        "started": "2026-02-03T04:05:06"},
    "files": FILES | {"README.md": "# Bye\n", "tests/test_model.py": "def test(): assert True\n",
                      "model.py": MODEL.replace("twice", "two times")},
    "packages": PACKAGES | {"rich": "14.0.0", "requests": "2.32.0", "unrelated": "3"},
    "machine": MACHINE | {"host": "camp-2"},
    "git": {"commit": "d" * 40, "branch": "try", "dirty": True},
}  # fmt: skip

START = np.exp(-np.arange(50) / 10)
OTHER = START * 1.3  # differs from the first step on
LATER = np.where(np.arange(50) < 30, START, START * 1.01)


def noisy(**changed: Any) -> dict[str, Any]:
    """Return the noise, with one more change in it."""
    return {
        name: NOISE.get(name, {}) | value if isinstance(value, dict) else value for name, value in changed.items()
    } | {name: value for name, value in NOISE.items() if name not in changed}


# what it is called: (what the second run has, its values, kind and key of the true cause)
PAIRS: dict[str, tuple[dict[str, Any], Any, tuple[str, str]]] = {
    "a config key": (noisy(config={"lr": 0.01}), OTHER, ("config", "config.lr")),
    "a nested config key": (
        noisy(config={"model": {"name": "mlp", "depth": 4}}), OTHER, ("config", "config.model.depth")
    ),
    "an unknown config key": (noisy(config={"zeta": 3}), OTHER, ("config", "config.zeta")),
    "a config key and the seed": (noisy(config={"lr": 0.01, "seed": 8}), OTHER, ("config", "config.lr")),
    "an unknown key and the seed": (noisy(config={"zeta": 3, "seed": 8}), OTHER, ("config", "config.zeta")),
    "a line of code": (noisy(files={"train.py": TRAIN.replace("1.0", "1.5")}), OTHER, ("code", "train.py")),
    "a line of a module": (noisy(files={"model.py": MODEL.replace("x * 2", "x * 3")}), OTHER, ("code", "model.py")),
    "code and the seed": (
        noisy(files={"train.py": TRAIN.replace("1.0", "2.0")}, config={"seed": 8}), OTHER, ("code", "train.py")
    ),
    "a package": (noisy(packages={"numpy": "2.2.0"}), OTHER, ("packages", "numpy")),
    "a package's patch": (noisy(packages={"torch": "2.4.1"}), OTHER, ("packages", "torch")),
    "a seed": (noisy(config={"seed": 8}), OTHER, ("seed", "config.seed")),
    "a seed, though a package too": (
        noisy(config={"seed": 8}, packages={"numpy": "2.2.0"}), OTHER, ("seed", "config.seed")
    ),
    "hardware": (noisy(machine={"gpu": {"names": ["H100"], "driver": "550.1"}}), LATER, ("hardware", "gpu.names")),
    "a processor": (noisy(machine={"cpu": {"model": "EPYC", "count": 8}}), LATER, ("hardware", "cpu.model")),
    "data": (noisy(data=DATA | {"train.csv": "e" * 64}), OTHER, ("data", "train.csv")),
    "data and the seed": (noisy(data=DATA | {"train.csv": "e" * 64}, config={"seed": 8}), OTHER, ("data", "train.csv")),
    "an option": (noisy(argv=["python", "train.py", "--momentum", "0.9"]), OTHER, ("command", "--momentum")),
    "another program": (noisy(argv=["python", "evaluate.py"]), OTHER, ("command", "argument 1")),
    "hash randomization": (noisy(env={"PYTHONHASHSEED": "1"}), OTHER, ("environment", "env.PYTHONHASHSEED")),
    "hardware, late, though a knob too": (
        noisy(machine={"gpu": {"names": ["H100"], "driver": "550.1"}}, config={"dropout": 0.1}), LATER,
        ("hardware", "gpu.names"),
    ),
    "a schedule, late": (
        noisy(machine={"gpu": {"names": ["H100"], "driver": "550.1"}}, config={"warmup_steps": 30}), LATER,
        ("config", "config.warmup_steps"),
    ),
    "more epochs": (noisy(config={"epochs": 30}), START[:30], ("config", "config.epochs")),
}  # fmt: skip
