"""The command line: ``purgatorio cluster``, ``serve``, ``config``, ``broker``, ``topics`` and ``simulate``.

Help and usage errors must be printed at once, so each command imports the modules that it needs beyond argparse.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import purgatorio
from purgatorio.admin.cli.build import build
from purgatorio.admin.cli.command import Parser, add_parser
from purgatorio.admin.cli.commands import ADMIN_VARIABLE, add_commands
from purgatorio.admin.cli.completion import add_completion
from purgatorio.admin.cli.owning_options import OWNING_OPTIONS, add_owning_options, wrong_with_processes
from purgatorio.admin.cli.registry_commands import REGISTRY_HOME_VARIABLE, add_registry
from purgatorio.admin.cli.top.command import add_top
from purgatorio.admin.cli.why_command import add_why

if TYPE_CHECKING:
    from purgatorio.broker.config import ClusterConfig
    from purgatorio.broker.layers.faults import AnyFault

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
OTLP_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""OpenTelemetry's own variable for where spans are sent."""

SCENE_BROKERS: Final = 3
LEARNING: Final = {
    "auto_leader_rebalance_enable": "false",
    "broker_session_timeout_ms": "4000",
    "group_initial_rebalance_delay_ms": "0",
    "group_share_partition_max_record_locks": "100",
    "group_share_max_record_lock_duration_ms": "3600000",
    "group_share_record_lock_duration_ms": "3600000",
    "replica_lag_time_max_ms": "3600000",
    "tier_location": "memory:",
    "transaction_max_timeout_ms": "3600000",
}
"""Settings of ``purgatorio learn``, unless they are set: leaders stay where a scene moves them, groups begin at once,
topics may have a tier, and there is time to see that a broker is dead before the others notice. A step shows the same
while its text is read: no lock runs out, no transaction times out, and no slow replica leaves the in-sync replicas."""

_EPILOG: Final = """\
Every setting can also be given in the environment (PURGATORIO_LOG_RETENTION_MS=60000) or in a TOML file (--config or
PURGATORIO_CONFIG). Flags win over the environment, the environment over the file. `purgatorio config` lists them all.
"""


class _ShowVersion(argparse.Action):
    """Prints the version; unlike argparse's own action, it reads the version only when it runs."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"purgatorio {purgatorio.__version__} ({build()})")
        parser.exit(EXIT_OK)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(
        prog="purgatorio",
        description="A Kafka-protocol mini-broker whose purgatory you can watch.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_ShowVersion)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    cluster = _add_command(commands, "cluster", _run_brokers, "run several brokers in one process")
    cluster.add_argument("--brokers", metavar="N", help="number of brokers (3)")
    cluster.add_argument("--processes", action="store_true", help="run each broker as a process of its own")
    cluster.add_argument(
        "--restart", action="store_true", help="with --processes: start a broker again whose process ended by itself"
    )
    _add_serving_options(cluster, "the first broker's port, the others count up from it; 0: any free ports (9092)")

    learn = _add_command(commands, "learn", _run_brokers, "run three brokers, whose page plays scenes to learn from")
    learn.set_defaults(learns=True)
    _add_serving_options(learn, "the first broker's port, the others count up from it; 0: any free ports (9092)")

    serve = _add_command(commands, "serve", _run_brokers, "run one broker")
    serve.set_defaults(brokers="1")
    serve.add_argument("--broker-id", metavar="ID", help="the broker's id (1)")
    serve.add_argument(
        "--store", metavar="URL", help="the etcd of a cluster on several hosts: etcd://10.0.0.1:2379,10.0.0.2:2379"
    )
    _add_serving_options(serve, "the broker's port; 0: any free port (9092)", is_alone=True)

    config = _add_command(
        commands, "config", _print_config, "print all settings with their documentation, as a file for --config"
    )
    config.instead = "; did you mean purgatorio configs?"
    add_commands(commands)
    add_why(commands)
    add_registry(commands)
    add_top(commands)
    add_completion(commands, build_parser)
    _add_simulate(commands)
    return parser


def _add_simulate(commands: Any) -> None:
    summary = "replay a cluster with faults from a seed, in virtual time, and check what its clients saw"
    parser = commands.add_parser(
        "simulate", help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(run=_simulate)
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the seed; the same seed gives the same history (1)"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="number of seeds, from --seed on; lists those that fail (1)"
    )
    parser.add_argument("--transactions", action="store_true", help="of --seeds, only those that have transactions")
    parser.add_argument("--share-groups", action="store_true", help="of --seeds, only those that have a share group")
    parser.add_argument("--tier", action="store_true", help="give the seeds a tier, to which most topics are copied")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="virtual seconds with faults (20)")
    parser.add_argument("--faults", default="", metavar="A,B", help="only these faults, e.g. kill,pause,isolate,store")
    parser.add_argument("--without", metavar="RULE", help="switch off a rule that keeps records, e.g. min-isr")
    parser.add_argument(
        "--history", metavar="FILE", help="write the clients' operations and their outcomes, one JSON object per line"
    )
    parser.add_argument("--watch", action="store_true", help="then play the seed on the page, until Ctrl-C")
    parser.add_argument(
        "--admin-port", type=int, default=9644, metavar="PORT", help="the page's port with --watch (9644; 0: any)"
    )


def _add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> Any:
    """Add a command with the options that all commands have."""
    parser = add_parser(commands, name, summary, _EPILOG)
    parser.set_defaults(run=run)
    parser.add_argument("--config", metavar="FILE", help="read settings from this TOML or .properties file")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="set any setting, e.g. --set log.retention.ms=60000; may be repeated",
    )
    return parser


# Flags that set a setting of the same name.
_SERVING_FLAGS: Final = (
    ("--host", "ADDRESS", "the address to listen on (127.0.0.1)"),
    ("--advertised-host", "HOST", "the host that brokers advertise to clients (the one of --host)"),
    ("--racks", "A,B,C", "the brokers' racks, in turn; a consumer with a client.rack reads from a replica in its rack"),
    ("--admin-host", "ADDRESS", "the address of the admin HTTP (the one of --host)"),
    ("--admin-port", "PORT", "the port of the admin HTTP: page, metrics, health; 0: any free port (9644)"),
    ("--follower-delay-ms", "MS", "time by which followers delay each fetch, to watch acks=all wait (0)"),
    ("--as-version", "RELEASE", "answer as this release of Apache Kafka: 3.9, 4.0, … 4.4; or all there is (latest)"),
    ("--log-format", "FORMAT", "format of log lines on the standard error: console or json (console)"),
    ("--log-level", "LEVEL", "least severe level of log lines: debug, info, warning, error (info)"),
)


def _add_serving_options(parser: argparse.ArgumentParser, port_help: str, *, is_alone: bool = False) -> None:
    parser.add_argument("--port", metavar="PORT", help=port_help)
    parser.add_argument(
        "--record-delays",
        action="store_const",
        const="true",
        help="record each delayed operation in the topic __delayed_operations when it ends",
    )
    parser.add_argument(
        "--tls",
        nargs="?",
        const="",
        metavar="DIR",
        help="clients speak TLS, with throw-away certificates; DIR keeps them for the next time",
    )
    parser.add_argument("--faults", metavar="FILE", help="start with the fault rules of this TOML file")
    parser.add_argument(
        "--tier",
        metavar="LOCATION",
        dest="tier_location",
        help="copy closed segments of topics with remote.storage.enable=true to this folder or bucket (s3://BUCKET, "
        "gs://BUCKET, az://CONTAINER), serve them from there, and begin with those of an earlier process",
    )
    add_owning_options(parser)
    for flag, metavar, text in _SERVING_FLAGS:
        if flag == "--racks" and is_alone:
            metavar, text = "RACK", f"the broker's rack; {text.partition('; ')[2]}"
        parser.add_argument(flag, metavar=metavar, help=text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name.

    Args:
        argv: the arguments; not given: those of the process.

    Returns:
        the process's exit code: 0 done or stopped on request, 1 failed, 2 wrong usage or configuration.
    """
    args = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except BrokenPipeError:
        # The reader of the output has closed it (`| head`). Python must not try to write the rest when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _load_config(args: argparse.Namespace) -> ClusterConfig | None:
    """The configuration that the command was given, or None after its problems were printed."""
    from purgatorio.broker.config.sources import ConfigError, load_cluster_config

    others = {"run", "config", "assignments", "faults", "tls", "processes", "restart", "learns", *OWNING_OPTIONS}
    others_own = (ADMIN_VARIABLE, REGISTRY_HOME_VARIABLE)  # of other commands
    environ = {key: value for key, value in os.environ.items() if key not in others_own}
    flags = {name: value for name, value in vars(args).items() if name not in others}
    # A program reads where the admin HTTP is: a second cluster on this machine must not be refused.
    defaults = {"admin_port": "0"} if getattr(args, "print_json", False) else {}
    if endpoint := os.environ.get(OTLP_VARIABLE):
        defaults["traces_endpoint"] = endpoint
    if getattr(args, "learns", False):
        defaults |= LEARNING
    try:
        return load_cluster_config(
            flags=flags,
            assignments=args.assignments,
            environ=environ,
            file=args.config,
            defaults=defaults,
            warn=lambda line: print(f"purgatorio: {line}", file=sys.stderr),
        )
    except ConfigError as error:
        for problem in error.problems:
            print(f"purgatorio: {problem}", file=sys.stderr)
        return None


def _run_brokers(args: argparse.Namespace) -> int:
    processes = getattr(args, "processes", False)
    wrong = _wrong_with_processes(args, processes)
    if wrong:
        print(f"purgatorio: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    if processes:
        return _run_processes(args)

    from purgatorio.broker.time import garbage

    with garbage.paused():
        config = _load_config(args)
        if config is None:
            return EXIT_USAGE
        if wrong := _wrong_with_scenes(args, config):
            print(f"purgatorio: {wrong}", file=sys.stderr)
            return EXIT_USAGE
        from pathlib import Path

        from purgatorio.admin.cli.certificates import certificates_for
        from purgatorio.admin.cli.owning import beginning_of, ways_of
        from purgatorio.admin.cli.serving import run
        from purgatorio.admin.operations.control.data_folder import DataUnusable
        from purgatorio.admin.operations.control.importing import NotImported
        from purgatorio.broker.delays.tracing import SpansMissing
        from purgatorio.broker.layers.faults import FaultError
        from purgatorio.broker.layers.faults.rule_file import read_rules
        from purgatorio.broker.security.throw_away import CertificatesUnavailable
        from purgatorio.registry.kinds import RegistryUnavailable

    try:
        faults = read_rules(Path(args.faults)) if args.faults else []
        with certificates_for(config, args.tls) as (config, files):
            if config.store is not None:
                return _run_on_host(args, config, faults)
            with beginning_of(args) as beginning:
                return run(config, faults, files, beginning, ways_of(args), learns=getattr(args, "learns", False))
    except (FaultError, CertificatesUnavailable, NotImported, DataUnusable, RegistryUnavailable, SpansMissing) as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return EXIT_USAGE


def _run_processes(args: argparse.Namespace) -> int:
    config = _load_config(args)
    if config is None:
        return EXIT_USAGE
    from purgatorio.admin.cli.owning import ways_of
    from purgatorio.admin.cli.processes import command

    if wrong := _wrong_with_tier(config):
        print(f"purgatorio: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    return command.run(config, restart=args.restart, ways=ways_of(args))


def _wrong_with_tier(config: ClusterConfig) -> str:
    """Return why brokers of several processes cannot use the tier, which each would find out later; "": they can."""
    if config.broker.tier_location is None:
        return ""
    from purgatorio.broker.tier.obstore_store import check_location
    from purgatorio.broker.tier.store import Refused

    try:
        check_location(config.broker.tier_location, of_one_process=False)
    except Refused as error:
        return f"tier.location: {error}"
    return ""


def _run_on_host(args: argparse.Namespace, config: ClusterConfig, faults: Sequence[AnyFault]) -> int:
    if given := next((name for name in OWNING_OPTIONS if getattr(args, name) not in (None, False, [])), None):
        print(f"purgatorio: --{given.replace('_', '-')} is not for a cluster on several hosts", file=sys.stderr)
        return EXIT_USAGE
    if wrong := _wrong_with_tier(config):
        print(f"purgatorio: {wrong}", file=sys.stderr)
        return EXIT_USAGE
    try:
        from purgatorio.admin.cli.hosts import command
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        from purgatorio import extras

        print(f"purgatorio: etcd needs an extra: {extras.install('etcd')}", file=sys.stderr)
        return EXIT_USAGE
    return command.run(config, faults)


def _wrong_with_processes(args: argparse.Namespace, processes: bool) -> str:
    """Return why these options do not go together, or nothing if they do."""
    if not processes:
        return "--restart goes with --processes" if getattr(args, "restart", False) else ""
    if sys.platform == "win32":
        return "--processes needs sockets that a process inherits, which Windows does not have"
    if args.tls is not None:
        return "--processes does not make certificates: set listeners with certificates of your own"
    if args.faults:
        return "--processes starts without fault rules: add them at each broker's page"
    return wrong_with_processes(args)


def _wrong_with_scenes(args: argparse.Namespace, config: ClusterConfig) -> str:
    """Return why scenes cannot be played on such a cluster, or nothing if they can be, or are not asked for."""
    from purgatorio.broker.config.listeners import has_security

    if not getattr(args, "learns", False):
        return ""
    if config.store is not None or config.brokers < SCENE_BROKERS:
        return f"scenes need {SCENE_BROKERS} brokers in one process"
    if args.tls is not None or has_security(config.broker):
        return "the clients of scenes speak no TLS and have no passwords: leave listeners as they are by default"
    return ""


def _print_config(args: argparse.Namespace) -> int:
    config = _load_config(args)
    if config is None:
        return EXIT_USAGE
    from purgatorio.broker.config.descriptions import as_toml

    print(as_toml(config), end="")
    return EXIT_OK


def _simulate(args: argparse.Namespace) -> int:
    from purgatorio.simulation.command import UsageError, run

    try:
        return run(
            seed=args.seed,
            seeds=args.seeds,
            seconds=args.seconds,
            faults=args.faults,
            without=args.without,
            history=args.history,
            transactions=args.transactions,
            share_groups=args.share_groups,
            tier=args.tier,
            watch_port=args.admin_port if args.watch else None,
        )
    except UsageError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
