"""How often a test repeats itself: in the suite about a twentieth of what it does under `scripts/soak`."""

import os

SOAK = bool(os.environ.get("SOAK"))


def times(few: int) -> int:
    """Return how many examples, frames or kills to try: so few, or twenty times as many."""
    return few * 20 if SOAK else few
