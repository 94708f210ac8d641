"""A cache of bounded size."""

from vedette.recent import Recent


def test_it_forgets_the_older_half():
    """It never holds more than it may, and what was learned last is there; a known key costs nobody his place."""
    recent = Recent[int, int](4)
    for number in range(100):
        recent[number] = number
        assert len(recent) <= 4
        assert recent.get(number) == number
        assert number == 0 or recent.get(number - 1) == number - 1
    held = list(recent)
    recent[held[0]] = -1

    assert list(recent) == held
