"""Configs over Kafka's protocol: of topics, brokers and groups."""

from __future__ import annotations

import argparse
from typing import Any, Final

from purgatorio.admin.cli.command import Answer, near
from purgatorio.admin.cli.wire.asking import Client, check_topic, explained, refused
from purgatorio.protocol.message import Message
from purgatorio.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from purgatorio.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC: Final = "topic"
BROKER: Final = "broker"
TYPES: Final = {TOPIC: 2, BROKER: 4, "group": 32}
"""The types of resources that have configs, by the words for them."""
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "static",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Where a value is from, by Kafka's numbers."""
OWN: Final = frozenset((1, 2, 3, 7, 8))
"""Sources of values that were set for a resource while the cluster ran."""
DEFAULT: Final = 5
SET, UNSET = 0, 1


async def describe(client: Client, args: argparse.Namespace) -> Answer:
    """Return the configs of a resource."""
    if args.kind == TOPIC:
        await check_topic(client, args.name, (await client.metadata(args.name)).topics[0].error_code)
    configs = await describe_configs(client, args.kind, args.name)
    return {"kind": args.kind, "name": args.name, "configs": configs}


async def describe_configs(client: Client, kind: str, name: str) -> list[Answer]:
    """Return the configs of a resource by name."""
    resource = DescribeConfigsResource(resource_type=TYPES[kind], resource_name=name, configuration_keys=None)
    (found,) = (await _ask(client, kind, name, DescribeConfigsRequest(resources=[resource]))).results
    if found.error_code:
        raise refused(explained(found.error_code, found.error_message, f"{kind} {name}"))
    return [
        {
            "name": each.name,
            "value": each.value,
            "source": SOURCES.get(each.config_source, "unknown"),
            "is_default": each.config_source not in OWN,
            "read_only": each.read_only,
            "sensitive": each.is_sensitive,
        }
        for each in sorted(found.configs, key=lambda config: config.name)
    ]


async def alter(client: Client, args: argparse.Namespace) -> Answer:
    """Set and unset configs of a resource."""
    changes = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in args.set or ()]
    changes += [AlterableConfig(name=name, config_operation=UNSET, value=None) for name in args.unset or ()]
    if args.kind == TOPIC:
        await check_topic(client, args.name, (await client.metadata(args.name)).topics[0].error_code)
    if args.kind == BROKER:
        await _check_broker_configs(client, args)
    resource = AlterConfigsResource(resource_type=TYPES[args.kind], resource_name=args.name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = (await _ask(client, args.kind, args.name, request)).responses
    if result.error_code:
        why = explained(result.error_code, result.error_message, f"{args.kind} {args.name}")
        meant = "" if "meant?" in why else await _near_config(client, args, [each.name for each in changes])
        raise refused(why + meant)
    return {"kind": args.kind, "name": args.name, "set": dict(args.set or ()), "unset": [*(args.unset or ())]}


async def _check_broker_configs(client: Client, args: argparse.Namespace) -> None:
    """Refuse to set a name that is unknown and near a known one: brokers take any, for plug-ins of their own."""
    new = [name for name, _ in args.set or ()]
    if args.name:
        hint = await _near_config(client, args, new)
    else:  # the configs of all brokers are only those that are set
        ids = sorted(each.node_id for each in (await client.describe([])).brokers)
        hint = await _near_config(client, argparse.Namespace(kind=BROKER, name=str(ids[0])), new)
    if hint:
        raise refused(f"INVALID_CONFIG: there is no such broker config{hint}")


async def _near_config(client: Client, args: argparse.Namespace, names: list[str]) -> str:
    """Return which config may be meant by one that does not exist."""
    known = {each["name"] for each in await describe_configs(client, args.kind, args.name)}
    return next((near(name, sorted(known)) for name in names if name not in known), "")


async def _ask(client: Client, kind: str, name: str, request: Message) -> Any:
    """Ask the broker that the configs are of, or any; older ones know their own configs only."""
    if kind != BROKER or not name:
        return await client.ask_any(request)
    brokers = (await client.describe([])).brokers
    ids = {str(each.node_id): each.node_id for each in brokers}
    if name not in ids:
        raise refused(f"there is no broker {name}, only {', '.join(sorted(ids, key=int))}")
    return await client.ask(ids[name], request)
