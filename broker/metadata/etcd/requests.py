"""Etcd's requests, as its JSON gateway has them, and the interface of their sender."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

Request = dict[str, Any]

OPERATIONS_PER_TRANSACTION: Final = 60
"""A transaction has up to 128 by default, less those of the one around it: so 60 within 60 pass."""

COMPACTED: Final = 11
"""gRPC's OUT_OF_RANGE: what was asked for was compacted away."""


class EtcdUnreachable(Exception):
    """No member has answered; the request may have taken effect, or not."""


class EtcdRefused(Exception):
    """Etcd refuses a request.

    Attributes:
        code: gRPC's status code.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Etcd(Protocol):
    """One broker's way to etcd."""

    async def call(self, path: str, body: Request, limit_seconds: float = ...) -> dict[str, Any]:
        """Return the answer to a request.

        Args:
            path: behind ``/v3/``.
            limit_seconds: how long one member may take.

        Raises:
            EtcdUnreachable: no member answers.
            EtcdRefused: etcd refuses it.
        """

    def watch(self, create: Request) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the messages of a watch, until it ends; raises as `call`."""


class FoundKey(NamedTuple):
    """A key as etcd has it.

    Attributes:
        revision: that of its last change.
    """

    key: str
    value: str
    revision: int

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> FoundKey:
        """Decode a key with its value and revision, as the gateway returns it."""
        return cls(decoded(answer["key"]), decoded(answer.get("value", "")), int(answer["mod_revision"]))


def encoded(text: str) -> str:
    """Encode a key or value for the gateway, in base64."""
    return b64encode(text.encode()).decode()


def decoded(text: str) -> str:
    """Decode a key or value of the gateway, from base64."""
    return b64decode(text).decode()


def all_below(root: str, **others: Any) -> Request:
    """Return the range of all keys that begin with `root`, for a read or a watch."""
    return {"key": encoded(root), "range_end": encoded(root[:-1] + chr(ord(root[-1]) + 1)), **others}


def put(key: str, value: str, lease_id: int = 0) -> Request:
    """Return the operation that writes a key, which goes with its lease if it has one."""
    return {"request_put": {"key": encoded(key), "value": encoded(value), "lease": str(lease_id)}}


def delete(key: str) -> Request:
    """Return the operation that deletes a key."""
    return {"request_delete_range": {"key": encoded(key)}}


def read(key: str) -> Request:
    """Return the operation that reads a key."""
    return {"request_range": {"key": encoded(key)}}


def has_revision(key: str, revision: int) -> Request:
    """Return the comparison that a key was last changed at a revision; 0: that it does not exist."""
    return {"key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def exists(key: str) -> Request:
    """Return the comparison that a key exists."""
    return {"key": encoded(key), "target": "CREATE", "result": "GREATER", "create_revision": "0"}


def transaction(compare: Iterable[Request], then: Iterable[Request], otherwise: Iterable[Request] = ()) -> Request:
    """Return the transaction that does `then` if all comparisons hold, else `otherwise`.

    Operations beyond etcd's limit for one transaction become nested transactions.
    """
    operations = list(then)
    if len(operations) > OPERATIONS_PER_TRANSACTION:
        operations = [
            {"request_txn": {"success": list(some)}} for some in _batched(operations, OPERATIONS_PER_TRANSACTION)
        ]
    return {"compare": list(compare), "success": operations, "failure": list(otherwise)}


def _batched(operations: Iterable[Request], size: int) -> Iterable[list[Request]]:
    each = iter(operations)
    while some := list(itertools.islice(each, size)):
        yield some
