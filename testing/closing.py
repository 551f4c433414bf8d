"""Clients that a test's ``with`` blocks closed between its failure and its end, which may take long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

LONG_SECONDS: Final = 1.0
"""Closing a client takes milliseconds if nothing holds it up."""
_NAME_LENGTH: Final = 60

_ENDS: Final = {
    "AIOKafkaProducer": "request_timeout_ms",
    "KafkaProducer": "delivery_timeout_ms",
    "KafkaConsumer": "session_timeout_ms",
    "Producer": "message.timeout.ms",
    "SerializingProducer": "message.timeout.ms",
    "Consumer": "session.timeout.ms",
    "DeserializingConsumer": "session.timeout.ms",
}
"""By the name of a client's class, the setting that ends its wait for the cluster."""


class Block(NamedTuple):
    """A ``with`` block of a test.

    Attributes:
        line: where it begins.
        words: how it begins, for example "async with AIOKafkaProducer".
        setting: the setting that ends the wait of its client; "" if none is known.
    """

    line: int
    words: str
    setting: str


def hint(failure: BaseException, file: str, failed_after: float, took: float) -> str:
    """Return a sentence about clients that took long to close after a failure; "" if none did.

    Args:
        failure: the exception, with its traceback.
        file: the test's file.
        failed_after, took: seconds from the test's begin to its failure, and from there to its end.
    """
    if took < LONG_SECONDS:
        return ""
    found = list(_blocks_left(failure, file))
    clients = [each for each in found if each.setting] or found
    if not clients:
        return f"the test failed at {failed_after:.1f} s, and ended {took:.1f} s later"
    words = ", ".join(dict.fromkeys(f"`{each.words}`" for each in clients))
    settings = " and ".join(dict.fromkeys(each.setting for each in clients if each.setting))
    end = f": its end waits for the cluster, at most for {settings}" if settings else ""
    return f"the test failed at {failed_after:.1f} s; leaving {words} took {took:.1f} s{end}"


def _blocks_left(failure: BaseException, file: str) -> Iterator[Block]:
    """Yield the ``with`` blocks of a file around the lines at which an exception passed it, outermost first."""
    lines = set()
    trace = failure.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            lines.add(trace.tb_lineno)
        trace = trace.tb_next
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            first, last = node.lineno, node.end_lineno or node.lineno
            if any(first <= line <= last for line in lines):
                yield from _blocks_of(node)


def _blocks_of(node: ast.With | ast.AsyncWith) -> Iterator[Block]:
    for item in node.items:
        made = item.context_expr
        called = made.func if isinstance(made, ast.Call) else made
        words = ast.unparse(called)[:_NAME_LENGTH]
        way = "async with" if isinstance(node, ast.AsyncWith) else "with"
        yield Block(node.lineno, f"{way} {words}", _ENDS.get(words.rpartition(".")[2], ""))
