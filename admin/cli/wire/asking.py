"""Where the cluster is that a command speaks to by Kafka's protocol, and how its coroutine is run with a client."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeVar

import purgatorio
from purgatorio.admin.cli.admin_client import TIMEOUT_SECONDS, AdminClient, AdminError
from purgatorio.admin.cli.command import ADMIN_VARIABLE, DEFAULT_ADMIN_URL, TOKEN_VARIABLE, CommandRefused, near
from purgatorio.admin.cli.printable import printable
from purgatorio.admin.cli.wire.security import Security, SettingsError, read_security
from purgatorio.broker.time.system_clock import SystemClock
from purgatorio.client.client import FAILURES, KafkaClient, Refused
from purgatorio.client.link import Address
from purgatorio.client.negotiated import NAME, NegotiatedLink
from purgatorio.protocol.errors import ErrorCode

DEFAULT_PORT: Final = 9092
CONNECT_MS: Final = 5_000
PATIENCE_MS: Final = 10_000
"""How long an answer is waited for that a cluster gives when an election has ended, or a topic of its own is there."""
INTERRUPTED: Final = 130
"""The exit status that a shell expects of a program that Ctrl-C ended."""
LAST_TURNS: Final = 3
"""Turns of the loop in which connections that are closed end, also under TLS."""
BATCH: Final = 500
"""Topics, groups or partitions of one request."""

_MAY_WANT: Final = "; if it wants a login, give its settings by --command-config"
T = TypeVar("T")


class Client(KafkaClient[NegotiatedLink]):
    """A client of any cluster; a link is for one request at a time."""

    def another(self) -> Client:
        """Return a client with links of its own, for requests beside those that wait."""
        return Client(self._open_link, self._bootstrap, clock=self.clock, timeout_ms=self._timeout_ms)


Program = Callable[[Client, argparse.Namespace], Awaitable[T]]


class OutputFailed(Exception):
    """The output takes no more: of errors of the network it has to be known apart."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def ask(program: Program[T], args: argparse.Namespace) -> T:
    """Return the result of a command's coroutine.

    Raises:
        CommandRefused: with one sentence, why there is none.
        KeyboardInterrupt: the user ended it.
        BrokenPipeError: nobody reads the output any more.
    """
    try:
        security = read_security(args.command_config) if args.command_config else Security()
        addresses = list(_addresses(args, security))
    except SettingsError as error:
        raise CommandRefused(f"purgatorio: {printable(str(error))}", 2) from None
    try:
        return asyncio.run(_run(program, addresses, security, args))
    except BaseException as error:
        cause = first_of(error)
        if isinstance(cause, asyncio.CancelledError):  # by Ctrl-C, as a group of tasks passes it on
            raise KeyboardInterrupt from None
        if isinstance(cause, OutputFailed):
            if isinstance(cause.error, BrokenPipeError):
                raise cause.error from error
            raise refused(f"cannot write the output: {cause.error.strerror}") from error
        if isinstance(cause, FAILURES):
            hint = "" if args.command_config or "closed the connection" not in str(cause) else _MAY_WANT
            raise refused(f"{sentence(cause)}{hint}") from error
        if cause is error:
            raise
        raise cause from error


async def _run(program: Program[T], addresses: list[Address], security: Security, args: argparse.Namespace) -> T:
    clock = SystemClock()
    timeout_ms = round(args.timeout * 1000)
    open_link = partial(
        NegotiatedLink.connect,
        clock,
        NAME,
        timeout_ms=min(CONNECT_MS, timeout_ms),
        version=purgatorio.__version__,
        tls=security.tls,
        login=security.login,
    )
    client = Client(lambda address: open_link(address), lambda: addresses, clock=clock, timeout_ms=timeout_ms)
    try:
        return await program(client, args)
    finally:
        client.close()
        for _ in range(LAST_TURNS):
            await asyncio.sleep(0)


def _addresses(args: argparse.Namespace, security: Security) -> Iterable[Address]:
    """Return where brokers are: as the user says or, without that, as the cluster does whose admin HTTP answers."""
    text = args.bootstrap or security.bootstrap
    if text:
        return map(_address, text.split(","))
    url = args.admin or os.environ.get(ADMIN_VARIABLE)
    try:
        admin = AdminClient(url or DEFAULT_ADMIN_URL, os.environ.get(TOKEN_VARIABLE))
        known = admin.get("brokers", timeout_seconds=min(args.timeout, TIMEOUT_SECONDS))["brokers"]
    except AdminError as error:
        if url:
            raise CommandRefused(f"purgatorio: {error}", 1) from None
        return [("localhost", DEFAULT_PORT)]  # a cluster of another kind, perhaps
    return [(each["host"], each["port"]) for each in known if each["port"]]


def _address(text: str) -> Address:
    """Return host and port; an IPv6 address is in brackets if it has a port."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise CommandRefused(f"purgatorio: {printable(text)!r} is not the address of a broker, like localhost:9092", 2)
    return host, int(port)


# --- what went wrong ---


def first_of(error: BaseException) -> BaseException:
    """Return the error itself, or the first one of several tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def sentence(error: BaseException) -> str:
    """Return what a person reads of a failure."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time; --timeout says how long to wait"
    return str(error) or type(error).__name__


def refused(why: str) -> CommandRefused:
    """Return the error that ends a command with a sentence."""
    return CommandRefused(f"purgatorio: {printable(why)}", 1)


def explained(code: int, message: str | None, about: str) -> str:
    """Return a refusal: Kafka's name of the error, then the broker's words or, if it has none, what it is about."""
    return f"{ErrorCode.known(code).name}: {message or about}"


async def check_topic(client: Client, topic: str, code: int) -> None:
    """Refuse a topic that metadata has an error for; of one that does not exist, with the nearest name."""
    if not code:
        return
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise refused(explained(code, None, f"topic {topic}"))
    raise refused(f"UNKNOWN_TOPIC_OR_PARTITION: there is no topic {topic}{await near_topic(client, topic)}")


async def near_topic(client: Client, topic: str) -> str:
    """Return which topic may be meant, and how to make this one."""
    names = sorted(each.name or "" for each in (await client.describe(None)).topics if not each.is_internal)
    if found := near(topic, names):
        return found
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f", only {shown}" if names else ": the cluster has no topics"


async def patiently(client: Client, ask: Callable[[], Awaitable[T]], limit_ms: int = PATIENCE_MS) -> T:
    """Return an answer, asked for again while it is refused with an error that passes; raises as `ask` does."""
    deadline_ms = client.clock.now_ms() + limit_ms
    while True:
        try:
            return await ask()
        except Refused as error:
            if not error.code.retriable or client.clock.now_ms() >= deadline_ms:
                raise
        await client.back_off()


def in_batches(items: Iterable[T], size: int = BATCH) -> Iterable[list[T]]:
    """Yield lists of up to `size`."""
    listed = list(items)
    return (listed[start : start + size] for start in range(0, len(listed), size))
