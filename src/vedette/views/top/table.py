"""The table of runs: it draws only the visible rows, so that a thousand runs cost no more than thirty."""

import time
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from vedette.query.overview import RunLine
from vedette.views.top.columns import Cell, Column, cells, draw, fit, layout

_STYLES = (
    "running",
    "leaving",
    "done",
    "failed",
    "cancelled",
    "ended",
    "lost",
    "waiting",
    "dim",
    "warning",
    "error",
    "trend",
    "name",
)


class RunTable(ScrollView, can_focus=True):
    """A table of runs, one of which is selected."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"runs--{name}" for name in (*_STYLES, "head", "chosen")}
    DEFAULT_CSS = """
    RunTable { height: 1fr; background: $background; scrollbar-size-vertical: 1; overflow-x: hidden; }
    RunTable > .runs--head { text-style: bold; color: $text-muted; background: $panel; }
    RunTable > .runs--chosen { background: $primary 35%; }
    RunTable > .runs--running { color: $text-primary; }
    RunTable > .runs--leaving { color: $text-primary; }
    RunTable > .runs--done { color: $text-success; }
    RunTable > .runs--failed { color: $text-error; text-style: bold; }
    RunTable > .runs--cancelled { color: $text-warning; }
    RunTable > .runs--ended { color: $text-accent; }
    RunTable > .runs--lost { color: $text-accent; text-style: bold; }
    RunTable > .runs--waiting { color: $text-muted; }
    RunTable > .runs--dim { color: $text-muted; }
    RunTable > .runs--warning { color: $text-warning; }
    RunTable > .runs--error { color: $text-error; }
    RunTable > .runs--trend { color: $text-secondary; }
    RunTable > .runs--name { text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
        Binding("enter", "open", "open"),
    ]

    class Opened(Message):
        """The user wants to open a run."""

        def __init__(self, line: RunLine) -> None:
            super().__init__()
            self.line = line

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[RunLine] = []
        self._rows: list[dict[str, Cell]] = []
        self._columns: list[tuple[Column, int]] = []
        self._at = 0

    @property
    def chosen(self) -> RunLine | None:
        """The selected run."""
        return self._lines[self._at] if self._lines else None

    def show(self, lines: list[RunLine]) -> None:
        """Show these runs; the selected one stays selected, wherever it is now."""
        chosen = self.chosen.id if self.chosen else ""
        now = time.time_ns()
        self._lines = lines
        self._rows = [cells(line, now) for line in lines]
        indices = {line.id: index for index, line in enumerate(lines)}
        self._at = indices.get(chosen, min(self._at, max(0, len(lines) - 1)))
        self._arrange()

    def on_resize(self, _: Resize) -> None:
        """Fit the columns to the new width."""
        self._arrange()

    def _arrange(self) -> None:
        width = max(1, self.size.width)
        self._columns = layout(width, self._rows)
        self.virtual_size = Size(width, len(self._lines) + 1)
        self._reveal()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the header, or a run."""
        width = self.size.width
        if y == 0:
            style = self.get_component_rich_style("runs--head")
            titles = (fit(column.title, size, right=column.right) for column, size in self._columns)
            return Strip([Segment(fit(" ".join(titles), width), style)], width)
        index = y - 1 + self.scroll_offset.y
        base = self.rich_style
        if not 0 <= index < len(self._lines):
            return Strip.blank(width, base)
        if index == self._at:
            base += self.get_component_rich_style("runs--chosen")
        line, row = self._lines[index], self._rows[index]
        segments: list[Segment] = []
        for column, size in self._columns:
            cell = draw(line, row, column, size)
            if segments:
                segments.append(Segment(" ", base))
            segments.append(Segment(cell.text, base + self._paint(cell.style)))
        return Strip(segments).adjust_cell_length(width, base)

    def _paint(self, name: str) -> Style:
        if name not in _STYLES:
            return Style.null()
        style = self.get_component_rich_style(f"runs--{name}")
        return Style(color=style.color, bold=style.bold)

    def _reveal(self) -> None:
        seen = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if self._at < top:
            self.scroll_to(y=self._at, animate=False)
        elif self._at >= top + seen:
            self.scroll_to(y=self._at - seen + 1, animate=False)

    def choose(self, index: int) -> None:
        """Select a run by its row, or the nearest one."""
        if self._lines:
            self._at = max(0, min(index, len(self._lines) - 1))
            self._reveal()
            self.refresh()

    def action_move(self, by: int) -> None:
        """Select the next run up or down."""
        self.choose(self._at + by)

    def action_page(self, by: int) -> None:
        """Select the run one screen further."""
        self.choose(self._at + by * max(1, self.size.height - 2))

    def action_edge(self, side: int) -> None:
        """Select the first run, or the last."""
        self.choose(0 if side < 0 else len(self._lines))

    def action_open(self) -> None:
        """Open the selected run."""
        if self.chosen is not None:
            self.post_message(self.Opened(self.chosen))

    def on_click(self, event: Click) -> None:
        """Select the run under the pointer; a second click opens it."""
        index = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and index < len(self._lines):
            again = index == self._at and event.chain > 1
            self.choose(index)
            if again:
                self.action_open()
