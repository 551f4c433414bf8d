"""Names for the completion of commands in a shell."""

from __future__ import annotations

import argparse
import re
from typing import Final

from purgatorio.admin.cli.wire.asking import Client
from purgatorio.admin.cli.wire.groups import listed_groups

_PLAIN: Final = re.compile(r"[\w.][\w.,:@/+%-]*")
"""Names that no shell takes for anything but one word, nor a command for an option."""


async def topics(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the topics of a cluster, without its own, and without names that Kafka's topics cannot have."""
    found = (await client.describe(None)).topics
    return sorted(each.name for each in found if each.name and not each.is_internal and _PLAIN.fullmatch(each.name))


async def groups(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the groups of a cluster, but for those that a shell would not take for a plain word."""
    rows, _ = await listed_groups(client)
    return [str(row["id"]) for row in rows if _PLAIN.fullmatch(str(row["id"]))]
