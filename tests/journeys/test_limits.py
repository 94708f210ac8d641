"""Limits that hold: what is over one is refused and counted by its name, and all else is kept."""

from tests.journeys.conftest import eventually, read_runs
from tests.rooms.conftest import call
from vedette.query.losses import losses
from vedette.store.sqlite_file import open_reader


def limited(home):
    """Return how many points were over each limit."""
    store = open_reader(home.store)
    try:
        return losses(store).limited
    finally:
        store.close()


def test_names_that_are_too_long(home, finish):
    """A value under too long a name, or with too long a tag, is refused; those logged with it are kept."""
    code = """
        import vedette
        run = vedette.init()
        for step in range(10):
            run.log({"x": step, "y" * 30: step}, step=step)
        run.metric("z", 1.0, tags={"t": "v" * 30})
    """
    assert finish(code, environ={"VEDETTE_LIMITS_NAME_CHARS": "20"})[0] == 0
    [run] = eventually(lambda: read_runs(home))

    assert [(row.name, row.count) for row in run.series()] == [("x", 10)]
    assert limited(home) == {"limits.name_chars": 11}
    assert "11 points over the limit limits.name_chars" in call("doctor").stdout


def test_series_of_a_run(home, finish):
    """A run has as many series as it may, whatever else it logs; another run has its own."""
    code = """
        import vedette
        for _ in range(2):
            run = vedette.init()
            for step in range(5):
                run.log({f"s{n}": step for n in range(8)}, step=step)
            run.finish()
    """
    assert finish(code, environ={"VEDETTE_LIMITS_SERIES_PER_RUN": "3"})[0] == 0
    runs = eventually(lambda: len(found := read_runs(home)) == 2 and found)

    assert [[row.count for row in run.series()] for run in runs] == [[5, 5, 5], [5, 5, 5]]
    assert limited(home) == {"limits.series_per_run": 2 * 5 * 5}


def test_points_in_a_time(home, finish):
    """A process that logs more points in ten seconds than it may has the rest refused, and counted to the last."""
    code = "import vedette\nrun = vedette.init()\nfor step in range(2000):\n    run.log({'x': step}, step=step)"
    assert finish(code, environ={"VEDETTE_LIMITS_POINTS_PER_S": "10"})[0] == 0
    [run] = eventually(lambda: read_runs(home))
    [row] = run.series()

    assert row.count in (100, 200)  # it may have gone from one window of ten seconds into the next
    assert limited(home) == {"limits.points_per_s": 2000 - row.count}


def test_without_limits_nothing_is_refused(home, finish):
    """The same, by the defaults: all is kept, and nothing is said of limits."""
    code = "import vedette\nrun = vedette.init()\nfor step in range(2000):\n    run.log({'x': step, 'y' * 30: 1}, step)"
    assert finish(code)[0] == 0
    [run] = eventually(lambda: read_runs(home))

    assert {row.count for row in run.series()} == {2000}
    assert limited(home) == {}
