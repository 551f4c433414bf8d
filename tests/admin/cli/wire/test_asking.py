"""Where a command's cluster is, and what a user reads if there is none."""

from __future__ import annotations

import argparse

import pytest

from purgatorio.admin.cli.command import CommandRefused
from purgatorio.admin.cli.wire import asking
from purgatorio.admin.cli.wire.asking import _address, ask, explained, first_of, sentence
from purgatorio.client.client import Refused
from purgatorio.protocol.errors import ErrorCode
from tests.admin.cli.wire.conftest import Run


def options(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"bootstrap": None, "command_config": None, "admin": None, "timeout": 5.0, **given})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", ("localhost", 9092)),
        (" broker:19092 ", ("broker", 19092)),
        ("[::1]:9093", ("::1", 9093)),
        ("::1", ("::1", 9092)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_addresses_have_a_port_or_kafkas(text: str, address: tuple[str, int]) -> None:
    assert _address(text) == address


@pytest.mark.parametrize("text", ["", "localhost:", "localhost:x", ":9092", "localhost:70000"])
def test_what_is_no_address_is_wrong_usage(text: str) -> None:
    with pytest.raises(CommandRefused, match="is not the address of a broker, like localhost:9092") as refused:
        _address(text)
    assert refused.value.code == 2


def test_brokers_are_found_by_the_admin_http(run: Run) -> None:
    assert run("topics", "describe", "orders", found=True).out.startswith("topic orders: 2 partitions")


def test_without_any_cluster_the_error_names_where_it_was_looked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PURGATORIO_ADMIN", raising=False)
    monkeypatch.setattr(asking, "DEFAULT_ADMIN_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(asking, "DEFAULT_PORT", 1)
    with pytest.raises(CommandRefused, match=r"^purgatorio: no broker answers: localhost:1: no server listens there$"):
        ask(lambda client, args: client.describe(None), options())
    with pytest.raises(CommandRefused, match=r"^purgatorio: no server listens at http://127.0.0.1:1"):
        ask(lambda client, args: client.describe(None), options(admin="http://127.0.0.1:1"))


def test_an_interrupt_that_a_group_of_tasks_passes_on_is_one() -> None:
    async def cancelled(client: asking.Client, args: argparse.Namespace) -> None:
        import asyncio

        raise asyncio.CancelledError

    with pytest.raises(KeyboardInterrupt):
        ask(cancelled, options(bootstrap="localhost:1"))


def test_errors_are_sentences() -> None:
    assert sentence(TimeoutError()) == "no answer in time; --timeout says how long to wait"
    assert sentence(Refused(ErrorCode.NOT_CONTROLLER)) == "NOT_CONTROLLER"
    assert explained(36, None, "topic a") == "TOPIC_ALREADY_EXISTS: topic a"
    assert explained(9_999, "new", "") == "UNKNOWN_SERVER_ERROR: new"
    group = BaseExceptionGroup("", [ExceptionGroup("", [KeyError("a")])])
    assert isinstance(first_of(group), KeyError)
