"""Dialogs in front of a screen: a confirmation, the help, a choice."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from vedette.views.text import clean

HELP = (
    ("up down j k", "choose a run; page up and down, g and G go further"),
    ("enter", "open the run: its lines, bars, processes, config"),
    ("l", "open its lines"),
    ("/", "filter: words of a name, project or id, or an expression such as"),
    ("", "state = failed and config.lr > 0.1"),
    ("s", "sort by the next: newest, name, state, progress, metric, cpu, memory"),
    ("a", "also show runs that ended long ago"),
    ("m", "choose the metric to draw"),
    ("x", "stop the run; it asks first"),
    ("t", "light or dark"),
    ("esc", "back; clears the filter"),
    ("q", "quit; the runs go on"),
)
_BOX = """
    align: center middle;
    & > .box {
        width: auto; max-width: 95%; height: auto; max-height: 90%; scrollbar-size-vertical: 1;
        border: round $primary; padding: 0 1; background: $surface;
    }
"""


class Confirm(ModalScreen[bool]):
    """Asks a question that y or n answers."""

    DEFAULT_CSS = f"Confirm {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = clean(question, one_line=True)

    def compose(self) -> ComposeResult:
        """Show it."""
        yield Static(Content.assemble((self._question, "bold"), "  y/n"), classes="box")

    def action_answer(self, yes: bool) -> None:
        """Close with an answer."""
        self.dismiss(yes)


class Help(ModalScreen[None]):
    """Says what the keys do."""

    DEFAULT_CSS = f"Help {{ {_BOX} }} Help > .box {{ width: 86; }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "close", "back")]

    def compose(self) -> ComposeResult:
        """Show them."""
        rows = [Content.assemble((f"{keys:<12}", "bold"), text) for keys, text in HELP]
        with VerticalScroll(classes="box"):
            yield Static(Content("\n").join(rows))

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(None)


class Choose(ModalScreen[str | None]):
    """Lets the user choose one of several names."""

    DEFAULT_CSS = f"""
    Choose {{ {_BOX} }}
    Choose > .box {{ width: 40; }}
    Choose OptionList, Choose OptionList:focus {{ border: none; padding: 0; max-height: 20; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "back"),
        Binding("j", "down", "down", show=False),
        Binding("k", "up", "up", show=False),
    ]

    def __init__(self, title: str, names: Sequence[str], chosen: str) -> None:
        super().__init__()
        self._title = title
        self._names = list(names)
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        """Show them."""
        with VerticalScroll(classes="box"):
            yield Static(Content.styled(self._title, "bold"))
            yield OptionList(*(Option(Content(clean(name, one_line=True))) for name in self._names), markup=False)

    def on_mount(self) -> None:
        """Begin at the current choice."""
        options = self.query_one(OptionList)
        options.highlighted = self._names.index(self._chosen) if self._chosen in self._names else 0
        options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the choice."""
        self.dismiss(self._names[event.option_index])

    def action_close(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def action_down(self) -> None:
        """Go down."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """Go up."""
        self.query_one(OptionList).action_cursor_up()
