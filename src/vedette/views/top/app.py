"""The program behind `vedette top`: which screen is shown, what its keys do, and what it asks of its feed."""

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from vedette.access.home_access import HomeAccess
from vedette.errors import VedetteError
from vedette.query.overview import MOST_ENDED, RunLine
from vedette.views.text import clean
from vedette.views.top.dialogs import Choose, Confirm, Help
from vedette.views.top.feed import Feed, Look, Options
from vedette.views.top.main import MainScreen
from vedette.views.top.run import RunScreen
from vedette.views.top.table import RunTable


class Looked(Message):
    """The feed has looked, and has something to show."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look


class Top(App[None]):
    """All runs and hosts of a home."""

    TITLE = "vedette top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "light", "light or dark", show=False),
        Binding("ctrl+c", "leave", "leave", show=False, priority=True),
    ]

    def __init__(self, home: HomeAccess, *, options: Options | None = None, interval_s: float = 1.0) -> None:
        super().__init__()
        options = options or Options()
        self._home = home
        self.main = MainScreen(options.where)
        self.feed = Feed(
            home,
            lambda look: self.post_message(Looked(look)),
            options=options,
            interval_s=interval_s,
        )

    def on_mount(self) -> None:
        """Start the feed."""
        self.push_screen(self.main)
        self.feed.start()

    def on_unmount(self) -> None:
        """Stop the feed."""
        self.feed.close()

    def on_looked(self, message: Looked) -> None:
        """Show what the feed has read."""
        look = message.look
        for screen in self.screen_stack:
            if isinstance(screen, RunScreen) or screen is self.main:
                screen.show(look)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        if event.input.id == "filter":
            self.feed.ask(where=event.value)

    def on_run_table_opened(self, message: RunTable.Opened) -> None:
        """Open a run."""
        self._open(message.line, "logs")

    def _open(self, line: RunLine, tab: str) -> None:
        opened = self.feed.options.opened + 1
        self.push_screen(RunScreen(line, tab, opened), lambda _: self.feed.ask(run=""))
        self.feed.ask(run=line.id, opened=opened)

    def _chosen(self) -> RunLine | None:
        if isinstance(self.screen, RunScreen):
            return self.screen.line
        return self.main.query_one(RunTable).chosen

    def action_open_logs(self) -> None:
        """Open the lines of the selected run."""
        if (line := self._chosen()) is not None:
            self._open(line, "logs")

    def action_all(self) -> None:
        """Show or hide the runs that ended long ago."""
        self.feed.ask(ended=0 if self.feed.options.ended else MOST_ENDED)

    def action_metric(self) -> None:
        """Let the user choose the metric to draw."""
        line = self._chosen()
        if line is None or not line.metrics:
            self.notify("this run has no metric yet", markup=False)
            return

        def take(name: str | None) -> None:
            if name is not None:
                self.feed.ask(metric=name)

        self.push_screen(Choose("metric", line.metrics, line.metric), take)

    def action_stop_run(self) -> None:
        """Stop a run, if the user confirms."""
        line = self._chosen()
        if line is None:
            return
        name = clean(line.name or line.id, one_line=True)
        if line.end_t is not None:
            self.notify(f"{name} has ended already", markup=False)
            return

        def answer(yes: bool | None) -> None:
            if yes:
                self.run_worker(lambda: self._stop(line.id, name), thread=True)

        self.push_screen(Confirm(f"stop {name}?"), answer)

    def _stop(self, run: str, name: str) -> None:
        try:
            self._home.stop(run)
        except VedetteError as error:
            self.call_from_thread(self.notify, clean(str(error), one_line=True), severity="error", markup=False)
        else:
            self.call_from_thread(self.notify, f"{name} was told to stop", markup=False)

    def action_light(self) -> None:
        """Switch between light and dark."""
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    def action_help(self) -> None:
        """Show what the keys do."""
        self.push_screen(Help())

    def action_leave(self) -> None:
        """Quit."""
        self.exit()
