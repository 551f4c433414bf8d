"""A metadata store in another process: its messages, its server, and the view of a broker there.

The process of the store sends each broker's process the image as keys (`keys`), and then what each commit changed; a
broker's process sends what its decisions changed, with the version that they were made of, for the store to compare.
Both send over one connection, so that a broker has the committed image before the answer to its commit.

A message is a JSON array behind its length in four bytes:

========================================== ==========================================================================
``image``, puts, deletes, lost leases      store to broker: first the whole image, then what changed since the last one
``answer``, number, answer                 store to broker: ``committed``, ``conflict``, ``lease lost``, or why the
                                           store refuses; a lease's id; or whether a lease was kept
``commit``, number, version, puts,         broker to store: what a decision changed in the image of that version
deletes, lease
``grant``, number, TTL in ms               broker to store: asks for a lease
``keep``, number, lease                    broker to store: renews a lease
========================================== ==========================================================================
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from purgatorio.broker.metadata.embedded import DirectLink, EmbeddedStore, StoreChannel
from purgatorio.broker.metadata.image import ClusterImage
from purgatorio.broker.metadata.keys import KeyChanges, all_keys, applied, changes, image_of
from purgatorio.broker.metadata.store import LeaseLost, StoreError
from purgatorio.broker.metadata.view import Answered, CallSoon, StoreView

MAX_MESSAGE_BYTES: Final = 256 * 1024 * 1024
"""The longest message: an image of two million partitions."""
LENGTH_BYTES: Final = 4
KNOWN_LEASES: Final = 8
"""The leases of a process that end with it: its brokers use the newest."""

Message = list[Any]
Send = Callable[[Message], None]


class MessageError(Exception):
    """Malformed data: an impossible length, or no JSON array."""


def encode(message: Message) -> bytes:
    """Return a message with its length."""
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class Decoder:
    """Makes messages of the bytes of a connection."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that are complete now.

        Raises:
            MessageError: the bytes are none.
        """
        self._data += data
        messages = []
        while len(self._data) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._data[:LENGTH_BYTES], "big")
            if end > LENGTH_BYTES + MAX_MESSAGE_BYTES:
                raise MessageError(f"a message of {end - LENGTH_BYTES} bytes is longer than {MAX_MESSAGE_BYTES}")
            if len(self._data) < end:
                break
            body = bytes(self._data[LENGTH_BYTES:end])
            del self._data[:end]
            try:
                message = json.loads(body)
            except ValueError as error:
                raise MessageError(f"a message is no JSON: {error}") from error
            if not isinstance(message, list) or not message:
                raise MessageError("a message is no array")
            messages.append(message)
        return messages


def sent(changed: KeyChanges) -> tuple[dict[str, str], list[str]]:
    """Return changed keys as JSON has them: values are JSON themselves, and so text."""
    return {key: value.decode() for key, value in changed.puts.items()}, list(changed.deletes)


def received(puts: Mapping[str, str], deletes: Sequence[str]) -> KeyChanges:
    """Return what such JSON says."""
    return KeyChanges({key: value.encode() for key, value in puts.items()}, tuple(deletes))


class StoreConnection:
    """The store's end of the connection to one broker's process, which knows the leases that were granted over it.

    A process that does not read is sent no images until it reads again; then it gets what changed since, at once.

    Args:
        send: sends a message.
    """

    def __init__(self, store: EmbeddedStore, send: Send) -> None:
        self._store = store
        self._send = send
        self._image = store.image
        self._lost: tuple[int, ...] = ()
        self._leases: deque[int] = deque(maxlen=KNOWN_LEASES)
        self._is_paused = False
        send(["image", *sent(KeyChanges(all_keys(self._image))), list(store.lost_leases())])
        self._unfollow = store.follow(self._committed)

    def receive(self, message: Message) -> None:
        """Handle a message of the broker's process.

        Raises:
            MessageError: the store knows no such message.
        """
        match message:
            case ["commit", number, version, puts, deletes, lease_id]:
                committed, error = self._store.commit_keys(version, received(puts, deletes), lease_id)
                self._send_changes()  # before the answer, whether or not the process reads
                self._send(["answer", number, "lease lost" if error else "committed" if committed else "conflict"])
            case ["grant", number, ttl_ms]:
                self._leases.append(self._store.grant(ttl_ms))
                self._send(["answer", number, self._leases[-1]])
            case ["keep", number, lease_id]:
                self._send(["answer", number, self._store.keep(lease_id)])
            case _:
                raise MessageError(f"the metadata store knows no message {message[0]!r}")

    def pause(self) -> None:
        """Send no images: the process does not read."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on: send what changed meanwhile."""
        self._is_paused = False
        self._send_changes()

    def close(self) -> None:
        """Send nothing more."""
        self._unfollow()

    def end_leases(self) -> None:
        """End the leases that were granted over this connection: the process has ended, and its brokers with it."""
        self._store.end(self._leases)

    def _committed(self, image: ClusterImage, lost: tuple[int, ...]) -> None:
        self._lost = lost
        if not self._is_paused:
            self._send_changes()

    def _send_changes(self) -> None:
        """Send what changed since the last image, and which leases were lost."""
        before, self._image = self._image, self._store.image
        lost, self._lost = self._lost, ()
        if before.version == self._image.version:
            if lost:
                self._send(["image", {}, [], list(lost)])
        else:
            self._send(["image", *sent(changes(before, self._image)), list(lost)])


class ServedView(StoreView):
    """A broker's `MetadataStore` over a `ServedStore`."""

    def __init__(self, store: ServedStore, link: StoreChannel, call_soon: CallSoon) -> None:
        super().__init__(store.image, call_soon)
        self._store = store
        self._link = link

    def grant_lease(self, ttl_ms: int, granted: Callable[[int], None]) -> None:
        self._ask("grant", ttl_ms, answered=lambda lease_id: self._run(granted, lease_id))

    def keep_lease(self, lease_id: int, kept: Callable[[bool], None]) -> None:
        self._ask("keep", lease_id, answered=lambda lasts: self._run(kept, lasts))

    def close(self) -> None:
        if not self._closed:
            self._store.forget(self)
            super().close()

    def _propose(self, base: ClusterImage, proposed: ClusterImage, lease_id: int, answered: Answered) -> None:
        def committed(answer: str) -> None:
            error: StoreError | None = None
            if answer == "lease lost":
                error = LeaseLost(f"lease {lease_id} has expired")
            elif answer not in ("committed", "conflict"):
                error = StoreError(answer)
            answered(answer == "committed", error, self._store.image)

        changed = changes(base, proposed) if proposed is not base else KeyChanges({})
        self._ask("commit", base.version, *sent(changed), lease_id, answered=committed)

    def _ask(self, kind: str, *arguments: Any, answered: Callable[[Any], None]) -> None:
        """Send the store a message over the link, and have its answer brought over it, unless the view is closed."""

        def arrived(answer: Any) -> None:
            self._link.to_broker(lambda: None if self._closed else answered(answer))

        def at_store() -> None:
            if not self._closed:
                self._store.ask(kind, *arguments, answered=arrived)

        self._link.to_store(at_store)

    def notify(self, image: ClusterImage, lost_leases: tuple[int, ...]) -> None:
        """Pass the store's image and lost leases to the broker, over the link."""
        self._link.to_broker(lambda: self._receive(image, lost_leases))


class ServedStore:
    """A broker's process's end of the connection to the store.

    Args:
        send: sends a message.
        call_soon: runs a function in a later turn of the loop, in the order of the calls: `loop.call_soon`.

    Attributes:
        image: the latest image that has come.
    """

    def __init__(self, send: Send, call_soon: CallSoon) -> None:
        self._send = send
        self._call_soon = call_soon
        self._views: list[ServedView] = []
        self._numbers = itertools.count(1)
        self._asked: dict[int, Callable[[Any], None]] = {}
        self._lost: tuple[int, ...] = ()
        self._image: ClusterImage | None = None

    @property
    def has_image(self) -> bool:
        """Whether the first image has come."""
        return self._image is not None

    @property
    def image(self) -> ClusterImage:
        """The latest image that has come."""
        assert self._image is not None, "the store has sent no image yet"
        return self._image

    def open(self, link: StoreChannel | None = None) -> ServedView:
        """Open a view for one broker, once the first image has come; by default over a `DirectLink`."""
        view = ServedView(self, link or DirectLink(self._call_soon), self._call_soon)
        self._views.append(view)
        if self._lost:  # a broker fences others from its start on
            view.notify(self.image, self._lost)
        return view

    def receive(self, message: Message) -> None:
        """Handle a message of the store.

        Raises:
            MessageError: no broker knows such a message.
            UnknownFormat: the store is of a newer version.
        """
        match message:
            case ["image", puts, deletes, lost]:
                self._lost = tuple(lost)
                changed = received(puts, deletes)
                if self._image is None:
                    self._image = image_of(changed.puts)
                elif changed.puts:
                    self._image = applied(self._image, changed)
                for view in list(self._views):
                    view.notify(self.image, self._lost)
            case ["answer", number, answer]:
                self._asked.pop(number)(answer)
            case _:
                raise MessageError(f"no broker knows a message {message[0]!r}")

    def ask(self, kind: str, *arguments: Any, answered: Callable[[Any], None]) -> None:
        """Send the store a message, whose answer `answered` receives."""
        number = next(self._numbers)
        self._asked[number] = answered
        self._send([kind, number, *arguments])

    def forget_question(self, number: int) -> None:
        """Never answer a request: its sender has a time limit, and asks again."""
        self._asked.pop(number, None)

    def forget(self, view: ServedView) -> None:
        """Send a view no further images."""
        self._views.remove(view)


AnyStore = EmbeddedStore | ServedStore
"""The store of a cluster's brokers, in this process or another."""
