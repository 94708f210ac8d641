"""The first screen: hosts above, runs below, and a status line with filter, order and errors."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from vedette.query.overview import Overview
from vedette.views.text import clean
from vedette.views.top import paint
from vedette.views.top.columns import ORDERS, ordered
from vedette.views.top.feed import Look
from vedette.views.top.table import RunTable

_NOTHING = """Nothing has been logged to this home yet.

  vedette run -- python train.py     runs any command, and shows it here
  vedette.init()                     in a script begins a run

A run appears here by itself as soon as it begins."""


class MainScreen(Screen[None]):
    """Shows all runs and hosts."""

    DEFAULT_CSS = """
    MainScreen #hosts { height: auto; max-height: 6; background: $panel; }
    MainScreen #empty { height: 1fr; padding: 1 2; display: none; }
    MainScreen #status { height: 1; color: $text-muted; background: $surface; }
    MainScreen #filter { display: none; height: 1; border: none; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "app.help", "help", key_display="?"),
        Binding("q", "app.leave", "leave"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("a", "app.all", "all"),
        Binding("l", "app.open_logs", "logs"),
        Binding("m", "app.metric", "metric"),
        Binding("x", "app.stop_run", "stop"),
        Binding("escape", "clear", "clear", show=False),
    ]

    def __init__(self, where: str = "") -> None:
        super().__init__()
        self._where = where
        self._sort = ORDERS[0]
        self._look: Look | None = None

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield Static(id="hosts", markup=False)
        yield RunTable()
        yield Static(Content("reading ..."), id="empty", markup=False)
        yield Input(self._where, placeholder="words, or state = failed and config.lr > 0.1", id="filter")
        yield Static(id="status", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Focus the table."""
        self.query_one(RunTable).focus()
        if self._look is not None:
            self.show(self._look)

    def show(self, look: Look) -> None:
        """Show what the feed has read."""
        self._look = look
        if not self.query("#status"):  # it has no widgets yet, or no longer
            return
        seen = look.overview
        table, empty = self.query_one(RunTable), self.query_one("#empty", Static)
        if seen is not None and not look.mistake:
            self.query_one("#hosts", Static).update(paint.hosts(seen.hosts, self.size.width or 80))
            table.show(ordered(seen.runs, self._sort))
        if not look.mistake:
            reason = self._why_empty(look, seen)
            empty.display, table.display = bool(reason), not reason
            empty.update(Content(reason))
            self.query_one("#hosts", Static).display = seen is not None and bool(seen.hosts)
        self.query_one("#status", Static).update(self._status(look, seen))

    @staticmethod
    def _why_empty(look: Look, seen: Overview | None) -> str:
        if seen is None or seen.is_new:
            return _NOTHING
        if seen.runs:
            return ""
        if look.options.where:
            return "No run matches the filter: / changes it, esc clears it" + (
                "." if look.options.ended else ", a includes runs that ended long ago."
            )
        return "Nothing is running, and nothing has ended just now: a shows earlier runs."

    def _status(self, look: Look, seen: Overview | None) -> Content:
        parts: list[tuple[str, str] | str] = []
        if look.mistake:
            parts.append((clean(look.mistake, one_line=True).replace("--where ", "") + "  ", "bold $text-error"))
        if look.trouble:
            parts.append((clean(look.trouble, one_line=True) + "  ", "bold $text-warning"))
        if seen is not None:
            parts.append(f"{seen.alive} alive, {seen.ended} ended  by {self._sort}")
        if look.options.where:
            parts.append(f"  / {clean(look.options.where, one_line=True)}")
        return Content.assemble(*parts).truncate(max(10, self.size.width), ellipsis=True)

    def on_resize(self) -> None:
        """Fit to the new width."""
        if self._look is not None:
            self.show(self._look)

    def action_sort(self) -> None:
        """Sort by the next order."""
        self._sort = ORDERS[(ORDERS.index(self._sort) + 1) % len(ORDERS)]
        if self._look is not None:
            self.show(self._look)

    def action_filter(self) -> None:
        """Show the input for the filter."""
        box = self.query_one("#filter", Input)
        box.display = True
        self.set_focus(box)  # at once, so that the next key goes there

    def on_input_submitted(self) -> None:
        """Keep the filter, and go back to the table."""
        box = self.query_one("#filter", Input)
        box.display = False
        self._back_to_table()

    def action_clear(self) -> None:
        """Clear the filter."""
        box = self.query_one("#filter", Input)
        box.value = ""
        box.display = False
        self._back_to_table()

    def _back_to_table(self) -> None:
        self.set_focus(self.query_one(RunTable))
