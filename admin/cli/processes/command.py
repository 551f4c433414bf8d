"""Runs the supervisor: the event loop, the signals, and the greeting."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from purgatorio.admin.cli.command import DEFAULT_ADMIN_URL
from purgatorio.admin.cli.logging_setup import configure_logging
from purgatorio.admin.cli.owning import PLAIN_WAYS, Ways, ready_line, stop_with_parent
from purgatorio.admin.cli.processes.forking import Nursery
from purgatorio.admin.cli.processes.supervised import ProcessFailed
from purgatorio.admin.cli.processes.supervisor import Supervisor
from purgatorio.admin.cli.serving import (
    first_of,
    next_commands,
    own_command,
    report_ready,
    shown,
    stop_on_signals,
    why_not_listening,
)
from purgatorio.admin.web.front import Front
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.listeners import has_security
from purgatorio.broker.time.event_loop import loop_factory


def run(config: ClusterConfig, *, restart: bool, settings: Sequence[str] = (), ways: Ways = PLAIN_WAYS) -> int:
    """Run a process for each broker until a signal stops them all.

    Args:
        restart: whether a broker's process that ends by itself is started again.
        settings: lines with what clients need to connect.
        ways: how the process prints its addresses, and what ends it beside signals.

    Returns:
        the process's exit code: 0, or 1 if a broker did not start.
    """
    configure_logging(config.log_format, config.log_level)
    nursery = Nursery(fork=True)
    Front.load()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_supervise(config, restart, nursery, settings, ways))
    finally:
        nursery.end()


async def _supervise(
    config: ClusterConfig, restart: bool, nursery: Nursery, settings: Sequence[str], ways: Ways
) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    if ways.with_parent:
        stop_with_parent(stop)
    taken = why_not_listening(config, admin_ports=1 + config.brokers)
    if taken:
        print(f"purgatorio: {taken}", file=sys.stderr)
        return 1
    supervisor = Supervisor(config, restart=restart, nursery=nursery, records_requests=ways.with_parent)
    front = Front(
        supervisor,
        token=config.admin_token,
        read_token=config.admin_read_token,
        open_to_all=config.admin_auth == "none",
    )
    try:
        await front.start(*config.admin_address)
        await supervisor.start(front.token)
        if ways.print_json:
            addresses = [each.endpoints[0] for each in supervisor.brokers]
            bootstrap = ",".join(f"{each.host}:{each.port}" for each in addresses)
            print(ready_line(bootstrap, front), flush=True)
        else:
            print(greeting(supervisor, front, settings, plain=not has_security(config.broker)), flush=True)
        report_ready()
        await first_of(stop.wait(), supervisor.lost_nursery())
    except (OSError, ProcessFailed) as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 1
    finally:
        await front.stop()
        await supervisor.stop()
    return 0


def greeting(supervisor: Supervisor, front: Front, settings: Sequence[str] = (), *, plain: bool = True) -> str:
    """Return the brokers with their addresses and processes, the page, and what to do next."""
    brokers = supervisor.brokers
    lines = [f"Purgatorio is running, {len(brokers)} broker{'s' * (len(brokers) > 1)}, each a process:"]
    lines += [f"  broker {each.broker_id:<4} {shown(each.endpoints)}  process {each.pid}" for each in brokers]
    lines += [f"  page        {front.page_url}", f"  metrics     {front.url}/metrics", "", *settings]
    if plain:
        lines += ["Try, in another terminal:"]
        first = f"{brokers[0].endpoints[0].host}:{brokers[0].endpoints[0].port}"
        where = "" if front.url == DEFAULT_ADMIN_URL else f" --admin {front.url}"
        kill = f"{own_command()} broker kill {brokers[-1].broker_id}{where}"
        lines += [f"  {command}" for command in (*next_commands(first), kill)]
        lines.append("")
    return "\n".join([*lines, "Ctrl-C stops all of it."])
