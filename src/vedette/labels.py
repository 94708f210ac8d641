"""How a series is written in one word: with its tags, `loss[rank=0]`, and with a statistic of it, `loss.min`."""

from collections.abc import Mapping

STATISTICS = ("last", "min", "max", "mean")


def label(name: str, tags: Mapping[str, str]) -> str:
    """Return a series as one word: its name, and its tags in brackets, sorted."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(tags.items()))
    return f"{name}[{inside}]" if inside else name


def parted(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the tags of such a word; a word without tags at its end is all name."""
    name, bracket, inside = text.removesuffix("]").rpartition("[")
    pairs = [pair.partition("=") for pair in inside.split(",")]
    if not bracket or not name or not text.endswith("]") or not all(key and equals for key, equals, _ in pairs):
        return text, {}
    return name, {key: value for key, _, value in pairs}


def statistic(text: str) -> tuple[str, str]:
    """Return a series and one of its statistics, as in `loss.min`; the statistic is empty if the text names none."""
    series, dot, what = text.rpartition(".")
    return (series, what) if dot and series and what in STATISTICS else (text, "")
