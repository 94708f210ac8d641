"""The displays of a notebook, without a kernel: how one that breaks leaves the others alone."""

import types

from tests.journeys.conftest import eventually
from vedette.attached.display import Display
from vedette.attached.panels import Panel
from vedette.views.notebook import Shown


class Counting(Panel):
    """A panel that shows how often it has looked; `breaks`: it cannot look."""

    is_busy = True
    is_over = False

    def __init__(self, *, breaks=False):
        super().__init__()
        self.breaks, self.looks = breaks, 0

    def look(self):
        self.looks += 1
        if self.breaks:
            raise RuntimeError("a panel that cannot look")

    def render(self):
        return Shown("", str(self.looks))


def test_a_panel_that_breaks():
    """It stays as it was, and is dropped; those beside it, and later ones, are kept up to date."""
    shown = {}

    def publish(bundle, _metadata, transient, update=False):
        shown[transient["display_id"]] = bundle["text/plain"]

    display = Display(types.SimpleNamespace(display_pub=types.SimpleNamespace(publish=publish)))
    broken, beside, later = Counting(breaks=True), Counting(), Counting()
    display._open(broken)
    display._open(beside)
    eventually(lambda: int(shown[beside.id]) > 1, 10)
    display._open(later)
    eventually(lambda: int(shown[later.id]) > 1, 10)
    assert (broken.looks, shown[broken.id]) == (1, "0")
    beside.is_over = later.is_over = True
    eventually(lambda: display._thread is None, 10)
