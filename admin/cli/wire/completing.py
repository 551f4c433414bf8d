"""Names for the completion of commands in a shell."""

from __future__ import annotations

import argparse
import re
from typing import Final

from purgatorio.admin.cli.wire.asking import Client
from purgatorio.admin.cli.wire.configs import BROKER, TOPIC, TYPES, describe_configs
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


async def names(client: Client, args: argparse.Namespace) -> list[str]:
    """Return groups and topics."""
    return sorted({*await groups(client, args), *await topics(client, args)})


async def brokers(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the ids of the brokers that run."""
    return [str(each) for each in sorted(each.node_id for each in (await client.describe([])).brokers)]


async def resources(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the resources of the kind that the words say, whose configs are described or set."""
    of = {TOPIC: topics, BROKER: brokers, "group": groups}
    return await of[args.words[0]](client, args) if args.words and args.words[0] in of else []


async def configs(client: Client, args: argparse.Namespace) -> list[str]:
    """Return the configs of what the words say: a kind and a name, or the name of a topic."""
    words = args.words if args.words and args.words[0] in TYPES else [TOPIC, *args.words]
    if len(words) < 2:
        return []
    found = await describe_configs(client, words[0], words[1])
    return [each["name"] for each in found if not each["read_only"] and _PLAIN.fullmatch(each["name"])]


async def settings(client: Client, args: argparse.Namespace) -> list[str]:
    """Return configs as they are set: a value comes behind each."""
    return [f"{each}=" for each in await configs(client, args)]
