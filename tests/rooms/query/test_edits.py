"""What an edit of a run may say, from the command line and from the page."""

import pytest

from tests.rooms.conftest import BORN
from vedette.errors import VedetteError
from vedette.model import Span
from vedette.query.edits import attrs_of, running_in
from vedette.query.runs import view


def test_what_is_given_is_set():
    """Only what is given becomes an attribute; a name is set without the spaces around it."""
    assert attrs_of(tags={}) == {}
    attrs = attrs_of(name=" new ", description="", star=False, tags={"a.b": True, "c": False})
    assert attrs == {"name": "new", "description": "", "star": False, "tag.a.b": True, "tag.c": False}


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        ({"name": " "}, "a name has from 1 to 200 characters"),
        ({"name": "x" * 201}, "a name has from 1 to 200 characters"),
        ({"notes": "x" * 100_001}, "notes has 100000 characters at most"),
        ({"tags": {"": True}}, "a tag has from 1 to 200 characters"),
        ({"tags": {"x" * 201: True}}, "a tag has from 1 to 200 characters"),
        ({"tags": {str(n): True for n in range(101)}}, "100 tags at most"),
    ],
)
def test_what_is_too_much_is_refused(edit, sentence):
    """A text that is empty or too long is refused in a sentence."""
    with pytest.raises(VedetteError, match=sentence):
        attrs_of(**{"tags": {}, **edit})


def test_a_run_that_runs_or_has_one_below_that_does(store, make):
    """A run that is running, or that began one that is, is found."""
    make.run("a")
    make.run("b", state="running", heard_t=1 << 62)
    make.facts("b", Span("b", BORN, parent="a"))
    make.run("c")

    assert running_in(view(store, "c")) is None
    assert [running_in(view(store, name)).id for name in ("a", "b")] == ["b", "b"]
