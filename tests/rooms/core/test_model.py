"""Ids, which name things for ever."""

from vedette.model import looks_like_run, new_id


def test_runs_of_one_second():
    """Thousands of runs that a cluster begins in the same second have each an id of its own."""
    ids = [new_id() for _ in range(5000)]

    assert len(set(ids)) == 5000
    assert all(looks_like_run(one) for one in ids)
