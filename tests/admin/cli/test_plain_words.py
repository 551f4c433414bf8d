"""No command refuses its arguments, and no setting its value, in words of Python's."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import pytest

from purgatorio.admin.cli import admin_client
from purgatorio.admin.cli.admin_client import AdminError
from purgatorio.admin.cli.command import Parser
from purgatorio.admin.cli.main import build_parser
from purgatorio.broker.config.sources import ConfigError, load_cluster_config, settings_of_process
from tests.plain_words import printed_by_python

BAD: Final = ("nobody", "-1", "1.5", "a=b", "{", "[", '{"nobody": null}', "at o'clock")


class NoCluster:
    """A cluster that cannot be asked."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url

    def __getattr__(self, name: str) -> Any:
        raise AdminError("there is no cluster")


def leaves(parser: Parser, words: Sequence[str] = ()) -> Iterator[tuple[list[str], Parser]]:
    """Yield all commands with their parsers."""
    if parser.fill is not None:
        parser.fill()
        parser.fill = None
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not groups:
        yield list(words), parser
    for group in groups:
        for name, child in group.choices.items():
            yield from leaves(child, (*words, name))


PARSER: Final = cast("Parser", build_parser())
LEAVES: Final = {" ".join(words): parser for words, parser in leaves(PARSER)}


def lines(parser: Parser) -> Iterator[list[str]]:
    """Yield arguments for a command: none, unknown ones, and each bad value in each place."""
    positional = [each for each in parser._actions if not each.option_strings]
    flags = [each for each in parser._actions if each.option_strings and each.nargs != 0]
    needed = [word for each in flags if each.required for word in (each.option_strings[0], "nobody")]
    yield []
    yield ["nobody"] * 9
    yield [*needed, *["nobody"] * len(positional), "--nobody"]
    for value in BAD:
        yield [*needed, *[value] * len(positional)]
        for flag in flags:
            yield [*needed, *["1"] * len(positional), f"{flag.option_strings[0]}={value}"]


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_refuses_bad_arguments_in_plain_words(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "AdminClient", NoCluster)
    for line in lines(LEAVES[name]):
        try:
            args = PARSER.parse_args([*name.split(), *line])
            if hasattr(args, "admin") and hasattr(args, "json"):
                args.run(args)
        except SystemExit:
            pass
        printed = capsys.readouterr()
        assert (
            printed_by_python(
                printed.err.splitlines(), given=[part for word in line for part in (word, word.partition("=")[2])]
            )
            == []
        ), line


@pytest.mark.slow
@pytest.mark.parametrize("value", BAD)
def test_a_setting_refuses_a_value_in_plain_words(value: str) -> None:
    for name in settings_of_process():
        for spelling in (name, name.replace("_", ".")):
            assert printed_by_python(problems_of(f"{spelling}={value}"), given=[value]) == []


def problems_of(assignment: str) -> tuple[str, ...]:
    """Return the problems of a setting."""
    try:
        load_cluster_config(assignments=[assignment])
    except ConfigError as error:
        return error.problems
    return ()
