"""What `run.save` costs the program, against a plain copy of the same file."""

import os
import shutil
import tempfile
import time

from bench.place import fresh_home
from bench.report import Part
from bench.spread import quartiles, ratios

_SIZES = {"10 kB": 10_000, "1 MB": 1_000_000, "100 MB": 100_000_000}


def measure(*, quick: bool, times: int | None) -> Part:
    """Alternate saves and copies of the same new file, and compare."""
    rounds = times or (5 if quick else 21)
    part = Part("what `run.save` costs the program, in time")
    with fresh_home(hub=True), tempfile.TemporaryDirectory(prefix="vdb-") as folder:
        import vedette

        run = vedette.init(console=False, usage=False)
        for name, size in _SIZES.items():
            _of_size(part, run, folder, name, size, rounds)
        run.finish()
    part.note(f"{rounds} rounds of each, every one with new random bytes; the copy is `shutil.copyfile`, beside it.")
    part.note(
        "A save copies, takes the sha256 of the copy, renames and appends a fact; nothing is flushed in the call."
    )
    return part


def _of_size(part: Part, run: object, folder: str, name: str, size: int, rounds: int) -> None:
    saved, copied, again = [], [], []
    path = os.path.join(folder, "file")
    for _ in range(rounds):
        with open(path, "wb") as file:
            file.write(os.urandom(size))
        begun = time.perf_counter()
        run.save(path)
        saved.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        shutil.copyfile(path, path + ".copy")
        copied.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        run.save(path)
        again.append(time.perf_counter() - begun)
    ms = [quartiles([1000 * took for took in case]).show(".2f", " ms") for case in (saved, again)]
    part.know(f"a save of {name}, new / here already", " / ".join(ms))
    part.know(f"a save of {name}, new, against a plain copy", ratios(saved, copied).show(".1f", "x"))
