"""Runs the supervisor: the event loop, the signals, and the greeting."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from purgatorio.broker.cli.logging_setup import configure_logging
from purgatorio.broker.cli.processes.supervisor import ProcessFailed, Supervisor
from purgatorio.broker.cli.serving import next_commands, shown, stop_on_signals, why_not_listening
from purgatorio.broker.config import ClusterConfig
from purgatorio.broker.config.listeners import has_security
from purgatorio.broker.time.event_loop import loop_factory


def run(config: ClusterConfig, *, restart: bool, settings: Sequence[str] = ()) -> int:
    """Run a process for each broker until a signal stops them all.

    Args:
        restart: whether a broker's process that ends by itself is started again.
        settings: lines with what clients need to connect.

    Returns:
        the process's exit code: 0, or 1 if a broker did not start.
    """
    configure_logging(config.log_format, config.log_level)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_supervise(config, restart, settings))


async def _supervise(config: ClusterConfig, restart: bool, settings: Sequence[str]) -> int:
    stop = asyncio.Event()
    stop_on_signals(stop)
    taken = why_not_listening(config)
    if taken:
        print(f"purgatorio: {taken}", file=sys.stderr)
        return 1
    supervisor = Supervisor(config, restart=restart)
    try:
        await supervisor.start()
    except ProcessFailed as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return 1
    try:
        print(greeting(supervisor, settings, plain=not has_security(config.broker)), flush=True)
        await stop.wait()
    finally:
        await supervisor.stop()
    return 0


def greeting(supervisor: Supervisor, settings: Sequence[str] = (), *, plain: bool = True) -> str:
    """Return the brokers with their addresses, pages and processes, and what to do next."""
    brokers = supervisor.brokers
    lines = [f"Purgatorio is running, {len(brokers)} broker{'s' * (len(brokers) > 1)}, each a process:"]
    for each in brokers:
        assert each.process is not None
        lines.append(
            f"  broker {each.broker_id:<4} {shown(each.endpoints)}  {each.page_url}  process {each.process.pid}"
        )
    lines += ["", *settings]
    if plain:
        lines += ["Try, in another terminal:"]
        first = f"{brokers[0].endpoints[0].host}:{brokers[0].endpoints[0].port}"
        lines += [f"  {command}" for command in (*next_commands(first), f"kill -9 {brokers[-1].pid}")]
        lines.append("")
    return "\n".join([*lines, "Ctrl-C stops all of it."])
