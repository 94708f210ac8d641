"""The lines of a run: wrapped to the width, followed as they come, filtered by a text."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from vedette.store import EventRow
from vedette.views.text import clean

_MOST = 5000  # events that can be scrolled through
_MOST_ROWS = 200  # rows of one event
_HEAD = 11  # cells for the time and a letter
_LETTERS = {10: "d", 20: " ", 30: "w", 40: "e", 50: "c"}


class LogView(ScrollView, can_focus=True):
    """Shows events, and follows them as long as the end is visible."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log--{name}" for name in ("dim", "warning", "error", "mark", "found")}
    DEFAULT_CSS = """
    LogView { height: 1fr; background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    LogView > .log--dim { color: $text-muted; }
    LogView > .log--warning { color: $text-warning; }
    LogView > .log--error { color: $text-error; }
    LogView > .log--mark { color: $text-secondary; }
    LogView > .log--found { background: $warning 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("g", "scroll_home", "first", show=False),
        Binding("G,f", "follow", "follow"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._events: deque[EventRow] = deque(maxlen=_MOST)
        self._rows: list[tuple[str, str, str]] = []  # head, text, style
        self._search = ""
        self._width = 0
        self.passed = 0  # events that were dropped here, as they are too old

    @property
    def is_following(self) -> bool:
        """Whether the end is visible."""
        return self.scroll_offset.y >= self.max_scroll_y

    def add(self, events: Iterable[EventRow]) -> None:
        """Add events."""
        new = list(events)
        if not new:
            return
        self.passed += max(0, len(self._events) + len(new) - _MOST)
        self._events.extend(new)
        if len(self._rows) > 4 * _MOST:  # drop the rows of old events now and then
            self._wrap()
        else:
            self._rows += [row for event in new for row in self._rows_of(event)]
            self._fit(following=self.is_following)

    def search(self, text: str) -> None:
        """Show only events that contain this text, ignoring case; all if it is empty."""
        self._search = text.lower()
        self._wrap()

    def on_resize(self, _: Resize) -> None:
        """Wrap again if the width has changed."""
        if self.size.width != self._width:
            self._wrap()

    def _wrap(self) -> None:
        following = self.is_following
        self._width = self.size.width
        self._rows = [row for event in self._events for row in self._rows_of(event)]
        self._fit(following=following)

    def _fit(self, *, following: bool) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows))
        if following:
            self.call_after_refresh(self.scroll_end, animate=False, immediate=True)
        self.refresh()

    def _rows_of(self, event: EventRow) -> list[tuple[str, str, str]]:
        text = clean(event.text).expandtabs().rstrip("\n")
        trace = event.attrs.get("exception")
        if isinstance(trace, str):
            text = f"{text}\n{clean(trace).expandtabs()}".strip("\n")
        if self._search and self._search not in text.lower():
            return []
        style = "error" if event.level >= 40 else "warning" if event.level >= 30 else ""
        if not style:
            style = "mark" if event.kind == "mark" else "dim" if event.level < 20 else ""
        room = max(10, self.size.width - _HEAD)
        at = datetime.fromtimestamp(event.t / 1e9).astimezone().strftime("%H:%M:%S")
        letter = "▸" if event.kind == "mark" else _LETTERS.get(event.level // 10 * 10, " ")
        rows: list[tuple[str, str, str]] = []
        for line in text.split("\n"):
            for part in [line] if cell_len(line) <= room else chop_cells(line, room):
                rows.append((" " * _HEAD if rows else f"{at} {letter} ", part, style))
                if len(rows) >= _MOST_ROWS:
                    return [*rows, (" " * _HEAD, "(and more: `vedette logs` shows all of it)", "dim")]
        return rows

    def render_line(self, y: int) -> Strip:
        """Draw a row."""
        row = y + self.scroll_offset.y
        base, width = self.rich_style, self.size.width
        if not 0 <= row < len(self._rows):
            if row == 0 and y == 0:
                message = "no line contains this" if self._search else "no lines yet"
                return Strip([Segment(message, base + self.get_component_rich_style("log--dim"))]).adjust_cell_length(
                    width, base
                )
            return Strip.blank(width, base)
        head, text, name = self._rows[row]
        dim = self.get_component_rich_style("log--dim")
        style = base + self.get_component_rich_style(f"log--{name}") if name else base
        segments = [Segment(head, base + dim), *self._parts(text, style)]
        return Strip(segments).adjust_cell_length(width, base)

    def _parts(self, text: str, style: Style) -> list[Segment]:
        low = text.lower()
        if not self._search or len(low) != len(text):
            return [Segment(text, style)]
        found = style + self.get_component_rich_style("log--found")
        parts = []
        at = 0
        while (hit := low.find(self._search, at)) >= 0:
            parts += [Segment(text[at:hit], style), Segment(text[hit : hit + len(self._search)], found)]
            at = hit + len(self._search)
        return [part for part in [*parts, Segment(text[at:], style)] if part.text]

    def action_follow(self) -> None:
        """Go to the end, and stay there."""
        self.scroll_end(animate=False)
