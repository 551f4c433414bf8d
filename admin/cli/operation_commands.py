"""Commands that are made from the declarations of operations: arguments, help, the request and what is printed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from purgatorio.admin.cli.command import Answer, Show, Wire, add_command, pair, says, seconds, show_json
from purgatorio.admin.operations.declare import Argument, Limits, Operation, limits_of

if TYPE_CHECKING:
    from purgatorio.admin.cli.admin_client import AdminClient


def add_operations(
    commands: Any,
    group: str,
    kinds: Iterable[type[Operation]],
    shown: Mapping[str, Show],
    by_wire: Mapping[str, Wire] = MappingProxyType({}),
) -> None:
    """Add the commands of a group that operations declare.

    Args:
        shown: what prints the answer, by the command, where the operation has no sentence for it.
        by_wire: what asks clusters of any kind, by the command.
    """
    for kind in kinds:
        first, _, name = kind.command.partition(" ")
        if first == group:
            show = says(kind.says) if kind.says else shown.get(kind.command, show_json)
            parser = add_command(commands, name, partial(ask, kind), show, kind.does(), wire=by_wire.get(kind.command))
            for argument in kind.arguments():
                _add_argument(parser, argument)


def _add_argument(parser: Any, argument: Argument) -> None:
    """Add an argument; what is not given is None."""
    shown = argument.help
    words = shown.words.replace("%", "%%")
    option = f"--{argument.name.replace('_', '-')}"
    if argument.kind is bool:
        parser.add_argument(option, action="store_const", const=True, help=words.removeprefix("true: "))
        return
    details: dict[str, Any] = {"metavar": shown.metavar or argument.name.upper(), "help": words}
    if get_origin(argument.kind) is Literal:
        details["choices"] = get_args(argument.kind)
    elif get_origin(argument.kind) is dict:
        details["type"] = json_object
        if get_args(argument.kind) == (str, str):
            details |= {"type": pairs, "action": _Merge}
            details["help"] += ", or NAME=VALUE; may be repeated"
            parser.add_argument(option.removesuffix("s"), option, dest=argument.name, **details)
            return
    elif argument.kind in (int, float):
        details["type"] = seconds if argument.kind is float else partial(_number, limits_of(argument.hint))
    if shown.positional or (shown.positional is None and argument.place == "path"):
        # What is left out is the operation's own default.
        parser.add_argument(argument.name, nargs=None if argument.is_required else "?", **details)
    else:
        parser.add_argument(option, required=argument.is_required, **details)


def _number(limits: Limits, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if limits.ge is not None and number < limits.ge:
        raise argparse.ArgumentTypeError(f"{number} is less than {limits.ge}")
    return number


class _Merge(argparse.Action):
    """Puts what is given into one object, however often it is given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), **values})


def pairs(text: str) -> dict[str, Any]:
    """Return an object that a user typed as JSON, or as name=value; raises as `json_object` and `pair`."""
    return json_object(text) if text.startswith("{") else dict([pair(text)])


def json_object(text: str) -> dict[str, Any]:
    """Return an object that a user typed as JSON.

    Raises:
        ArgumentTypeError: it is none.
    """
    import json  # not at the top: help needs none

    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return given


def ask(kind: type[Operation], admin: AdminClient, args: argparse.Namespace) -> Answer:
    """Send an operation to the cluster, with the command's arguments as its attributes.

    Defaults of absent arguments are added to `args`, for sentences that name them.
    """
    given = {each.name: getattr(args, each.name, None) for each in kind.arguments()}
    for each in kind.arguments():
        if given[each.name] is None and not each.is_required:
            setattr(args, each.name, each.default)
    return send(kind, admin, {name: value for name, value in given.items() if value is not None})


def send(kind: type[Operation], admin: AdminClient, given: Mapping[str, Any]) -> Answer:
    """Send the request for an operation, and return the answer.

    Args:
        given: the values of its attributes, by name; in a body that may have any names, all else is of the body.
    """
    path, left = kind.request(given)
    if kind.method == "GET":
        return admin.get(path)
    if kind.method == "DELETE":
        return admin.post(path, method="DELETE")
    patience: dict[str, Any] = {} if kind.patience_seconds == 15 else {"timeout_seconds": kind.patience_seconds}
    return admin.post(path, left, **patience) if left else admin.post(path, **patience)
