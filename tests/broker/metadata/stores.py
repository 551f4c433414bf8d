"""Metadata stores of each kind, for tests of what all of them promise."""

from __future__ import annotations

from collections.abc import Callable

from purgatorio.broker.metadata.embedded import EmbeddedStore
from purgatorio.broker.metadata.served import Decoder, Message, Send, ServedStore, ServedView, StoreConnection, encode
from purgatorio.purgatory.clock import Clock


class StoreBehindConnections(EmbeddedStore):
    """A store whose every view is behind a connection of its own: messages arrive as bytes, a turn later."""

    def __init__(self, cluster_id: str, call_soon: Callable[[Callable[[], None]], object], clock: Clock) -> None:
        super().__init__(cluster_id, call_soon, clock)
        self.connections: list[StoreConnection] = []

    def open(self, link: object = None) -> ServedView:  # type: ignore[override]
        to_store, to_broker = Decoder(), Decoder()
        here = ServedStore(self._carrier(to_store, lambda message: connection.receive(message)), self._call_soon)
        first: list[Message] = []
        carry = self._carrier(to_broker, here.receive)
        # The first image is read before a broker's process goes on.
        connection = StoreConnection(self, lambda message: carry(message) if first else first.append(message))
        (message,) = Decoder().feed(encode(first[0]))
        here.receive(message)
        self.connections.append(connection)
        return here.open()

    def _carrier(self, decoder: Decoder, receive: Callable[[Message], None]) -> Send:
        def arrive(data: bytes) -> None:
            for message in decoder.feed(data):
                receive(message)

        def send(message: Message) -> None:
            data = encode(message)
            for part in (data[:3], data[3:]):  # a connection cuts where it likes
                self._call_soon(lambda part=part: arrive(part))  # type: ignore[misc]

        return send
