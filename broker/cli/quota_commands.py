"""``purgatorio quotas``: the client quotas of a running cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from purgatorio.broker.cli.command import Answer, Refused, Show, add_command, print_table
from purgatorio.broker.cli.operation_commands import send
from purgatorio.broker.cli.printable import printable
from purgatorio.broker.operations.security import EditQuotas

if TYPE_CHECKING:
    from purgatorio.broker.cli.admin_client import AdminClient

_ENTITY = (("user", "user"), ("client_id", "client"), ("ip", "ip"))
"""The parts of an entity: their names in the API, and as options."""


def add(commands: Any) -> None:
    """Add the commands that edit the quotas of an entity."""
    setting = _add(commands, "set", _set, "set quotas: purgatorio quotas set --client billing producer_byte_rate=1e6")
    setting.add_argument("quotas", metavar="NAME=VALUE", nargs="+", type=_assignment, help="a quota by Kafka's name")
    removing = _add(commands, "remove", _remove, "remove quotas of an entity")
    removing.add_argument("quotas", metavar="NAME", nargs="+", help="a quota by Kafka's name")


def _add(commands: Any, name: str, ask: Any, summary: str) -> Any:
    parser = add_command(commands, name, ask, _show_edited, summary)
    for kind, option in _ENTITY:
        of = parser.add_mutually_exclusive_group()
        of.add_argument(f"--{option}", dest=kind, metavar="NAME", help=f"the {option} that they are for")
        of.add_argument(
            f"--default-{option}",
            dest=f"default_{kind}",
            action="store_true",
            help=f"for each other {option}",
        )
    return parser


def _assignment(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER") from None


def _entity(args: argparse.Namespace) -> dict[str, str | None]:
    given: dict[str, str | None] = {}
    for kind, _ in _ENTITY:
        if getattr(args, kind) is not None or getattr(args, f"default_{kind}"):
            given[kind] = getattr(args, kind)
    return given


def _edit(admin: AdminClient, args: argparse.Namespace, quotas: dict[str, float | None]) -> Answer:
    entity = _entity(args)
    if not entity:
        raise Refused("error: for whom? --user, --client or --ip, or the default of one of them", 2)
    return {**entity, **send(EditQuotas, admin, {**entity, "quotas": quotas})}


def _set(admin: AdminClient, args: argparse.Namespace) -> Answer:
    return _edit(admin, args, dict(args.quotas))


def _remove(admin: AdminClient, args: argparse.Namespace) -> Answer:
    return _edit(admin, args, dict.fromkeys(args.quotas))


def _show_edited(edited: Answer, args: argparse.Namespace) -> None:
    print(f"{_shown(edited)}: {', '.join(_shown_quota(*each) for each in edited['quotas'].items())}")


def _show_list(listed: Answer, args: argparse.Namespace) -> None:
    if not listed["quotas"]:
        print("there are no quotas")
        return
    rows = [
        (_shown(each), _shown_quota(name, value)) for each in listed["quotas"] for name, value in each["quotas"].items()
    ]
    print_table(("FOR", "QUOTA"), rows)
    further = listed["entity_count"] - len(listed["quotas"])
    if further > 0:
        print(f"and those of {further} more")


def _shown(entity: dict[str, Any]) -> str:
    parts = [(option, entity[kind]) for kind, option in _ENTITY if kind in entity]
    return ", ".join(f"default {option}" if name is None else f"{option} {printable(name)}" for option, name in parts)


def _shown_quota(name: str, value: float | None) -> str:
    return f"no {name}" if value is None else f"{name}={value:g}" if value < 1e6 else f"{name}={value:.0f}"


SHOWN: Final[dict[str, Show]] = {"list": _show_list}
