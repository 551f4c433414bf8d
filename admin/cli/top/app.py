"""The screen: a table of the view, a status line, and the keys. Its contents come from views.py."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key, Paste
from textual.widgets import DataTable, Input, Static

from purgatorio.admin.cli.admin_client import AdminError
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.top.rows import Answer, Deed, Row
from purgatorio.admin.cli.top.screens import Ask, Lines
from purgatorio.admin.cli.top.views import VIEWS, View

INTERVAL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 2.0
MAX_ROWS: Final = 1_000
"""Lines of a table; the filter looks at all rows."""
_STYLES: Final = {"bad": "bold red", "head": "bold", "": ""}
_DEEDS: Final = {"h": "hold", "r": "release", "x": "expire", "k": "kill"}
KEYS: Final = "enter: why  :view  /filter  h hold  r release  x expire  k kill  p freeze  - last view  ? help"
HELP: Final = (
    ":NAME   another view: " + ", ".join(VIEWS),
    "/TEXT   show only rows with this text; esc shows all again",
    "enter   why: the details of a row, with its cause, keys and deadline",
    "h r x k hold, release, expire, kill what the row is about; kill asks first",
    "p       freeze what is shown, and go on",
    "-       the last view",
    "?       this help;  esc  back;  q  quit",
)


class WatchedCluster(Protocol):
    """A cluster's admin HTTP; both methods wait for the answer, and raise AdminError."""

    url: str

    def get(self, path: str, *, shared: bool = False) -> Answer:
        """The answer to GET at a path below ``/api/v1/``."""

    def post(self, path: str, body: Answer | None = None) -> Answer:
        """The answer to POST at a path below ``/api/v1/``."""


class Top(App[None]):
    """Shows a cluster until the user quits.

    Args:
        cluster: is asked.
        readonly: keys change nothing.
        interval_seconds: how often it is asked; None: only when `poll` is called.
    """

    CSS = """
    Screen { overflow: hidden; }
    #rows { height: 1fr; scrollbar-size: 0 1; }
    #why { height: 2; padding: 0 1; background: $surface; }
    #head { height: 1; background: $primary; color: $text; }
    #says { height: 1; background: $surface; color: $text-muted; }
    #typed { height: 1; border: none; padding: 0; display: none; }
    #typed.shown { display: block; }
    #nothing { height: auto; padding: 1 2; display: none; }
    .silent #rows { opacity: 50%; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("colon", "type(':')", "view"),
        Binding("slash", "type('/')", "filter"),
        Binding("minus", "last", "last view"),
        Binding("p", "freeze", "freeze"),
        Binding("question_mark", "help", "help"),
        Binding("escape", "leave", "back"),
        Binding("q", "quit", "quit"),
        *(Binding(key, f"deed('{key}')", name) for key, name in _DEEDS.items()),
    ]

    def __init__(
        self, cluster: WatchedCluster, *, readonly: bool = False, interval_seconds: float | None = INTERVAL_SECONDS
    ) -> None:
        super().__init__()
        self.title = "purgatorio top"
        self._cluster = cluster
        self._readonly = readonly
        self._interval_seconds = interval_seconds
        self._view = next(iter(VIEWS.values()))
        self._before = self._view
        self._filter = ""
        self._rows: list[Row] = []
        self._shown: list[Row] = []
        self._is_frozen = False
        self._trouble = ""
        self._said = ""
        self._asking = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """Make the parts of the screen."""
        yield Static(id="head", markup=False)
        yield DataTable[Text](id="rows", cursor_type="row")
        yield Static(id="nothing", markup=False)
        yield Static(id="why", markup=False)
        yield Input(id="typed", select_on_focus=False)
        yield Static(id="says", markup=False)

    def on_mount(self) -> None:
        """Show the first view, and ask from now on."""
        self._table.focus()
        self._go(self._view)
        if self._interval_seconds is not None:
            self._ask_on()

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#rows", DataTable)

    # --- what is shown ---

    def _ask_on(self) -> None:
        self.run_worker(self._poll_on(), name="ask the cluster")

    async def _poll_on(self) -> None:
        await self.poll()
        assert self._interval_seconds is not None
        self.set_timer(RETRY_SECONDS if self._trouble else self._interval_seconds, self._ask_on)

    def _ask_now(self) -> None:
        """Ask beside the handling of keys, which does not wait for the answer."""
        self.run_worker(self.poll(), name="ask the cluster")

    async def poll(self) -> None:
        """Ask for the view, and show the answer, unless what is shown is frozen."""
        async with self._asking:
            view = self._view
            path, _ = view.asks.request(view.given)
            try:
                rows = list(view.rows(await asyncio.to_thread(self._cluster.get, path, shared=True)))
                self._trouble = ""
            except AdminError as error:
                rows, self._trouble = self._rows, f"{error}. Asking again every {RETRY_SECONDS:g} s."
            except KeyError as error:
                rows, self._trouble = (
                    self._rows,
                    f"The answer lacks {error.args[0]}: the cluster may run another version.",
                )
        if view is self._view and not self._is_frozen:
            self._rows = rows
            self._draw()
        self._show_status()

    def _draw(self) -> None:
        """Put the rows into the table; the cursor stays on its row."""
        table, at = self._table, self._selected()
        self._shown = [row for row in self._rows if row.has(self._filter)][:MAX_ROWS]
        table.clear()
        for row in self._shown:
            table.add_row(*(Text(cell, style=_STYLES[row.mark], no_wrap=True) for cell in row.cells), key=row.key)
        places = {row.key: place for place, row in enumerate(self._shown)}
        if at is not None and at.key in places:
            table.move_cursor(row=places[at.key], animate=False)
        nothing = self.query_one("#nothing", Static)
        nothing.display = not self._shown
        nothing.update(f"No row has {self._filter!r}." if self._filter else self._view.nothing)
        self.on_data_table_row_highlighted()

    def _show_status(self) -> None:
        """Show the cluster's address and the view in the head, and trouble or the keys in the foot."""
        crumbs = [self._cluster.url, f":{self._view.name}", *([f"/{self._filter}"] if self._filter else [])]
        states = ["frozen"] * self._is_frozen + ["readonly"] * self._readonly
        more = f"{len(self._shown)} of {len(self._rows)}" if self._filter else str(len(self._rows))
        self.query_one("#head", Static).update(printable(" ".join([*crumbs, f"[{more}]", *states])))
        says = (
            self._trouble
            or self._said
            or "enter: why  :view  /filter  h hold  r release  x expire  k kill  p freeze  ? help"
        )
        self.query_one("#says", Static).update(says)
        self.set_class(bool(self._trouble), "silent")

    def _say(self, text: str) -> None:
        self._said = printable(text)
        self._show_status()

    def _selected(self) -> Row | None:
        at = self._table.cursor_row
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def _go(self, view: View) -> None:
        """Show a view, without the filter of the one before."""
        if view is not self._view:
            self._before = self._view
        self._view, self._filter, self._rows, self._said = view, "", [], ""
        self._is_frozen = False
        self._table.clear(columns=True)
        self._table.add_columns(*view.columns)
        self._draw()
        self.query_one("#nothing", Static).update("…")
        self._show_status()

    # --- keys ---

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave letters to the line in which words are typed."""
        return not (self._is_typing and action not in ("leave", "quit"))

    @property
    def _line(self) -> Input:
        return self.query_one("#typed", Input)

    @property
    def _is_typing(self) -> bool:
        """Whether the line is open. It has the focus a little later: keys that come at once are for it, too."""
        return self._line.has_class("shown")

    async def on_key(self, event: Key) -> None:
        """Take keys for the open line that came before it had the focus: they run nothing."""
        if self._is_typing and self.focused is not self._line and event.key != "escape":
            event.prevent_default()
            if event.key == "enter":
                self._submit()
            elif event.character is not None and event.is_printable:
                self._line.insert_text_at_cursor(event.character)

    def on_paste(self, event: Paste) -> None:
        """Take pasted text as it would be typed into the line: it is no keys, and changes nothing in the cluster."""
        text, newline, _ = event.text.strip(" ").partition("\n")
        if not self._is_typing and not text.startswith((":", "/")):
            self._say("What was pasted is left out: begin it with : for a view, or with / for a filter.")
            return
        if not self._is_typing:
            self.action_type("")
        self._line.insert_text_at_cursor(text.rstrip("\r"))
        if newline:
            self._submit()

    def action_type(self, begin: str) -> None:
        """Open the line for the name of a view, or for a text to filter by."""
        line = self._line
        line.add_class("shown")
        line.value = begin
        line.focus()
        line.cursor_position = len(begin)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while words are typed."""
        if event.value.startswith("/"):
            self._filter = event.value[1:]
            self._draw()
            self._show_status()

    def on_input_submitted(self) -> None:
        """Do what was typed."""
        self._submit()

    def _submit(self) -> None:
        """Do what the line says: ``:groups``, ``:parked /billing`` or ``/billing``."""
        typed = self._line.value
        self._close_line()
        if not typed.startswith(":"):
            return
        name, _, words = typed[1:].strip().partition(" ")
        found = [view for view in VIEWS.values() if name and view.name.startswith(name)]
        if name in ("q", "quit"):
            self.exit()
        elif found:
            self._go(found[0])
            self._filter = words.strip().removeprefix("/")
            self._ask_now()
        else:
            self._say(f"There is no view {name!r}, only {', '.join(VIEWS)}.")

    def _close_line(self) -> None:
        self._line.remove_class("shown")
        self._table.focus()

    def action_leave(self) -> None:
        """Close the line, or end the filter."""
        if self._is_typing:
            self._close_line()
        self._filter, self._said = "", ""
        self._draw()
        self._show_status()

    def action_last(self) -> None:
        """Show the view before."""
        self._go(self._before)
        self._ask_now()

    def action_freeze(self) -> None:
        """Freeze what is shown, or go on."""
        self._is_frozen = not self._is_frozen
        self._ask_now()

    def action_help(self) -> None:
        """Say what the view shows, and what the keys do."""
        self.push_screen(Lines(f":{self._view.name}", (self._view.says, "", *HELP)))

    def on_data_table_row_highlighted(self) -> None:
        """Say the row's sentence in full."""
        row = self._selected()
        self.query_one("#why", Static).update("" if row is None else row.why[0])

    def on_data_table_row_selected(self, event: Any) -> None:
        """Say why: show the details of a row."""
        row = self._selected()
        if row is not None:
            can = [f"{key}: {deed.says}" for key, deed in row.deeds.items()]
            self.push_screen(Lines(row.cells[0].strip(), (*row.why, "", *can)))

    def action_deed(self, key: str) -> None:
        """Do to the row under the cursor what a key does; ask before a broker is killed."""
        row = self._selected()
        deed = None if row is None else row.deeds.get(key)
        if self._readonly:
            self._say("This is --readonly: nothing is changed.")
        elif deed is None:
            self._say(f"There is nothing to {_DEEDS[key]} here.")
        elif key == "k":
            self.push_screen(Ask(deed.says), lambda yes: self._begin(deed) if yes else None)
        else:
            self._begin(deed)

    def _begin(self, deed: Deed) -> None:
        self.run_worker(self._do(deed), name=deed.says)

    async def _do(self, deed: Deed) -> None:
        self._say(f"Asked to {deed.says} …" if deed.says[:1].islower() else f"{deed.says} …")
        try:
            await asyncio.to_thread(self._cluster.post, deed.path, deed.body)
            said = f"Done: {deed.says}."
        except AdminError as error:
            said = f"Not done: {error}"
        await self.poll()
        self._say(said)
