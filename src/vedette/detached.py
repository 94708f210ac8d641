"""Programs of vedette's own that a process starts beside itself: a hub, a monitor, the capture of a run."""

import os
from collections.abc import Iterable

# What belongs to the run of whoever starts a program, and to nobody else. A program with VEDETTE_RUN in its
# environment would count as a part of that run, and be ended with it. Where a run's records go (VEDETTE_HUB, with
# VEDETTE_TOKEN) is the run's own choice too.
_OF_THE_RUN = (
    "VEDETTE_RUN", "VEDETTE_TRY", "VEDETTE_RESUME", "VEDETTE_CAPTURED", "VEDETTE_NEW", "VEDETTE_HUB", "VEDETTE_TOKEN",
)  # fmt: skip
_OF_A_SESSION = ("PYTHONINSPECT", "PYTHONSTARTUP")  # with the first a Python would wait for input at its end


def environment(keep: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for a program of vedette's own; `keep` names what it needs of the run's nevertheless."""
    unwanted = {*_OF_THE_RUN, *_OF_A_SESSION}.difference(keep)
    environ = {name: value for name, value in os.environ.items() if name not in unwanted}
    package_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package_root, environ.get("PYTHONPATH"))))
    environ["VEDETTE_MODE"] = "off"  # whatever its Python runs at its start begins no run
    return environ
