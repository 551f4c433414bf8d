"""Names for the completion of commands in a shell."""

from __future__ import annotations

import argparse

from purgatorio.admin.cli.wire.asking import Client
from purgatorio.admin.cli.wire.groups import listed_groups


async def topics(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the topics of a cluster, without its own."""
    found = (await client.describe(None)).topics
    return sorted(each.name for each in found if each.name and not each.is_internal)


async def groups(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the groups of a cluster, but for those that a shell would take for several words."""
    rows, _ = await listed_groups(client)
    names = (str(row["id"]) for row in rows)
    return [each for each in names if each.isprintable() and not set(each) & set(" '\"\\$`();&|<>*?")]
