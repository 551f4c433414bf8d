"""The command ``purgatorio-delays``.

Spark and the client are imported only after all arguments are checked, so that help and usage errors come at once.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from purgatorio.pipeline.delays.settings import TOPIC, ReportSettings, source_options
from purgatorio.pipeline.options import OptionError, read_options

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_LONGEST_MS: Final = 24 * 3_600_000
_DESCRIPTION: Final = """\
Read the outcomes of delayed operations from a topic, and keep tables of their waits and a report with plots. A further
run continues where the last one stopped, and counts no operation twice.
"""
_EPILOG: Final = """\
The directory then holds events/ and bad_records/ (each record once), windows/, operations/ and holders/ (aggregates, as
parquet), report.html, and checkpoint/ (the offsets up to which the topic has been read). Brokers write the topic when
they are started by `purgatorio cluster --record-delays`.
"""


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the right name of a misspelt option."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; a misspelt option is reported before a missing one, since it is the cause."""
        options = [option for option in self._option_string_actions if option.startswith("--")]
        for each in sys.argv[1:] if args is None else args:
            name = each.partition("=")[0]
            if name.startswith("--") and name not in options:
                near = difflib.get_close_matches(name, options, n=1)
                self.error(f"there is no option {name}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the error and a hint to the help, and exit."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n{self.prog} --help lists the options\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = _parser()
    settings = _settings(parser.parse_args(argv))
    try:
        read_options(source_options(settings), streaming=True)
    except OptionError as error:
        parser.error(str(error))
    missing = _missing()
    if missing is not None:
        print(f"purgatorio-delays: {missing}", file=sys.stderr)
        return EXIT_FAILED
    from purgatorio.pipeline.delays.job import run

    try:
        failure = run(settings, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        failure = "interrupted before it began"
    if failure is not None:
        print(f"purgatorio-delays: {failure}", file=sys.stderr)
    return EXIT_OK if failure is None else EXIT_FAILED


def _parser() -> _Parser:
    parser = _Parser(
        prog="purgatorio-delays",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--bootstrap", required=True, metavar="HOST:PORT", help="a broker, or several with commas between")
    add("--out", required=True, type=_directory, metavar="DIR", help="where the tables and the report go")
    add("--topic", default=TOPIC, help=f"the topic with the events ({TOPIC})")
    add("--window", default="1m", type=_window, metavar="TIME", help="how long a window is, such as 10s or 1m (1m)")
    add("--trigger", default="5s", type=_duration, metavar="TIME", help="how often to look for new events (5s)")
    add("--once", action="store_true", help="take everything that there is, then end")
    add("--master", metavar="URL", help="where Spark runs (local[2], or the master of spark-submit)")
    add("--kafka", default=[], action="append", type=_pair, metavar="KEY=VALUE", help="a setting of the Kafka client")
    add("--spark", default=[], action="append", type=_pair, metavar="KEY=VALUE", help="a setting of Spark")
    return parser


def _settings(said: argparse.Namespace) -> ReportSettings:
    return ReportSettings(
        bootstrap=said.bootstrap,
        out=said.out,
        topic=said.topic,
        window_ms=said.window,
        trigger_ms=said.trigger,
        once=said.once,
        master=said.master,
        kafka=dict(said.kafka),
        spark=dict(said.spark),
    )


def _directory(text: str) -> Path:
    if "://" in text:
        raise argparse.ArgumentTypeError(f"must be a directory that the driver and all workers see, not {text}")
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return path


def _duration(text: str) -> int:
    """Parse a duration, and return milliseconds."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    if match is None or not 0 < int(match[1]) * _UNITS_MS[match[2]] <= _LONGEST_MS:
        raise argparse.ArgumentTypeError(f"must be a time up to a day such as 10s or 1m, not {text!r}")
    return int(match[1]) * _UNITS_MS[match[2]]


def _window(text: str) -> int:
    """Parse a window's width, and return milliseconds. Windows start at its multiples, and are named by the second."""
    width_ms = _duration(text)
    if width_ms % 1000 or _LONGEST_MS % width_ms:
        raise argparse.ArgumentTypeError(f"must be whole seconds that divide a day evenly, not {text!r}")
    return width_ms


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value


def _missing() -> str | None:
    """Return a message about a missing requirement, or None."""
    for module in ("pyspark", "pyarrow", "pandas", "confluent_kafka", "plotly"):
        if importlib.util.find_spec(module) is None:
            from purgatorio import extras

            return f"{module} is not installed: {extras.install('spark')}"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else None
    if shutil.which("java") is None and (java is None or not java.exists()):
        return (
            "Spark needs Java 17 or newer, and there is none: install a JRE (Debian: apt install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME"
        )
    return None
