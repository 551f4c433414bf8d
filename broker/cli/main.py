"""The command line: ``purgatorio cluster``, ``serve``, ``config``, ``broker`` and ``topics``.

Help and usage errors must come at once, so everything beyond argparse is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from purgatorio.broker.cli.commands import ADMIN_VARIABLE, add_commands

if TYPE_CHECKING:
    from purgatorio.broker.config import ClusterConfig

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_EPILOG: Final = """\
Every setting may also come from the environment (PURGATORIO_LOG_RETENTION_MS=60000) or from a TOML file (--config or
PURGATORIO_CONFIG); flags win over the environment, the environment over the file. `purgatorio config` lists them all.
"""


class _ShowVersion(argparse.Action):
    """Prints the version; unlike argparse's own action it is looked up only when asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"purgatorio {_version()}")
        parser.exit(EXIT_OK)


class Parser(argparse.ArgumentParser):
    """A parser that says which command or flag a misspelt one is near to."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is unknown here, where it is known which flags there are."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
            first = unknown[0].partition("=")[0]
            self.error(f"unknown: {' '.join(unknown)}{_near(first, flags) if first.startswith('-') else ''}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action.choices, dict) and value not in action.choices:
            self.error(f"there is no command {value!r}{_near(str(value), action.choices)}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n{self.prog} --help says what there is\n")


def _near(name: str, known: Iterable[str]) -> str:
    """``; did you mean …?``, or nothing when no name is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _version() -> str:
    from importlib.metadata import version

    return version("purgatorio")


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

    cluster = _add_command(commands, "cluster", _run_brokers, "run several brokers in this process")
    cluster.add_argument("--brokers", metavar="N", help="how many brokers (3)")
    _add_serving_options(cluster, "the first broker's port, the next ones follow; 0: any free ones (9092)")

    serve = _add_command(commands, "serve", _run_brokers, "run one broker")
    serve.set_defaults(brokers="1")
    serve.add_argument("--broker-id", metavar="ID", help="the broker's id (1)")
    _add_serving_options(serve, "the broker's port; 0: any free one (9092)")

    _add_command(commands, "config", _print_config, "print all settings, documented, as a file for --config")
    add_commands(commands)
    _add_simulate(commands)
    return parser


def _add_simulate(commands: Any) -> None:
    summary = "replay a cluster with faults from a seed, in virtual time, and check what its clients saw"
    parser = commands.add_parser(
        "simulate", help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(run=_simulate)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed; the same one, the same history (1)")
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="so many seeds in a row; tells what fails (1)"
    )
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="how long harm is done (20)")
    parser.add_argument("--faults", default="", metavar="A,B", help="only these faults, e.g. kill,pause,isolate,store")
    parser.add_argument("--without", metavar="RULE", help="switch a rule off that keeps records, e.g. min-isr")
    parser.add_argument("--history", metavar="FILE", help="write what clients did and saw, one JSON object a line")


def _add_command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> Any:
    """Add a command with the options that all commands have."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--config", metavar="FILE", help="read settings from this TOML file")
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="assignments",
        help="any setting, e.g. --set log.retention.ms=60000; may be repeated",
    )
    return parser


# The flags that stand for a setting; their names are the settings' names.
_SERVING_FLAGS: Final = (
    ("--host", "ADDRESS", "the address to listen on (127.0.0.1)"),
    ("--advertised-host", "HOST", "the host that clients are told to connect to (the one listened on)"),
    ("--racks", "A,B,C", "the brokers' racks, in turn; a consumer with a client.rack reads from a replica there"),
    ("--admin-host", "ADDRESS", "the address of the admin HTTP (the one of --host)"),
    ("--admin-port", "PORT", "the port of the admin HTTP: page, metrics, health; 0: any free one (9644)"),
    ("--follower-delay-ms", "MS", "hold each follower fetch back by so much, to watch acks=all wait (0)"),
    ("--log-format", "FORMAT", "how log lines on the standard error look: console or json (console)"),
    ("--log-level", "LEVEL", "the least severe log lines written: debug, info, warning, error (info)"),
)


def _add_serving_options(parser: argparse.ArgumentParser, port_help: str) -> None:
    parser.add_argument("--port", metavar="PORT", help=port_help)
    parser.add_argument(
        "--record-delays",
        action="store_const",
        const="true",
        help="record what became of each delayed operation in the topic __delayed_operations",
    )
    for flag, metavar, text in _SERVING_FLAGS:
        parser.add_argument(flag, metavar=metavar, help=text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: the arguments; not given: those of the process.

    Returns:
        the process's exit code: 0 done or stopped on request, 1 failed, 2 called or configured wrongly.
    """
    args = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    try:
        return run(args)
    except BrokenPipeError:
        # Whoever read the output has had enough of it (`| head`). Python must not try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _load_config(args: argparse.Namespace) -> ClusterConfig | None:
    """The configuration that the command was given; None when it cannot be used, which has been said then."""
    from purgatorio.broker.config.sources import ConfigError, load_cluster_config

    others = {"run", "config", "assignments"}
    environ = {key: value for key, value in os.environ.items() if key != ADMIN_VARIABLE}  # of other commands
    flags = {name: value for name, value in vars(args).items() if name not in others}
    try:
        return load_cluster_config(flags=flags, assignments=args.assignments, environ=environ, file=args.config)
    except ConfigError as error:
        for problem in error.problems:
            print(f"purgatorio: {problem}", file=sys.stderr)
        return None


def _run_brokers(args: argparse.Namespace) -> int:
    config = _load_config(args)
    if config is None:
        return EXIT_USAGE
    from purgatorio.broker.cli.serving import run

    return run(config)


def _print_config(args: argparse.Namespace) -> int:
    config = _load_config(args)
    if config is None:
        return EXIT_USAGE
    from purgatorio.broker.config.descriptions import as_toml

    print(as_toml(config), end="")
    return EXIT_OK


def _simulate(args: argparse.Namespace) -> int:
    from purgatorio.broker.simulation.command import UsageError, run

    try:
        return run(
            seed=args.seed,
            seeds=args.seeds,
            seconds=args.seconds,
            faults=args.faults,
            without=args.without,
            history=args.history,
        )
    except UsageError as error:
        print(f"purgatorio: {error}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
