"""One run on a screen of its own: lines, progress, usage, config."""

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane

from vedette.query.overview import RunLine
from vedette.views.text import clean
from vedette.views.top import paint
from vedette.views.top.feed import Look
from vedette.views.top.log import LogView

TABS = ("logs", "progress", "usage", "config")


class RunScreen(Screen[None]):
    """Shows one run."""

    DEFAULT_CSS = """
    RunScreen #head { height: auto; max-height: 3; background: $panel; }
    RunScreen TabbedContent { height: 1fr; }
    RunScreen ContentSwitcher { height: 1fr; }
    RunScreen TabPane { padding: 0; height: 1fr; }
    RunScreen #note { height: auto; color: $text-warning; display: none; }
    RunScreen #search { display: none; height: 1; border: none; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("slash", "search", "search", key_display="/"),
        Binding("x", "app.stop_run", "stop"),
        Binding("q", "app.leave", "leave"),
        Binding("1,l", "tab('logs')", "logs"),
        Binding("2,p", "tab('progress')", "progress"),
        Binding("3,u", "tab('usage')", "usage"),
        Binding("4,c", "tab('config')", "config"),
    ]

    def __init__(self, line: RunLine, tab: str, opened: int) -> None:
        super().__init__()
        self.line = line
        self._tab = tab
        self._opened = opened
        self._look: Look | None = None
        self._early: list[Look] = []  # what came before there were widgets to show it
        self._is_laid_out = False

    def compose(self) -> ComposeResult:
        """Create the widgets."""
        yield Static(Content(clean(self.line.name, one_line=True)), id="head")
        with TabbedContent(initial=self._tab):
            with TabPane("logs", id="logs"):
                yield LogView()
            for name in TABS[1:]:
                with TabPane(name, id=name), VerticalScroll():
                    yield Static(id=f"{name}-text", markup=False)
        yield Static(id="note", markup=False)
        yield Input(placeholder="lines that contain ...", id="search")
        yield Footer()

    def on_mount(self) -> None:
        """Focus the open tab, and show what has come before."""
        self._focus()
        self._is_laid_out = True
        early, self._early = self._early, []
        for look in early:
            self.show(look)

    def show(self, look: Look) -> None:
        """Show what the feed has read."""
        if look.options.opened != self._opened or not self.is_attached:
            return
        if not self._is_laid_out:
            self._early.append(look)
            return
        if not self.query("#note"):  # it is being closed
            return
        note = self.query_one("#note", Static)
        problem = look.mistake or look.trouble
        note.display = bool(problem)
        note.update(Content(clean(problem, one_line=True)))
        if look.closeup is None:
            return
        self._look = look
        for line in look.overview.runs if look.overview is not None else ():
            self.line = line if line.id == self.line.id else self.line
        self.query_one(LogView).add(look.closeup.events)
        self._draw()

    def _draw(self) -> None:
        look = self._look
        if look is None or look.closeup is None:
            return
        near, width = look.closeup, max(20, self.size.width - 2)
        self.query_one("#head", Static).update(paint.headline(near, self.size.width or 80))
        drawn = {
            "progress": lambda: paint.bars(near.bars, time.time_ns(), width),
            "usage": lambda: paint.processes(near, width),
            "config": lambda: paint.facts(near),
        }
        if (active := self.query_one(TabbedContent).active) in drawn:  # hidden tabs are not drawn
            self.query_one(f"#{active}-text", Static).update(drawn[active]())

    def on_resize(self) -> None:
        """Fit to the new width."""
        self._draw()

    def on_tabbed_content_tab_activated(self) -> None:
        """Draw the tab that is visible now."""
        self._draw()

    def action_tab(self, name: str) -> None:
        """Show another tab."""
        self.query_one(TabbedContent).active = name
        self._focus()

    def _focus(self) -> None:
        active = self.query_one(TabbedContent).active or self._tab
        pane = self.query_one(f"#{active}", TabPane)
        # At once: a later focus would take the keys from the widget that has them by then.
        self.set_focus(pane.query_one(LogView if active == "logs" else VerticalScroll))

    def action_search(self) -> None:
        """Show the input for the search."""
        self.query_one(TabbedContent).active = "logs"
        box = self.query_one("#search", Input)
        box.display = True
        self.set_focus(box)  # at once, so that the next key goes there

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search as it is typed."""
        self.query_one(LogView).search(event.value)

    def on_input_submitted(self) -> None:
        """Keep the search, and go back to the lines."""
        self.set_focus(self.query_one(LogView))

    def action_back(self) -> None:
        """Close the search, or else the run."""
        box = self.query_one("#search", Input)
        if box.display:
            box.value = ""
            box.display = False
            self._focus()
        else:
            self.dismiss(None)
