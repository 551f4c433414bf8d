"""Commands that operate a running cluster: how they are declared, run, and print tables.

They send requests to the cluster's admin HTTP and import nothing else of the broker. Some can ask any cluster by
Kafka's protocol instead, and some do only that: `wire_command.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from purgatorio.admin.cli.printable import printable

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient

DEFAULT_ADMIN_URL: Final = "http://127.0.0.1:9644"
ADMIN_VARIABLE: Final = "PURGATORIO_ADMIN"
TOKEN_VARIABLE: Final = "PURGATORIO_ADMIN_TOKEN"
"""Also the setting admin.token of a cluster that is started with it."""

_EPILOG: Final = f"""\
The cluster is the one whose admin HTTP is at --admin or, without it, at the address in the environment variable
{ADMIN_VARIABLE}. A token that it asks for is in {TOKEN_VARIABLE}, or in the URL as
the cluster printed it. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
"""

Answer = dict[str, Any]
Wire = Callable[[argparse.Namespace], Any]
"""Does a command by Kafka's protocol; returns the answer."""
Ask = Callable[["AdminClient", argparse.Namespace], Answer]
"""Asks the cluster, and returns its answer."""
Show = Callable[[Answer, argparse.Namespace], int | None]
"""Prints an answer for people; returns the exit code if it is not 0."""


Add = Callable[[Any], None]
"""Adds commands to the subcommands of a parser."""


SYNONYMS: Final = (
    ("delete", "remove", "rm", "drop", "destroy"),
    ("list", "ls", "all"),
    ("describe", "show", "get", "info", "inspect", "desc", "status", "config"),
    ("create", "add", "new", "make", "mk"),
    ("set", "alter", "change", "update", "edit", "modify", "config", "put"),
    ("add-partitions", "partitions", "grow", "increase"),
    ("produce", "write", "send", "publish", "append", "put", "push"),
    ("consume", "read", "fetch", "cat", "tail", "get", "show", "list", "dump"),
    ("reset-offsets", "reset", "seek", "rewind", "offsets"),
)
"""Verbs that mean the same in one tool or another."""


class CommandRefused(Exception):
    """The command is not done; the message is printed as it stands, with this exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Parser(argparse.ArgumentParser):
    """A parser that suggests the command or flag with a similar name if one is unknown.

    Attributes:
        fill: adds what it parses, before its first use; None: it is there.
        instead: hint at another command, if it is given words that it does not take.
    """

    fill: Callable[[], None] | None = None
    instead = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse unknown arguments in the subcommand's parser, which knows its flags."""
        fill, self.fill = self.fill, None
        if fill is not None:
            fill()
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown and self._take_rest(parsed, unknown):
            unknown = []
        if unknown:
            flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
            first = unknown[0].partition("=")[0]
            hint = near(first, flags) if first.startswith("-") else self.instead
            self.error(f"unknown: {' '.join(unknown)}{hint}")
        return parsed, unknown

    def _take_rest(self, parsed: argparse.Namespace, unknown: Sequence[str]) -> bool:
        """Give arguments after a flag to the list that the first ones went to, as argparse does not; return whether."""
        lists = [each for each in self._actions if not each.option_strings and each.nargs in ("*", "+")]
        if not lists or any(each.startswith("-") for each in unknown):
            return False
        try:
            found = [lists[0].type(each) if callable(lists[0].type) else each for each in unknown]
        except argparse.ArgumentTypeError as error:
            self.error(f"argument {lists[0].metavar}: {error}")
        setattr(parsed, lists[0].dest, [*(getattr(parsed, lists[0].dest) or ()), *found])
        return True

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if isinstance(choices, dict) and value not in choices:
            other = value.removesuffix("s") if value.endswith("s") else f"{value}s"
            if other not in choices:
                self.error(f"there is no command {value!r}{_below(value, choices) or near_verb(value, choices)}")
            choices[value] = choices[other]  # `topic delete` is `topics delete`
        if choices is not None and value not in choices:
            name = (action.option_strings or [action.dest])[-1]
            self.error(f"{name} is {value!r}; it can be {' or '.join(map(str, choices))}")

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and how to get help, and exit."""
        self.exit(2, f"{self.prog}: {message}\nSee {self.prog} --help\n")


def _below(verb: str, choices: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return ``; did you mean …?`` for a verb of one or two groups of commands."""
    found = []
    for group, parser in choices.items():
        if isinstance(parser, Parser) and parser.fill is not None:
            fill, parser.fill = parser.fill, None
            fill()
        if any(verb in each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)):
            found.append(f"{group} {verb}")
    return f"; did you mean {' or '.join(found)}?" if 0 < len(found) < 3 else ""


def near_verb(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a verb: one that means the same in another tool comes before one like it."""
    names = list(known)
    for meaning in SYNONYMS:
        if name in meaning and (found := [each for each in names if each in meaning]):
            return f"; did you mean {printable(found[0])}?"
    return near(name, names)


def near(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?``, or nothing if no name is similar, or has this word in it."""
    import difflib

    names = list(known)
    found = difflib.get_close_matches(name, names, n=1) or [each for each in names if name in each.split("-")]
    return f"; did you mean {printable(found[0])}?" if found else ""


def add_group(commands: Any, name: str, summary: str, fill: Callable[[Any], None]) -> None:
    """Add a group of commands to the subcommands of a `Parser`; `fill` adds them when the group is used."""
    parser = add_parser(commands, name, summary, _EPILOG)
    parser.fill = lambda: fill(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))


def add_command(commands: Any, name: str, ask: Ask, show: Show, summary: str, *, wire: Wire | None = None) -> Any:
    """Add a command that asks the cluster; returns its parser.

    Args:
        wire: asks a cluster of any kind, if the user names its brokers; the answer has the same form.
    """
    parser = add_parser(commands, name, summary, _EPILOG)
    parser.set_defaults(run=lambda args: run_command(ask, show, args, wire))
    parser.add_argument("--admin", metavar="URL", help=f"the URL of the cluster's admin HTTP ({DEFAULT_ADMIN_URL})")
    parser.add_argument("--json", action="store_true", help="print the cluster's answer as JSON")
    if wire is not None:
        add_wire_options(parser)
    return parser


def add_wire_options(parser: Any) -> None:
    """Add where a cluster of any kind is, and how a command logs in there."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT,…",
        help="brokers of a cluster of any kind, which is asked by Kafka's protocol",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="Kafka's client settings for TLS and SASL, as Kafka's own tools take them",
    )
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=30.0, help="the longest wait for an answer, in seconds (30)"
    )


def seconds(text: str) -> float:
    """Return a time that a user typed.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        given = float(text)
    except ValueError:
        given = -1.0
    if not 0 <= given < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds")
    return given


def positive(text: str) -> int:
    """Return a number of things that a user typed; raises ArgumentTypeError: it is none."""
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """Return the two parts of NAME=VALUE.

    Raises:
        ArgumentTypeError: it is of another form.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not like NAME=VALUE")
    return name, value


def add_parser(commands: Any, name: str, summary: str, epilog: str) -> Any:
    """Add a parser to the subcommands of another one; the epilog has its own line breaks."""
    summary = summary.replace("%", "%%")
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=epilog,
        allow_abbrev=False,
    )


def run_command(ask: Ask | None, show: Show, args: argparse.Namespace, wire: Wire | None = None) -> int:
    """Run a command; print one line if it fails.

    Args:
        ask: None: the command always speaks Kafka's protocol.
        wire: does it by Kafka's protocol, if the user names brokers.

    Returns:
        the exit code.
    """
    from purgatorio.admin.cli.admin_client import AdminError, AdminUrlError

    check: Callable[[argparse.Namespace], str] | None = getattr(args, "check", None)
    if check is not None and (wrong := check(args)):
        print(f"purgatorio: {wrong}", file=sys.stderr)
        return 2
    try:
        if wire is not None and (ask is None or args.bootstrap or args.command_config):
            answer = wire(args)
        else:
            assert ask is not None
            answer = ask(admin_of(args), args)
        return (show_json if args.json else show)(answer, args) or 0
    except CommandRefused as refused:
        print(refused, file=sys.stderr)
        return refused.code
    except AdminError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 2 if isinstance(error, AdminUrlError) else 1
    except KeyError as error:
        print(f"purgatorio: the cluster's answer lacks {error.args[0]}; it may run another version", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if ask is None:
            return 130  # as a shell expects; such a command has said what is done
        print("purgatorio: stopped waiting; the cluster finishes the operation", file=sys.stderr)
        return 1


def admin_of(args: argparse.Namespace) -> AdminClient:
    """Return the admin HTTP of the cluster that the user means."""
    from purgatorio.admin.cli.admin_client import AdminClient

    url = args.admin or os.environ.get(ADMIN_VARIABLE) or DEFAULT_ADMIN_URL
    return AdminClient(url, os.environ.get(TOKEN_VARIABLE))


# --- what is printed ---


def show_json(answer: Answer, args: argparse.Namespace) -> None:
    """Print an answer as JSON."""
    import json

    print(json.dumps(answer, indent=2))


def says(sentence: str) -> Show:
    """Return what prints a sentence, with names of the answer and else of arguments in braces.

    ``{removed:rule is|rules are}`` is a number with the words for one, or for another number.
    """

    def show(answer: Answer, args: argparse.Namespace) -> None:
        known = {**vars(args), **answer}
        print(sentence.format_map({key: _in_sentence(each) for key, each in known.items()}))

    return show


class _Counted(int):
    """A number that chooses the words after it."""

    def __format__(self, words: str) -> str:
        one, found, many = words.partition("|")
        return f"{int(self)} {one if self == 1 else many}" if found else format(int(self), words)


def _in_sentence(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return _Counted(value)
    return printable(value) if isinstance(value, str) else value


def print_further(count: int, what: str = "") -> None:
    """Print how many more there are than the answer lists, if any."""
    if count > 0:
        print(f"and {count} more{what}")


def seconds_of(ms: int | None) -> str:
    """Return a time in seconds; a dash for None."""
    return "-" if ms is None else f"{ms / 1000:.1f} s"


def partition_of(row: Answer) -> str:
    """Return the name of the partition that a row is about."""
    return f"{row['topic']}-{row['partition']}"


Columns = Mapping[str, str | Callable[[Any], object]]
"""The heads of a table's columns, each with the name of what a row has there, or with what makes it of a row."""


def table(rows: str, columns: Columns, nothing: str = "", count: str = "") -> Show:
    """Return what prints a table of the rows that an answer has, and how many more there are, by the answer's count."""

    def show(answer: Answer, args: argparse.Namespace) -> None:
        print_table(columns, answer[rows], nothing)
        if count:
            print_further(answer[count] - len(answer[rows]))

    return show


def print_table(columns: Columns, rows: Sequence[Any], nothing: str = "") -> None:
    """Print columns as wide as their content, without the last ones if they are empty in all rows.

    Args:
        rows: None among their values is a dash.
        nothing: printed if there are no rows; "": the heads are.
    """
    if nothing and not rows:
        print(nothing)
        return
    cells = [[_cell(row[of] if isinstance(of, str) else of(row)) for of in columns.values()] for row in rows]
    head = list(columns)
    while len(head) > 1 and all(not row[len(head) - 1] for row in cells):
        head.pop()
    table = [head, *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip())


def _cell(value: object) -> str:
    return "-" if value is None else printable(str(value))
