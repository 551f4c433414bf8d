"""The limits of one client and of all clients together, and the reasons for which a client is refused."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field, fields

from purgatorio.late import dataclass

_KIB = 1024
_MIB = 1024 * _KIB


class Refusal(enum.StrEnum):
    """The reasons for which connections and requests are refused: `reason` in the log, and a label of the metric."""

    TOO_MANY_CONNECTIONS = "too_many_connections"
    TOO_MANY_CONNECTIONS_OF_ADDRESS = "too_many_connections_of_address"
    NOT_LOGGED_IN = "not_logged_in"
    CONNECTION_RATE_OF_ADDRESS = "connection_rate_of_address"
    FRAME_TOO_LARGE = "frame_too_large"
    NEGATIVE_FRAME_SIZE = "negative_frame_size"
    TLS_ON_PLAIN_LISTENER = "tls_on_plain_listener"
    TLS_HANDSHAKE_FAILED = "tls_handshake_failed"
    NO_PRINCIPAL = "no_principal"
    BAD_FRAME = "bad_frame"
    NO_MEMORY = "no_memory"
    UNDECODABLE_REQUEST = "undecodable_request"
    UNSUPPORTED_API = "unsupported_api"
    UNSUPPORTED_VERSION = "unsupported_version"
    HANDSHAKE_TIMEOUT = "handshake_timeout"
    PARTIAL_FRAME_TIMEOUT = "partial_frame_timeout"
    IDLE = "idle"
    SLOW_READER = "slow_reader"
    LINGERING_CLOSE = "lingering_close"
    CLOSED_BY_HANDLER = "closed_by_handler"
    STOPPING = "stopping"
    NOT_AUTHENTICATED = "not_authenticated"
    AUTHENTICATION_FAILED = "authentication_failed"
    SESSION_EXPIRED = "session_expired"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """The limits of a listener and of each of its connections.

    One connection holds at most: one partial frame (`max_request_bytes`), one chunk read from its socket (256 KiB on
    asyncio and uvloop), `max_in_flight_requests` requests being worked on, `write_high_water_bytes` of answers, and
    the answers of those requests that were parked meanwhile.

    Attributes:
        max_request_bytes: the largest request; a larger one is refused when its size arrives, before memory is
            allocated (Kafka: socket.request.max.bytes).
        max_in_flight_requests: unanswered requests of one connection; at this number no more are started or read.
        max_requests_per_turn: requests of one connection that are started before other connections get a turn.
        max_turn_ms: time for which further requests of one connection are started before other connections get a turn.
        max_connections: clients' connections of a broker; further ones are closed at once (Kafka: max.connections),
            unless one that has not logged in makes room (see `connection_slots`).
        max_connections_per_ip: connections from one address (Kafka: max.connections.per.ip).
        max_connections_of: the same for addresses that have a limit of their own (max.connections.per.ip.overrides).
        request_memory_bytes: bytes of all connections' requests that are being received or worked on; at this size no
            more are read (Kafka: queued.max.request.bytes). Exceeded by at most one chunk per connection.
        unsent_memory_bytes: bytes of all connections' answers that clients have not taken; above it, slow clients are
            closed after `shortage_ms` instead of `write_stall_ms`. Answers keep records in memory that are no longer
            in the log.
        write_high_water_bytes: unsent answers of one connection above which its requests are neither read nor started.
        write_low_water_bytes: unsent answers of one connection at which reading and starting go on.
        accept_backlog: connections that the kernel may hold until the listener accepts them.
        handshake_ms: time from connecting to the first complete request; with SASL, to the end of authentication.
        partial_frame_ms: time from the first byte of a request to its last; stands still while reading is paused.
        write_stall_ms: time in which a client whose answers back up must take at least one byte, and in which the
            client of a closing connection must take the rest.
        shortage_ms: the same two times while others wait for the memory that the client holds: it must send, or take,
            `shortage_progress_bytes` in this time.
        shortage_progress_bytes: see `shortage_ms`.
        idle_ms: time without a request being received or worked on (Kafka: connections.max.idle.ms).
        sweep_interval_ms: how often these deadlines are checked; a client is closed at most this much too late.
    """

    max_request_bytes: int = 100 * _MIB
    max_in_flight_requests: int = 1_000
    max_requests_per_turn: int = 128
    max_turn_ms: int = 1
    max_connections: int = 10_000
    max_connections_per_ip: int = 10_000
    max_connections_of: Mapping[str, int] = field(default_factory=dict)
    request_memory_bytes: int = 512 * _MIB
    unsent_memory_bytes: int = 256 * _MIB
    write_high_water_bytes: int = _MIB
    write_low_water_bytes: int = 256 * _KIB
    accept_backlog: int = 1_024
    handshake_ms: int = 30_000
    partial_frame_ms: int = 30_000
    write_stall_ms: int = 30_000
    shortage_ms: int = 2_000
    shortage_progress_bytes: int = 64 * _KIB
    idle_ms: int = 600_000
    sweep_interval_ms: int = 1_000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{each.name} is {value}, but must be at least 1")
        if self.write_low_water_bytes > self.write_high_water_bytes:
            raise ValueError(
                f"write_low_water_bytes ({self.write_low_water_bytes}) is above "
                f"write_high_water_bytes ({self.write_high_water_bytes})"
            )
