"""How many bytes the first message of a TLS client has, read from its beginning (RFC 8446, sections 4 and 5.1)."""

from __future__ import annotations

from typing import Final

RECORD_HEADER_BYTES: Final = 5
HANDSHAKE_HEADER_BYTES: Final = 4
MAX_HELLO_BYTES: Final = 32 * 1024
"""Of longer ones no more is waited for. Real ones have 300 to 2,000 bytes, even with post-quantum keys."""
_HANDSHAKE_RECORD: Final = 22
_CLIENT_HELLO: Final = 1


def bytes_of_hello(data: bytes) -> int:
    """Return how many bytes the server needs before it can answer; at most `len(data)` if it can answer now.

    The server answers data that is not TLS, or malformed, at once with an alert.

    Args:
        data: what has come so far, from the beginning of the connection.
    """
    position, has_bytes, wanted_bytes = 0, 0, HANDSHAKE_HEADER_BYTES
    header = b""
    while has_bytes < wanted_bytes:  # a message may be cut into several records
        if len(data) < position + RECORD_HEADER_BYTES:
            is_tls = len(data) <= position or data[position] == _HANDSHAKE_RECORD
            return min(position + RECORD_HEADER_BYTES, MAX_HELLO_BYTES) if is_tls else 0
        size = int.from_bytes(data[position + 3 : position + RECORD_HEADER_BYTES])
        if data[position] != _HANDSHAKE_RECORD or not size:
            return 0
        position += RECORD_HEADER_BYTES
        if len(header) < HANDSHAKE_HEADER_BYTES:
            header += data[position : position + min(size, HANDSHAKE_HEADER_BYTES - len(header))]
            if header and header[0] != _CLIENT_HELLO:
                return 0
            if len(header) == HANDSHAKE_HEADER_BYTES:
                wanted_bytes = HANDSHAKE_HEADER_BYTES + int.from_bytes(header[1:])
        position += size
        has_bytes += size
        if position > MAX_HELLO_BYTES:
            return MAX_HELLO_BYTES
    return position
