"""How often a test repeats itself: in the suite about a twentieth of what it does under `scripts/soak`, and a quarter
of that under `scripts/check`.
"""

import os

SOAK = bool(os.environ.get("SOAK"))
CHECK = bool(os.environ.get("CHECK"))


def times(few: int) -> int:
    """Return how many examples, frames or kills to try: so few, or twenty times as many, or fewer still."""
    return few * 20 if SOAK else max(1, few // 4) if CHECK else few
