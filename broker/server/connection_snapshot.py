"""A connection as it is shown."""

from __future__ import annotations

from purgatorio.late import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSnapshot:
    """The state of a connection at one moment.

    Attributes:
        in_flight: requests that are being worked on, or whose answers wait for those of earlier ones.
        waiting: requests that were read but not started.
        unsent_bytes: answers that the client has not taken.
        has_ended: the client has closed its end: it sends nothing more, and is gone, or reads the last answers.
        reading_paused: whether the connection does not read for now.
        principal: the client's identity, as ``User:alice``.
    """

    connection_id: str
    listener: str
    peer: str
    client_id: str | None
    age_ms: int
    in_flight: int
    waiting: int
    bytes_in: int
    bytes_out: int
    unsent_bytes: int
    has_ended: bool
    reading_paused: bool
    principal: str


def host_and_peer(peername: object) -> tuple[str, str]:
    """Return the client's host, and `host:port`; a transport whose client is gone already may know neither.

    Args:
        peername: the transport's.
    """
    match peername:
        case (str(host), int(port), *_):
            return host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown", "unknown"
