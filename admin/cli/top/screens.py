"""Screens above the table: lines of text, and a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static


class Lines(ModalScreen[None]):
    """Shows lines until a key closes it."""

    CSS = """
    Lines { align: center middle; }
    #lines { width: 90%; max-height: 90%; height: auto; border: round $primary; padding: 0 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,enter,question_mark", "close", "back")]

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self.lines = tuple(lines)

    def compose(self) -> ComposeResult:
        """Make the box."""
        with VerticalScroll(id="lines") as box:
            yield Static("\n".join(self.lines), markup=False)
        box.border_title = self._title.replace("[", "\\[")

    def action_close(self) -> None:
        """Go back to the table."""
        self.dismiss()


class Ask(ModalScreen[bool]):
    """Asks whether something is to be done; only y does it."""

    CSS = """
    Ask { align: center middle; }
    #ask { width: auto; height: auto; border: round $error; padding: 0 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("y", "answer(True)", "yes"), ("n,escape,q,enter", "answer(False)", "no")]

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def compose(self) -> ComposeResult:
        """Make the box."""
        yield Static(f"Really {self.what}? y / n", id="ask", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Go back to the table with the answer."""
        self.dismiss(yes)
